//! The operator's answer to a challenge: the tensors behind a record's leaves, computed again.
//!
//! Source: `docs/spec/audit-result.md`, *Revealing*. Because the computation is exact an operator need not keep tensors: what a record commits to,
//! 32 bytes a row, is enough to tell whether the tensors computed again are the ones that were served.

use crate::plan::{Mode, Plan};
use crate::replay::{Machine, ReplayError, Replayer};
use record::{Evidence, EvidenceLevel, Record, commit};

/// Why tensors cannot be revealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RevealError {
    /// What is computed here is not what was served. Whoever answers the challenge has other weights, another profile or other kernels at hand than
    /// served the record, or the record is not what was served.
    #[error("step {step}, row {leaf}: what is computed here is not what the record commits to")]
    Differs {
        /// Index of the step, as the record gives it.
        step: u64,
        /// Index of the row in it.
        leaf: usize,
    },
    /// A record contradicts itself.
    #[error("the record contradicts itself: {0}")]
    Inconsistent(#[from] record::inference::RecordRefusal),
    /// The replay could not be made.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A bug of the replayer, or a record without a canonical form.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// Evidence for every row of records that are one run of a session, `whole` being what they say together; one for each of `parts`.
///
/// # Errors
/// [`RevealError`]; nothing that was not checked against its leaf is returned.
pub fn reveal(
    parts: &[Record],
    whole: &Record,
    replayer: &dyn Replayer,
    progress: &dyn Fn(usize, usize),
) -> Result<Vec<Evidence>, RevealError> {
    parts.iter().try_for_each(Record::check)?;
    let level = whole.evidence;
    let plan = Plan::new(whole, Mode::Schedule);
    let mut run = replayer.start(&Machine::declared(&whole.stack.device.profile))?;
    let mut revealed =
        parts.iter().map(|part| Ok(Evidence::new(part.digest()?, level))).collect::<Result<Vec<_>, record::Error>>()?;
    // The record of each step, and the step's place in it.
    let places: Vec<(usize, usize)> =
        (0..).zip(parts).flat_map(|(part, record)| (0..record.steps.len()).map(move |step| (part, step))).collect();
    for (done, item) in plan.items.iter().enumerate() {
        let rows = run.step(&item.input, &item.declared, level == EvidenceLevel::A)?;
        for (row, (step, at)) in rows.iter().zip(&item.rows) {
            let committed = &whole.steps[*step];
            let differs = || RevealError::Differs { step: committed.index, leaf: at.leaf };
            let id = whole.row_id(at).ok_or_else(differs)?;
            if committed.leaves.get(at.leaf) != Some(&commit::leaf(&id, &row.components(level)?)) {
                return Err(differs());
            }
            let (part, _) = places[*step];
            revealed[part].add_row(committed.index, at.leaf as u32, &row.evidence(level))?;
        }
        progress(done + 1, plan.items.len());
    }
    Ok(revealed)
}
