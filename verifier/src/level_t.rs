//! The audit of a gated log at level T: its tokens against one teacher-forced prefill of the reference per request.
//!
//! Nothing of the schedule is used: no batch, no dispatch, no repair. Bits are not compared, since columns of steps that were not verified keep those of their
//! batch; for the same reason a token that differs is no accusation unless every column is the reference's. An audit by the schedule settles it.

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
    if claim.verdict == Verdict::Mismatch && !gate::always_on(record) {
        claim.verdict = Verdict::Inconclusive;
        claim.detail += "; the reference's columns are not the log's, so this accuses nobody: audit by the schedule";
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
