//! An operator's work: serve a batch, write the record, hand out receipts.

use anyhow::Context as _;
use engine::Engine;
use engine::batch::{Operator, OperatorError, Outcome, Request, StepLog};
use engine::gated::Judged;
use engine::journal::{Asked, Identity, Journal};
use engine::policy::{Dispatch, Shape};
use engine::sampler::Choice;
use engine::scheduler::RequestKey;
use engine::scores::{Scores, Wanted};
use engine::step::Observe;
use record::inference::Time;
use record::log::Ack;
use record::{EvidenceLevel, F32Bits, Fact, Log, Record};

use crate::source::now_unix_us;

/// What is committed, and whether the tensors are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Evidence {
    /// Commit to logits, K/V columns and layer borders; keep nothing
    None,
    /// Commit to the same and keep the tensors
    S,
    /// Commit to every operation's result and keep the tensors
    A,
}

impl Evidence {
    /// Level of the leaves.
    pub fn level(self) -> EvidenceLevel {
        match self {
            Evidence::None | Evidence::S => EvidenceLevel::S,
            Evidence::A => EvidenceLevel::A,
        }
    }

    /// What steps must bring back for it.
    pub fn observe(self) -> Observe {
        match self.level() {
            EvidenceLevel::S => Observe::STATE,
            EvidenceLevel::A => Observe::ACTIVATIONS,
        }
    }
}

/// A request as the record will state it.
pub type Declared = (Asked, Request);

/// A journal that continues `log`. Records call request number `i` of the session `prefix` and `i`.
pub fn journal(engine: &Engine, log: &Log, prefix: &str, evidence: Evidence) -> Journal {
    let journal = Journal::new(engine, evidence.level(), prefix, log.next().chain);
    if evidence == Evidence::None { journal } else { journal.keeping_evidence() }
}

/// Log-probabilities of a request, where they are wanted.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// Of the tokens chosen.
    pub output: Option<Vec<F32Bits>>,
    /// Of the prompt's tokens but the first.
    pub prompt: Option<Vec<F32Bits>>,
}

/// An operator that also keeps log-probabilities.
pub struct Scored<O> {
    /// The operator.
    pub operator: O,
    /// By request.
    pub values: Vec<Values>,
    scores: Scores,
}

impl<O> Scored<O> {
    /// For a batch; `output`: those of chosen tokens are wanted.
    pub fn new(operator: O, output: bool, batch: &[Request]) -> Self {
        let (mut scores, mut values) = (Scores::default(), Vec::new());
        for (key, request) in (0..).zip(batch) {
            let prompt = request.prompt_logprobs.then(|| (0, request.prompt.clone()));
            values.push(Values { output: output.then(Vec::new), prompt: prompt.as_ref().map(|_| Vec::new()) });
            scores.want(key, Wanted { output: output.then_some(0), prompt });
        }
        Self { operator, values, scores }
    }
}

impl<O: Operator> Operator for Scored<O> {
    fn dispatch(&mut self, shape: Shape, policy: Dispatch) -> Dispatch {
        self.operator.dispatch(shape, policy)
    }

    fn emit(&mut self, request: RequestKey, position: u32, choice: Choice) -> u32 {
        self.operator.emit(request, position, choice)
    }

    fn judge(&mut self, request: RequestKey, position: u32, judged: Judged) -> Judged {
        self.operator.judge(request, position, judged)
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        self.operator.step(step)?;
        self.scores.step(step)?;
        for (key, score) in &self.scores.chosen {
            if let Some(all) = self.values.get_mut(*key as usize).and_then(|v| v.output.as_mut()) {
                all.push(score.token);
            }
        }
        for (key, more) in &self.scores.prompt {
            if let Some(all) = self.values.get_mut(*key as usize).and_then(|v| v.prompt.as_mut()) {
                all.extend(more.iter().map(|s| s.token));
            }
        }
        Ok(())
    }
}

/// Writes the record of a batch and its receipts. When this returns they are on disk. `values` may be shorter than the batch.
pub fn commit(
    log: &mut Log,
    mut journal: Journal,
    identity: &Identity,
    declared: &[Declared],
    outcomes: &[Outcome],
    values: &[Values],
    started_unix_us: u64,
) -> anyhow::Result<(Ack, Record)> {
    let stated = |key: u64| {
        let (asked, request) = &declared[key as usize];
        let mut stated = engine::journal::request(asked, request, &outcomes[key as usize]);
        if let Some(values) = values.get(key as usize) {
            (stated.logprobs, stated.prompt_logprobs) = (values.output.clone(), values.prompt.clone());
        }
        stated
    };
    let ended = now_unix_us();
    let time = Fact::Known(Time { start_unix_us: started_unix_us, end_unix_us: ended });
    let (record, evidence) = journal.to_record(identity.clone(), stated, log.next().link, time);
    let ack = log.append(&record, ended).context("appending the record; nothing of it counts as logged")?;
    log.issue_receipts(&ack, &record, record.evidence.into(), ended).context("issuing receipts")?;
    if let Some(mut evidence) = evidence {
        evidence.record = ack.record;
        log.put_evidence(&evidence).context("storing evidence")?;
    }
    Ok((ack, record))
}

/// The seed of a request by the engine's derivation, which the operator cannot steer: the client chose the nonce.
pub fn derived_seed(asked: &Asked, log: &Log) -> anyhow::Result<u64> {
    Ok(engine::journal::derived_seed(asked.nonce.as_deref(), &log.next().link.key_id, &asked.id)?)
}
