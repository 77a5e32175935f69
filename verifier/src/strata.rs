//! Kinds of records in which cheating pays or bugs hide: a challenge draws from each of them beside its uniform sample.
//!
//! Source: `docs/spec/audit-result.md`, *Sampling*. Membership follows from the committed record alone, so it is fixed before the beacon is known.

use record::Record;
use record::inference::{Event, Finish, GREEDY};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stratum {
    /// A request begins with columns that another one computed.
    CacheHit,
    /// A prompt is computed over several steps.
    Chunked,
    /// It has the step with the most rows of all.
    LargestStep,
    /// It has a step with the fewest rows of all.
    SmallestStep,
    /// A request ends by its stop token.
    Stopped,
    /// A request uses another sampler than greedy choice.
    Sampled,
}

impl Stratum {
    /// All, in the order in which they are drawn.
    pub const ALL: [Self; 6] =
        [Self::CacheHit, Self::Chunked, Self::LargestStep, Self::SmallestStep, Self::Stopped, Self::Sampled];

    /// The stored name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CacheHit => "cache hit",
            Self::Chunked => "chunk boundary",
            Self::LargestStep => "largest step",
            Self::SmallestStep => "smallest step",
            Self::Stopped => "stop token",
            Self::Sampled => "sampler",
        }
    }
}

/// What a sample needs to know of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Rows that are replayed when it is drawn.
    pub cost: u64,
    /// The kinds it is of.
    pub strata: BTreeSet<Stratum>,
    /// Rows of its smallest and of its largest step.
    pub(crate) steps: Option<(u64, u64)>,
}

impl Facts {
    /// Those of one record, by itself.
    pub fn of(record: &Record) -> Self {
        let rows = || record.steps.iter().map(|step| step.schedule.row_count());
        let events = || record.steps.iter().flat_map(|step| &step.schedule.events);
        // Steps in which rows of a prompt are computed, by request.
        let mut prompt_steps: BTreeMap<u32, u32> = BTreeMap::new();
        for group in record.steps.iter().flat_map(|step| &step.schedule.rows) {
            let prompt = record.requests.get(group.request as usize).map_or(0, |request| request.prompt.len());
            if (group.start as usize) < prompt {
                *prompt_steps.entry(group.request).or_default() += 1;
            }
        }
        let kinds = [
            (
                Stratum::CacheHit,
                events().any(|event| matches!(event, Event::Admit { cached, .. } if !cached.is_empty())),
            ),
            (Stratum::Chunked, prompt_steps.values().any(|steps| *steps > 1)),
            (Stratum::Stopped, record.requests.iter().any(|request| request.finish == Finish::Stop)),
            (Stratum::Sampled, record.requests.iter().any(|request| request.decode.sampler != GREEDY)),
        ];
        Self {
            cost: rows().sum(),
            strata: kinds.into_iter().filter(|(_, is)| *is).map(|(stratum, _)| stratum).collect(),
            steps: rows().min().zip(rows().max()),
        }
    }

    /// Completes the facts of a whole log: records that are audited as one cost what all of them cost, and the extremes are those of the log.
    pub fn complete(facts: &mut [Self], runs: &[Range<usize>]) {
        for run in runs {
            let cost: u64 = facts.get(run.clone()).unwrap_or_default().iter().map(|f| f.cost).sum();
            for f in facts.get_mut(run.clone()).unwrap_or_default() {
                f.cost = cost;
            }
        }
        let smallest = facts.iter().filter_map(|f| f.steps).map(|(least, _)| least).min();
        let largest = facts.iter().filter_map(|f| f.steps).map(|(_, most)| most).max();
        for f in facts {
            let Some((least, most)) = f.steps else { continue };
            f.strata.extend((Some(least) == smallest).then_some(Stratum::SmallestStep));
            f.strata.extend((Some(most) == largest).then_some(Stratum::LargestStep));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_extremes_and_runs_share_their_cost() {
        let of = |cost, least, most| Facts { cost, steps: Some((least, most)), ..Facts::default() };
        let mut all = [of(5, 1, 3), of(7, 2, 4), of(1, 1, 1), Facts::default()];
        Facts::complete(&mut all, &[0..2, 2..3, 3..4]);
        assert_eq!(all.each_ref().map(|f| f.cost), [12, 12, 1, 0]);
        let small = |f: &Facts| f.strata.contains(&Stratum::SmallestStep);
        let large = |f: &Facts| f.strata.contains(&Stratum::LargestStep);
        assert_eq!(
            all.each_ref().map(|f| (small(f), large(f))),
            [(true, false), (false, true), (true, false), (false, false)]
        );
    }
}
