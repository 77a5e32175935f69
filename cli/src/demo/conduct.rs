//! How an operator behaves: honestly, or in one of the ways that an audit must see through.

use engine::batch::{Operator, OperatorError, StepLog};
use engine::journal::Journal;
use engine::policy::{Dispatch, Shape};
use engine::sampler::Choice;
use engine::scheduler::{Event, RequestKey, Turn};
use engine::step::{StepOutput, StepPlan};

/// Runs a batch and tells the journal what it likes.
pub struct Conduct {
    /// What will become the record.
    pub journal: Journal,
    /// Requests that the record will state; those after them are served and hidden.
    pub stated: usize,
    /// Attention runs with this many KV ranges, whatever the policy says.
    pub kv_splits: Option<u32>,
    /// The output token of this index of this request is swapped for the runner-up.
    pub swap: Option<(usize, usize)>,
    chosen: Vec<usize>,
    claimed: Option<Dispatch>,
    policy: Box<dyn Fn(Shape) -> Dispatch>,
}

impl Conduct {
    /// Honest conduct. `policy` is what the declared policy would choose for a step.
    pub fn honest(journal: Journal, requests: usize, policy: Box<dyn Fn(Shape) -> Dispatch>) -> Self {
        Self {
            journal,
            stated: requests,
            kv_splits: None,
            swap: None,
            chosen: vec![0; requests],
            claimed: None,
            policy,
        }
    }

    fn states(&self, request: RequestKey) -> bool {
        request < self.stated as RequestKey
    }

    /// What the record will say of a step: only the stated requests, with the dispatch that the policy makes for them.
    fn stated_step(&self, step: &StepLog<'_>) -> Option<Stated> {
        let keep: Vec<usize> = (0..step.turns.len()).filter(|g| self.states(step.turns[*g].request)).collect();
        if keep.is_empty() {
            return None;
        }
        let groups: Vec<_> = keep.iter().map(|g| step.plan.groups[*g].clone()).collect();
        let dispatch = match self.claimed {
            Some(dispatch) if keep.len() == step.turns.len() => dispatch,
            _ => (self.policy)(StepPlan::shape(&groups)),
        };
        let mut rows = Vec::new();
        let mut place = vec![None; step.output.rows.len()];
        for (index, row) in step.output.rows.iter().enumerate() {
            if let Some(group) = keep.iter().position(|g| *g == row.group) {
                place[index] = Some(rows.len());
                rows.push(engine::step::Row { group, ..row.clone() });
            }
        }
        // A tap keeps the rows of hidden requests too; `usize::MAX` is the place of no row.
        let taps = step.output.taps.iter().map(|tap| engine::step::Tap {
            rows: tap.rows.iter().map(|r| place[*r].unwrap_or(usize::MAX)).collect(),
            ..tap.clone()
        });
        Some(Stated {
            plan: StepPlan { groups, dispatch, observe: step.plan.observe.clone() },
            events: step.events.iter().filter(|e| self.states(e.request())).cloned().collect(),
            turns: keep.iter().map(|g| step.turns[*g].clone()).collect(),
            emitted: keep.iter().map(|g| step.emitted[*g]).collect(),
            output: StepOutput { taps: taps.collect(), rows },
        })
    }
}

/// A step as the record will have it.
struct Stated {
    plan: StepPlan,
    events: Vec<Event>,
    turns: Vec<Turn>,
    emitted: Vec<Option<u32>>,
    output: StepOutput,
}

impl Operator for Conduct {
    fn dispatch(&mut self, _: Shape, policy: Dispatch) -> Dispatch {
        self.claimed = Some(policy);
        match self.kv_splits {
            Some(kv_splits) => Dispatch { kv_splits, ..policy },
            None => policy,
        }
    }

    fn emit(&mut self, request: RequestKey, _: u32, choice: Choice) -> u32 {
        let request = request as usize;
        let Some(count) = self.chosen.get_mut(request) else { return choice.token };
        let index = *count;
        *count += 1;
        match (self.swap, choice.runner_up) {
            (Some(swap), Some(other)) if swap == (request, index) => other,
            _ => choice.token,
        }
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        // A step in which only hidden requests ran is not on record at all.
        if let Some(s) = self.stated_step(step) {
            self.journal.push(&StepLog {
                index: step.index,
                plan: &s.plan,
                events: &s.events,
                turns: &s.turns,
                output: &s.output,
                emitted: &s.emitted,
                gate: step.gate,
                padded_rows: s.output.rows.len() as u32,
            })?;
        }
        Ok(())
    }
}
