//! Margin-gated logs: are the gate's decisions those that its declared rule makes of the logits? Source: `docs/spec/margin-gate.md`.
//!
//! The gate is run again: every stated margin is recomputed from replayed logits, every decision from the margins, every released token of a held
//! row from its verification, every repair from the policy, and the threshold from the misses that probes found.

use crate::explain::request as named;
use crate::plan::Plan;
use crate::replay::{ReplayError, Replayer};
use crate::result::{ClaimKind, ClaimResult};
use crate::tokens::past;
use crate::verdict::{Level, Verdict};
use crate::walk::Walk;
use engine::gated::Setup;
use margingate::gate::Held;
use margingate::{Decision, Gate, Margin, WriteBack};
use record::Record;
use record::inference::{Event, Preemption, RowGate, RowKind, Rows, Step};
use std::collections::BTreeMap;

/// True if a step ran the reference's kernels: nothing was split.
pub fn ran_reference(record: &Record, step: &Step) -> bool {
    record.stack.gate.is_some() && step.schedule.dispatch.ops.iter().all(|op| op.splits == 1)
}

/// True if a step has to run the reference's kernels: a verification, or prompt rows under a gate that says so.
pub fn runs_reference(record: &Record, step: &Step) -> bool {
    let has = |kind| step.schedule.rows.iter().any(|r| r.kind == kind);
    let Some(gate) = &record.stack.gate else { return false };
    has(RowKind::Verify) || (gate.prefill == "reference" && has(RowKind::Prefill))
}

/// True for a row whose token the reference chose over columns that are all its own: then a token that a prefill does not give is wrong.
pub fn decided_alone(record: &Record, kind: RowKind) -> bool {
    let Some(gate) = &record.stack.gate else { return false };
    let prompts = gate.prefill == "reference";
    match kind {
        RowKind::Prefill => prompts,
        RowKind::Decode => prompts && gate.write_back == WriteBack::All.name(),
        RowKind::Verify => match WriteBack::from_name(&gate.write_back) {
            Some(WriteBack::All) => prompts,
            Some(policy) => policy.decides_alone(),
            None => false,
        },
    }
}

/// The claim `gate` of a record that was replayed by its schedule; nothing for a record without a gate.
pub fn check(record: &Record, plan: &Plan, walk: &Walk, replayer: &dyn Replayer) -> Option<ClaimResult> {
    let stated = record.stack.gate.as_ref()?;
    let judged =
        |verdict, detail: String| Some(ClaimResult { claim: ClaimKind::Gate, verdict, level: Some(Level::T), detail });
    let setup = match Setup::from_record(stated) {
        Ok(setup) => setup,
        Err(e) => return judged(Verdict::Unverifiable, e.to_string()),
    };
    let gate = match Gate::new(setup.settings) {
        Ok(gate) => gate,
        Err(e) => return judged(Verdict::Unverifiable, e.to_string()),
    };
    let catches_up = setup.settings.write_back == WriteBack::CatchUp;
    let (signal, clean) = (setup.signal.id(), BTreeMap::new());
    let mut run = Run { record, replayer, signal, gate, catches_up, clean, unknown: 0, reason: None };
    for (index, step) in record.steps.iter().enumerate() {
        let logits = |row: usize| {
            let pass = plan.items.iter().position(|i| i.rows.iter().any(|(s, at)| *s == index && at.leaf == row))?;
            let place = plan.items.get(pass)?.rows.iter().position(|(s, at)| *s == index && at.leaf == row)?;
            let found = walk.findings.get(pass)?.logits.iter().find(|(r, _)| *r == place)?;
            Some(found.1.as_slice())
        };
        if let Err(what) = run.step(step, &logits) {
            return judged(Verdict::Mismatch, format!("step {index}: {what}"));
        }
    }
    let m = run.gate.meter();
    if run.unknown > 0 {
        let why = run.reason.unwrap_or_else(|| "no replay gives their logits".to_owned());
        return judged(Verdict::Inconclusive, format!("{} decisions not checked: {why}", run.unknown));
    }
    let name = |request: u64| record.requests.get(request as usize).map_or("", |r| r.id.as_str());
    let marked: Vec<String> = run.gate.unverified().map(|request| named(name(request))).collect();
    let marked = match marked.is_empty() {
        true => String::new(),
        false => format!("; with tokens committed below the threshold that misses have raised: {}", marked.join(", ")),
    };
    let detail = format!(
        "{} rows judged, {} held, {} probed; {} tokens replaced, {} misses found; each decision is the rule's{marked}",
        m.judged,
        m.triggered,
        m.probes,
        m.mismatches + m.misses,
        m.misses
    );
    judged(Verdict::Match, detail)
}

/// The gate, run again.
struct Run<'a> {
    record: &'a Record,
    replayer: &'a dyn Replayer,
    signal: &'a str,
    gate: Gate<u32>,
    catches_up: bool,
    /// By request that began in this record: positions from the beginning on whose columns are the reference's, over the reference's.
    clean: BTreeMap<u32, u32>,
    unknown: u32,
    reason: Option<String>,
}

impl Run<'_> {
    fn step<'l>(&mut self, step: &Step, logits: &dyn Fn(usize) -> Option<&'l [u32]>) -> Result<(), String> {
        for event in &step.schedule.events {
            match event {
                Event::Arrive { request, .. } => {
                    self.clean.insert(*request, 0);
                }
                Event::Admit { request, cached } => {
                    let pages: u32 = cached.iter().fold(0, |sum, c| sum.saturating_add(c.pages));
                    if let Some(clean) = self.clean.get_mut(request) {
                        *clean = pages.saturating_mul(self.record.stack.kv.page_size);
                    }
                }
                Event::Cancel { request } | Event::Preempt { request, how: Preemption::Recompute } => {
                    self.gate.forget(u64::from(*request));
                    self.clean.entry(*request).and_modify(|clean| *clean = 0);
                }
                Event::Preempt { .. } | Event::Resume { .. } => {}
            }
        }
        let reference = ran_reference(self.record, step);
        let verifies = step.schedule.rows.iter().any(|r| r.kind == RowKind::Verify);
        let (padded, shape) = (step.schedule.padded_rows, u64::from(self.gate.settings().verify_rows));
        if verifies && padded != step.schedule.row_count().next_multiple_of(shape) {
            return Err(format!("a verification of {padded} rows, the gate declares multiples of {shape}"));
        }
        let decided = step.schedule.rows.iter().filter(|r| matches!(r.gate, Some(RowGate::Verified { .. }))).count();
        let mut batch = if verifies { self.gate.next_batch(decided) } else { Vec::new() };
        let mut end = 0;
        for (group, rows) in step.schedule.rows.iter().enumerate() {
            end += rows.count as usize;
            let own_before = self.columns(rows, reference)?;
            let Some(stated) = rows.gate else { continue };
            let own = match end.checked_sub(1).and_then(logits) {
                Some(bits) => self.own(rows, bits),
                None => Err(ReplayError::Failed { reason: "no replay gives their logits".to_owned() }),
            };
            // Where columns of a batch may lie before a row, the reference's kernels alone do not make it the reference's.
            let own = match (reference && self.catches_up && rows.kind == RowKind::Decode, own_before) {
                (true, None) => {
                    Err(ReplayError::Failed { reason: "the request began in an earlier record".to_owned() })
                }
                _ => own,
            };
            let reference = reference && (!self.catches_up || own_before != Some(false));
            match own {
                Ok(own) => self.row((step.index, group as u32), rows, stated, own, reference, &mut batch)?,
                Err(e) => {
                    self.unknown += 1;
                    self.reason.get_or_insert_with(|| e.to_string());
                }
            }
        }
        if !verifies {
            self.gate.step_done();
        }
        Ok(())
    }

    /// Where a verification begins, and what a group leaves of the reference's columns. Tells whether all columns before the group were the reference's;
    /// none where that is not known.
    fn columns(&mut self, rows: &Rows, reference: bool) -> Result<Option<bool>, String> {
        let Some(clean) = self.clean.get_mut(&rows.request) else { return Ok(None) };
        let end = rows.start.saturating_add(rows.count);
        if self.catches_up && rows.kind == RowKind::Verify && rows.start != (*clean).min(end.saturating_sub(1)) {
            let id = named(self.record.requests.get(rows.request as usize).map_or("", |r| r.id.as_str()));
            let own = *clean;
            return Err(format!(
                "{id} is computed again from position {}, it has its own columns up to {own}",
                rows.start
            ));
        }
        let kept = matches!(rows.gate, Some(RowGate::Verified { repaired: false, .. }));
        let own = rows.start <= *clean;
        if reference && !kept && own {
            *clean = end.max(*clean);
        }
        Ok(Some(own))
    }

    /// Token and risk of a row, from its logits.
    fn own(&self, rows: &Rows, logits: &[u32]) -> Result<(u32, Margin), ReplayError> {
        let unknown = || ReplayError::Unknown { what: "a request".to_owned() };
        let request = self.record.requests.get(rows.request as usize).ok_or_else(unknown)?;
        let position = rows.start.saturating_add(rows.count.saturating_sub(1));
        let token = self.replayer.choose(&request.decode, past(request, position), logits, position)?;
        let bits = self.replayer.risk(self.signal, &request.decode, logits, position)?;
        let risk = Margin::from_bits(bits);
        Ok((token, risk.map_err(|_| ReplayError::Failed { reason: "a risk that is none".to_owned() })?))
    }

    fn row(
        &mut self,
        (step, group): (u64, u32),
        rows: &Rows,
        stated: RowGate,
        (token, risk): (u32, Margin),
        reference: bool,
        batch: &mut Vec<Held<u32>>,
    ) -> Result<(), String> {
        let request = self.record.requests.get(rows.request as usize);
        let id = named(request.map_or("", |r| r.id.as_str()));
        if let RowGate::Verified { token: released, repaired } = stated {
            let held = batch.iter().position(|h| h.request == u64::from(rows.request));
            let held = held.map(|at| batch.remove(at)).ok_or_else(|| format!("{id} is verified out of turn"))?;
            let verified = self.gate.settle(held, token);
            if released != token {
                return Err(format!("{id}: the verification gives token {token}, {released} was released"));
            }
            if repaired != verified.repaired {
                let words = |yes| if yes { "replaced" } else { "kept" };
                return Err(format!(
                    "{id}: by the policy the columns are {}, the log says {}",
                    words(verified.repaired),
                    words(repaired)
                ));
            }
            return Ok(());
        }
        let (decision, margin, chose) = match stated {
            RowGate::Commit { margin } => (Decision::Commit, margin, None),
            RowGate::Reference { margin } => (Decision::Reference, margin, None),
            RowGate::Hold { margin, token } => (Decision::Hold, margin, Some(token)),
            RowGate::Probe { margin, token } => (Decision::Probe, margin, Some(token)),
            RowGate::Verified { .. } => return Ok(()),
        };
        if margin.0 != risk.bits() {
            return Err(format!("{id}: the margin is {:08x}, the log says {:08x}", risk.bits(), margin.0));
        }
        let own = self.gate.judge(risk, reference, step, group);
        if own != decision {
            return Err(format!(
                "{id}: the gate says {own:?} at margin {} and threshold {}, the log {decision:?}",
                risk.value(),
                self.gate.tau()
            ));
        }
        if decision == Decision::Commit {
            self.gate.commit(u64::from(rows.request), risk);
        }
        if let Some(chose) = chose {
            if chose != token {
                return Err(format!("{id}: the held row chooses {token}, the log says {chose}"));
            }
            self.gate.hold(u64::from(rows.request), token, risk, decision, rows.start);
        }
        Ok(())
    }
}
