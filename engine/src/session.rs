//! An engine at work: requests come and go while it runs, one step after another.

use std::collections::BTreeMap;

use crate::batch::{Finish, Operator, Outcome, Request, StepLog};
use crate::error::{Error, Result};
use crate::kernels::PAGE;
use crate::runtime::Engine;
use crate::sampler::Choice;
use crate::scheduler::{Arrival, Copy, Event, RequestKey, Scheduler, Settings};
use crate::step::{Group, Observe, Row, StepPlan};

/// Serves requests on an engine by the rule [`SCHEDULER`](crate::scheduler::SCHEDULER).
pub struct Session<'e> {
    engine: &'e mut Engine,
    scheduler: Scheduler,
    observe: Observe,
    jobs: BTreeMap<RequestKey, Job>,
    /// Pages of preempted requests.
    swapped: BTreeMap<RequestKey, Vec<u8>>,
    steps: u64,
}

struct Job {
    request: Request,
    output: Vec<u32>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.engine.kv_mut().reset();
    }
}

/// What a step did for the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Tokens chosen, in batch order.
    pub chosen: Vec<(RequestKey, u32)>,
    /// Requests that ended, with all that came of them.
    pub ended: Vec<(RequestKey, Outcome)>,
}

impl<'e> Session<'e> {
    /// A session on an engine that holds no request. Each step brings back what `observe` says; logits are added while a request is
    /// sampled with a seed.
    ///
    /// # Errors
    /// [`Error::Plan`] for settings that do not fit the engine, or if someone holds a slot of it.
    pub fn new(engine: &'e mut Engine, settings: Settings, observe: Observe) -> Result<Self> {
        if settings.max_rows > engine.limits().max_rows {
            let detail = format!("{} rows a step, the engine takes {}", settings.max_rows, engine.limits().max_rows);
            return Err(Error::Plan { detail });
        }
        if engine.kv().open_slots() != engine.limits().slots {
            return Err(Error::Plan { detail: "a session needs an engine to itself; somebody holds a slot".into() });
        }
        engine.kv_mut().reset();
        let scheduler = Scheduler::new(settings, engine.kv())?;
        Ok(Self { engine, scheduler, observe, jobs: BTreeMap::new(), swapped: BTreeMap::new(), steps: 0 })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// Requests with a slot, and requests waiting for one.
    pub fn load(&self) -> (usize, usize) {
        self.scheduler.load()
    }

    /// Takes a request in; [`RequestKey`]s count up from 0.
    ///
    /// # Errors
    /// [`Error::Request`] for a request that cannot be served, [`Error::CacheFull`] if it would not fit the cache alone,
    /// [`Error::Sampling`].
    pub fn submit(&mut self, request: Request) -> Result<RequestKey> {
        check(self.engine, self.jobs.len(), &request)?;
        let key = self.scheduler.arrive(Arrival {
            prompt: request.prompt.clone(),
            max_new_tokens: request.max_new_tokens,
            priority: request.priority,
            client: request.client,
            prompt_logits: request.prompt_logprobs,
        });
        self.jobs.insert(key, Job { request, output: Vec::new() });
        Ok(key)
    }

    /// Withdraws a request; it ends with the next step. False if it has ended already.
    pub fn cancel(&mut self, request: RequestKey) -> bool {
        self.scheduler.cancel(request)
    }

    /// Runs the next step; none when there is nothing to do. After an error the session is of no more use.
    ///
    /// # Errors
    /// [`Error::Observer`], and whatever a step can fail with.
    pub fn step(&mut self, operator: &mut dyn Operator) -> Result<Option<Progress>> {
        let Some(decision) = self.scheduler.next(self.engine.kv_mut())? else {
            return Ok((!self.jobs.is_empty()).then(|| self.sweep()).filter(|p| !p.ended.is_empty()));
        };
        for copy in &decision.copies {
            match copy {
                Copy::Out { request, pages } => {
                    let bytes = self.engine.save_pages(pages)?;
                    self.swapped.insert(*request, bytes);
                }
                Copy::In { request, pages } => {
                    let bytes = self.swapped.remove(request).unwrap_or_default();
                    self.engine.load_pages(pages, &bytes)?;
                }
            }
        }
        let groups: Vec<Group> = decision
            .turns
            .iter()
            .map(|t| Group { slot: t.slot, start: t.start, tokens: t.tokens.clone(), logits: t.logits })
            .collect();
        let mut observe = self.observe.clone();
        observe.logits |= decision.turns.iter().any(|t| self.jobs[&t.request].request.needs_logits());
        let shape = StepPlan::shape(&groups);
        let dispatch = operator.dispatch(shape, self.engine.dispatch(shape));
        let plan = StepPlan { groups, dispatch, observe };
        let output = operator.run(self.engine, &plan)?;

        let mut progress = Progress::default();
        let (mut emitted, mut chosen, mut end) = (Vec::new(), Vec::new(), 0);
        for turn in &decision.turns {
            end += turn.tokens.len();
            let picked = match turn.chooses {
                false => None,
                true => Some(self.emit(turn.request, &output.rows[end - 1], operator)?),
            };
            emitted.push(picked.map(|(token, _)| token));
            chosen.push(picked.map(|(token, finish)| (token, finish.is_some())));
            progress.chosen.extend(picked.map(|(token, _)| (turn.request, token)));
            if let Some((_, Some(finish))) = picked {
                progress.ended.extend(self.end(turn.request, finish));
            }
        }
        self.scheduler.computed(&decision.turns, &chosen, self.engine.kv_mut())?;
        let log = StepLog {
            index: self.steps,
            events: &decision.events,
            turns: &decision.turns,
            plan: &plan,
            output: &output,
            emitted: &emitted,
        };
        operator.step(&log).map_err(Error::Observer)?;
        self.steps += 1;
        let cancelled = decision.events.iter().filter_map(|e| match e {
            Event::Cancel { request } => Some(*request),
            _ => None,
        });
        for request in cancelled.collect::<Vec<_>>() {
            progress.ended.extend(self.end(request, Finish::Cancelled));
        }
        Ok(Some(progress))
    }

    /// Chooses and emits the token that follows a row.
    fn emit(&mut self, key: RequestKey, row: &Row, operator: &mut dyn Operator) -> Result<(u32, Option<Finish>)> {
        let position = row.position + 1;
        let unknown = || Error::Plan { detail: format!("request {key} is not being served") };
        let job = self.jobs.get_mut(&key).ok_or_else(unknown)?;
        let choice = choose(key, job, row, position)?;
        let token = operator.emit(key, position, choice);
        job.output.push(token);
        let tokenizer = &self.engine.model().tokenizer;
        let stops = job.request.stop.contains(&token) || tokenizer.text_has(&job.output, &job.request.stop_strings)?;
        let finish = if stops {
            Some(Finish::Stop)
        } else if job.output.len() == job.request.max_new_tokens as usize {
            Some(Finish::Length)
        } else {
            None
        };
        Ok((token, finish))
    }

    fn end(&mut self, key: RequestKey, finish: Finish) -> Option<(RequestKey, Outcome)> {
        self.swapped.remove(&key);
        self.jobs.remove(&key).map(|job| (key, Outcome { output: job.output, finish }))
    }

    /// Ends every job that the scheduler no longer knows: all that were left were cancelled.
    fn sweep(&mut self) -> Progress {
        let left: Vec<RequestKey> = self.jobs.keys().copied().collect();
        let ended = left.into_iter().filter_map(|key| self.end(key, Finish::Cancelled)).collect();
        Progress { chosen: Vec::new(), ended }
    }
}

fn choose(key: RequestKey, job: &Job, row: &Row, position: u32) -> Result<Choice> {
    match (job.request.chooses_from_logits(), row.top2, &row.logits) {
        (false, Some(top), _) => {
            let (first, second) = (f32::from_bits(top.first_bits), f32::from_bits(top.second_bits));
            if !first.is_finite() {
                return Err(Error::BadLogits { position, bits: top.first_bits });
            }
            let margin = f64::from(first) - f64::from(second);
            Ok(Choice { token: top.first, runner_up: Some(top.second), margin })
        }
        (_, _, Some(logits)) => job.request.choose(&job.output, logits, position),
        _ => Err(Error::Plan { detail: format!("request {key} was to choose from a row without logits") }),
    }
}

/// Can this engine serve the request, were it alone?
pub(crate) fn check(engine: &Engine, index: usize, request: &Request) -> Result<()> {
    let config = &engine.model().config;
    let refuse = |detail: String| Err(Error::Request { index, detail });
    if request.prompt.is_empty() || request.max_new_tokens == 0 {
        return refuse("it needs at least one prompt token and one new token".into());
    }
    let positions = most_positions(request);
    if positions > u64::from(config.max_positions) {
        return refuse(format!("it may reach {positions} positions; the model has {}", config.max_positions));
    }
    if let Some(id) = request.prompt.iter().find(|id| **id >= config.vocab_size) {
        return refuse(format!("prompt id {id} is beyond the vocabulary of {}", config.vocab_size));
    }
    request.sampling.check()?;
    request.adjust.check()?;
    if let Some((id, _)) = request.adjust.bias.iter().find(|(id, _)| *id >= config.vocab_size) {
        return refuse(format!("the logit bias of id {id} is beyond the vocabulary of {}", config.vocab_size));
    }
    let pages = most_pages(request);
    if pages > u64::from(engine.limits().pages) {
        let detail = format!("request {index} may need {pages} pages of {}", engine.limits().pages);
        return Err(Error::CacheFull { detail });
    }
    Ok(())
}

/// Positions that a request may come to hold: the last token is never fed back.
fn most_positions(request: &Request) -> u64 {
    request.prompt.len() as u64 + u64::from(request.max_new_tokens) - 1
}

/// Pages for all positions that a request may come to hold.
pub(crate) fn most_pages(request: &Request) -> u64 {
    most_positions(request).div_ceil(u64::from(PAGE))
}
