//! The claims that replay decides, each with its verdict and what was seen.

use crate::ranges::Ranges;
use crate::replay::Machine;
use crate::result::{Cause, ClaimKind, ClaimResult, RecordResult};
use crate::tokens::TokenCheck;
use crate::verdict::{Level, Verdict};
use crate::walk::Walk;
use record::{EvidenceLevel, Record};

/// The claim `receipts`, from what each valid receipt says against the record; nothing when none was presented.
pub fn receipts(presented: &[Result<(), String>]) -> Option<ClaimResult> {
    let wrong: Vec<&str> = presented.iter().filter_map(|r| r.as_ref().err().map(String::as_str)).collect();
    if presented.is_empty() {
        return None;
    }
    Some(if wrong.is_empty() {
        ClaimResult::holds(ClaimKind::Receipts, format!("{} presented, all agree", presented.len()))
    } else {
        ClaimResult::new(ClaimKind::Receipts, Verdict::Mismatch, wrong.join("; "))
    })
}

fn level(record: &Record) -> Level {
    match record.evidence {
        EvidenceLevel::A => Level::A,
        EvidenceLevel::S => Level::S,
    }
}

/// The claim `bits`.
pub fn bits(record: &Record, walk: &Walk) -> ClaimResult {
    let rows: usize = record.steps.iter().map(|s| s.leaves.len()).sum();
    let verdict = if walk.matches() { Verdict::Match } else { Verdict::Mismatch };
    let detail = match walk.first_difference() {
        None => format!("{rows} rows in {} passes replayed, every bit agrees", walk.passes),
        Some(pass) => {
            let differing: usize = walk.findings.iter().map(|f| f.differing.len()).sum();
            format!("{differing} of {rows} rows differ, the first in step {pass}")
        }
    };
    ClaimResult { claim: ClaimKind::Bits, verdict, level: Some(level(record)), detail }
}

/// The claim `tokens`.
pub fn tokens(check: &TokenCheck) -> ClaimResult {
    let (verdict, detail) = match (&check.unknown, check.wrong.len(), check.unchecked) {
        (_, n, _) if n > 0 => {
            (Verdict::Mismatch, format!("{n} of {} tokens are not the admissible one", check.checked))
        }
        (Some(what), ..) => (Verdict::Unverifiable, format!("{what} is not known here")),
        (None, _, n) if n > 0 => {
            let why = check.refused.as_deref().unwrap_or("no replay gives their logits and none were opened");
            (Verdict::Inconclusive, format!("{n} tokens not checked: {why}"))
        }
        _ => (Verdict::Match, format!("{} tokens, each the one admissible", check.checked)),
    };
    ClaimResult { claim: ClaimKind::Tokens, verdict, level: Some(Level::T), detail }
}

/// The claim `rows`: could more rows have run than were logged?
pub fn rows(record: &Record, walk: &Walk, result: &RecordResult, most: u32) -> ClaimResult {
    let new = |verdict, detail: String| ClaimResult::new(ClaimKind::Rows, verdict, detail);
    if let Some(mode) = mode(record).filter(|m| m.own_tokens_only()) {
        let detail = format!("in {} mode unreported rows leave no trace in the bits", mode.name());
        return new(Verdict::Indistinguishable, detail);
    }
    if result.causes.iter().any(|c| matches!(c, Cause::UnreportedRows { .. })) {
        return new(Verdict::Mismatch, "unreported rows explain the bits".to_owned());
    }
    if !walk.matches() {
        return new(Verdict::Inconclusive, "the bits are not those of the claim".to_owned());
    }
    let a = &result.alternatives;
    if a.hidden_capacity == 0 {
        return new(Verdict::Match, format!("any 1 to {most} extra rows would have changed bits, as far as replayed"));
    }
    let joint: Ranges = a.extra_rows.iter().filter(|n| *n > 0).collect();
    let joint = if joint.is_empty() {
        "no one number fits every decode step".to_owned()
    } else {
        format!("{joint} extra in every decode step fit as well")
    };
    let detail = format!("a step's bits can be the same with up to {} extra rows; {joint}", a.hidden_capacity);
    new(Verdict::Indistinguishable, detail)
}

/// The engine's mode that a record states, if it is one that is known here.
pub fn mode(record: &Record) -> Option<engine::Mode> {
    engine::Mode::from_name(&record.stack.mode)
}

/// The claim `hardware`: could another GPU generation have computed this?
pub fn hardware(record: &Record, walk: &Walk, claimed: &Machine, result: &RecordResult) -> ClaimResult {
    let new = |verdict, detail: String| ClaimResult::new(ClaimKind::Hardware, verdict, detail);
    let other = result.causes.iter().find_map(|c| match c {
        Cause::OtherProfile { found, .. } => Some(found.join(", ")),
        _ => None,
    });
    match other {
        Some(found) => new(Verdict::Mismatch, format!("the bits are those of {found}")),
        None if !walk.matches() => new(Verdict::Inconclusive, "the bits are not those of the claim".to_owned()),
        None if mode(record) == Some(engine::Mode::Portable) => {
            let detail = "in portable mode the bits are those of the model on any machine: they show no hardware";
            new(Verdict::Indistinguishable, detail.to_owned())
        }
        None if result.alternatives.profiles.is_empty() => {
            new(Verdict::Match, format!("no other profile that is known here gives the bits of {}", claimed.profile))
        }
        None => {
            let others = result.alternatives.profiles.join(", ");
            new(Verdict::Indistinguishable, format!("{others} would give the same bits"))
        }
    }
}
