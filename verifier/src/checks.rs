//! What can be checked of a record without replaying it.

use crate::explain::request as named;
use crate::gate;
use crate::plan::declared_splits;
use crate::replay::{Group, ReplayError, Replayer, Splits, StepInput};
use crate::result::{ClaimKind, ClaimResult, IdentityField};
use crate::verdict::Verdict;
use engine::journal::derived_seed;
use engine::sampler::SEED_DERIVATION;
use record::Record;
use record::inference::{Event, Finish, RecordRefusal};
use std::collections::BTreeSet;

/// The consistency of a record with itself.
pub struct Consistency {
    /// The claims `schedule`, `commitments` and `outputs`.
    pub claims: Vec<ClaimResult>,
    /// True when the record is whole and its steps can be replayed.
    pub replayable: bool,
}

impl Consistency {
    /// Replaces a claim that holds by a closer look at the same.
    pub fn narrow(&mut self, closer: ClaimResult) {
        if let Some(claim) = self.claims.iter_mut().find(|c| c.claim == closer.claim && c.verdict == Verdict::Match) {
            *claim = closer;
        }
    }

    /// Turns a claim into a refusal: what it claims cannot be, so there is nothing to replay.
    pub fn refuse(&mut self, claim: ClaimKind, why: String) {
        self.claims.retain(|c| c.claim != claim);
        self.claims.push(ClaimResult::new(claim, Verdict::Error, why));
        self.replayable = false;
    }
}

/// Checks records against themselves, and what they say together (`whole`) for being all that happened.
///
/// A record that contradicts itself is refused, not accused: nothing in it can be relied on.
pub fn consistency(parts: &[Record], whole: &Record) -> Consistency {
    let elsewhere = starts_elsewhere(whole);
    let refusal = parts.iter().find_map(|r| r.check_structure().err());
    let refusal = refusal.or_else(|| if elsewhere.is_none() { whole.check_whole().err() } else { None });
    let result = |claim, holds: String| match &refusal {
        Some(why) if claim_of(why) == claim => ClaimResult::new(claim, Verdict::Error, why.to_string()),
        Some(_) => {
            ClaimResult::new(claim, Verdict::Inconclusive, "not concluded: the record contradicts itself elsewhere")
        }
        None => ClaimResult::holds(claim, holds),
    };
    let rows: usize = whole.steps.iter().map(|s| s.leaves.len()).sum();
    let (requests, steps) = (whole.requests.len(), whole.steps.len());
    let schedule = format!("{requests} requests, {steps} steps, {rows} rows, every position in order and once a place");
    let mut schedule = result(ClaimKind::Schedule, schedule);
    if let (Verdict::Match, Some(why)) = (schedule.verdict, elsewhere) {
        schedule = ClaimResult::new(ClaimKind::Schedule, Verdict::Inconclusive, why);
    }
    let tokens: usize = whole.requests.iter().map(|r| r.output.len()).sum();
    let mut outputs = result(ClaimKind::Outputs, format!("{tokens} tokens, lengths and finish reasons fit"));
    if outputs.verdict == Verdict::Match
        && let Some(why) = goes_on_nowhere(whole)
    {
        outputs = ClaimResult::new(ClaimKind::Outputs, Verdict::Inconclusive, why);
    }
    let replayable = refusal.is_none() && schedule.verdict == Verdict::Match;
    let commitments = format!("{rows} leaves, {steps} step roots and chain values recomputed");
    Consistency { claims: vec![schedule, result(ClaimKind::Commitments, commitments), outputs], replayable }
}

/// The claim that a refusal of a record is about.
pub fn claim_of(refusal: &RecordRefusal) -> ClaimKind {
    match refusal {
        RecordRefusal::StepRoot { .. } | RecordRefusal::ChainBreak { .. } | RecordRefusal::ChainEnd => {
            ClaimKind::Commitments
        }
        RecordRefusal::Output { .. } => ClaimKind::Outputs,
        RecordRefusal::Decode { .. } => ClaimKind::Decoding,
        RecordRefusal::Device { .. } => ClaimKind::Identity,
        _ => ClaimKind::Schedule,
    }
}

/// A request that says it goes on in a later record must do so; records in which one goes on are judged together.
fn goes_on_nowhere(record: &Record) -> Option<String> {
    let id = &record.requests.iter().find(|r| r.finish == Finish::Continues)?.id;
    let id = named(id);
    Some(format!("incomplete: {id} is said to go on in a later record, and no later record goes on with it"))
}

/// A request whose beginning is in no record at hand cannot be replayed.
fn starts_elsewhere(record: &Record) -> Option<String> {
    if let (true, Some(request)) = (record.steps.is_empty(), record.requests.first()) {
        return Some(format!("the steps of {} are in no record at hand", named(&request.id)));
    }
    let mut known: BTreeSet<u32> = BTreeSet::new();
    let ids: BTreeSet<&str> = record.requests.iter().map(|r| r.id.as_str()).collect();
    for step in &record.steps {
        for event in &step.schedule.events {
            let Event::Admit { request, cached } = event else { continue };
            if let Some(source) = cached.iter().map(|c| &c.source).find(|source| !ids.contains(source.as_str())) {
                let id = named(&record.requests.get(*request as usize)?.id);
                return Some(format!("{id} begins with columns of {}, which is in no record at hand", named(source)));
            }
        }
        known.extend(step.schedule.events.iter().filter(|e| matches!(e, Event::Admit { .. })).map(Event::request));
        for rows in &step.schedule.rows {
            if rows.start != 0 && !known.contains(&rows.request) {
                let id = named(&record.requests.get(rows.request as usize)?.id);
                return Some(format!(
                    "{id} begins at position {}: its earlier positions are in no record at hand",
                    rows.start
                ));
            }
            known.insert(rows.request);
        }
    }
    None
}

/// A token or a position that the model does not have: no step can have computed it. The record must be one that
/// [`Record::check_structure`] accepts.
pub fn impossible(record: &Record, replayer: &dyn Replayer) -> Option<String> {
    let (vocabulary, positions) = (replayer.vocabulary(), replayer.positions());
    for step in &record.steps {
        for row in step.schedule.each_row() {
            let id = || named(record.requests.get(row.request as usize).map_or("", |r| r.id.as_str()));
            let token = record.row_id(&row)?.token;
            if row.position >= positions {
                return Some(format!(
                    "{}: position {} is beyond the {positions} positions of the model",
                    id(),
                    row.position
                ));
            }
            if token >= vocabulary {
                return Some(format!(
                    "{}: token {token} at position {} is outside the vocabulary of {vocabulary}",
                    id(),
                    row.position
                ));
            }
        }
    }
    None
}

/// The claim `decoding`: parameters are in range and fit the sampler and each other.
pub fn decoding(record: &Record) -> ClaimResult {
    match record.check_decoding() {
        Ok(()) => ClaimResult::holds(
            ClaimKind::Decoding,
            format!("{} requests, every parameter in range and fitting its sampler", record.requests.len()),
        ),
        Err(why) => ClaimResult::new(ClaimKind::Decoding, Verdict::Error, why.to_string()),
    }
}

/// The claim `completeness`: an `unspecified` fact that can decide a bit caps the verdict.
///
/// Kernels are named by the digest of their text, so the times of a step, the engine's commit and its host build decide no bit of a
/// device; unspecified, they are named but cap nothing (timing is listed as an uncontrolled channel).
///
/// # Errors
/// [`record::Error`] when the record has no canonical form.
pub fn completeness(record: &Record) -> Result<ClaimResult, record::Error> {
    let (harmless, missing): (Vec<String>, Vec<String>) =
        record.unspecified()?.into_iter().partition(|p| decides_no_bit(p));
    let list = |all: &[String]| {
        let shown = all.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if all.len() > 8 { format!(" and {} more", all.len() - 8) } else { String::new() };
        format!("{shown}{more}")
    };
    Ok(if !missing.is_empty() {
        let detail = format!("unspecified: {}", list(&missing));
        ClaimResult::new(ClaimKind::Completeness, Verdict::Inconclusive, detail)
    } else if !harmless.is_empty() {
        let detail = format!("every field that can decide a bit is stated; not stated: {}", list(&harmless));
        ClaimResult::holds(ClaimKind::Completeness, detail)
    } else {
        ClaimResult::holds(ClaimKind::Completeness, "no field is unspecified")
    })
}

/// The claim `seeds`: derived seeds are derived again; what a client or the operator chose is a statement that nothing contradicts.
pub fn seeds(record: &Record) -> ClaimResult {
    let (mut derived, mut stated) = (0, 0);
    for request in &record.requests {
        let Some(seed) = request.decode.seed else { continue };
        let unknown = |verdict, why: String| {
            ClaimResult::new(ClaimKind::Seeds, verdict, format!("{}: {why}", named(&request.id)))
        };
        match request.decode.seed_derivation.known().map(String::as_str) {
            Some(SEED_DERIVATION) => match derived_seed(request.nonce.as_deref(), &record.link.key_id, &request.id) {
                Ok(expected) if expected == seed.0 => derived += 1,
                Ok(expected) => {
                    let why = format!("{SEED_DERIVATION} gives {expected}, the record states {}", seed.0);
                    return unknown(Verdict::Mismatch, why);
                }
                Err(e) => return unknown(Verdict::Inconclusive, e.to_string()),
            },
            Some("client" | "operator") => stated += 1,
            Some("none") => return unknown(Verdict::Error, "there is a seed, and the rule none".to_owned()),
            Some(other) => return unknown(Verdict::Unverifiable, format!("the rule {other} is not known")),
            None => return unknown(Verdict::Inconclusive, "no rule is stated".to_owned()),
        }
    }
    let detail = match (derived, stated) {
        (0, 0) => "no request draws random numbers".to_owned(),
        (derived, 0) => format!("{derived} derived again from nonce, key and request id"),
        (derived, stated) => {
            format!("{derived} derived again; {stated} chosen by the client or the operator, as stated")
        }
    };
    ClaimResult::holds(ClaimKind::Seeds, detail)
}

fn decides_no_bit(pointer: &str) -> bool {
    let step_time =
        pointer.strip_prefix("/steps/").and_then(|p| p.split_once('/')).is_some_and(|(_, field)| field == "time");
    step_time || matches!(pointer, "/time" | "/stack/engine/commit" | "/stack/engine/build" | "/stack/scheduler")
}

/// The claim `identity`: whatever is declared must be at hand, and fit together.
pub fn identity(record: &Record, fields: &[IdentityField]) -> ClaimResult {
    if let Err(why) = record.check_device() {
        return ClaimResult::new(ClaimKind::Identity, Verdict::Error, why.to_string());
    }
    let wrong: Vec<String> = fields
        .iter()
        .filter(|f| !f.agrees)
        .map(|f| match &f.found {
            Some(found) => format!("{}: declared {}, at hand {found}", f.field, f.declared),
            None => format!("{}: {} is not at hand", f.field, f.declared),
        })
        .collect();
    if fields.is_empty() {
        ClaimResult::new(ClaimKind::Identity, Verdict::Inconclusive, "nothing is declared")
    } else if wrong.is_empty() {
        ClaimResult::holds(ClaimKind::Identity, format!("{} declared facts are those at hand", fields.len()))
    } else {
        ClaimResult::new(ClaimKind::Identity, Verdict::Unverifiable, wrong.join("; "))
    }
}

/// The claim `dispatch`: the logged splits are those that the declared policy chooses for the logged rows.
///
/// When they are not, but are those of the policy for more rows, the number is named.
///
/// # Errors
/// [`ReplayError`] other than an unknown policy, which is part of the finding.
pub fn dispatch(record: &Record, replayer: &dyn Replayer, extra_rows: u32) -> Result<ClaimResult, ReplayError> {
    let policy = &record.stack.dispatch_policy;
    for (index, step) in record.steps.iter().enumerate() {
        let logged = declared_splits(record, index);
        let groups = step.schedule.rows.iter().map(|r| Group {
            request: r.request,
            start: r.start,
            tokens: vec![0; r.count as usize],
            logits: r.logits,
        });
        let shape = StepInput { groups: groups.collect(), ..StepInput::default() }.shape();
        if gate::runs_reference(record, step) {
            if logged == Splits::default() {
                continue;
            }
            let detail =
                format!("step {index}: the log says {}, the reference splits nothing", logged.words().join(" "));
            return Ok(ClaimResult::new(ClaimKind::Dispatch, Verdict::Mismatch, detail));
        }
        let chosen = match replayer.policy(&shape) {
            Ok(chosen) => chosen,
            Err(ReplayError::Unknown { what }) => {
                let detail = format!("{what} is not known here");
                return Ok(ClaimResult::new(ClaimKind::Dispatch, Verdict::Unverifiable, detail));
            }
            Err(e) => return Err(e),
        };
        if chosen == logged {
            continue;
        }
        let mut more = Vec::new();
        for n in 1..=extra_rows {
            if replayer.policy(&shape.with_extra_rows(n))? == logged {
                more.push(n);
            }
        }
        let more: crate::ranges::Ranges = more.into_iter().collect();
        let hint = if more.is_empty() { String::new() } else { format!("; they are its choices for {more} more rows") };
        let words = |s: &crate::replay::Splits| match s.words() {
            all if all.is_empty() => "no split".to_owned(),
            all => all.join(" "),
        };
        let detail = format!(
            "step {index}: the log says {}, {policy} chooses {} for {} rows{hint}",
            words(&logged),
            words(&chosen),
            shape.rows
        );
        return Ok(ClaimResult::new(ClaimKind::Dispatch, Verdict::Mismatch, detail));
    }
    Ok(ClaimResult::holds(ClaimKind::Dispatch, format!("the choices of {policy} in all {} steps", record.steps.len())))
}
