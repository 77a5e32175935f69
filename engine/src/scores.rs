//! Log-probabilities of tokens as a session chooses them, and of the prompts before them, for requests that ask.
//!
//! Specified by `docs/spec/sampling.md`, *Log-probabilities*.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use record::F32Bits;

use crate::batch::StepLog;
use crate::error::{Error, Result};
use crate::sampler::LogSoftmax;
use crate::scheduler::RequestKey;

/// Log-probabilities at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Score {
    /// Of the token that is there.
    pub token: F32Bits,
    /// The most likely tokens, most likely first, lowest id first among equals.
    pub top: Vec<(u32, F32Bits)>,
}

/// What a request wants to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of each token chosen, and of this many most likely ones.
    pub output: Option<u32>,
    /// Of each prompt token but the first, and of this many most likely ones; with the prompt.
    pub prompt: Option<(u32, Vec<u32>)>,
}

/// Watches steps.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    wanted: BTreeMap<RequestKey, Wanted>,
    /// How many values of its prompt each request has had.
    told: BTreeMap<RequestKey, usize>,
    /// Of the tokens that the last step chose.
    pub chosen: BTreeMap<RequestKey, Score>,
    /// Of prompt tokens that the last step came to, in order.
    pub prompt: BTreeMap<RequestKey, Vec<Score>>,
}

impl Scores {
    /// From now on this is wanted of a request.
    pub fn want(&mut self, request: RequestKey, wanted: Wanted) {
        if wanted != Wanted::default() {
            self.wanted.insert(request, wanted);
        }
    }

    /// Nothing is wanted of it any more.
    pub fn forget(&mut self, request: RequestKey) {
        self.wanted.remove(&request);
        self.told.remove(&request);
    }

    /// Looks at a step. A prompt that is computed again, for its request was preempted, is told once.
    ///
    /// # Errors
    /// [`Error::Plan`] if logits that are wanted were not brought back, [`Error::BadLogits`].
    pub fn step(&mut self, step: &StepLog<'_>) -> Result<()> {
        self.chosen.clear();
        self.prompt.clear();
        let missing = || Error::Plan { detail: "log-probabilities are wanted of a row without logits".into() };
        let mut end = 0;
        for (turn, emitted) in step.turns.iter().zip(step.emitted) {
            let begin = end;
            end += turn.tokens.len();
            let Some(wanted) = self.wanted.get(&turn.request) else { continue };
            if let Some((top, prompt)) = &wanted.prompt {
                let told = self.told.entry(turn.request).or_default();
                for row in &step.output.rows[begin..end] {
                    let position = row.position as usize;
                    let Some(next) = prompt.get(position + 1).filter(|_| position == *told) else { continue };
                    let logits = row.logits.as_deref().ok_or_else(missing)?;
                    let score = score(logits, row.position + 1, *next, *top)?;
                    self.prompt.entry(turn.request).or_default().push(score);
                    *told += 1;
                }
            }
            if let (Some(token), Some(top)) = (emitted, wanted.output) {
                let row = &step.output.rows[end - 1];
                let logits = row.logits.as_deref().ok_or_else(missing)?;
                self.chosen.insert(turn.request, score(logits, row.position + 1, *token, top)?);
            }
        }
        Ok(())
    }
}

/// Log-probabilities of a token and of the `top` most likely ones.
fn score(logits: &[u32], position: u32, token: u32, top: u32) -> Result<Score> {
    // First, for it refuses what is not finite: the rest compare.
    let softmax = LogSoftmax::of(logits, position)?;
    let of = |id: u32| Ok::<_, Error>(F32Bits(softmax.at(id)?));
    let own = of(token)?;
    let value = |id: &u32| f32::from_bits(logits[*id as usize]);
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    let before = |a: &u32, b: &u32| value(b).partial_cmp(&value(a)).unwrap_or(Ordering::Equal).then(a.cmp(b));
    let top = (top as usize).min(ids.len());
    if top > 0 && top < ids.len() {
        ids.select_nth_unstable_by(top - 1, before);
    }
    ids.truncate(top);
    ids.sort_by(before);
    let top = ids.into_iter().map(|id| Ok((id, of(id)?))).collect::<Result<_>>()?;
    Ok(Score { token: own, top })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::log_probability;

    #[test]
    fn the_most_likely_come_first_and_lower_ids_before_equals() {
        let logits: Vec<u32> = [0.5f32, 2.0, -1.0, 2.0, 1.0].iter().map(|l| l.to_bits()).collect();
        let ids = |top| score(&logits, 3, 2, top).unwrap().top.into_iter().map(|t| t.0).collect::<Vec<_>>();
        assert_eq!(ids(0), [0u32; 0]);
        assert_eq!(ids(3), [1, 3, 4]);
        assert_eq!(ids(9), [1, 3, 4, 0, 2]);
        let found = score(&logits, 3, 2, 1).unwrap();
        assert_eq!(found.token.0, log_probability(&logits, 3, 2).unwrap());
        assert_eq!(found.top[0].1.0, log_probability(&logits, 3, 1).unwrap());
    }
}
