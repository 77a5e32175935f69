//! Generation for a static batch of requests.
//!
//! Rule `static/1`: every unfinished request takes part in every step, in the order given: with its last token if its prompt is
//! done, otherwise with the next chunk of its prompt. A chunk is at most `chunk` tokens and what the row limit leaves after one
//! row for each decoding request; a prompt with no room waits. No clock and no thread has a say, so the schedule is a function of
//! the requests.

use crate::error::{Error, Result};
use crate::kernels::PAGE;
use crate::kv::Slot;
use crate::policy::{Dispatch, Shape};
use crate::runtime::Engine;
use crate::sampler::{Choice, Sampling};
use crate::step::{Group, Logits, Observe, Row, StepOutput, StepPlan};

/// Identifier of the scheduling rule, for records.
pub const SCHEDULER: &str = "static/1";

/// A request to serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Prompt ids, special tokens included; at least one.
    pub prompt: Vec<u32>,
    /// Most tokens to choose; at least one.
    pub max_new_tokens: u32,
    /// How they are chosen.
    pub sampling: Sampling,
    /// Ids that end generation.
    pub stop: Vec<u32>,
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A stop id was chosen.
    Stop,
    /// `max_new_tokens` were chosen.
    Length,
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

/// Prompt positions, or a token chosen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A prompt or a chunk of one.
    Prefill,
    /// One token.
    Decode,
}

/// One step as it happened; slices run parallel to the groups of the plan.
#[derive(Clone, Copy, Debug)]
pub struct StepLog<'a> {
    /// Counts the batch's steps from 0.
    pub index: u64,
    /// What ran.
    pub plan: &'a StepPlan,
    /// Index of each group's request.
    pub requests: &'a [usize],
    /// What each group is.
    pub kinds: &'a [Kind],
    /// What came out.
    pub output: &'a StepOutput,
    /// The token emitted from each group's last row, where one was.
    pub emitted: &'a [Option<u32>],
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

    /// The token to emit; `choice` is what the request's sampling says.
    fn emit(&mut self, request: usize, position: u32, choice: Choice) -> u32 {
        let _ = (request, position);
        choice.token
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

struct Active {
    slot: Slot,
    /// Tokens fed to the engine.
    fed: u32,
    output: Vec<u32>,
    finish: Option<Finish>,
}

/// Serves a batch to its end.
///
/// # Errors
/// [`Error::Request`] for a request that cannot be served, [`Error::CacheFull`] before the first step if the cache cannot hold the
/// batch, [`Error::Observer`], and whatever a step can fail with. Slots are given back in every case.
pub fn generate(
    engine: &mut Engine,
    requests: &[Request],
    options: &BatchOptions,
    operator: &mut dyn Operator,
) -> Result<Vec<Outcome>> {
    check(engine, requests, options)?;
    let mut active = Vec::new();
    let result = requests
        .iter()
        .try_for_each(|_| {
            active.push(Active { slot: engine.open()?, fed: 0, output: Vec::new(), finish: None });
            Ok(())
        })
        .and_then(|()| run(engine, requests, options, operator, &mut active));
    for a in &active {
        engine.close(a.slot)?;
    }
    result?;
    Ok(active.into_iter().map(|a| Outcome { output: a.output, finish: a.finish.unwrap_or(Finish::Length) }).collect())
}

fn check(engine: &Engine, requests: &[Request], options: &BatchOptions) -> Result<()> {
    let config = &engine.model().config;
    if options.chunk == Some(0) {
        return Err(Error::Plan { detail: "a chunk of 0 tokens".into() });
    }
    let mut pages = 0u64;
    for (index, request) in requests.iter().enumerate() {
        let refuse = |detail: String| Err(Error::Request { index, detail });
        let positions = request.prompt.len() as u64 + u64::from(request.max_new_tokens) - 1;
        if request.prompt.is_empty() || request.max_new_tokens == 0 {
            return refuse("it needs at least one prompt token and one new token".into());
        }
        if positions > u64::from(config.max_positions) {
            return refuse(format!("it may reach {positions} positions; the model has {}", config.max_positions));
        }
        if let Some(id) = request.prompt.iter().find(|id| **id >= config.vocab_size) {
            return refuse(format!("prompt id {id} is beyond the vocabulary of {}", config.vocab_size));
        }
        request.sampling.check()?;
        pages += positions.div_ceil(u64::from(PAGE));
    }
    let limits = engine.limits();
    if pages > u64::from(limits.pages) {
        return Err(Error::CacheFull { detail: format!("the batch may need {pages} pages of {}", limits.pages) });
    }
    if requests.len() > limits.max_rows as usize {
        return Err(Error::Plan { detail: format!("{} requests, {} rows a step", requests.len(), limits.max_rows) });
    }
    Ok(())
}

fn run(
    engine: &mut Engine,
    requests: &[Request],
    options: &BatchOptions,
    operator: &mut dyn Operator,
    active: &mut [Active],
) -> Result<()> {
    let mut observe = options.observe.clone();
    observe.logits |= requests.iter().any(|r| matches!(r.sampling, Sampling::Seeded(_)));
    for index in 0.. {
        let (who, groups) = next_groups(requests, active, options.chunk, engine.limits().max_rows);
        if groups.is_empty() {
            break;
        }
        let shape = StepPlan::shape(&groups);
        let dispatch = operator.dispatch(shape, engine.dispatch(shape));
        let plan = StepPlan { groups, dispatch, observe: observe.clone() };
        let kinds: Vec<Kind> = who.iter().map(|r| kind(&requests[*r], &active[*r])).collect();
        let output = engine.step(&plan)?;
        let mut emitted = Vec::with_capacity(who.len());
        let mut end = 0;
        for (group, request) in plan.groups.iter().zip(&who) {
            end += group.tokens.len();
            let a = &mut active[*request];
            a.fed += group.tokens.len() as u32;
            emitted.push(match group.logits {
                Logits::None => None,
                _ => Some(emit(&requests[*request], *request, a, &output.rows[end - 1], operator)?),
            });
        }
        let log = StepLog { index, plan: &plan, requests: &who, kinds: &kinds, output: &output, emitted: &emitted };
        operator.step(&log).map_err(Error::Observer)?;
    }
    Ok(())
}

fn kind(request: &Request, a: &Active) -> Kind {
    if (a.fed as usize) < request.prompt.len() { Kind::Prefill } else { Kind::Decode }
}

/// The groups of the next step and whose they are; none when all requests have ended.
fn next_groups(requests: &[Request], active: &[Active], chunk: Option<u32>, max_rows: u32) -> (Vec<usize>, Vec<Group>) {
    let running = || requests.iter().zip(active).enumerate().filter(|(_, (_, a))| a.finish.is_none());
    let decoding = running().filter(|(_, (r, a))| kind(r, a) == Kind::Decode).count();
    let mut room = max_rows as usize - decoding;
    let (mut who, mut groups) = (Vec::new(), Vec::new());
    for (index, (request, a)) in running() {
        let fed = a.fed as usize;
        let (tokens, logits) = match kind(request, a) {
            Kind::Decode => (a.output[fed - request.prompt.len()..].to_vec(), Logits::Last),
            Kind::Prefill => {
                let left = request.prompt.len() - fed;
                let take = left.min(chunk.unwrap_or(u32::MAX) as usize).min(room);
                room -= take;
                let logits = if take == left { Logits::Last } else { Logits::None };
                (request.prompt[fed..fed + take].to_vec(), logits)
            }
        };
        if !tokens.is_empty() {
            who.push(index);
            groups.push(Group { slot: a.slot, start: a.fed, tokens, logits });
        }
    }
    (who, groups)
}

/// Chooses and emits the token that follows a row.
fn emit(request: &Request, index: usize, a: &mut Active, row: &Row, operator: &mut dyn Operator) -> Result<u32> {
    let position = row.position + 1;
    let choice = match (&request.sampling, row.top2, &row.logits) {
        (Sampling::Greedy, Some(top), _) => {
            let (first, second) = (f32::from_bits(top.first_bits), f32::from_bits(top.second_bits));
            if !first.is_finite() {
                return Err(Error::BadLogits { position, bits: top.first_bits });
            }
            let margin = f64::from(first) - f64::from(second);
            Choice { token: top.first, runner_up: Some(top.second), margin }
        }
        (sampling, _, Some(logits)) => sampling.choose(logits, position)?,
        _ => return Err(Error::Plan { detail: format!("request {index} was to choose from a row without logits") }),
    };
    let token = operator.emit(index, position, choice);
    a.output.push(token);
    if request.stop.contains(&token) {
        a.finish = Some(Finish::Stop);
    } else if a.output.len() == request.max_new_tokens as usize {
        a.finish = Some(Finish::Length);
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(prompt: u32) -> Request {
        Request { prompt: (0..prompt).collect(), max_new_tokens: 4, sampling: Sampling::Greedy, stop: vec![] }
    }

    fn active(slot: u32, fed: u32, output: &[u32]) -> Active {
        Active { slot: Slot(slot), fed, output: output.to_vec(), finish: None }
    }

    #[test]
    fn chunks_fill_what_decoding_leaves() {
        let requests = [request(10), request(3), request(9), request(2)];
        let mut state = [active(0, 4, &[]), active(1, 3, &[77]), active(2, 0, &[]), active(3, 0, &[])];
        let sizes = |(who, groups): (Vec<usize>, Vec<Group>)| -> Vec<(usize, u32, usize, Logits)> {
            who.into_iter().zip(groups).map(|(r, g)| (r, g.start, g.tokens.len(), g.logits)).collect()
        };
        // Row limit 8: one row for the decoding request, then 4 + 3, and nothing for the last prompt.
        let step = sizes(next_groups(&requests, &state, Some(4), 8));
        assert_eq!(step, [(0, 4, 4, Logits::None), (1, 3, 1, Logits::Last), (2, 0, 3, Logits::None)]);
        // Whole prompts.
        let step = sizes(next_groups(&requests, &state, None, 100));
        let all = [(0, 4, 6, Logits::Last), (1, 3, 1, Logits::Last), (2, 0, 9, Logits::Last), (3, 0, 2, Logits::Last)];
        assert_eq!(step, all);
        for a in &mut state {
            a.finish = Some(Finish::Length);
        }
        assert!(next_groups(&requests, &state, None, 100).1.is_empty());
    }
}
