//! Pairs of a batched step and the reference's step from the same prefix.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use engine::Engine;
use engine::batch::{Operator, OperatorError, Request, StepLog};
use engine::gated::{Prefill, Setup, head_row_distance};
use engine::kernels::PAGE;
use engine::policy::{Dispatch, Shape};
use engine::sampler::Choice;
use engine::scheduler::{Event, RequestKey};
use engine::session::Session;
use engine::step::{Group, Logits, Observe, StepPlan};
use margingate::gate::Meter;
use margingate::trace::Observed;
use margingate::{Margin, Settings};

use super::effort::{Counted, Effort};
use super::load::{Prompt, Schedule};

/// Decode everything fast and verify nothing: prompts by the reference, or not.
pub fn fast(prefill: Prefill) -> Setup {
    Setup { prefill, ..Setup::chosen(Settings::new(0.0)) }
}

/// What came of serving a group.
pub struct Served {
    /// Tokens, in the group's order.
    pub outputs: Vec<Vec<u32>>,
    /// What the gate counted.
    pub meter: Meter,
    /// What was computed.
    pub effort: Effort,
}

/// Serves a group by a schedule.
pub fn serve(
    engine: &mut Engine,
    prompts: &[Prompt],
    tokens: u32,
    schedule: &Schedule,
    operator: &mut dyn Operator,
) -> anyhow::Result<Served> {
    observed(engine, prompts, tokens, schedule, Observe::TOKENS, operator)
}

fn observed(
    engine: &mut Engine,
    prompts: &[Prompt],
    tokens: u32,
    schedule: &Schedule,
    observe: Observe,
    operator: &mut dyn Operator,
) -> anyhow::Result<Served> {
    let settings = schedule.settings(engine.limits().max_rows);
    let mut session = Session::new(engine, settings, observe)?;
    let mut operator = Counted { inner: operator, effort: Effort::default() };
    let mut outputs = vec![Vec::new(); prompts.len()];
    let (mut coming, mut flying) = (schedule.order.iter(), 0);
    let mut meter = Meter::default();
    loop {
        while flying < schedule.together {
            let Some(member) = coming.next() else { break };
            session.submit(Request::new(prompts[*member].ids.clone(), tokens))?;
            flying += 1;
        }
        let Some(progress) = session.step(&mut operator)? else { break };
        meter = session.gate().map_or(meter, |g| g.1);
        flying -= progress.ended.len();
        for (key, outcome) in progress.ended {
            // Requests are numbered in order of arrival.
            outputs[schedule.order[key as usize]] = outcome.output;
        }
    }
    Ok(Served { outputs, meter, effort: operator.effort })
}

/// The reference runs every step unsplit.
pub struct Unsplit;

impl Operator for Unsplit {
    fn dispatch(&mut self, _: Shape, _: Dispatch) -> Dispatch {
        Dispatch::UNSPLIT
    }

    fn step(&mut self, _: &StepLog<'_>) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// Logits of the reference, f32 bits, by member and position of the row.
pub type References = BTreeMap<(usize, u32), Vec<u32>>;

/// The reference's logits at every decoded position, by one teacher-forced prefill a sequence.
pub fn references(engine: &mut Engine, prompts: &[Prompt], outputs: &[Vec<u32>]) -> anyhow::Result<References> {
    let mut all = References::new();
    for (member, (prompt, output)) in prompts.iter().zip(outputs).enumerate() {
        let tokens: Vec<u32> = prompt.ids.iter().chain(output).copied().collect();
        let slot = engine.open()?;
        let inner = prompt.ids.len().saturating_sub(1);
        // The rows before the prompt's last have no logits; the last token is fed back nowhere.
        for (range, logits) in [(0..inner, Logits::None), (inner..tokens.len() - 1, Logits::All)] {
            if range.is_empty() {
                continue;
            }
            let group = Group { slot, start: range.start as u32, tokens: tokens[range].to_vec(), logits };
            let observe = Observe { logits: true, ..Observe::TOKENS };
            let out = engine.step(&StepPlan { groups: vec![group], dispatch: Dispatch::UNSPLIT, observe })?;
            all.extend(out.rows.into_iter().filter_map(|r| Some(((member, r.position), r.logits?))));
        }
        engine.close(slot)?;
    }
    Ok(all)
}

/// Feeds the reference's tokens whatever the batched step chose, and compares.
pub struct Forced<'a> {
    pub prompts: &'a [Prompt],
    pub outputs: &'a [Vec<u32>],
    pub references: &'a References,
    pub schedule: &'a Schedule,
    /// Number of the group's first sequence, and of the schedule.
    pub place: (u32, u32),
    pub model: &'a engine::Model,
    /// By request: positions from the beginning on whose columns are the reference's, over the reference's.
    pub clean: BTreeMap<RequestKey, u32>,
    pub seen: Vec<Observed>,
}

impl Forced<'_> {
    fn member(&self, request: RequestKey) -> usize {
        self.schedule.order[request as usize]
    }

    fn compare(&mut self, step: &StepLog<'_>) -> anyhow::Result<()> {
        for event in step.events {
            match event {
                Event::Admit { request, cached } => {
                    self.clean.insert(*request, PAGE * cached.iter().map(|c| c.pages).sum::<u32>());
                }
                Event::Preempt { .. } => bail!("a benchmark has room for all requests, yet one was preempted"),
                _ => {}
            }
        }
        // Steps without a split, such as those with prompt rows, are the reference's: rows over its own columns are its own.
        let reference = step.plan.dispatch == Dispatch::UNSPLIT;
        let shape = StepPlan::shape(&step.plan.groups);
        for row in &step.output.rows {
            let turn = &step.turns[row.group];
            let clean = self.clean.entry(turn.request).or_default();
            let dirty = row.position.saturating_sub(*clean);
            if reference && dirty == 0 {
                *clean = row.position + 1;
                continue;
            }
            let Some(top) = row.top2 else { continue };
            let member = self.member(turn.request);
            let own = self.references.get(&(member, row.position)).context("a row without a reference")?;
            let value = |id: u32| f64::from(f32::from_bits(own[id as usize]));
            let margin = Margin::from_bits(top.margin_bits).ok().context("a margin that is none")?;
            let chosen = self.outputs[member][row.position as usize + 1 - self.prompts[member].ids.len()];
            self.seen.push(Observed {
                source: self.prompts[member].source,
                sequence: self.place.0 + member as u32,
                schedule: self.place.1,
                position: row.position,
                rows: shape.rows,
                kv: shape.max_kv,
                dirty,
                reference,
                top: [top.first, top.second],
                margin,
                delta: (value(top.first) - value(top.second) - f64::from(margin.value())) as f32,
                distance: head_row_distance(self.model, top.first, top.second),
                flip: top.first != chosen,
            });
        }
        Ok(())
    }
}

impl Operator for Forced<'_> {
    fn emit(&mut self, request: RequestKey, position: u32, choice: Choice) -> u32 {
        let member = self.member(request);
        let at = position as usize - self.prompts[member].ids.len();
        self.outputs[member].get(at).copied().unwrap_or(choice.token)
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        self.compare(step).map_err(|e| e.to_string().into())
    }
}

/// The reference's outputs of a group, and its logits where those were asked for: all requests at once, which changes no bit of it.
pub fn reference_outputs(
    engine: &mut Engine,
    prompts: &[Prompt],
    tokens: u32,
    logits: bool,
) -> anyhow::Result<(Vec<Vec<u32>>, References)> {
    let all =
        Schedule { order: (0..prompts.len()).collect(), together: prompts.len(), chunk: None, prefix_cache: false };
    let mut operator = Alone { logits: References::new() };
    let observe = Observe { logits, ..Observe::TOKENS };
    let outputs = observed(engine, prompts, tokens, &all, observe, &mut operator)?.outputs;
    if outputs.iter().any(|o| o.len() != tokens as usize) {
        bail!("a sequence ended early");
    }
    Ok((outputs, operator.logits))
}

/// The reference, whose logits are kept.
struct Alone {
    logits: References,
}

impl Operator for Alone {
    fn dispatch(&mut self, shape: Shape, policy: Dispatch) -> Dispatch {
        Unsplit.dispatch(shape, policy)
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        // Requests are numbered in the group's order.
        let rows = step.output.rows.iter().filter_map(|r| Some((r, r.logits.clone()?)));
        self.logits.extend(rows.map(|(r, logits)| ((step.turns[r.group].request as usize, r.position), logits)));
        Ok(())
    }
}
