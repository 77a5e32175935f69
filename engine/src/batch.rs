//! Requests, what came of them, and who watches; and generation for requests that are all there from the start.

use crate::error::{Error, Result};
use crate::gated::Judged;
use crate::policy::{Dispatch, Shape};
use crate::runtime::Engine;
use crate::sampler::{Adjust, Choice, Past, Sampling};
use crate::scheduler::{Event, RequestKey, Settings, Turn};
use crate::session::{self, Session};
use crate::step::{Observe, StepOutput, StepPlan};

/// A request to serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Prompt ids, special tokens included; at least one.
    pub prompt: Vec<u32>,
    /// Most tokens to choose; at least one.
    pub max_new_tokens: u32,
    /// How they are chosen.
    pub sampling: Sampling,
    /// What is done to logits before that.
    pub adjust: Adjust,
    /// Prompt rows get logits, so that the log-probabilities of the prompt's tokens are known.
    pub prompt_logprobs: bool,
    /// Ids that end generation.
    pub stop: Vec<u32>,
    /// Texts that end generation: with the first token after which the text of all new tokens has one of them. In records, hence in
    /// normal form C.
    pub stop_strings: Vec<String>,
    /// Larger goes first; 0 is usual.
    pub priority: i32,
    /// Whose request it is: clients of one priority get equal shares.
    pub client: u32,
}

impl Request {
    /// A greedy request of ordinary priority without stop ids.
    pub fn new(prompt: Vec<u32>, max_new_tokens: u32) -> Self {
        Self {
            prompt,
            max_new_tokens,
            sampling: Sampling::Greedy,
            adjust: Adjust::default(),
            prompt_logprobs: false,
            stop: Vec::new(),
            stop_strings: Vec::new(),
            priority: 0,
            client: 0,
        }
    }

    /// Whole rows of logits are looked at, not only the top two.
    pub(crate) fn needs_logits(&self) -> bool {
        self.chooses_from_logits() || self.prompt_logprobs
    }

    /// Its tokens are chosen from whole rows of logits.
    pub(crate) fn chooses_from_logits(&self) -> bool {
        matches!(self.sampling, Sampling::Seeded(_)) || !self.adjust.is_off()
    }

    /// Chooses the token for `position` after `output`, from whole logits.
    pub(crate) fn choose(&self, output: &[u32], logits: &[u32], position: u32) -> Result<Choice> {
        let past = Past { prompt: &self.prompt, output };
        self.sampling.choose_adjusted(&self.adjust, logits, past, position)
    }
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A stop id was chosen, or the text came to a stop string.
    Stop,
    /// `max_new_tokens` were chosen.
    Length,
    /// It was withdrawn.
    Cancelled,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Every token chosen, a stop id included. The last was never fed back.
    pub output: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
}

/// How a batch runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Most prompt tokens of one request in one step; none for whole prompts.
    pub chunk: Option<u32>,
    /// What each step brings back. Logits are added when a request is sampled with a seed.
    pub observe: Observe,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self { chunk: None, observe: Observe::TOKENS }
    }
}

/// One step as it happened; the last three slices run parallel to the groups of the plan.
#[derive(Clone, Copy, Debug)]
pub struct StepLog<'a> {
    /// Counts the session's steps from 0.
    pub index: u64,
    /// What happened to requests since the step before.
    pub events: &'a [Event],
    /// What ran.
    pub plan: &'a StepPlan,
    /// What came out.
    pub output: &'a StepOutput,
    /// Whose each group is, and why it ran.
    pub turns: &'a [Turn],
    /// The token emitted from each group's last row, where one was.
    pub emitted: &'a [Option<u32>],
    /// What the gate decided for each group's last row, where there is a gate and the row has logits.
    pub gate: &'a [Option<record::inference::RowGate>],
    /// Rows that the step was padded to.
    pub padded_rows: u32,
}

/// The failure of an [`Operator`].
pub type OperatorError = Box<dyn std::error::Error + Send + Sync>;

/// Whoever runs the batch: watches every step, and could interfere. The defaults are those of an honest operator; tests
/// override them to cheat.
pub trait Operator {
    /// The choices to run a step with; `policy` is what the engine's policy says.
    fn dispatch(&mut self, shape: Shape, policy: Dispatch) -> Dispatch {
        let _ = shape;
        policy
    }

    /// Runs a step.
    ///
    /// # Errors
    /// Those of [`Engine::step`].
    fn run(&mut self, engine: &mut Engine, plan: &StepPlan) -> Result<StepOutput> {
        engine.step(plan)
    }

    /// The token to emit; `choice` is what the request's sampling says.
    fn emit(&mut self, request: RequestKey, position: u32, choice: Choice) -> u32 {
        let _ = (request, position);
        choice.token
    }

    /// What a gate is to think of a row; `judged` is what the row says. Benchmarks override it to inject mismatches.
    fn judge(&mut self, request: RequestKey, position: u32, judged: Judged) -> Judged {
        let _ = (request, position);
        judged
    }

    /// Called after every step.
    ///
    /// # Errors
    /// Whatever goes wrong; it stops the batch.
    fn step(&mut self, step: &StepLog<'_>) -> std::result::Result<(), OperatorError>;
}

/// An honest operator who keeps no log.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Operator for NoLog {
    fn step(&mut self, _: &StepLog<'_>) -> std::result::Result<(), OperatorError> {
        Ok(())
    }
}

/// Serves requests that all arrive at once, to the end of each.
///
/// # Errors
/// [`Error::Request`] for a request that cannot be served, [`Error::CacheFull`] before the first step if the cache cannot hold them
/// all at once, [`Error::Observer`], and whatever a step can fail with.
pub fn generate(
    engine: &mut Engine,
    requests: &[Request],
    options: &BatchOptions,
    operator: &mut dyn Operator,
) -> Result<Vec<Outcome>> {
    check(engine, requests)?;
    let max_rows = engine.limits().max_rows;
    let mut session =
        Session::new(engine, Settings { chunk: options.chunk, ..Settings::plain(max_rows) }, options.observe.clone())?;
    for request in requests {
        session.submit(request.clone())?;
    }
    let mut outcomes = vec![None; requests.len()];
    while let Some(progress) = session.step(operator)? {
        for (key, outcome) in progress.ended {
            outcomes[key as usize] = Some(outcome);
        }
    }
    let missing = || Error::Plan { detail: "a request was left without an end".into() };
    outcomes.into_iter().map(|o| o.ok_or_else(missing)).collect()
}

/// Can the engine hold all of them at once?
fn check(engine: &Engine, requests: &[Request]) -> Result<()> {
    let mut pages = 0u64;
    for (index, request) in requests.iter().enumerate() {
        session::check(engine, index, request)?;
        pages += session::most_pages(request);
    }
    let limits = engine.limits();
    if pages > u64::from(limits.pages) {
        return Err(Error::CacheFull { detail: format!("the batch may need {pages} pages of {}", limits.pages) });
    }
    if requests.len() > limits.slots as usize {
        return Err(Error::CacheFull { detail: format!("{} requests, {} slots", requests.len(), limits.slots) });
    }
    Ok(())
}
