//! What else gives the bits of a record that matches: the indistinguishable set that a match carries.
//!
//! Within a class of row counts that share kernels, bits cannot tell how many rows ran; and other kernels may leave every logged bit
//! as it is. Both are stated, so that a match never says more than it does.

use crate::causes::{machine, splits};
use crate::claims;
use crate::error::Error;
use crate::ranges::Ranges;
use crate::replay::{Machine, Row, Run, Splits};
use crate::result::{DispatchAlternative, Outcome, RecordResult, Trial};
use crate::walk::{Context, Supposition, Walk};
use record::EvidenceLevel;
use std::collections::{BTreeMap, BTreeSet};

/// Fills in [`RecordResult::alternatives`] and the trials that found them.
///
/// # Errors
/// [`Error`] when a replay fails.
pub fn find(context: &Context<'_>, claimed: &Machine, walk: &Walk, result: &mut RecordResult) -> Result<(), Error> {
    let mut unseen: Vec<Ranges> = splits::unseen_rows(walk);
    for pass in sampled_passes(context) {
        let (tried, fitting) = other_splits(context, claimed, pass)?;
        let words: Vec<String> = fitting.iter().map(|(choice, values)| format!("{choice} {values}")).collect();
        result.tried.push(Trial {
            hypothesis: format!("other splits in step {pass}"),
            outcome: if words.is_empty() { Outcome::Contradicted } else { Outcome::Explains },
            detail: if words.is_empty() {
                format!("{tried} other choices, each changes a bit")
            } else {
                format!("of {tried} other choices, these change no bit: {}", words.join("; "))
            },
        });
        for (choice, values) in fitting {
            if choice == EXTRA_ROWS {
                unseen[pass] = unseen[pass].iter().chain(values.iter()).collect();
            }
            let steps = [pass as u32].into_iter().collect();
            result.alternatives.dispatch.push(DispatchAlternative { choice, values, steps });
        }
    }
    let out = &mut result.alternatives;
    out.extra_rows = joint_rows(context, claimed)?;
    out.hidden_capacity = unseen.iter().filter_map(Ranges::max).max().unwrap_or(0);
    out.hidden_row_steps = unseen.iter().filter_map(Ranges::max).map(u64::from).sum();
    for (machine, hypothesis) in machine::suppositions(context, &claimed.profile) {
        let profile = machine.profile.clone();
        let (trial, explained) = machine::attempt(context, machine, hypothesis, walk.passes)?;
        result.tried.push(trial);
        if explained.is_some() && profile != claimed.profile {
            result.alternatives.profiles.push(profile);
        }
    }
    if claims::mode(context.record) == Some(engine::Mode::Portable) {
        // Not by replay: portable kernels hold no instruction whose result a profile decides.
        let profiles = &mut result.alternatives.profiles;
        *profiles = context.replayer.profiles();
        profiles.retain(|p| *p != claimed.profile);
    }
    Ok(())
}

/// What [`DispatchAlternative::choice`] calls unreported rows.
const EXTRA_ROWS: &str = "extra rows";

/// Passes on which other splits are replayed: the first, and the last decode step (the longest contexts).
fn sampled_passes(context: &Context<'_>) -> Vec<usize> {
    let last = context.plan.items.iter().rposition(|i| !i.input.prefills() && !i.reference);
    let first = (!context.plan.items.is_empty()).then_some(0);
    first.into_iter().chain(last).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Replays a pass with every other split within limits; returns how many there were, and by choice the values that change no bit.
fn other_splits(
    context: &Context<'_>,
    claimed: &Machine,
    pass: usize,
) -> Result<(usize, BTreeMap<String, Ranges>), Error> {
    let Some(item) = context.plan.items.get(pass) else { return Ok((0, BTreeMap::new())) };
    let mut run = context.replayer.start(claimed)?;
    for item in context.plan.items.iter().take(pass) {
        context.replay(&mut *run, item, &item.declared, false)?;
    }
    let ours = compared(context, &mut *run, pass, &item.declared)?;
    let own = context.replayer.canonical(&item.declared);
    let (mut tried, mut fitting) = (0, BTreeMap::<String, BTreeSet<u32>>::new());
    for (splits, all) in context.candidates(item)?.iter().filter(|(s, _)| **s != own) {
        tried += 1;
        if compared(context, &mut *run, pass, splits)? != ours {
            continue;
        }
        for supposition in all {
            let (choice, value) = match supposition {
                Supposition::ExtraRows(n) => (EXTRA_ROWS.to_owned(), *n),
                Supposition::Split { op, splits } => (format!("{op} splits"), *splits),
            };
            fitting.entry(choice).or_default().insert(value);
        }
    }
    Ok((tried, fitting.into_iter().map(|(choice, values)| (choice, values.into_iter().collect())).collect()))
}

/// Numbers of extra rows, 0 included, that give every decode step its bits: each is replayed until a step contradicts it.
fn joint_rows(context: &Context<'_>, claimed: &Machine) -> Result<Ranges, Error> {
    let of = |s: &Supposition| match s {
        Supposition::ExtraRows(n) => Some(*n),
        Supposition::Split { .. } => None,
    };
    let mut left: BTreeSet<u32> = context.suppositions.iter().filter_map(of).collect();
    let mut run = context.replayer.start(claimed)?;
    for (pass, item) in context.plan.items.iter().enumerate() {
        if left.is_empty() {
            break;
        }
        let ours = compared(context, &mut *run, pass, &item.declared)?;
        if item.input.prefills() || item.reference {
            continue;
        }
        let own = context.replayer.canonical(&item.declared);
        let mut changed = false;
        for (splits, all) in context.candidates(item)?.iter().filter(|(s, _)| **s != own) {
            let numbers: Vec<u32> = all.iter().filter_map(of).filter(|n| left.contains(n)).collect();
            if numbers.is_empty() {
                continue;
            }
            changed = true;
            if compared(context, &mut *run, pass, splits)? != ours {
                left.retain(|n| !numbers.contains(n));
            }
        }
        if changed {
            // The columns that the claim gives.
            compared(context, &mut *run, pass, &item.declared)?;
        }
    }
    Ok(left.into_iter().chain([0]).collect())
}

/// A pass, observed as deeply as the record commits to.
fn compared(context: &Context<'_>, run: &mut dyn Run, pass: usize, splits: &Splits) -> Result<Vec<Row>, Error> {
    let taps = context.record.evidence == EvidenceLevel::A;
    match context.plan.items.get(pass) {
        Some(item) => context.replay(run, item, splits, taps),
        None => Ok(Vec::new()),
    }
}
