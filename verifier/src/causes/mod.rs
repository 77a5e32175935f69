//! The search for causes: what, other than the claim, gives the logged bits?
//!
//! Suppositions are tried by replay, one change at a time: extra rows and other splits (during the first walk, pass by pass), other
//! GPU generations and quantised weights (from the first step), a single weight bit, another input token. What explains every bit is a
//! cause; what fails is listed with the place where it fails. Nothing here accuses: the verdict is the caller's.

mod input;
pub mod machine;
pub mod origin;
pub mod splits;
mod weight_bit;

use crate::compare;
use crate::error::Error;
use crate::ops::{Op, Point};
use crate::replay::Machine;
use crate::result::{Cause, Outcome, Trial};
use crate::walk::{Context, Supposition, Walk};

/// What the search found.
#[derive(Default)]
pub struct Found {
    /// Causes that explain every bit, the most probable first; otherwise what is known.
    pub causes: Vec<Cause>,
    /// What was tried.
    pub trials: Vec<Trial>,
    /// The walk that explains every bit, when it is not the first one.
    pub walk: Option<Walk>,
    /// The operation in which the first cause first shows.
    pub origin: Option<Point>,
}

/// Searches for causes of a walk of the claim that does not match.
///
/// # Errors
/// [`Error`] when a replay fails.
pub fn find(context: &Context<'_>, claimed: &Machine, walk: &Walk) -> Result<Found, Error> {
    let Some(pass) = walk.first_difference() else { return Ok(Found::default()) };
    let mut found = Found::default();
    let by_splits = splits::causes(context.record, context.plan, walk);
    found.trials.extend(split_trials(context, walk, &by_splits));
    if !by_splits.is_empty() {
        found.origin = split_origin(context, claimed, walk, pass)?;
    }
    let explained_by_splits = walk.explained();
    found.causes.extend(by_splits);

    let mut profiles: Vec<String> = Vec::new();
    let mut schemes: Vec<(String, machine::Explained)> = Vec::new();
    let mut degrees: Vec<(u32, bool, machine::Explained)> = Vec::new();
    let mut caches: Vec<(String, machine::Explained)> = Vec::new();
    let mut first_profile = None;
    for (supposed, hypothesis) in machine::suppositions(context, &claimed.profile) {
        let (trial, explained) = machine::attempt(context, supposed, hypothesis, pass)?;
        found.trials.push(trial);
        let Some(explained) = explained else { continue };
        match &explained.machine.weights {
            crate::replay::WeightChange::Quantised(scheme) => schemes.push((scheme.clone(), explained)),
            crate::replay::WeightChange::Divided { ranks, by_policy } => degrees.push((*ranks, *by_policy, explained)),
            crate::replay::WeightChange::Cache(kv) => caches.push((kv.clone(), explained)),
            _ => {
                profiles.push(explained.machine.profile.clone());
                first_profile.get_or_insert(explained);
            }
        }
    }
    let steps = context.plan.items.len() as u32;
    if let Some(explained) = first_profile {
        let visible = machine_origin(context, claimed, &explained.machine, pass)?;
        let hidden = origin::first_sums(context, claimed, &explained.machine.profile, pass, visible)?;
        let origin = hidden.map(|(point, _)| point).or(visible);
        found.causes.push(Cause::OtherProfile {
            claimed: claimed.profile.clone(),
            found: profiles,
            origin: origin.map(|p| p.to_string()),
            sums: hidden.map(|(_, sums)| sums),
            steps,
        });
        adopt(&mut found, origin, explained.walk, explained_by_splits);
    }
    for (scheme, explained) in schemes {
        let origin = machine_origin(context, claimed, &explained.machine, pass)?;
        found.causes.push(Cause::QuantisedWeights { scheme, origin: origin.map(|p| p.to_string()), steps });
        adopt(&mut found, origin, explained.walk, explained_by_splits);
    }

    for (ranks, by_policy, explained) in degrees {
        let origin = machine_origin(context, claimed, &explained.machine, pass)?;
        let origin_name = origin.map(|p| p.to_string());
        found.causes.push(Cause::OtherDivision { ranks, by_policy, origin: origin_name, steps });
        adopt(&mut found, origin, explained.walk, explained_by_splits);
    }
    for (kv, explained) in caches {
        let origin = machine_origin(context, claimed, &explained.machine, pass)?;
        let claimed = context.record.stack.kv.dtype.clone();
        found.causes.push(Cause::KvType { claimed, found: kv, origin: origin.map(|p| p.to_string()), steps });
        adopt(&mut found, origin, explained.walk, explained_by_splits);
    }

    let differing = &walk.findings[pass].differing;
    if found.causes.is_empty() {
        let (trial, cause) = weight_bit::attempt(context, claimed, pass, differing)?;
        found.trials.push(trial);
        if let Some((cause, explained)) = cause {
            let origin = machine_origin(context, claimed, &explained.machine, pass)?;
            found.causes.push(cause);
            adopt(&mut found, origin, explained.walk, false);
        }
    }
    if found.causes.is_empty() && differing.iter().any(|(_, d)| d.point == Some(Point::global(Op::Embed))) {
        let (trials, causes) = input::attempt(context, claimed, pass, differing)?;
        found.trials.extend(trials);
        if !causes.is_empty() {
            found.origin = Some(Point::global(Op::Embed));
        }
        found.causes.extend(causes);
    }
    if found.causes.is_empty() {
        found.causes.push(unexplained(context, walk, pass));
    }
    Ok(found)
}

/// Keeps the origin and the walk of the first cause.
fn adopt(found: &mut Found, origin: Option<Point>, walk: Walk, already_explained: bool) {
    if found.origin.is_none() {
        found.origin = origin;
    }
    if !already_explained && found.walk.is_none() {
        found.walk = Some(walk);
    }
}

fn machine_origin(context: &Context<'_>, a: &Machine, b: &Machine, pass: usize) -> Result<Option<Point>, Error> {
    let Some(item) = context.plan.items.get(pass) else { return Ok(None) };
    let ours = origin::taps(context, a, pass, &item.declared)?;
    let theirs = origin::taps(context, b, pass, &item.declared)?;
    Ok(origin::first_difference(&ours, &theirs))
}

fn split_origin(context: &Context<'_>, machine: &Machine, walk: &Walk, pass: usize) -> Result<Option<Point>, Error> {
    let (Some(item), Some(finding)) = (context.plan.items.get(pass), walk.findings.get(pass)) else { return Ok(None) };
    let candidates = context.candidates(item)?;
    let explains = |all: &Vec<Supposition>| all.iter().any(|s| finding.explained_by.contains(s));
    let Some((splits, _)) = candidates.iter().find(|(_, all)| explains(all)) else { return Ok(None) };
    let ours = origin::taps(context, machine, pass, &item.declared)?;
    let theirs = origin::taps(context, machine, pass, splits)?;
    Ok(origin::first_difference(&ours, &theirs))
}

/// One line for extra rows and one per operation that can be split.
fn split_trials(context: &Context<'_>, walk: &Walk, causes: &[Cause]) -> Vec<Trial> {
    let failed = walk.first_unexplained();
    let trial = |hypothesis: String, explains: bool| {
        let outcome = if explains { Outcome::Explains } else { Outcome::Contradicted };
        let detail = match (explains, failed) {
            (true, _) => format!("all {} steps", walk.passes),
            (false, Some(pass)) => machine::failure(context, walk, pass),
            (false, None) => "no one number explains every step".to_owned(),
        };
        Trial { hypothesis, outcome, detail }
    };
    let most = |f: &dyn Fn(&Supposition) -> Option<u32>| context.suppositions.iter().filter_map(f).max();
    let mut out = Vec::new();
    let rows = most(&|s| match s {
        Supposition::ExtraRows(n) => Some(*n),
        Supposition::Split { .. } => None,
    });
    if let Some(most) = rows {
        let explains = causes.iter().any(|c| matches!(c, Cause::UnreportedRows { .. }));
        out.push(trial(format!("1 to {most} extra rows"), explains));
    }
    for op in context.replayer.splittable() {
        let splits = most(&|s| match s {
            Supposition::Split { op: o, splits } if *o == op => Some(*splits),
            _ => None,
        });
        let Some(most) = splits else { continue };
        let explains = causes.iter().any(|c| match c {
            Cause::AttentionSplit { .. } => op == "attention",
            Cause::SplitK { choice, .. } => choice.strip_suffix(".split_k") == Some(&op),
            _ => false,
        });
        out.push(trial(format!("{op} in 1 to {most} splits"), explains));
    }
    out
}

/// What is known when nothing explains every bit, and what would settle it.
fn unexplained(context: &Context<'_>, walk: &Walk, pass: usize) -> Cause {
    let differing = &walk.findings[pass].differing;
    let differences: Vec<_> = differing.iter().map(|(_, d)| d.clone()).collect();
    let rows = context.plan.items.get(pass).map_or(0, |i| i.rows.len());
    let of = format!("{} of {rows} rows of step {pass}", differing.len());
    let first = compare::earliest(&differences);
    let Some((d, point)) = first.and_then(|d| Some((d, d.point?))) else {
        return Cause::Unexplained {
            narrowed: format!("{of} differ, and no tensor of them was opened"),
            needed: format!(
                "the opened outputs of the rows of step {pass} (level S narrows it to a layer, level A to an operation)"
            ),
        };
    };
    let between = d.agrees_until.map_or_else(|| vec![point], |until| until.until(point));
    let at_point = differences.iter().filter(|e| e.point == Some(point));
    let pattern = match d.differing {
        Some(n) if n == d.elements => "every element".to_owned(),
        Some(n) => format!("{n} of {} elements", d.elements),
        None => "some elements".to_owned(),
    };
    let narrowed = format!(
        "{of} differ first in {point} ({pattern} of the first such row, {} rows alike), so the cause lies in {}",
        at_point.count(),
        between.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    );
    let needed = if between.len() > 1 {
        let layer = point.layer.map_or("the head".to_owned(), |l| format!("layer {l}"));
        format!("every operation's output (level A) of {layer} for the rows of step {pass}")
    } else {
        format!("the weights of {point} that were in use, or the software that computed it")
    };
    Cause::Unexplained { narrowed, needed }
}
