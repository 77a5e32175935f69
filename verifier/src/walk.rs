//! Replays a plan pass by pass on one machine and, where the claimed splits do not give the logged bits, tries others.
//!
//! Every pass is judged from a known state: as long as each pass so far was explained, the replayed KV cache *is* the logged one
//! (level `S` covers every column), so whether other splits explain the next pass is a question about that pass alone. After
//! a pass that nothing explains the state is the claim's, no longer the log's, and later passes are only compared, not searched.

use crate::compare::{self, Difference, Opened};
use crate::error::Error;
use crate::plan::{Item, Plan};
use crate::replay::{Machine, ReplayError, Replayer, Row, Run, Splits};
use record::Record;
use record::inference::RowRef;
use std::collections::BTreeMap;

/// Something that may have been different in a pass, without another machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Supposition {
    /// This many rows ran that were not logged; the policy chose splits for all of them.
    ExtraRows(u32),
    /// An operation ran with other splits than claimed.
    Split {
        /// The operation.
        op: String,
        /// Its splits.
        splits: u32,
    },
}

/// What a pass was found to be.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// Rows that differ under the claimed splits, with the step they belong to; empty when the claim gives the bits.
    pub differing: Vec<(usize, Difference)>,
    /// Suppositions that give the logged bits, including those that come to the claimed splits when the claim gives them.
    pub explained_by: Vec<Supposition>,
    /// Suppositions that were decided, by replay or because they cannot reach the first difference.
    pub tried: u32,
    /// True when the claim or a supposition gives the logged bits.
    pub explained: bool,
    /// True when the state before this pass is known to be the logged one.
    pub from_logged_state: bool,
    /// Logits of rows that chose a token or wait for one, from a replay that gives the logged bits: item row and bits.
    pub logits: Vec<(usize, Vec<u32>)>,
    /// Log-probabilities of the prompt tokens that follow rows, where the record states them, from the same replay: item row and bits.
    pub prompt: Vec<(usize, Result<u32, ReplayError>)>,
}

/// A walk over a plan.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// One finding per pass that was replayed.
    pub findings: Vec<Finding>,
    /// Passes in the plan.
    pub passes: usize,
}

impl Walk {
    /// True when every pass was replayed and explained.
    pub fn explained(&self) -> bool {
        self.findings.len() == self.passes && self.findings.iter().all(|f| f.explained)
    }

    /// True when every pass was replayed and the claim itself gives the bits.
    pub fn matches(&self) -> bool {
        self.explained() && self.findings.iter().all(|f| f.differing.is_empty())
    }

    /// The first pass that the claim does not give.
    pub fn first_difference(&self) -> Option<usize> {
        self.findings.iter().position(|f| !f.differing.is_empty())
    }

    /// The first pass that nothing explains.
    pub fn first_unexplained(&self) -> Option<usize> {
        self.findings.iter().position(|f| !f.explained)
    }
}

/// When other splits are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Never.
    Off,
    /// On the passes from this one on that the claim does not give.
    OnDifferenceFrom(usize),
}

/// What a walk needs to know.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The record.
    pub record: &'a Record,
    /// Its opened rows.
    pub opened: &'a Opened,
    /// Its passes.
    pub plan: &'a Plan,
    /// The arithmetic.
    pub replayer: &'a dyn Replayer,
    /// What to suppose.
    pub suppositions: &'a [Supposition],
    /// Told after every pass: passes done, of all.
    pub progress: &'a dyn Fn(usize, usize),
}

impl Context<'_> {
    /// Replays every pass on `machine`; stops at the first unexplained one if `stop`.
    ///
    /// # Errors
    /// [`Error`] when the machine cannot be made or a replay fails.
    pub fn walk(&self, machine: &Machine, search: Search, stop: bool) -> Result<Walk, Error> {
        let mut run = self.replayer.start(machine)?;
        let mut walk = Walk { findings: Vec::new(), passes: self.plan.items.len() };
        let mut known = true;
        // Suppositions that explained every pass of a phase (decode, prefill) so far: the only ones tried again while they do.
        let mut survivors: [Option<Vec<Supposition>>; 2] = [None, None];
        for (index, item) in self.plan.items.iter().enumerate() {
            let searching = known && matches!(search, Search::OnDifferenceFrom(first) if index >= first);
            let phase = usize::from(item.input.prefills());
            let finding = self.pass(&mut *run, item, known, searching, survivors[phase].as_deref())?;
            known &= finding.explained;
            if !finding.explained_by.is_empty() {
                let left = match survivors[phase].take() {
                    None => finding.explained_by.clone(),
                    Some(old) => old.into_iter().filter(|s| finding.explained_by.contains(s)).collect(),
                };
                survivors[phase] = Some(left);
            }
            walk.findings.push(finding);
            (self.progress)(index + 1, walk.passes);
            if stop && !known {
                break;
            }
        }
        Ok(walk)
    }

    fn pass(
        &self,
        run: &mut dyn Run,
        item: &Item,
        known: bool,
        searching: bool,
        survivors: Option<&[Supposition]>,
    ) -> Result<Finding, Error> {
        let taps = self.record.evidence == record::EvidenceLevel::A;
        let rows = self.replay(run, item, &item.declared, taps)?;
        let mut finding =
            Finding { differing: self.differing(item, &rows, true)?, from_logged_state: known, ..Finding::default() };
        let mut candidates = if known { self.candidates(item)? } else { BTreeMap::new() };
        let of_claim = candidates.remove(&self.replayer.canonical(&item.declared)).unwrap_or_default();
        if finding.differing.is_empty() {
            finding.explained = true;
            finding.explained_by = of_claim;
            self.keep_logits(&mut finding, item, &rows);
            return Ok(finding);
        }
        if !searching {
            return Ok(finding);
        }
        let lives = |s: &Supposition| survivors.is_some_and(|all| all.contains(s));
        let (first, rest): (Vec<_>, Vec<_>) = candidates.iter().partition(|(_, all)| all.iter().any(lives));
        let mut matching = None;
        for batch in [first, rest] {
            for (splits, suppositions) in batch {
                finding.tried += suppositions.len() as u32;
                if !could_explain(splits, &item.declared, &finding.differing) {
                    continue;
                }
                let rows = self.replay(run, item, splits, taps)?;
                if self.differing(item, &rows, false)?.is_empty() {
                    finding.explained_by.extend(suppositions.iter().cloned());
                    self.keep_logits(&mut finding, item, &rows);
                    matching = Some(splits);
                }
            }
            if matching.is_some() {
                break;
            }
        }
        finding.explained = matching.is_some();
        finding.explained_by.sort();
        // Leave in the cache the columns that were logged, or else those that were claimed.
        self.replay(run, item, matching.unwrap_or(&item.declared), taps)?;
        Ok(finding)
    }

    /// One forward pass, rows in the order of the item.
    ///
    /// # Errors
    /// [`Error`] when the replay fails.
    pub fn replay(&self, run: &mut dyn Run, item: &Item, splits: &Splits, taps: bool) -> Result<Vec<Row>, Error> {
        let rows = run.step(&item.input, splits, taps)?;
        // A pass without rows of the record only fills the cache.
        if !item.rows.is_empty() && rows.len() != item.rows.len() {
            let reason = format!("{} rows came back of {}", rows.len(), item.rows.len());
            return Err(ReplayError::Failed { reason }.into());
        }
        Ok(rows)
    }

    /// Keeps what outputs are checked against: the logits of rows that chose a token, and what those of prompt rows come to.
    fn keep_logits(&self, finding: &mut Finding, item: &Item, rows: &[Row]) {
        finding.logits = chosen_logits(self.record, item, rows);
        finding.prompt = Vec::new();
        for (i, ((_, at), row)) in item.rows.iter().zip(rows).enumerate() {
            if let (Some(token), Some(logits)) = (prompt_token(self.record, at), row.logits()) {
                finding.prompt.push((i, self.replayer.logprob(logits, at.position, token)));
            }
        }
    }

    /// Rows that differ; only the first if not `all`.
    fn differing(&self, item: &Item, rows: &[Row], all: bool) -> Result<Vec<(usize, Difference)>, Error> {
        let mut out = Vec::new();
        for ((step, at), row) in item.rows.iter().zip(rows) {
            if let Some(d) = compare::row(self.record, *step, at, row, self.opened.row(*step, at.leaf))? {
                out.push((*step, d));
                if !all {
                    break;
                }
            }
        }
        Ok(out)
    }

    /// Suppositions by the splits they come to.
    ///
    /// # Errors
    /// [`Error`] when the policy is not known.
    pub fn candidates(&self, item: &Item) -> Result<BTreeMap<Splits, Vec<Supposition>>, Error> {
        let mut by_splits: BTreeMap<Splits, Vec<Supposition>> = BTreeMap::new();
        for supposition in self.suppositions {
            let splits = match supposition {
                // What the reference computes does not depend on how many rows there are.
                Supposition::ExtraRows(_) if item.reference => item.declared.clone(),
                Supposition::ExtraRows(n) => self.replayer.policy(&item.input.shape().with_extra_rows(*n))?,
                Supposition::Split { op, splits } => item.declared.with(op, *splits),
            };
            let splits = self.replayer.canonical(&splits);
            by_splits.entry(splits).or_default().push(supposition.clone());
        }
        Ok(by_splits)
    }
}

/// False when `splits` cannot explain the differences: nothing that they change lies where the first difference arose.
fn could_explain(splits: &Splits, declared: &Splits, differing: &[(usize, Difference)]) -> bool {
    differing.iter().all(|(_, d)| {
        let Some(point) = d.point else { return true };
        let between = d.agrees_until.map_or_else(|| vec![point], |until| until.until(point));
        between.iter().any(|p| splits.of(p.op.name()) != declared.of(p.op.name()))
    })
}

/// Logits of the rows that chose a token, or whose token waits for a verification.
pub(crate) fn chosen_logits(record: &Record, item: &Item, rows: &[Row]) -> Vec<(usize, Vec<u32>)> {
    let chose = |i: usize| {
        let at = item.rows.get(i).map(|(_, at)| at);
        at.is_some_and(|at| at.waits || record.row_id(at).is_some_and(|id| id.chosen.is_some()))
    };
    rows.iter().enumerate().filter(|(i, _)| chose(*i)).filter_map(|(i, r)| Some((i, r.logits()?.to_vec()))).collect()
}

/// The prompt token whose log-probability the record states from this row.
pub fn prompt_token(record: &Record, at: &RowRef) -> Option<u32> {
    let request = record.requests.get(at.request as usize)?;
    let stated = request.prompt_logprobs.as_ref()?.get(at.position as usize).is_some();
    (stated && at.logits).then(|| request.prompt.get(at.position as usize + 1).copied()).flatten()
}

/// The suppositions within limits: 1 to `extra_rows` extra rows, and 1 to `splits` splits of each operation.
pub fn suppositions(replayer: &dyn Replayer, extra_rows: u32, splits: u32) -> Vec<Supposition> {
    let rows = (1..=extra_rows).map(Supposition::ExtraRows);
    let ops = replayer.splittable();
    let split = ops.iter().flat_map(|op| (1..=splits).map(|s| Supposition::Split { op: op.clone(), splits: s }));
    rows.chain(split).collect()
}
