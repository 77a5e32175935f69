//! From what the engine did to what a record says, and back.
//!
//! [`Journal`] watches a batch and keeps one sealed step for each engine step; [`model`], [`text`] and [`stack`] state what ran; [`request`]
//! states what was asked and what came out. The way back, for replay: [`dispatch`] and [`sampling`] turn a record's words into the
//! engine's, refusing every word the engine does not know.

mod evidence;
mod identity;
mod requests;
mod schedule;

pub use evidence::{RowShapes, evidence, leaf};
pub use identity::{ENGINE_NAME, NUMERICS_REVISION, model, stack, text};
pub use requests::{Asked, decode, derived_seed, request, sampling};
pub use schedule::{dispatch, kernel_table, schedule};

use record::inference::{ChainSpan, Link, RECORD_TYPE, Step, Time};
use record::{Digest, Evidence, EvidenceLevel, Fact, Record};

use crate::batch::{Kind, Operator, OperatorError, StepLog};
use crate::error::Result;
use crate::runtime::{Engine, Launches};

/// Seals the steps of a batch as they happen.
#[derive(Clone, Debug)]
pub struct Journal {
    launches: Launches,
    shapes: RowShapes,
    level: EvidenceLevel,
    requests: Vec<String>,
    before: Digest,
    chain: Digest,
    next_index: u64,
    steps: Vec<Step>,
    /// The tensors themselves, when they are kept to be opened later.
    opened: Option<Evidence>,
}

impl Journal {
    /// A journal of a batch whose requests have these ids, in order. `first_index` and `before` are where the log stands: the
    /// index of the next engine step and the chain value so far.
    pub fn new(engine: &Engine, level: EvidenceLevel, requests: Vec<String>, first_index: u64, before: Digest) -> Self {
        let shapes = RowShapes::of(&engine.model().config);
        let (chain, next_index) = (before, first_index);
        Self {
            launches: engine.launches(),
            shapes,
            level,
            requests,
            before,
            chain,
            next_index,
            steps: Vec::new(),
            opened: None,
        }
    }

    /// Keeps every tensor that the leaves commit to, for an evidence file. An operator who can repeat the computation need not.
    #[must_use]
    pub fn keeping_evidence(mut self) -> Self {
        self.opened = Some(Evidence::new(self.before, self.level));
        self
    }

    /// Adds a step.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record), for instance when the step did not bring back what the level commits to.
    pub fn push(&mut self, step: &StepLog<'_>) -> Result<()> {
        let mut leaves = Vec::with_capacity(step.output.rows.len());
        for (index, row) in step.output.rows.iter().enumerate() {
            let next = step.output.rows.get(index + 1);
            let last_of_group = next.is_none_or(|n| n.group != row.group);
            let chosen = if last_of_group { step.emitted[row.group] } else { None };
            let left = evidence(&self.shapes, step.output, index, self.level)?;
            leaves.push(leaf(&self.requests[step.requests[row.group]], row, chosen, &left.components()?));
            if let Some(opened) = &mut self.opened {
                opened.add_row(self.next_index, index as u32, &left)?;
            }
        }
        let groups: Vec<_> = step.plan.groups.iter().zip(step.requests).zip(step.kinds).collect();
        let rows = groups.iter().map(|((group, request), kind)| record::inference::Rows {
            request: **request as u32,
            start: group.start,
            count: group.tokens.len() as u32,
            kind: match kind {
                Kind::Prefill => record::inference::RowKind::Prefill,
                Kind::Decode => record::inference::RowKind::Decode,
            },
            logits: group.logits.count(group.tokens.len() as u32),
        });
        let schedule = schedule(&self.launches, rows.collect(), &step.plan.dispatch);
        let sealed = record::commit::seal(self.next_index, schedule, leaves, &self.chain)?;
        self.next_index += 1;
        self.chain = sealed.chain;
        self.steps.push(sealed);
        Ok(())
    }

    /// Steps sealed so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Takes the evidence that [`Journal::keeping_evidence`] kept, for the record of this digest.
    pub fn take_evidence(&mut self, record: Digest) -> Option<Evidence> {
        let mut opened = self.opened.take()?;
        opened.record = record;
        Some(opened)
    }

    /// The record of the batch.
    pub fn to_record(
        &self,
        identity: Identity,
        requests: Vec<record::inference::Request>,
        link: Link,
        time: Fact<Time>,
    ) -> Record {
        Record {
            kind: RECORD_TYPE.to_owned(),
            model: identity.model,
            text: identity.text,
            stack: identity.stack,
            parallelism: Fact::Known(record::inference::Parallelism::single()),
            requests,
            steps: self.steps.clone(),
            chain: ChainSpan { before: self.before, after: self.chain },
            evidence: self.level,
            time,
            link,
        }
    }
}

impl Operator for Journal {
    fn step(&mut self, step: &StepLog<'_>) -> std::result::Result<(), OperatorError> {
        Ok(self.push(step)?)
    }
}

/// What ran, as a record states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The model.
    pub model: record::inference::Model,
    /// The tokenizer.
    pub text: record::inference::Text,
    /// Engine, device, kernels.
    pub stack: record::inference::Stack,
}

impl Identity {
    /// The identity of an engine.
    ///
    /// # Errors
    /// [`Error::Tokenizer`](crate::Error::Tokenizer) if the tokenizer cannot say what it adds.
    pub fn of(engine: &Engine) -> Result<Self> {
        Ok(Self { model: model(engine.model()), text: text(engine.model())?, stack: stack(engine)? })
    }
}
