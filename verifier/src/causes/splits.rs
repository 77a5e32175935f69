//! Unreported rows and other splits, read off a walk whose every pass some supposition explains.

use crate::plan::{Plan, declared_splits};
use crate::ranges::Ranges;
use crate::result::Cause;
use crate::walk::{Supposition, Walk};
use record::Record;
use std::collections::BTreeSet;

/// Causes of a walk that [`Walk::explained`]: extra rows first, then attention splits, then split-K; single causes only.
pub fn causes(record: &Record, plan: &Plan, walk: &Walk) -> Vec<Cause> {
    let mut out = Vec::new();
    if !walk.explained() || walk.matches() {
        return out;
    }
    let needed: Ranges =
        walk.findings.iter().zip(0..).filter(|(f, _)| !f.differing.is_empty()).map(|(_, pass)| pass).collect();
    let steps = walk.passes as u32;
    out.extend(extra_rows(plan, walk, &needed, steps));
    let ops: BTreeSet<&String> = walk
        .findings
        .iter()
        .flat_map(|f| &f.explained_by)
        .filter_map(|s| match s {
            Supposition::Split { op, .. } => Some(op),
            Supposition::ExtraRows(_) => None,
        })
        .collect();
    for op in ops {
        let found = joint(walk, |s| match s {
            Supposition::Split { op: o, splits } if o == op => Some(*splits),
            _ => None,
        });
        if found.is_empty() {
            continue;
        }
        let claimed = needed.iter().map(|pass| declared_splits(record, pass as usize).of(op)).collect();
        let needed = needed.clone();
        out.push(if op == "attention" {
            Cause::AttentionSplit { claimed, found, needed, steps }
        } else {
            Cause::SplitK { choice: format!("{op}.split_k"), claimed, found, needed, steps }
        });
    }
    out
}

/// Members that explain every pass that needs explaining, and every other pass if they come to its claim.
///
/// A pass that the claim gives is explained by the claim; a split that some passes need is a change against the claim only there.
fn joint(walk: &Walk, member: impl Fn(&Supposition) -> Option<u32>) -> Ranges {
    let needing = walk.findings.iter().filter(|f| !f.differing.is_empty());
    needing
        .map(|f| f.explained_by.iter().filter_map(&member).collect::<Ranges>())
        .reduce(|a, b| a.intersection(&b))
        .unwrap_or_default()
}

fn extra_rows(plan: &Plan, walk: &Walk, needed: &Ranges, steps: u32) -> Option<Cause> {
    let rows = |pass: usize| -> Ranges {
        let of = |s: &Supposition| match s {
            Supposition::ExtraRows(n) => Some(*n),
            Supposition::Split { .. } => None,
        };
        let f = &walk.findings[pass];
        let none = f.differing.is_empty().then_some(0);
        f.explained_by.iter().filter_map(of).chain(none).collect()
    };
    let all: Vec<Ranges> = (0..walk.findings.len()).map(rows).collect();
    if needed.iter().any(|pass| all[pass as usize].is_empty()) {
        return None;
    }
    let phase = |prefill: bool| {
        let passes = (0..all.len()).filter(|i| plan.items[*i].input.prefills() == prefill);
        passes.map(|i| all[i].clone()).reduce(|a, b| a.intersection(&b)).unwrap_or_default()
    };
    let (decode, prefill) = (phase(false), phase(true));
    let by_step = if decode.is_empty() || prefill.is_empty() { all } else { Vec::new() };
    Some(Cause::UnreportedRows { decode, prefill, by_step, needed: needed.clone(), steps })
}

/// Numbers of extra rows that leave the claim's splits as they are, by pass: what an audit cannot tell from none.
pub fn unseen_rows(walk: &Walk) -> Vec<Ranges> {
    let of = |s: &Supposition| match s {
        Supposition::ExtraRows(n) => Some(*n),
        Supposition::Split { .. } => None,
    };
    walk.findings.iter().map(|f| f.explained_by.iter().filter_map(of).collect()).collect()
}
