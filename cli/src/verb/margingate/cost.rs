//! Ways of serving, and what one of them does for a load: tokens equal to the reference's, processor time, and what was computed.

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

use super::effort::Effort;
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
            Way::Gated(s) => format!("gated, {}, {}", s.settings.write_back.name(), s.signal.id()),
            Way::Injected(s, share) => {
                format!("injected, {}, {:.2} %", s.settings.write_back.name(), share * 100.0)
            }
            Way::Windows(n) => format!("windows of {n}"),
            Way::Invariant => "all invariant".into(),
        }
    }

    /// The policy of a point of an injection sweep, and the share.
    pub fn injected(&self) -> Option<(WriteBack, f64)> {
        match self {
            Way::Injected(s, share) => Some((s.settings.write_back, *share)),
            _ => None,
        }
    }
}

/// One measured run, or the sum of several.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Processor seconds of the process.
    pub cpu: f64,
    /// Seconds.
    pub wall: f64,
    /// What was computed.
    pub effort: Effort,
    /// Rows judged by their risk.
    pub judged: u64,
    /// Rows held or probed: tokens that the reference decided.
    pub verified: u64,
    /// Held rows whose token was wrong.
    pub mismatches: u64,
    /// Sequences whose tokens are the reference's.
    pub equal: u64,
    /// Sequences.
    pub of: u64,
}

impl Run {
    /// Share of judged rows that were verified.
    pub fn rate(&self) -> f64 {
        self.verified as f64 / self.judged.max(1) as f64
    }

    /// Both runs.
    pub fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            wall: self.wall + other.wall,
            effort: self.effort.and(other.effort),
            judged: self.judged + other.judged,
            verified: self.verified + other.verified,
            mismatches: self.mismatches + other.mismatches,
            equal: self.equal + other.equal,
            of: self.of + other.of,
        }
    }
}

/// Serves a load once in a way.
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
    let (outputs, mut run) = if let Way::Windows(window) = way {
        let mut effort = Effort::default();
        let outputs = windows(&mut engine, prompts, tokens, *window, schedule, &mut effort)?;
        let rows: u64 = outputs.iter().map(|o| o.len() as u64 - 1).sum();
        (outputs, Run { effort, judged: rows, verified: rows, ..Run::default() })
    } else {
        let mut operator: Box<dyn Operator> = match way {
            Way::Invariant => Box::new(Unsplit),
            Way::Injected(_, share) => Box::new(Inject { share: *share }),
            _ => Box::new(engine::batch::NoLog),
        };
        let served = serve(&mut engine, prompts, tokens, schedule, operator.as_mut())?;
        let m = served.meter;
        let counts = Run {
            effort: served.effort,
            judged: m.judged,
            verified: m.triggered + m.probes,
            mismatches: m.mismatches,
            ..Run::default()
        };
        (served.outputs, counts)
    };
    run.wall = wall.elapsed().as_secs_f64();
    run.cpu = cpu_seconds().zip(cpu).map_or(run.wall, |(now, before)| now - before);
    run.equal = outputs.iter().zip(references).filter(|(a, b)| a == b).count() as u64;
    run.of = outputs.len() as u64;
    Ok((engine, run))
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
    effort: &mut Effort,
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
            let first = chosen(engine, vec![group], Dispatch::UNSPLIT, effort)?;
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
            let found = chosen(engine, groups, dispatch, effort)?;
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
            let found = chosen(engine, groups, Dispatch::UNSPLIT, effort)?;
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
fn chosen(
    engine: &mut Engine,
    groups: Vec<Group>,
    dispatch: Dispatch,
    effort: &mut Effort,
) -> anyhow::Result<Vec<Vec<u32>>> {
    let mut found = vec![Vec::new(); groups.len()];
    let plan = StepPlan { groups, dispatch, observe: Observe::TOKENS };
    let out = engine.step(&plan)?;
    effort.add(&plan, out.rows.len() as u32);
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
