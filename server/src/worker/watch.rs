//! Watches the session's steps: seals them, and keeps what a connection asked to hear of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use engine::batch::{Operator, OperatorError, StepLog};
use engine::journal::Journal;
use engine::sampler::log_probability;
use engine::scheduler::{Event, RequestKey};
use record::F32Bits;

use super::TokenLogprobs;

/// The operator of a served session.
pub(super) struct Watch {
    /// Seals steps; none when nothing is logged.
    pub journal: Option<Journal>,
    /// Requests that want log-probabilities, and of how many most likely tokens.
    pub wanted: BTreeMap<RequestKey, u32>,
    /// Log-probabilities of the last step.
    pub logprobs: BTreeMap<RequestKey, TokenLogprobs>,
    /// Cancellations that a step has stated and nobody has taken note of.
    pub cancelled: Vec<RequestKey>,
    /// Rows of the last step.
    pub rows: u64,
}

impl Watch {
    pub fn new(journal: Option<Journal>) -> Self {
        Self { journal, wanted: BTreeMap::new(), logprobs: BTreeMap::new(), cancelled: Vec::new(), rows: 0 }
    }
}

impl Operator for Watch {
    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        if let Some(journal) = &mut self.journal {
            journal.push(step)?;
        }
        self.rows = step.output.rows.len() as u64;
        self.cancelled.extend(step.events.iter().filter_map(|e| match e {
            Event::Cancel { request } => Some(*request),
            _ => None,
        }));
        self.logprobs.clear();
        let mut end = 0;
        for (turn, emitted) in step.turns.iter().zip(step.emitted) {
            end += turn.tokens.len();
            if let (Some(token), Some(top)) = (emitted, self.wanted.get(&turn.request)) {
                let row = &step.output.rows[end - 1];
                let logits = row.logits.as_deref().ok_or("log-probabilities are wanted of a row without logits")?;
                self.logprobs.insert(turn.request, logprobs(logits, row.position + 1, *token, *top)?);
            }
        }
        Ok(())
    }
}

/// Log-probabilities of a token and of the `top` most likely ones.
fn logprobs(logits: &[u32], position: u32, token: u32, top: u32) -> engine::Result<TokenLogprobs> {
    let of = |id: u32| Ok::<_, engine::Error>(F32Bits(log_probability(logits, position, id)?));
    // First, for it refuses what is not finite: the rest compare.
    let chosen = of(token)?;
    let value = |id: &u32| f32::from_bits(logits[*id as usize]);
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    let before = |a: &u32, b: &u32| value(b).partial_cmp(&value(a)).unwrap_or(Ordering::Equal).then(a.cmp(b));
    let top = (top as usize).min(ids.len());
    if top > 0 && top < ids.len() {
        ids.select_nth_unstable_by(top - 1, before);
    }
    ids.truncate(top);
    ids.sort_by(before);
    let top = ids.into_iter().map(|id| Ok((id, of(id)?))).collect::<engine::Result<_>>()?;
    Ok(TokenLogprobs { chosen, top })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_likely_come_first_and_lower_ids_before_equals() {
        let logits: Vec<u32> = [0.5f32, 2.0, -1.0, 2.0, 1.0].iter().map(|l| l.to_bits()).collect();
        let ids = |top| logprobs(&logits, 3, 2, top).unwrap().top.into_iter().map(|t| t.0).collect::<Vec<_>>();
        assert_eq!(ids(0), [0u32; 0]);
        assert_eq!(ids(3), [1, 3, 4]);
        assert_eq!(ids(9), [1, 3, 4, 0, 2]);
        let found = logprobs(&logits, 3, 2, 1).unwrap();
        assert_eq!(found.chosen.0, log_probability(&logits, 3, 2).unwrap());
        assert_eq!(found.top[0].1.0, log_probability(&logits, 3, 1).unwrap());
    }
}
