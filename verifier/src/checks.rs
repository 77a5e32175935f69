//! What can be checked of a record without replaying it.

use crate::plan::declared_splits;
use crate::replay::{Group, ReplayError, Replayer, StepInput};
use crate::result::{ClaimKind, ClaimResult, IdentityField};
use crate::verdict::Verdict;
use engine::journal::derived_seed;
use engine::sampler::SEED_DERIVATION;
use record::{Record, inference::RecordRefusal};
use std::collections::BTreeMap;

/// The consistency of a record with itself, as the claims `schedule`, `commitments` and `outputs`.
///
/// A record that contradicts itself is refused, not accused: nothing in it can be relied on.
pub fn consistency(record: &Record) -> [ClaimResult; 3] {
    let refusal = record.check().err();
    let broken = |claim| {
        let of = refusal.as_ref().map(claim_of);
        (of == Some(claim)).then(|| refusal.as_ref().map(ToString::to_string).unwrap_or_default())
    };
    let unread = refusal.is_some();
    let result = |claim, holds: String| match broken(claim) {
        Some(why) => ClaimResult::new(claim, Verdict::Error, why),
        None if unread => {
            ClaimResult::new(claim, Verdict::Inconclusive, "not concluded: the record contradicts itself elsewhere")
        }
        None => ClaimResult::holds(claim, holds),
    };
    let rows: usize = record.steps.iter().map(|s| s.leaves.len()).sum();
    let mut schedule = result(
        ClaimKind::Schedule,
        format!(
            "{} requests, {} steps, {rows} rows, every position once and in order",
            record.requests.len(),
            record.steps.len()
        ),
    );
    if schedule.verdict == Verdict::Match
        && let Some(why) = starts_elsewhere(record)
    {
        schedule = ClaimResult::new(ClaimKind::Schedule, Verdict::Inconclusive, why);
    }
    [
        schedule,
        result(
            ClaimKind::Commitments,
            format!("{rows} leaves, {} step roots and chain values recomputed", record.steps.len()),
        ),
        result(
            ClaimKind::Outputs,
            format!(
                "{} tokens, lengths and finish reasons fit",
                record.requests.iter().map(|r| r.output.len()).sum::<usize>()
            ),
        ),
    ]
}

fn claim_of(refusal: &RecordRefusal) -> ClaimKind {
    match refusal {
        RecordRefusal::StepRoot { .. } | RecordRefusal::ChainBreak { .. } | RecordRefusal::ChainEnd => {
            ClaimKind::Commitments
        }
        RecordRefusal::Output { .. } => ClaimKind::Outputs,
        _ => ClaimKind::Schedule,
    }
}

/// A request whose first rows are not in this record cannot be replayed from it alone.
fn starts_elsewhere(record: &Record) -> Option<String> {
    let mut first: BTreeMap<u32, u32> = BTreeMap::new();
    for rows in record.steps.iter().flat_map(|s| &s.schedule.rows) {
        first.entry(rows.request).or_insert(rows.start);
    }
    let (request, start) = first.into_iter().find(|(_, start)| *start != 0)?;
    let id = &record.requests.get(request as usize)?.id;
    Some(format!("request {id} begins at position {start}: its earlier positions are not in this record"))
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
            ClaimResult::new(ClaimKind::Seeds, verdict, format!("request {}: {why}", request.id))
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
    step_time || matches!(pointer, "/time" | "/stack/engine/commit" | "/stack/engine/build")
}

/// The claim `identity`: whatever is declared must be at hand.
pub fn identity(fields: &[IdentityField]) -> ClaimResult {
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
        let shape = StepInput { groups: groups.collect() }.shape();
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
