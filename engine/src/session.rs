//! An engine at work: requests come and go while it runs, one step after another.

use std::collections::BTreeMap;

use margingate::WriteBack;
use record::inference::RowGate;

use crate::batch::{Finish, Operator, Outcome, Request, StepLog};
use crate::error::{Error, Result};
use crate::gated::{Gating, Ran, ReferenceBatch, groups};
use crate::kernels::PAGE;
use crate::policy::{Dispatch, Mode};
use crate::runtime::Engine;
use crate::sampler::Choice;
use crate::scheduler::{Arrival, Copy, Event, RequestKey, Scheduler, Settings, Sharing, Turn};
use crate::step::{Observe, Row, StepOutput, StepPlan};

/// Serves requests on an engine by the rule [`SCHEDULER`](crate::scheduler::SCHEDULER).
pub struct Session<'e> {
    engine: &'e mut Engine,
    scheduler: Scheduler,
    observe: Observe,
    jobs: BTreeMap<RequestKey, Job>,
    /// Pages of preempted requests.
    swapped: BTreeMap<RequestKey, Vec<u8>>,
    steps: u64,
    gating: Option<Gating>,
}

struct Job {
    request: Request,
    output: Vec<u32>,
}

/// The token of a turn, if it has one, and whether its request ends with it.
type Decided = Option<(u32, bool)>;

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
    /// Running requests of which a token was committed below the threshold of a gate that has just risen, because a probe found a miss.
    pub unverified: Vec<RequestKey>,
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
        let gating = Gating::of(engine)?;
        engine.kv_mut().reset();
        let sharing = if gating.is_some() { Sharing::Clean } else { Sharing::All };
        let scheduler = Scheduler::new(settings, engine.kv())?.sharing(sharing);
        Ok(Self { engine, scheduler, observe, jobs: BTreeMap::new(), swapped: BTreeMap::new(), steps: 0, gating })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// The engine, for tests that look into its cache.
    #[cfg(test)]
    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        self.engine
    }

    /// A running request's slot.
    #[cfg(test)]
    pub(crate) fn slot_of(&self, request: RequestKey) -> Option<crate::kv::Slot> {
        self.scheduler.slot_of(request)
    }

    /// The gate's threshold now, and what it has counted; none without a gate.
    pub fn gate(&self) -> Option<(f32, margingate::gate::Meter)> {
        self.gating.as_ref().map(|g| (g.gate.tau(), g.gate.meter()))
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
        if let Some(mut gating) = self.gating.take_if(|g| g.gate.due(self.scheduler.may_step(self.engine.kv()))) {
            let progress = self.verify(&mut gating, operator);
            self.gating = Some(gating);
            return progress.map(Some);
        }
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
        let groups = groups(&decision.turns);
        let mut observe = self.observe.clone();
        observe.logits |= decision.turns.iter().any(|t| self.jobs[&t.request].request.needs_logits());
        let shape = StepPlan::shape(&groups);
        let wanted = self.gating.as_ref().is_some_and(|g| g.runs_reference(&decision.turns));
        let policy = if wanted { Dispatch::UNSPLIT } else { self.engine.dispatch(shape) };
        let dispatch = operator.dispatch(shape, policy);
        // Large steps are not split in `throughput` either.
        let reference = self.gating.is_some() && dispatch == Dispatch::UNSPLIT;
        let plan = StepPlan { groups, dispatch, observe };
        let output = operator.run(self.engine, &plan)?;

        if let Some(gating) = &mut self.gating {
            gating.follow(&decision.events);
            gating.decisions = vec![None; decision.turns.len()];
        }
        let mut progress = Progress::default();
        let (mut emitted, mut chosen, mut end) = (Vec::new(), Vec::new(), 0);
        for (group, turn) in decision.turns.iter().enumerate() {
            end += turn.tokens.len();
            let picked = match turn.chooses {
                false => None,
                true => self.emit((group, turn), &output.rows[end - 1], reference, operator)?,
            };
            emitted.push(picked.map(|(token, _)| token));
            chosen.push(picked.map(|(token, finish)| (token, finish.is_some())));
            progress.chosen.extend(picked.map(|(token, _)| (turn.request, token)));
            if let Some((_, Some(finish))) = picked {
                progress.ended.extend(self.end(turn.request, finish));
            }
        }
        self.scheduler.computed(&decision.turns, &chosen, reference, self.engine.kv_mut())?;
        let log = StepLog {
            index: self.steps,
            events: &decision.events,
            turns: &decision.turns,
            plan: &plan,
            output: &output,
            emitted: &emitted,
            gate: self.gating.as_ref().map_or(&[][..], |g| g.decisions.as_slice()),
            padded_rows: output.rows.len() as u32,
        };
        operator.step(&log).map_err(Error::Observer)?;
        self.steps += 1;
        if let Some(gating) = &mut self.gating {
            gating.gate.step_done();
        }
        let cancelled = decision.events.iter().filter_map(|e| match e {
            Event::Cancel { request } => Some(*request),
            _ => None,
        });
        for request in cancelled.collect::<Vec<_>>() {
            progress.ended.extend(self.end(request, Finish::Cancelled));
        }
        Ok(Some(progress))
    }

    /// Decides the oldest rows that wait for the reference, and releases their tokens; or catches up as many columns of the oldest as one step takes.
    fn verify(&mut self, gating: &mut Gating, operator: &mut dyn Operator) -> Result<Progress> {
        let jobs = &self.jobs;
        let choose = |key: RequestKey, row: &Row| {
            let job = jobs.get(&key).ok_or_else(|| unknown(key))?;
            choose(key, job, row, row.position + 1)
        };
        let mut observe = self.observe.clone();
        observe.logits |= gating.gate.held().any(|h| jobs.get(&h.request).is_some_and(|j| j.request.needs_logits()));
        let write_back = gating.setup.settings.write_back;
        let (most, catch_up) = (self.scheduler.settings().max_rows, write_back == WriteBack::CatchUp);
        let oldest = gating.gate.held().next().map(|h| h.request);
        let first = oldest.map(|key| self.scheduler.verification(key, catch_up, most)).transpose()?;
        let mut batch = ReferenceBatch {
            engine: self.engine,
            scheduler: &self.scheduler,
            operator,
            choose: &choose,
            observe,
            write_back,
            ran: None,
            saved: BTreeMap::new(),
        };
        if let Some(turn) = first.filter(|turn| !turn.chooses) {
            let turns = [turn];
            let padded = gating.gate.computes_again(turns[0].tokens.len() as u32);
            let (plan, output) = batch.run(&turns, padded)?;
            return self.log_verification((&turns, &plan, &output, padded), (&[None], &[None], &[true]), operator);
        }
        let before = gating.gate.tau();
        let verified = gating.gate.verify(&mut batch)?;
        let nothing = || Error::Plan { detail: "nothing waited for verification".into() };
        let Ran { turns, plan, output, choices } = batch.ran.take().ok_or_else(nothing)?;
        let padded = (output.rows.len() as u32).next_multiple_of(gating.setup.settings.verify_rows);
        let (mut progress, mut decided, mut gate, mut repaired) =
            (Progress::default(), Vec::new(), Vec::new(), Vec::new());
        for (v, choice) in verified.iter().zip(choices) {
            let key = v.held.request;
            let (token, finish) = self.release(key, v.held.row.position + 1, choice, operator)?;
            gate.push(Some(RowGate::Verified { token, repaired: v.repaired }));
            repaired.push(v.repaired);
            decided.push(Some((token, finish.is_some())));
            progress.chosen.push((key, token));
            if let Some(finish) = finish {
                gating.gate.ended(key);
                progress.ended.extend(self.end(key, finish));
            }
        }
        if gating.gate.tau() > before {
            progress.unverified = gating.gate.unverified().collect();
        }
        self.log_verification((&turns, &plan, &output, padded), (&decided, &gate, &repaired), operator)?;
        Ok(progress)
    }

    /// Tells scheduler and operator of a verification step: what ran, and for each turn the token with whether the request ends, the decision, and
    /// whether its columns are the reference's from here on.
    fn log_verification(
        &mut self,
        (turns, plan, output, padded_rows): (&[Turn], &StepPlan, &StepOutput, u32),
        (decided, gate, repaired): (&[Decided], &[Option<RowGate>], &[bool]),
        operator: &mut dyn Operator,
    ) -> Result<Progress> {
        self.scheduler.verified(turns, repaired, decided, self.engine.kv_mut())?;
        let emitted: Vec<Option<u32>> = decided.iter().map(|d| d.map(|(token, _)| token)).collect();
        let log = StepLog { index: self.steps, events: &[], turns, plan, output, emitted: &emitted, gate, padded_rows };
        operator.step(&log).map_err(Error::Observer)?;
        self.steps += 1;
        Ok(Progress::default())
    }

    /// Chooses and emits the token that follows a row, unless the gate holds it.
    fn emit(
        &mut self,
        (group, turn): (usize, &Turn),
        row: &Row,
        reference: bool,
        operator: &mut dyn Operator,
    ) -> Result<Option<(u32, Option<Finish>)>> {
        let key = turn.request;
        let job = self.jobs.get(&key).ok_or_else(|| unknown(key))?;
        let choice = choose(key, job, row, row.position + 1)?;
        if let Some(gating) = &mut self.gating {
            let sampling = &job.request.sampling;
            // The reference's kernels over columns of a batch do not decide as they would alone.
            let alone = gating.setup.settings.write_back != WriteBack::CatchUp
                || self.scheduler.is_clean(turn.request, turn.start);
            let reference = reference && alone;
            let place = (self.steps, group);
            if gating.judge(self.engine, place, (turn, row), (sampling, choice), reference, operator)? {
                return Ok(None);
            }
        }
        self.release(key, row.position + 1, choice, operator).map(Some)
    }

    /// Emits the token for a position.
    fn release(
        &mut self,
        key: RequestKey,
        position: u32,
        choice: Choice,
        operator: &mut dyn Operator,
    ) -> Result<(u32, Option<Finish>)> {
        let job = self.jobs.get_mut(&key).ok_or_else(|| unknown(key))?;
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
        if let Some(gating) = &mut self.gating {
            gating.gate.ended(key);
        }
        self.jobs.remove(&key).map(|job| (key, Outcome { output: job.output, finish }))
    }

    /// Ends every job that the scheduler no longer knows: all that were left were cancelled.
    fn sweep(&mut self) -> Progress {
        let left: Vec<RequestKey> = self.jobs.keys().copied().collect();
        let ended = left.into_iter().filter_map(|key| self.end(key, Finish::Cancelled)).collect();
        Progress { ended, ..Progress::default() }
    }
}

fn unknown(key: RequestKey) -> Error {
    Error::Plan { detail: format!("request {key} is not being served") }
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
    if engine.mode() == Mode::Gated && !request.adjust.is_off() {
        return refuse("mode gated judges logits as they are: no penalties and no logit bias".into());
    }
    if engine.mode() == Mode::Gated && request.prompt_logprobs {
        return refuse("mode gated gives no log-probabilities of prompts".into());
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
