//! `lastbit bench prefill` and `decode`: whole steps of a model.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use comfy_table::{Cell, CellAlignment};
use engine::kernels::KvType;
use engine::kv::Slot;
use engine::runtime::{Limits, pages_for};
use engine::step::{Group, Logits, Observe, StepOutput};
use engine::{Build, Engine, Mode, Model};
use serde::Serialize;

use super::peer::{self, Peer};
use super::timed::{Timed, Times};
use crate::argument;
use crate::output::{Format, Outcome, progress, table};
use crate::source::{self, Emulation};
use crate::verb::generate::parse_mode;

/// Most positions or steps; a model's positions end before.
const MAX_TOKENS: u32 = 1 << 20;
/// Most sequences: as many as the engine has rows in a step.
const MAX_BATCH: u32 = 2048;

/// What both take.
#[derive(clap::Args)]
struct Common {
    /// Hugging Face model folder, GGUF file, or name of a pulled model [default: the model inside this binary]
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,

    /// GPU generation to emulate
    #[arg(long, value_name = "SM", default_value = "sm_90", value_parser = argument::profile)]
    profile: String,

    /// Numerics mode
    #[arg(long, value_name = "MODE", default_value = "invariant", value_parser = parse_mode)]
    mode: Mode,

    /// Element type of the KV cache: bf16 or fp8
    #[arg(long, value_name = "TYPE", default_value = "bf16", value_parser = argument::kv)]
    kv: KvType,

    /// Interleaved rounds, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = argument::count(1, 1000))]
    rounds: u32,

    /// Leave the interpreted launches out
    #[arg(long, conflicts_with = "interpret")]
    native_only: bool,

    /// A program that measures another engine on the same GGUF file (`scripts/peer-llama-cpp`)
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<PathBuf>,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    format: Format,
}

/// Options of `bench prefill`.
#[derive(clap::Args)]
pub struct PrefillArgs {
    /// Tokens of the prompt, one step
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = argument::count(1, MAX_TOKENS))]
    tokens: u32,

    #[command(flatten)]
    common: Common,
}

/// Options of `bench decode`.
#[derive(clap::Args)]
pub struct DecodeArgs {
    /// Sequences decoded together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = argument::count(1, MAX_BATCH))]
    batch: u32,

    /// Tokens decoded for each sequence in a round, one step each
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = argument::count(1, MAX_TOKENS))]
    tokens: u32,

    /// Tokens of each sequence's prompt, which is not timed
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = argument::count(1, MAX_TOKENS))]
    context: u32,

    #[command(flatten)]
    common: Common,
}

/// What is measured.
#[derive(Clone, Copy)]
struct Work {
    what: &'static str,
    batch: u32,
    /// Of each sequence's prompt, timed in a prefill.
    context: u32,
    /// Steps after it, timed in decoding.
    steps: u32,
}

impl Work {
    fn tokens(self) -> u32 {
        if self.steps == 0 { self.context } else { self.batch * self.steps }
    }
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    what: &'static str,
    model: String,
    profile: String,
    mode: &'static str,
    kv: &'static str,
    threads: usize,
    simd: &'static str,
    batch: u32,
    context: u32,
    /// Tokens of a round.
    tokens: u32,
    rounds: u32,
    native: Option<Figures>,
    interpreted: Option<Figures>,
    /// Of seconds.
    interpreted_over_native: Option<f64>,
    peer: Option<Peer>,
    /// Of tokens a second.
    native_over_peer: Option<f64>,
}

/// Medians of rounds.
#[derive(Serialize)]
struct Figures {
    tokens_per_s: f64,
    /// Of all threads, for one token; null where the system does not tell.
    processor_ms_per_token: Option<f64>,
    /// Of all rounds, most time first. What the device did not do is the engine's.
    kernels: Vec<Kernel>,
}

#[derive(Serialize)]
struct Kernel {
    name: String,
    calls: u64,
    share: f64,
}

/// Runs `bench prefill`.
pub fn prefill(args: PrefillArgs) -> anyhow::Result<Outcome> {
    run(args.common, Work { what: "prefill", batch: 1, context: args.tokens, steps: 0 })
}

/// Runs `bench decode`.
pub fn decode(args: DecodeArgs) -> anyhow::Result<Outcome> {
    run(args.common, Work { what: "decode", batch: args.batch, context: args.context, steps: args.tokens })
}

fn run(args: Common, work: Work) -> anyhow::Result<Outcome> {
    let model = Arc::new(source::model(args.model.as_deref())?);
    let mut subjects = Vec::new();
    if !args.emulation.interpret {
        subjects.push(Subject::new(&model, &args, work, false)?);
    }
    if !args.native_only {
        subjects.push(Subject::new(&model, &args, work, true)?);
    }
    // The first round packs weights and starts threads; it is not counted.
    let bar = progress(u64::from(args.rounds + 1) * subjects.len() as u64, "rounds");
    for round in 0..=args.rounds {
        let mut seen = None;
        for subject in &mut subjects {
            let tokens = subject.round(work)?;
            if seen.get_or_insert_with(|| tokens.clone()) != &tokens {
                bail!("native and interpreted launches gave different tokens: please report this");
            }
            if round == 0 {
                subject.forget();
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let (mut native, mut interpreted) = (None, None);
    for subject in subjects {
        let place = if subject.interpreted { &mut interpreted } else { &mut native };
        *place = Some(subject.figures(work));
    }
    let numbers = [
        ("--tokens", if work.steps == 0 { work.context } else { work.steps }),
        ("--context", work.context),
        ("--batch", work.batch),
        ("--threads", args.emulation.thread_count() as u32),
    ];
    let measure = |program: &PathBuf| peer::measure(program, work.what, args.model.as_deref(), numbers);
    let peer = args.peer.as_ref().map(measure).transpose()?;
    let speed = |figures: &Option<Figures>| figures.as_ref().map(|f| f.tokens_per_s);
    let report = Report {
        schema: "lastbit/bench-steps/v1",
        what: work.what,
        model: model.name.clone(),
        profile: args.profile,
        mode: args.mode.name(),
        kv: args.kv.name(),
        threads: args.emulation.thread_count(),
        simd: args.emulation.simd.name(),
        batch: work.batch,
        context: work.context,
        tokens: work.tokens(),
        rounds: args.rounds,
        interpreted_over_native: speed(&native).zip(speed(&interpreted)).map(|(n, i)| n / i),
        native_over_peer: speed(&native).zip(peer.as_ref().map(|p| p.tokens_per_s)).map(|(n, p)| n / p),
        native,
        interpreted,
        peer,
    };
    args.format.print(&report, |out| print_text(out, &report))?;
    Ok(Outcome::AllMatch)
}

/// One engine that is measured.
struct Subject {
    interpreted: bool,
    engine: Engine,
    times: Times,
    kernels: BTreeMap<String, (u64, f64)>,
    /// Wall clock, and processor time where the system tells.
    seconds: Vec<(f64, Option<f64>)>,
}

impl Subject {
    fn new(model: &Arc<Model>, args: &Common, work: Work, interpreted: bool) -> anyhow::Result<Self> {
        let device = args.emulation.device(&args.profile)?;
        let device = Timed::new(if interpreted { device.interpreted() } else { device });
        let times = device.times();
        let rows = work.batch.checked_mul(work.context).context("so many sequences do not fit")?;
        let limits = Limits {
            slots: work.batch,
            pages: pages_for(work.batch, work.context + work.steps),
            max_rows: rows.max(work.batch),
        };
        let engine =
            Engine::built(model.clone(), Box::new(device), args.mode, limits, Build { ranks: 1, kv: args.kv })?;
        Ok(Self { interpreted, engine, times, kernels: BTreeMap::new(), seconds: Vec::new() })
    }

    /// One round; the tokens it chose.
    fn round(&mut self, work: Work) -> anyhow::Result<Vec<u32>> {
        let vocabulary = self.engine.model().config.vocab_size;
        let prompt =
            |sequence: u32| (0..work.context).map(move |i| (7 + 31 * sequence + 11 * i) % vocabulary).collect();
        let slots: Vec<Slot> = (0..work.batch).map(|_| self.engine.open()).collect::<engine::Result<_>>()?;
        let group = |slot: &Slot, start, tokens| Group { slot: *slot, start, tokens, logits: Logits::Last };
        let prompts = slots.iter().zip(0..).map(|(slot, i)| group(slot, 0, prompt(i))).collect();
        let mut clock = Clock::start(&self.times);
        let mut next = self.step(prompts)?;
        if work.steps > 0 {
            clock = Clock::start(&self.times);
        }
        let mut chosen = next.clone();
        for step in 0..work.steps {
            let groups = slots.iter().zip(&next).map(|(slot, token)| group(slot, work.context + step, vec![*token]));
            next = self.step(groups.collect())?;
            chosen.extend(&next);
        }
        self.seconds.push(clock.seconds());
        for (name, (calls, seconds)) in self.times.take() {
            let entry = self.kernels.entry(name).or_default();
            *entry = (entry.0 + calls, entry.1 + seconds);
        }
        for slot in slots {
            self.engine.close(slot)?;
        }
        Ok(chosen)
    }

    /// Starts counting.
    fn forget(&mut self) {
        self.kernels.clear();
        self.seconds.clear();
    }

    /// The largest logit's token of every sequence.
    fn step(&mut self, groups: Vec<Group>) -> anyhow::Result<Vec<u32>> {
        let plan = self.engine.plan(groups, Observe::TOKENS);
        let out: StepOutput = self.engine.step(&plan)?;
        Ok(out.rows.iter().filter_map(|row| row.top2.map(|top| top.first)).collect())
    }

    fn figures(self, work: Work) -> Figures {
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let rounds = &self.seconds;
        let all: f64 = rounds.iter().map(|r| r.0).sum();
        let processor: Option<Vec<f64>> = rounds.iter().map(|r| r.1).collect();
        let mut kernels: Vec<Kernel> = self
            .kernels
            .into_iter()
            .map(|(name, (calls, seconds))| Kernel { name, calls, share: seconds / all })
            .collect();
        kernels.sort_by(|a, b| b.share.total_cmp(&a.share));
        Figures {
            tokens_per_s: f64::from(work.tokens()) / median(rounds.iter().map(|r| r.0).collect()),
            processor_ms_per_token: processor.map(|s| 1e3 * median(s) / f64::from(work.tokens())),
            kernels,
        }
    }
}

/// Time since a moment.
struct Clock {
    wall: Instant,
    processor: Option<f64>,
}

impl Clock {
    /// Starts, and forgets what the device did before.
    fn start(times: &Times) -> Self {
        times.take();
        Self { wall: Instant::now(), processor: processor_seconds() }
    }

    fn seconds(&self) -> (f64, Option<f64>) {
        let processor = self.processor.zip(processor_seconds()).map(|(start, now)| now - start);
        (self.wall.elapsed().as_secs_f64(), processor)
    }
}

/// Seconds that all threads of this process have run on a processor, where the system tells (Linux).
fn processor_seconds() -> Option<f64> {
    let mut seconds = 0.0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        seconds += stat.split(' ').next()?.parse::<f64>().ok()? * 1e-9;
    }
    Some(seconds)
}

fn print_text(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let Report { what, model, profile, mode, kv, threads, batch, context, tokens, rounds, .. } = report;
    writeln!(out, "{what} of {model}: {profile}, {mode}, cache of {kv}, {threads} threads, {}", report.simd)?;
    writeln!(out, "{batch} x {context} tokens of prompt, {tokens} tokens timed, median of {rounds} rounds")?;
    let mut table = table(["launches", "tokens/s", "processor ms/token"]);
    let mut line = |name: &str, speed: f64, processor: Option<f64>| {
        let figures = [format!("{speed:.1}"), processor.map_or_else(String::new, |ms| format!("{ms:.2}"))];
        let cells = figures.map(|x| Cell::new(x).set_alignment(CellAlignment::Right));
        table.add_row([Cell::new(name)].into_iter().chain(cells));
    };
    for (name, figures) in [("native", &report.native), ("interpreted", &report.interpreted)] {
        if let Some(figures) = figures {
            line(name, figures.tokens_per_s, figures.processor_ms_per_token);
        }
    }
    if let Some(peer) = &report.peer {
        line(&format!("{} {}", peer.engine, peer.version), peer.tokens_per_s, None);
    }
    writeln!(out, "{table}")?;
    if let Some(ratio) = report.interpreted_over_native {
        writeln!(out, "native launches are {ratio:.1} times as fast as interpreted ones")?;
    }
    if let Some(figures) = report.native.as_ref().or(report.interpreted.as_ref()) {
        writeln!(out, "where the time goes:")?;
        for kernel in figures.kernels.iter().filter(|k| k.share >= 0.005) {
            writeln!(out, "{:>6.1} %  {} ({} calls)", 100.0 * kernel.share, kernel.name, kernel.calls)?;
        }
        let device: f64 = figures.kernels.iter().map(|k| k.share).sum();
        writeln!(out, "{:>6.1} %  the engine itself", 100.0 * (1.0 - device).max(0.0))?;
    }
    Ok(())
}
