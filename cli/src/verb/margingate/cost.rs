//! What each way of serving costs on one load: processor time and wall time over plain `throughput`.

use std::time::Instant;

use anyhow::Context as _;
use engine::Engine;
use engine::batch::{Operator, OperatorError, StepLog};
use engine::gated::{Judged, Prefill, Setup, Signal};
use engine::kv::Slot;
use engine::policy::Dispatch;
use engine::scheduler::RequestKey;
use engine::step::{Group, Logits, Observe, StepPlan};
use margingate::gate::mix;
use margingate::window::reconcile;
use margingate::{Margin, Settings, WriteBack};
use serde::{Deserialize, Serialize};

use super::load::{Prompt, Schedule};
use super::measure::{Unsplit, fast, serve};

/// A way of serving.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// `throughput`, nothing else.
    Plain,
    /// A gate.
    Gated(Box<Setup>),
    /// A gate that is told which share of rows is at risk, and whose fast rows are then wrong.
    Injected(Box<Setup>, f64),
    /// Windows of this many tokens verified as a whole.
    Windows(u32),
    /// `invariant`.
    Invariant,
}

impl Way {
    /// Its name in tables.
    pub fn name(&self) -> String {
        match self {
            Way::Plain => "plain throughput".into(),
            Way::Gated(s) if s.settings.write_back == WriteBack::All => "always-on, every row".into(),
            Way::Gated(s) => {
                let signal = if s.signal == Signal::Margin { "margin" } else { "row distance" };
                format!("gated, {}, {signal}", s.settings.write_back.name())
            }
            Way::Injected(_, share) => format!("injected, {:.2} %", share * 100.0),
            Way::Windows(n) => format!("windows of {n}"),
            Way::Invariant => "all invariant".into(),
        }
    }
}

/// One measured run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Processor seconds of the process.
    pub cpu: f64,
    /// Seconds.
    pub wall: f64,
    /// Share of judged rows that were verified.
    pub verified: f64,
    /// Sequences whose tokens are the reference's.
    pub equal: usize,
}

/// Serves the load once in a way.
pub fn run(
    mut engine: Engine,
    way: &Way,
    (prompts, references): (&[Prompt], &[Vec<u32>]),
    tokens: u32,
    schedule: &Schedule,
) -> anyhow::Result<(Engine, Run)> {
    let setup = match way {
        Way::Plain => fast(Prefill::Throughput),
        Way::Gated(setup) | Way::Injected(setup, _) => Setup::clone(setup),
        Way::Windows(_) | Way::Invariant => fast(Prefill::Reference),
    };
    engine = engine.with_gate(setup)?;
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let (outputs, verified) = match way {
        Way::Windows(window) => (windows(&mut engine, prompts, tokens, *window, schedule)?, 1.0),
        _ => {
            let mut operator: Box<dyn Operator> = match way {
                Way::Invariant => Box::new(Unsplit),
                Way::Injected(_, share) => Box::new(Inject { share: *share }),
                _ => Box::new(engine::batch::NoLog),
            };
            let (outputs, meter) = serve(&mut engine, prompts, tokens, schedule, operator.as_mut())?;
            (outputs, (meter.triggered + meter.probes) as f64 / meter.judged.max(1) as f64)
        }
    };
    let wall = wall.elapsed().as_secs_f64();
    let cpu = cpu_seconds().zip(cpu).map_or(wall, |(now, before)| now - before);
    let equal = outputs.iter().zip(references).filter(|(a, b)| a == b).count();
    Ok((engine, Run { cpu, wall, verified, equal }))
}

/// Makes a share of rows risky and wrong: synthetic mismatches.
struct Inject {
    share: f64,
}

impl Operator for Inject {
    fn judge(&mut self, request: RequestKey, position: u32, judged: Judged) -> Judged {
        let drawn = mix(77, request, position) as f64 / u64::MAX as f64;
        if drawn < self.share {
            Judged { token: judged.token ^ 1, risk: Margin::new(0.0) }
        } else {
            Judged { risk: Margin::INFINITE, ..judged }
        }
    }

    fn step(&mut self, _: &StepLog<'_>) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// A sequence under verification by windows.
struct Sequence {
    member: usize,
    slot: Slot,
    /// Prompt and released tokens; then tokens decoded fast and not verified.
    tokens: Vec<u32>,
    released: usize,
    end: usize,
}

/// The always-on baseline: a window is decoded fast, then computed again as one group without any split; everything after the first
/// difference is dropped. Windows of several requests share a pass.
fn windows(
    engine: &mut Engine,
    prompts: &[Prompt],
    tokens: u32,
    window: u32,
    schedule: &Schedule,
) -> anyhow::Result<Vec<Vec<u32>>> {
    let mut outputs = vec![Vec::new(); prompts.len()];
    let mut coming = schedule.order.iter();
    let mut flying: Vec<Sequence> = Vec::new();
    loop {
        while flying.len() < schedule.together {
            let Some(member) = coming.next() else { break };
            let slot = engine.open()?;
            let prompt = &prompts[*member].ids;
            let group = Group { slot, start: 0, tokens: prompt.clone(), logits: Logits::Last };
            let first = chosen(engine, vec![group], Dispatch::UNSPLIT)?;
            let all: Vec<u32> = prompt.iter().chain(&first[0]).copied().collect();
            let end = prompt.len() + tokens as usize;
            flying.push(Sequence { member: *member, slot, released: all.len(), tokens: all, end });
        }
        if flying.is_empty() {
            return Ok(outputs);
        }
        // Fast: as many tokens as the window holds.
        for _ in 0..window {
            let groups: Vec<Group> = flying
                .iter()
                .filter(|s| s.tokens.len() < s.end)
                .map(|s| Group {
                    slot: s.slot,
                    start: s.tokens.len() as u32 - 1,
                    tokens: s.tokens[s.tokens.len() - 1..].to_vec(),
                    logits: Logits::Last,
                })
                .collect();
            if groups.is_empty() {
                break;
            }
            let dispatch = engine.dispatch(StepPlan::shape(&groups));
            let found = chosen(engine, groups, dispatch)?;
            for (s, token) in flying.iter_mut().filter(|s| s.tokens.len() < s.end).zip(found) {
                s.tokens.extend(token);
            }
        }
        // The reference: the same rows, all at once.
        let mut groups = Vec::new();
        for s in flying.iter().filter(|s| s.tokens.len() > s.released) {
            let start = s.released - 1;
            engine.truncate(s.slot, start as u32)?;
            let rows = s.tokens[start..s.tokens.len() - 1].to_vec();
            groups.push(Group { slot: s.slot, start: start as u32, tokens: rows, logits: Logits::All });
        }
        if !groups.is_empty() {
            let found = chosen(engine, groups, Dispatch::UNSPLIT)?;
            for (s, reference) in flying.iter_mut().filter(|s| s.tokens.len() > s.released).zip(found) {
                let kept = reconcile(&s.tokens[s.released..], &reference);
                s.tokens.truncate(s.released);
                s.tokens.extend(kept.released);
                s.released = s.tokens.len();
                engine.truncate(s.slot, s.released as u32 - 1)?;
            }
        }
        for s in flying.extract_if(.., |s| s.released == s.end) {
            engine.close(s.slot)?;
            outputs[s.member] = s.tokens[prompts[s.member].ids.len()..].to_vec();
        }
    }
}

/// Runs groups and takes the largest logit of every row that has logits, by group.
fn chosen(engine: &mut Engine, groups: Vec<Group>, dispatch: Dispatch) -> anyhow::Result<Vec<Vec<u32>>> {
    let mut found = vec![Vec::new(); groups.len()];
    let out = engine.step(&StepPlan { groups, dispatch, observe: Observe::TOKENS })?;
    for row in out.rows {
        if let Some(top) = row.top2 {
            found.get_mut(row.group).context("a row of no group")?.push(top.first);
        }
    }
    Ok(found)
}

/// A gate with this threshold; patience and batch as given.
pub fn gate(tau: f32, write_back: WriteBack, signal: Signal, (verify_rows, patience): (u32, u32)) -> Box<Setup> {
    let settings = Settings { write_back, verify_rows, patience, ..Settings::new(tau) };
    Box::new(Setup { signal, ..Setup::chosen(settings) })
}

/// Processor seconds of this process, all threads, where the system tells (Linux, in its usual ticks of 10 ms).
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
