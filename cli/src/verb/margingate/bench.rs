//! `lastbit margingate bench`: flips, triggers, misses, determinism with its bound, signals, and cost, in one run that can go on after an interruption.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use engine::Engine;
use engine::gated::Signal;
use margingate::WriteBack;
use margingate::bound::Count;
use margingate::calibrate::{Calibration, Options, calibrate};
use margingate::trace::Observed;
use record::Digest;

use super::calibrate::{Extent, describe, outputs_of, scale, traces};
use super::cost::{self, Run, Way};
use super::load::{LoadArgs, Prompts, Schedule};
use super::picture;
use super::report::{self, Cost, Report, Sweep, Threshold, WayRow};
use super::study;
use super::work::Work;
use crate::argument;
use crate::output::{self, Format, Outcome, progress};
use crate::source;

/// The published trigger rate at which costs are compared.
pub const PUBLISHED_RATE: f64 = 0.1856;
/// Shares of injected mismatches.
const SHARES: [f64; 7] = [0.0, 0.05, 0.1, PUBLISHED_RATE, 0.35, 0.6, 1.0];
/// What `--way` may name: the ways of serving whose sequences are compared with the reference's.
const WAYS: [&str; 10] = [
    "plain",
    "mismatch",
    "trigger",
    "catch-up",
    "mismatch/row-distance",
    "trigger/row-distance",
    "catch-up/row-distance",
    "always-on",
    "windows",
    "invariant",
];

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    load: LoadArgs,

    /// Prompts that are not calibrated on: half of the sequences are theirs; may be given several times
    #[arg(long, value_name = "FILE")]
    transfer: Vec<PathBuf>,

    /// Share of steps that may change a logit difference by more than the threshold
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = super::calibrate::share)]
    alpha: f64,

    /// Share added to the threshold
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = super::calibrate::safety)]
    safety: f32,

    /// Requests of a verification, at most; its rows are padded to a multiple
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = argument::count(1, 16))]
    verify_rows: u32,

    /// Steps that a held row waits for others, at most
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = argument::count(0, 1 << 16))]
    patience: u32,

    /// Window of the always-on baseline
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = argument::count(1, 64))]
    window: u32,

    /// Way of serving whose sequences are compared with the reference's, or `none`; may be given several times [default: all of plain,
    /// mismatch, trigger, catch-up, each of these three with /row-distance, always-on, windows, invariant]
    #[arg(long = "way", value_name = "WAY", value_parser = way)]
    ways: Vec<String>,

    /// Schedules whose steps are compared with the reference's one by one: the first N of --schedules [default: all]
    #[arg(long, value_name = "N", value_parser = argument::count(1, 1 << 20))]
    traced: Option<u32>,

    /// Sequences whose steps are compared so: the first N, in whole groups; transfer prompts come last [default: all]
    #[arg(long, value_name = "N", value_parser = argument::count(1, 1 << 20))]
    traced_sequences: Option<u32>,

    /// Sequences whose cost is measured; 0 leaves costs out
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = argument::count(0, 64))]
    cost_sequences: u32,

    /// Rounds of the cost measurement, interleaved; the smallest time of each way counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = argument::count(1, 100))]
    rounds: u32,

    /// Compute nothing that is not in --work already, and report on what is there
    #[arg(long, requires = "work")]
    finished: bool,

    /// File for the picture of cost against trigger rate; it may not exist yet
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// File for the picture of trigger rates against misses, by signal; it may not exist yet
    #[arg(long, value_name = "FILE")]
    curves: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

fn way(name: &str) -> Result<String, String> {
    if name == "none" || WAYS.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(format!("it is none or one of {}", WAYS.join(", ")))
    }
}

/// Thresholds by signal.
type Thresholds = Vec<(Signal, Calibration)>;

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    for picture in [&args.svg, &args.curves].into_iter().flatten() {
        source::free(picture)?;
    }
    let model = args.load.model()?;
    let prompts = args.load.prompts(&model, &args.transfer)?;
    if args.load.sequences < 2 && !args.transfer.is_empty() {
        bail!("--sequences 1: calibration and transfer need one each");
    }
    let engine = args.load.engine(&model, &prompts)?;
    let what = format!("{}transfer {}\n", describe(&args.load, &prompts, &engine)?, args.transfer.len());
    let work = Work::open(args.load.work.as_ref(), &what)?;
    let traced = args.traced.unwrap_or(args.load.schedules).min(args.load.schedules);
    let groups = args.traced_sequences.map_or(usize::MAX, |n| n.div_ceil(args.load.group) as usize);
    let extent = Extent { schedules: traced, groups, finished: args.finished };
    let (engine, steps) = traces(&args.load, &prompts, engine, &work, extent)?;
    let first = prompts.sources.len() - args.transfer.len();
    let (own, others): (Vec<Observed>, Vec<Observed>) = steps.iter().partition(|s| (s.source as usize) < first);
    let options = Options { alpha: args.alpha, safety: args.safety };
    let thresholds: Thresholds = Signal::ALL
        .into_iter()
        .map(|signal| Ok((signal, calibrate(&own, options, &|s| scale(signal, s))?)))
        .collect::<anyhow::Result<_>>()?;
    for (signal, c) in &thresholds {
        output::note(format_args!("{}: threshold {}, {} flips of {} steps", signal.id(), c.tau, c.flips, c.steps));
    }

    let (engine, mut ways) = sequences(&args, &prompts, engine, &work, &thresholds)?;
    ways.insert(0, unverified(&steps));
    let cost = if args.cost_sequences > 0 && !args.finished {
        Some(costs(&args, &prompts, engine, &work, &thresholds)?)
    } else {
        None
    };
    let report = Report {
        schema: "lastbit/margingate-bench/v2",
        level: "T",
        model: model.name.clone(),
        sources: prompts.sources.iter().map(|s| format!("{} ({})", s.name, s.sequences)).collect(),
        sequences: args.load.sequences,
        prompt_tokens: args.load.prompt_tokens,
        tokens: args.load.tokens,
        schedules: args.load.schedules,
        thresholds: thresholds.iter().map(|(signal, c)| threshold(*signal, c, &others)).collect(),
        ways,
        study: study::study(&steps, 32, args.safety),
        cost,
        limits: margingate::LIMITS.to_vec(),
    };
    if let (Some(path), Some(cost)) = (&args.svg, &report.cost) {
        source::write_new(path, picture::cost(cost).as_bytes())?;
    }
    if let Some(path) = &args.curves {
        source::write_new(path, picture::curves(&report.study).as_bytes())?;
    }
    args.format.print(&report, |out| report::print(out, &report))?;
    Ok(Outcome::AllMatch)
}

fn threshold(signal: Signal, c: &Calibration, others: &[Observed]) -> Threshold {
    let risk = |s: &Observed| margingate::signal::scaled(s.margin.value(), scale(signal, s));
    let flips = others.iter().filter(|s| s.flip).count() as u64;
    let missed = others.iter().filter(|s| s.flip && risk(s) >= c.tau).count() as u64;
    let low = others.iter().filter(|s| risk(s) < c.tau).count() as u64;
    let of = others.len() as u64;
    let some = |words: String| (of > 0).then_some(words);
    Threshold {
        signal: signal.id(),
        tau: c.tau,
        tau_flip: c.tau_flip,
        tau_conf: c.tau_conf,
        flips: c.flip_rate().at_most(),
        triggers: c.trigger_rate().at_most(),
        miss_bound: c.miss_bound(),
        transfer_flips: some(Count { hits: flips, of }.at_most()),
        transfer_triggers: some(Count { hits: low, of }.at_most()),
        transfer_misses: some(Count { hits: missed, of: flips }.at_most()),
    }
}

/// Fast decoding after prompts by the reference, nothing verified: a sequence parts under a schedule where any of its steps flips, and not before. So the traces
/// tell it without another run.
fn unverified(steps: &[Observed]) -> WayRow {
    let mut parts = std::collections::BTreeMap::new();
    for s in steps {
        *parts.entry((s.sequence, s.schedule)).or_insert(false) |= s.flip;
    }
    let equal = parts.values().filter(|flips| !**flips).count() as u64;
    let run = Run { equal, of: parts.len() as u64, judged: steps.len() as u64, ..Run::default() };
    WayRow::counted("fast decode, nothing verified (from the traces)".into(), &run)
}

fn ways(args: &Args, thresholds: &Thresholds) -> anyhow::Result<Vec<Way>> {
    let chosen: Vec<&str> =
        if args.ways.is_empty() { WAYS.to_vec() } else { args.ways.iter().map(String::as_str).collect() };
    let shape = (args.verify_rows, args.patience);
    let one = |name: &str| -> anyhow::Result<Way> {
        let (policy, signal) = match name.split_once('/') {
            Some((policy, _)) => (policy, Signal::RowDistance),
            None => (name, Signal::Margin),
        };
        let tau = thresholds.iter().find(|t| t.0 == signal).map(|t| t.1.tau).context("no threshold")?;
        Ok(match policy {
            "plain" => Way::Plain,
            "always-on" => Way::Gated(cost::gate(tau, WriteBack::All, Signal::Margin, shape)),
            "windows" => Way::Windows(args.window),
            "invariant" => Way::Invariant,
            policy => Way::Gated(cost::gate(
                tau,
                WriteBack::from_name(policy).with_context(|| policy.to_owned())?,
                signal,
                shape,
            )),
        })
    };
    chosen.into_iter().filter(|name| *name != "none").map(one).collect()
}

/// Whether every sequence comes out as the reference alone gives it, in every way and under every schedule.
fn sequences(
    args: &Args,
    prompts: &Prompts,
    mut engine: Engine,
    work: &Work,
    thresholds: &Thresholds,
) -> anyhow::Result<(Engine, Vec<WayRow>)> {
    let ways = ways(args, thresholds)?;
    let groups: Vec<_> = prompts.all.chunks(args.load.group as usize).collect();
    let total = groups.len() as u64 * u64::from(args.load.schedules) * ways.len() as u64;
    let bar = progress(total, "whole sequences");
    let mut sums = vec![Run::default(); ways.len()];
    for s in 0..args.load.schedules {
        for (way, sum) in ways.iter().zip(&mut sums) {
            // A part belongs to its way and threshold: another calibration makes parts of its own.
            let key = Digest::of_file(format!("{way:?}").as_bytes()).to_hex();
            for (g, group) in (0..).zip(&groups) {
                let name = format!("way-{}-{g}-{s}.json", &key[..12]);
                let part: Run = match work.get(&name)? {
                    Some(text) => serde_json::from_str(&text).with_context(|| name.clone())?,
                    None if args.finished => continue,
                    None => {
                        let outputs = outputs_of(&mut engine, work, g, group, args.load.tokens)?;
                        let schedule = args.load.schedule(g, s, group.len());
                        let (back, part) = cost::run(engine, way, (group, &outputs), args.load.tokens, &schedule)?;
                        engine = back;
                        work.put(&name, &serde_json::to_string(&part)?)?;
                        let (way, equal, of) = (way.name(), part.equal, part.of);
                        output::note(format_args!("schedule {s}, {way}, group {g}: {equal} of {of} equal"));
                        part
                    }
                };
                *sum = sum.and(part);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    let rows = ways.iter().zip(&sums).map(|(way, sum)| WayRow::counted(way.name(), sum));
    Ok((engine, rows.collect()))
}

/// Every way of serving on one load, and sweeps of injected mismatches.
fn costs(
    args: &Args,
    prompts: &Prompts,
    mut engine: Engine,
    work: &Work,
    thresholds: &Thresholds,
) -> anyhow::Result<Cost> {
    let members = prompts.all.len().min(args.cost_sequences as usize).min(args.load.group as usize);
    let load = &prompts.all[..members];
    let group = &prompts.all[..prompts.all.len().min(args.load.group as usize)];
    let references = outputs_of(&mut engine, work, 0, group, args.load.tokens)?;
    let schedule = Schedule { order: (0..members).collect(), together: members, chunk: None, prefix_cache: false };
    let shape = (args.verify_rows, args.patience);
    let mut all = vec![Way::Plain];
    all.extend(ways(args, thresholds)?.into_iter().filter(|w| *w != Way::Plain));
    for write_back in [WriteBack::Mismatch, WriteBack::CatchUp] {
        all.extend(SHARES.map(|share| Way::Injected(cost::gate(1.0, write_back, Signal::Margin, shape), share)));
    }
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); all.len()];
    let bar = progress(all.len() as u64 * u64::from(args.rounds), "ways of serving");
    for _ in 0..args.rounds {
        for (way, runs) in all.iter().zip(&mut runs) {
            let (back, run) = cost::run(engine, way, (load, &references), args.load.tokens, &schedule)?;
            engine = back;
            output::note(format_args!("{}: {:.1} s of processor time", way.name(), run.cpu));
            runs.push(run);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let least = |runs: &[Run]| {
        let smallest = |pick: fn(&Run) -> f64| runs.iter().map(pick).fold(f64::INFINITY, f64::min);
        Run { cpu: smallest(|r| r.cpu), wall: smallest(|r| r.wall), ..runs[0] }
    };
    let measured: Vec<(Way, Run)> = all.into_iter().zip(runs.iter().map(|r| least(r))).collect();
    let config = &engine.model().config;
    let plain = measured[0].1;
    let row = |(way, run): &(Way, Run)| WayRow::measured(way.name(), run, &plain, config);
    let named = measured.iter().filter(|(way, _)| way.injected().is_none()).map(row).collect();
    let sweeps = [WriteBack::Mismatch, WriteBack::CatchUp].map(|policy| {
        let points = measured.iter().filter(|(way, _)| way.injected().is_some_and(|i| i.0 == policy)).map(row);
        Sweep::of(policy.name(), points.collect(), PUBLISHED_RATE)
    });
    Ok(Cost { sequences: members, rounds: args.rounds, ways: named, sweeps: sweeps.into() })
}
