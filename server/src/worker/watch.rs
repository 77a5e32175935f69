//! Watches the session's steps: seals them, and keeps what a connection asked to hear of them.

use engine::batch::{Operator, OperatorError, StepLog};
use engine::fault::Faults;
use engine::journal::Journal;
use engine::policy::Shape;
use engine::sampler::Choice;
use engine::scheduler::{Event, RequestKey};
use engine::scores::Scores;
use engine::step::{StepOutput, StepPlan};
use engine::{Dispatch, Engine};

/// The operator of a served session.
pub(super) struct Watch {
    /// Seals steps; none when nothing is logged.
    pub journal: Option<Journal>,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// Log-probabilities of requests that want them.
    pub scores: Scores,
    /// Cancellations that a step has stated and nobody has taken note of.
    pub cancelled: Vec<RequestKey>,
    /// Rows of the last step.
    pub rows: u64,
}

impl Watch {
    pub fn new(journal: Option<Journal>, faults: Faults) -> Self {
        Self { journal, faults, scores: Scores::default(), cancelled: Vec::new(), rows: 0 }
    }
}

impl Operator for Watch {
    fn dispatch(&mut self, shape: Shape, policy: Dispatch) -> Dispatch {
        self.faults.dispatch(shape, policy)
    }

    fn run(&mut self, engine: &mut Engine, plan: &StepPlan) -> engine::Result<StepOutput> {
        self.faults.run(engine, plan)
    }

    fn emit(&mut self, _: RequestKey, _: u32, choice: Choice) -> u32 {
        self.faults.emit(choice)
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        if let Some(journal) = &mut self.journal {
            journal.push(step)?;
        }
        self.rows = step.output.rows.len() as u64;
        self.cancelled.extend(step.events.iter().filter_map(|e| match e {
            Event::Cancel { request } => Some(*request),
            _ => None,
        }));
        Ok(self.scores.step(step)?)
    }
}
