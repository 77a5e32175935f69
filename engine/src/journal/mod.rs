//! From what the engine did to what a record says, and back.
//!
//! [`Journal`] watches a session and keeps one sealed step for each engine step until a record is made of them; [`model`], [`text`] and
//! [`stack`] state what ran; [`request`] states what was asked and what came out. The way back, for replay: [`dispatch`] and [`sampling`] turn a record's words into the
//! engine's, refusing every word the engine does not know.

mod evidence;
mod identity;
mod requests;
mod schedule;

pub use evidence::{RowShapes, evidence, leaf};
pub use identity::{ENGINE_NAME, GGUF_BLOCKS, NUMERICS_REVISION, model, parallelism, stack, text};
pub use requests::{Asked, decode, derived_seed, request, sampling, unfinished};
pub use schedule::{dispatch, kernel_table, schedule, scheduler};

use self::schedule::kind;

use record::inference::{ChainSpan, Link, RECORD_TYPE, Step, Time};
use record::{Digest, Evidence, EvidenceLevel, Fact, Record};

use crate::batch::{Operator, OperatorError, StepLog};
use crate::error::Result;
use crate::runtime::{Engine, Launches};
use crate::scheduler::{RequestKey, Settings};

/// Seals the steps of a session as they happen.
#[derive(Clone, Debug)]
pub struct Journal {
    launches: Launches,
    shapes: RowShapes,
    level: EvidenceLevel,
    /// A request's id in records is this and its key.
    prefix: String,
    /// Requests of the record that is being made, in order of appearance.
    present: Vec<RequestKey>,
    before: Digest,
    chain: Digest,
    next_index: u64,
    steps: Vec<Step>,
    /// The tensors themselves, when they are kept to be opened later.
    opened: Option<Evidence>,
    keeps: bool,
}

impl Journal {
    /// A journal of a session that has not begun. In records a request's id is `prefix` and its key in decimal. `before` is the log's
    /// chain value so far.
    pub fn new(engine: &Engine, level: EvidenceLevel, prefix: impl Into<String>, before: Digest) -> Self {
        let shapes = RowShapes::of(&engine.model().config);
        Self {
            launches: engine.launches(),
            shapes,
            level,
            prefix: prefix.into(),
            present: Vec::new(),
            before,
            chain: before,
            next_index: 0,
            steps: Vec::new(),
            opened: None,
            keeps: false,
        }
    }

    /// Keeps every tensor that the leaves commit to, for an evidence file. An operator who can repeat the computation need not.
    #[must_use]
    pub fn keeping_evidence(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// What records call a request.
    pub fn id(&self, request: RequestKey) -> String {
        format!("{}{request}", self.prefix)
    }

    /// Adds a step.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record), for instance when the step did not bring back what the level commits to.
    pub fn push(&mut self, step: &StepLog<'_>) -> Result<()> {
        let mut leaves = Vec::with_capacity(step.output.rows.len());
        if self.keeps && self.opened.is_none() {
            self.opened = Some(Evidence::new(self.before, self.level));
        }
        for (index, row) in step.output.rows.iter().enumerate() {
            let next = step.output.rows.get(index + 1);
            let last_of_group = next.is_none_or(|n| n.group != row.group);
            let chosen = if last_of_group { step.emitted[row.group] } else { None };
            let left = evidence(&self.shapes, step.output, index, self.level)?;
            leaves.push(leaf(&self.id(step.turns[row.group].request), row, chosen, &left.components()?));
            if let Some(opened) = &mut self.opened {
                opened.add_row(self.next_index, index as u32, &left)?;
            }
        }
        let events = step.events.iter().map(|e| self.event(e)).collect();
        let mut rows = Vec::with_capacity(step.turns.len());
        for (group, turn) in step.plan.groups.iter().zip(step.turns) {
            let count = group.tokens.len() as u32;
            rows.push(record::inference::Rows {
                request: self.index(turn.request),
                start: group.start,
                count,
                kind: kind(turn.kind),
                logits: group.logits.count(count),
                gate: step.gate.get(rows.len()).copied().flatten(),
            });
        }
        let schedule = schedule(&self.launches, events, rows, step.padded_rows, &step.plan.dispatch);
        let sealed = record::commit::seal(self.next_index, schedule, leaves, &self.chain)?;
        self.next_index += 1;
        self.chain = sealed.chain;
        self.steps.push(sealed);
        Ok(())
    }

    /// Steps sealed and not yet in a record.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Mentions a request in the record that is being made, though no step may.
    pub fn mention(&mut self, request: RequestKey) {
        self.index(request);
    }

    /// There is nothing to make a record of.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// Makes a record of the steps so far, and begins the next one after them. `state` says of each request what was asked and what came out so
    /// far; `opened` are the tensors that [`Journal::keeping_evidence`] kept, to be filed under the digest of the record.
    pub fn to_record(
        &mut self,
        identity: Identity,
        state: impl FnMut(RequestKey) -> record::inference::Request,
        link: Link,
        time: Fact<Time>,
    ) -> (Record, Option<Evidence>) {
        let record = Record {
            kind: RECORD_TYPE.to_owned(),
            model: identity.model,
            text: identity.text,
            stack: identity.stack,
            parallelism: Fact::Known(identity.parallelism),
            requests: std::mem::take(&mut self.present).into_iter().map(state).collect(),
            steps: std::mem::take(&mut self.steps),
            chain: ChainSpan { before: self.before, after: self.chain },
            evidence: self.level,
            time,
            link,
        };
        self.before = self.chain;
        (record, self.opened.take())
    }

    /// The place of a request in the record that is being made.
    fn index(&mut self, request: RequestKey) -> u32 {
        let known = self.present.iter().position(|r| *r == request);
        known.unwrap_or_else(|| {
            self.present.push(request);
            self.present.len() - 1
        }) as u32
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
    /// How layers are divided.
    pub parallelism: record::inference::Parallelism,
}

impl Identity {
    /// The identity of an engine that serves by these settings.
    ///
    /// # Errors
    /// [`Error::Tokenizer`](crate::Error::Tokenizer) if the tokenizer cannot say what it adds.
    pub fn of(engine: &Engine, settings: Settings) -> Result<Self> {
        Ok(Self {
            model: model(engine.model()),
            text: text(engine.model(), false)?,
            stack: stack(engine, settings)?,
            parallelism: parallelism(engine.division()),
        })
    }
}
