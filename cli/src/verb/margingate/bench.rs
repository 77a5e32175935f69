//! `lastbit margingate bench`: flips, triggers, misses, determinism with its bound, signals, and cost, in one run that can go on after an interruption.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use comfy_table::{Cell, CellAlignment};
use engine::gated::{Prefill, Setup, Signal};
use margingate::WriteBack;
use margingate::bound::Count;
use margingate::calibrate::{Calibration, Options, calibrate};
use margingate::cost::Fit;
use margingate::trace::Observed;
use record::Digest;
use serde::{Deserialize, Serialize};

use super::calibrate::{describe, outputs_of, traces};
use super::cost::{self, Run, Way};
use super::load::{LoadArgs, Prompts, Schedule};
use super::measure::{fast, serve};
use super::picture;
use super::study::{self, Study};
use super::work::Work;
use crate::argument;
use crate::output::{self, Format, Outcome, progress, table};
use crate::source;

/// The published trigger rate at which costs are compared.
const PUBLISHED_RATE: f64 = 0.1856;
/// Shares of injected mismatches.
const SHARES: [f64; 7] = [0.0, 0.05, 0.1, PUBLISHED_RATE, 0.35, 0.6, 1.0];

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

    /// Rows of a verification
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = argument::count(1, 16))]
    verify_rows: u32,

    /// Steps that a held row waits for others, at most
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = argument::count(0, 1 << 16))]
    patience: u32,

    /// Window of the always-on baseline
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = argument::count(1, 64))]
    window: u32,

    /// Sequences whose cost is measured; 0 leaves costs out
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = argument::count(0, 64))]
    cost_sequences: u32,

    /// Rounds of the cost measurement, interleaved; the smallest time of each way counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = argument::count(1, 100))]
    rounds: u32,

    /// File for the picture of cost against trigger rate; it may not exist yet
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

/// Everything that was measured.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    level: &'static str,
    model: String,
    sequences: u32,
    tokens: u32,
    schedules: u32,
    calibration: Calibrated,
    determinism: Vec<Determinism>,
    study: Study,
    cost: Option<Cost>,
    limits: Vec<&'static str>,
}

#[derive(Serialize)]
struct Calibrated {
    tau: f32,
    tau_flip: f32,
    tau_conf: f32,
    flips: String,
    triggers: String,
    miss_bound: f64,
    transfer_flips: Option<String>,
    transfer_misses: Option<String>,
}

/// One way of serving over all sequences and schedules.
#[derive(Serialize)]
struct Determinism {
    way: String,
    equal: u64,
    of: u64,
    words: String,
    triggered: f64,
}

/// What one part found.
#[derive(Serialize, Deserialize)]
struct Part {
    equal: u64,
    of: u64,
    judged: u64,
    triggered: u64,
}

#[derive(Serialize)]
struct Cost {
    ways: Vec<CostRow>,
    fixed: Option<f64>,
    full: Option<f64>,
    fixed_share: Option<f64>,
    advantage_at_published_rate: Option<f64>,
}

/// Cost of one way over plain.
#[derive(Clone, Serialize)]
pub struct CostRow {
    /// Its name.
    pub way: String,
    /// Share of judged rows that were verified.
    pub verified: f64,
    /// Processor time over plain's, minus one.
    pub cpu_increment: f64,
    /// The same for wall time.
    pub wall_increment: f64,
    /// Sequences equal to the reference's.
    pub equal: usize,
    /// This is a point of the injection sweep.
    pub injected: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if let Some(svg) = &args.svg {
        source::free(svg)?;
    }
    let model = args.load.model()?;
    let prompts = args.load.prompts(&model, &args.transfer)?;
    if args.load.sequences < 2 && !args.transfer.is_empty() {
        bail!("--sequences 1: calibration and transfer need one each");
    }
    let engine = args.load.engine(&model, &prompts)?;
    let what = format!("{}transfer {}\n", describe(&args.load, &prompts, &engine)?, args.transfer.len());
    let work = Work::open(args.load.work.as_ref(), &what)?;
    let (engine, steps) = traces(&args.load, &prompts, engine, &work)?;
    let first = prompts.sources.len() - args.transfer.len();
    let (own, others): (Vec<Observed>, Vec<Observed>) = steps.iter().partition(|s| (s.source as usize) < first);
    let c = calibrate(&own, Options { alpha: args.alpha, safety: args.safety })?;
    output::note(format_args!("threshold {}, {} flips of {} steps", c.tau, c.flips, c.steps));

    let (engine, determinism) = determinism(&args, &prompts, engine, &work, &c)?;
    let cost = if args.cost_sequences > 0 { Some(costs(&args, &prompts, engine, &work, &c)?) } else { None };
    let report = Report {
        schema: "lastbit/margingate-bench/v1",
        level: "T",
        model: model.name.clone(),
        sequences: args.load.sequences,
        tokens: args.load.tokens,
        schedules: args.load.schedules,
        calibration: calibrated(&c, &others),
        determinism,
        study: study::study(&steps, 32, args.safety),
        cost,
        limits: margingate::LIMITS.to_vec(),
    };
    if let (Some(path), Some(cost)) = (&args.svg, &report.cost) {
        let fit = cost.fixed.zip(cost.full).map(|(fixed, full)| Fit { fixed, full });
        source::write_new(path, picture::cost(&cost.ways, fit).as_bytes())?;
    }
    args.format.print(&report, |out| print_text(out, &report))?;
    Ok(Outcome::AllMatch)
}

fn calibrated(c: &Calibration, others: &[Observed]) -> Calibrated {
    let flips = others.iter().filter(|s| s.flip).count() as u64;
    let missed = others.iter().filter(|s| s.flip && s.margin.value() >= c.tau).count() as u64;
    let some = !others.is_empty();
    Calibrated {
        tau: c.tau,
        tau_flip: c.tau_flip,
        tau_conf: c.tau_conf,
        flips: c.flip_rate().at_most(),
        triggers: c.trigger_rate().at_most(),
        miss_bound: c.miss_bound(),
        transfer_flips: some.then(|| Count { hits: flips, of: others.len() as u64 }.at_most()),
        transfer_misses: some.then(|| Count { hits: missed, of: flips }.at_most()),
    }
}

/// Whether every sequence comes out as the reference alone gives it, under every schedule.
fn determinism(
    args: &Args,
    prompts: &Prompts,
    mut engine: engine::Engine,
    work: &Work,
    c: &Calibration,
) -> anyhow::Result<(engine::Engine, Vec<Determinism>)> {
    let shape = (args.verify_rows, args.patience);
    let gated = *cost::gate(c.tau, WriteBack::Mismatch, Signal::Margin, shape);
    // A part belongs to its threshold: another calibration makes parts of its own.
    let key = Digest::of_file(format!("{gated:?}").as_bytes()).to_hex();
    let ways: [(&str, String, Setup); 2] = [
        ("plain throughput", "plain".into(), fast(Prefill::Throughput)),
        ("gated, mismatch, margin", format!("gated-{}", &key[..8]), gated),
    ];
    let groups = prompts.all.chunks(args.load.group as usize);
    let total = groups.len() as u64 * u64::from(args.load.schedules) * ways.len() as u64;
    let bar = progress(total, "whole sequences");
    let mut out = Vec::new();
    for (way, file, setup) in ways {
        let mut sum = Part { equal: 0, of: 0, judged: 0, triggered: 0 };
        for (g, group) in (0..).zip(prompts.all.chunks(args.load.group as usize)) {
            for s in 0..args.load.schedules {
                let name = format!("{file}-{g}-{s}.json");
                let part: Part = match work.get(&name)? {
                    Some(text) => serde_json::from_str(&text).with_context(|| name.clone())?,
                    None => {
                        let outputs = outputs_of(&mut engine, work, g, group, args.load.tokens)?;
                        engine = engine.with_gate(setup.clone())?;
                        let schedule = args.load.schedule(g, s, group.len());
                        let (found, meter) =
                            serve(&mut engine, group, args.load.tokens, &schedule, &mut engine::batch::NoLog)?;
                        let part = Part {
                            equal: found.iter().zip(&outputs).filter(|(a, b)| a == b).count() as u64,
                            of: group.len() as u64,
                            judged: meter.judged,
                            triggered: meter.triggered,
                        };
                        work.put(&name, &serde_json::to_string(&part)?)?;
                        output::note(format_args!(
                            "{way}, group {g}, schedule {s}: {} of {} equal",
                            part.equal, part.of
                        ));
                        part
                    }
                };
                sum.equal += part.equal;
                sum.of += part.of;
                sum.judged += part.judged;
                sum.triggered += part.triggered;
                bar.inc(1);
            }
        }
        out.push(Determinism {
            way: way.into(),
            equal: sum.equal,
            of: sum.of,
            words: Count { hits: sum.equal, of: sum.of }.at_least(),
            triggered: sum.triggered as f64 / sum.judged.max(1) as f64,
        });
    }
    bar.finish_and_clear();
    Ok((engine, out))
}

/// Every way of serving on one load.
fn costs(
    args: &Args,
    prompts: &Prompts,
    mut engine: engine::Engine,
    work: &Work,
    c: &Calibration,
) -> anyhow::Result<Cost> {
    let members = prompts.all.len().min(args.cost_sequences as usize).min(args.load.group as usize);
    let load = &prompts.all[..members];
    let group = &prompts.all[..prompts.all.len().min(args.load.group as usize)];
    let references = outputs_of(&mut engine, work, 0, group, args.load.tokens)?;
    let schedule = Schedule { order: (0..members).collect(), together: members, chunk: None, prefix_cache: false };
    let shape = (args.verify_rows, args.patience);
    let gated = |tau, write_back, signal| Way::Gated(cost::gate(tau, write_back, signal, shape));
    let mut ways = vec![
        Way::Plain,
        gated(c.tau, WriteBack::Mismatch, Signal::Margin),
        gated(c.tau, WriteBack::Trigger, Signal::Margin),
        gated(c.tau, WriteBack::All, Signal::Margin),
        Way::Windows(args.window),
        Way::Invariant,
    ];
    ways.extend(SHARES.map(|share| Way::Injected(cost::gate(1.0, WriteBack::Mismatch, Signal::Margin, shape), share)));
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); ways.len()];
    let bar = progress(ways.len() as u64 * u64::from(args.rounds), "ways of serving");
    for _ in 0..args.rounds {
        for (way, runs) in ways.iter().zip(&mut runs) {
            let (back, run) = cost::run(engine, way, (load, &references), args.load.tokens, &schedule)?;
            engine = back;
            output::note(format_args!("{}: {:.1} s of processor time", way.name(), run.cpu));
            runs.push(run);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let least = |runs: &[Run], pick: fn(&Run) -> f64| runs.iter().map(pick).fold(f64::INFINITY, f64::min);
    let plain = (least(&runs[0], |r| r.cpu), least(&runs[0], |r| r.wall));
    let rows: Vec<CostRow> = ways
        .iter()
        .zip(&runs)
        .map(|(way, runs)| CostRow {
            way: way.name(),
            verified: runs[0].verified,
            cpu_increment: least(runs, |r| r.cpu) / plain.0 - 1.0,
            wall_increment: least(runs, |r| r.wall) / plain.1 - 1.0,
            equal: runs[0].equal,
            injected: matches!(way, Way::Injected(..)),
        })
        .collect();
    let points: Vec<(f64, f64)> = rows.iter().filter(|r| r.injected).map(|r| (r.verified, r.cpu_increment)).collect();
    let fit = Fit::of(&points);
    Ok(Cost {
        ways: rows,
        fixed: fit.map(|f| f.fixed),
        full: fit.map(|f| f.full),
        fixed_share: fit.map(|f| f.fixed_share()),
        advantage_at_published_rate: fit.map(|f| f.advantage(PUBLISHED_RATE)),
    })
}

fn print_text(out: &mut dyn Write, r: &Report) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} sequences of {} tokens, {} schedules each; level {}",
        r.model, r.sequences, r.tokens, r.schedules, r.level
    )?;
    let c = &r.calibration;
    writeln!(out, "\nthreshold {} (largest flip {}, order statistic {})", c.tau, c.tau_flip, c.tau_conf)?;
    writeln!(out, "steps that flip: {}\nsteps below the threshold: {}", c.flips, c.triggers)?;
    writeln!(out, "share of flips that the threshold misses: at most {:.4} at 95 % confidence", c.miss_bound)?;
    if let (Some(flips), Some(misses)) = (&c.transfer_flips, &c.transfer_misses) {
        writeln!(out, "on other prompts: steps that flip: {flips}; flips above the threshold: {misses}")?;
    }
    writeln!(out, "\nsequences equal to the reference alone:")?;
    for d in &r.determinism {
        writeln!(out, "  {}: {}; {:.2} % of rows verified", d.way, d.words, d.triggered * 100.0)?;
    }
    writeln!(out)?;
    study::print_text(out, &r.study)?;
    if let Some(cost) = &r.cost {
        let mut t = table(["way", "rows verified", "processor time over plain", "wall time", "equal"]);
        for row in &cost.ways {
            let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
            let percent = |x: f64| right(format!("{:+.1} %", x * 100.0));
            t.add_row(vec![
                Cell::new(&row.way),
                right(format!("{:.2} %", row.verified * 100.0)),
                percent(row.cpu_increment),
                percent(row.wall_increment),
                right(row.equal.to_string()),
            ]);
        }
        writeln!(out, "\n{t}")?;
        if let (Some(f), Some(full), Some(share), Some(times)) =
            (cost.fixed, cost.full, cost.fixed_share, cost.advantage_at_published_rate)
        {
            writeln!(out, "fit over injected shares: fixed {f:.4}, full {full:.4} of plain, fixed / full {share:.3}")?;
            writeln!(out, "at a trigger rate of 18.56 % the increment is {times:.2} times smaller than always-on's")?;
        }
    }
    writeln!(out, "\nlimits:")?;
    r.limits.iter().try_for_each(|l| writeln!(out, "  - {l}"))
}
