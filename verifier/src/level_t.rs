//! The audit of a gated log at level T: its tokens against one teacher-forced prefill of the reference per request.
//!
//! Nothing of the schedule is used: no batch, no dispatch, no repair. Bits are not compared, since columns of steps that were not verified keep those of their
//! batch. A token that differs is an accusation where the log says that the reference chose it over columns that are all its own (`gate::decided_alone`), and after it
//! nothing is the prefill's any more; elsewhere it may be a miss of the gate, and an audit by the schedule settles it.

use crate::compare::Opened;
use crate::error::Error;
use crate::gate;
use crate::logprobs;
use crate::replay::{Machine, Splits};
use crate::result::{ClaimKind, ClaimResult, RecordResult};
use crate::tables;
use crate::tokens;
use crate::verdict::{Level, Verdict};
use crate::walk::{Context, Finding, Walk, chosen_logits};

/// Replays the plan and fills in what tokens decide.
///
/// # Errors
/// [`Error`] when the replay fails.
pub fn audit(context: &Context<'_>, claims: &mut Vec<ClaimResult>, result: &mut RecordResult) -> Result<(), Error> {
    let (record, plan) = (context.record, context.plan);
    let mut run = context.replayer.start(&Machine::declared(&record.stack.device.profile))?;
    let mut walk = Walk { findings: Vec::new(), passes: plan.items.len() };
    for (done, item) in plan.items.iter().enumerate() {
        let rows = context.replay(&mut *run, item, &Splits::default(), false)?;
        let logits = chosen_logits(record, item, &rows);
        walk.findings.push(Finding { logits, explained: true, ..Finding::default() });
        (context.progress)(done + 1, walk.passes);
    }
    let sampled = tokens::sampled(record, plan, &walk, &Opened::default());
    let check = tokens::check(record, context.replayer, &sampled);
    let mut claim = crate::claims::tokens(&check);
    let alone = |pass: usize, row: usize| {
        let at = plan.items.get(pass).and_then(|item| item.rows.get(row));
        at.is_some_and(|(_, at)| gate::decided_alone(record, at.kind))
    };
    let accused = check.wrong.iter().filter(|(pass, row, _)| alone(*pass, *row)).count();
    if claim.verdict == Verdict::Mismatch && accused == 0 {
        claim.verdict = Verdict::Inconclusive;
        claim.detail +=
            "; the reference did not choose them over its own columns, so this accuses nobody: audit by the schedule";
    } else if claim.verdict == Verdict::Mismatch {
        claim.detail += &format!("; {accused} of them are said to be the reference's, over its own columns");
    } else if claim.verdict == Verdict::Match {
        claim.detail += " by a prefill of the reference, without batch or schedule";
    }
    claim.level = Some(Level::T);
    claims.push(claim);
    claims.push(ClaimResult::new(
        ClaimKind::Bits,
        Verdict::Inconclusive,
        "not compared: at level T only tokens are; bits of a gated log are those of its schedule",
    ));
    let why = "not compared: log-probabilities of a gated log are those of its schedule";
    if let Some((claim, left)) = logprobs::not_replayed(record, Verdict::Inconclusive, why) {
        claims.push(claim);
        result.unverified.extend(left);
    }
    result.matrix = tables::matrix(record, plan, None, &check);
    result.margins = tables::margins(&sampled);
    Ok(())
}
