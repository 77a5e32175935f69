//! `lastbit margingate calibrate`: teacher-forced pairs over a declared load, and a signed threshold.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use engine::Engine;
use engine::gated::{Prefill, Signal};
use margingate::calibrate::{Bin, Calibration, Options, calibrate};
use margingate::trace::{self, Observed};
use record::calibration::{self as document, CALIBRATION_TYPE};
use record::{Digest, F32Bits};
use serde::Serialize;

use super::load::{LoadArgs, Prompt, Prompts};
use super::measure::{Forced, References, fast, reference_outputs, references, serve};
use super::work::Work;
use crate::output::{self, Format, Outcome, progress};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    load: LoadArgs,

    /// Share of steps that may change a logit difference by more than the threshold
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = share)]
    alpha: f64,

    /// Share added to the threshold
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = safety)]
    safety: f32,

    /// What is compared with the threshold: margin/1, or row-distance/1 (over the distance of the two tokens' rows in the LM head)
    #[arg(long, value_name = "SIGNAL", default_value = "margin/1", value_parser = signal)]
    signal: Signal,

    /// Sign the calibration with this private key
    #[arg(long, value_name = "FILE", requires = "out")]
    key: Option<PathBuf>,

    /// File for the signed calibration; it may not exist yet
    #[arg(long, value_name = "FILE", requires = "key")]
    out: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(a) if a > 0.0 && a < 1.0 => Ok(a),
        _ => Err("a number between 0 and 1 is wanted".to_owned()),
    }
}

fn signal(text: &str) -> Result<Signal, String> {
    Signal::from_id(text).ok_or_else(|| "it is margin/1 or row-distance/1".to_owned())
}

/// What a signal divides the margin of a measured step by.
pub(super) fn scale(signal: Signal, step: &Observed) -> f32 {
    match signal {
        Signal::Margin => 1.0,
        Signal::RowDistance => step.distance,
    }
}

pub(super) fn safety(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(s) if (0.0..1000.0).contains(&s) => Ok(s),
        _ => Err("a number from 0 on is wanted; 0.25 adds a quarter".to_owned()),
    }
}

/// What was measured, as printed.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    level: &'static str,
    tau: f32,
    tau_flip: f32,
    tau_conf: f32,
    flips: String,
    triggers: String,
    miss_bound: f64,
    written: Option<String>,
    limits: Vec<&'static str>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if let Some(out) = &args.out {
        source::free(out)?;
    }
    let key = args.key.as_deref().map(source::private_key).transpose()?;
    let model = args.load.model()?;
    let prompts = args.load.prompts(&model, &[])?;
    let engine = args.load.engine(&model, &prompts)?;
    let binding = engine.binding()?;
    let work = Work::open(args.load.work.as_ref(), &describe(&args.load, &prompts, &engine)?)?;
    let (_, steps) = traces(&args.load, &prompts, engine, &work, Extent::all(args.load.schedules))?;
    let options = Options { alpha: args.alpha, safety: args.safety };
    let c = calibrate(&steps, options, &|s| scale(args.signal, s))?;
    let written = match (&args.out, key) {
        (Some(out), Some(key)) => {
            let text = format!("{}\n{}", trace::HEADER, trace::lines(&steps));
            let document = stated(&c, &args, &prompts, (&model.name, &binding), Digest::of_file(text.as_bytes()))?;
            source::write_new(out, &document.sign(&key)?)?;
            Some(out.display().to_string())
        }
        _ => None,
    };
    let report = Report {
        schema: "lastbit/margingate-calibrate/v1",
        level: "T",
        tau: c.tau,
        tau_flip: c.tau_flip,
        tau_conf: c.tau_conf,
        flips: c.flip_rate().at_most(),
        triggers: c.trigger_rate().at_most(),
        miss_bound: c.miss_bound(),
        written,
        limits: margingate::LIMITS.to_vec(),
    };
    args.format.print(&report, |out| print_text(out, &report))?;
    Ok(Outcome::AllMatch)
}

/// What a run is, in words that parts of another run would not share.
pub fn describe(load: &LoadArgs, prompts: &Prompts, engine: &Engine) -> anyhow::Result<String> {
    let binding = engine.binding()?;
    let stated = serde_json::to_string_pretty(&load.stated(prompts))?;
    Ok(format!("model {}\nstack {}\nload {stated}\n", binding.model, binding.stack))
}

/// How much of a run is made now.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The first so many schedules.
    pub schedules: u32,
    /// The first so many groups of sequences.
    pub groups: usize,
    /// Only what is there already.
    pub finished: bool,
}

impl Extent {
    /// All of it.
    pub fn all(schedules: u32) -> Self {
        Self { schedules, groups: usize::MAX, finished: false }
    }
}

/// Every measured step, group by group and schedule by schedule; parts that were finished before are read back.
pub fn traces(
    load: &LoadArgs,
    prompts: &Prompts,
    engine: Engine,
    work: &Work,
    extent: Extent,
) -> anyhow::Result<(Engine, Vec<Observed>)> {
    let mut engine = engine.with_gate(fast(Prefill::Reference))?;
    let model = engine.model().clone();
    let mut steps = Vec::new();
    let groups = prompts.all.chunks(load.group as usize).take(extent.groups);
    let bar = progress(groups.len() as u64 * u64::from(extent.schedules), "teacher-forced schedules");
    for (g, group) in (0..).zip(groups) {
        let name = |s: u32| format!("trace-{g}-{s}.csv");
        let done = (0..extent.schedules).map(|s| work.get(&name(s))).collect::<anyhow::Result<Vec<_>>>()?;
        let there = extent.finished || done.iter().all(Option::is_some);
        let (outputs, logits) = match there {
            true => (Vec::new(), None),
            false => known(&mut engine, work, g, group, load.tokens, true).map(|(o, l)| (o, Some(l)))?,
        };
        for (s, done) in (0..).zip(done) {
            let text = match (done, &logits) {
                (Some(text), _) => text,
                (None, None) => continue,
                (None, Some(logits)) => {
                    let schedule = load.schedule(g, s, group.len());
                    let mut forced = Forced {
                        prompts: group,
                        outputs: &outputs,
                        references: logits,
                        schedule: &schedule,
                        place: (g * load.group, s),
                        model: &model,
                        clean: BTreeMap::new(),
                        seen: Vec::new(),
                    };
                    serve(&mut engine, group, load.tokens, &schedule, &mut forced)?;
                    let text = format!("{}\n{}", trace::HEADER, trace::lines(&forced.seen));
                    work.put(&name(s), &text)?;
                    output::note(format_args!("group {g}, schedule {s}: {} steps compared", forced.seen.len()));
                    text
                }
            };
            steps.extend(trace::read(&text).with_context(|| name(s))?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok((engine, steps))
}

/// The reference's outputs of a group, computed or read back.
pub fn outputs_of(
    engine: &mut Engine,
    work: &Work,
    g: u32,
    group: &[Prompt],
    tokens: u32,
) -> anyhow::Result<Vec<Vec<u32>>> {
    Ok(known(engine, work, g, group, tokens, false)?.0)
}

/// The same with the reference's logits, if those are wanted: of outputs that were read back by one teacher-forced prefill a sequence.
fn known(
    engine: &mut Engine,
    work: &Work,
    g: u32,
    group: &[Prompt],
    tokens: u32,
    logits: bool,
) -> anyhow::Result<(Vec<Vec<u32>>, References)> {
    let name = format!("reference-{g}.json");
    if let Some(text) = work.get(&name)? {
        let outputs: Vec<Vec<u32>> = serde_json::from_str(&text).with_context(|| name)?;
        let logits = if logits { references(engine, group, &outputs)? } else { References::new() };
        return Ok((outputs, logits));
    }
    let found = reference_outputs(engine, group, tokens, logits)?;
    work.put(&name, &serde_json::to_string(&found.0)?)?;
    output::note(format_args!("group {g}: {} reference sequences", found.0.len()));
    Ok(found)
}

fn stated(
    c: &Calibration,
    args: &Args,
    prompts: &Prompts,
    (name, binding): (&str, &margingate::Binding),
    traces: Digest,
) -> anyhow::Result<document::Calibration> {
    let bins = |all: &[Bin]| all.iter().map(|b| document::Bin { exponent: b.exponent, count: b.count }).collect();
    Ok(document::Calibration {
        kind: CALIBRATION_TYPE.into(),
        model: binding.model.parse()?,
        stack: binding.stack.parse()?,
        model_name: name.into(),
        signal: args.signal.id().into(),
        tau: F32Bits::new(c.tau),
        tau_flip: F32Bits::new(c.tau_flip),
        tau_conf: F32Bits::new(c.tau_conf),
        alpha_ppm: (args.alpha * 1e6).ceil() as u32,
        safety: F32Bits::new(args.safety),
        steps: c.steps,
        flips: c.flips,
        triggers: c.triggers,
        miss_bound: F32Bits::new((c.miss_bound() as f32).next_up()),
        load: args.load.stated(prompts),
        margins: bins(&c.margins),
        deltas: bins(&c.deltas),
        flipped: bins(&c.flipped),
        traces,
        limits: margingate::LIMITS.map(str::to_owned).to_vec(),
    })
}

fn print_text(out: &mut dyn Write, r: &Report) -> io::Result<()> {
    writeln!(out, "threshold {} (largest flip {}, order statistic {})", r.tau, r.tau_flip, r.tau_conf)?;
    writeln!(out, "steps that flip: {}", r.flips)?;
    writeln!(out, "steps below the threshold: {}", r.triggers)?;
    writeln!(out, "share of flips that the threshold misses: at most {:.4} at 95 % confidence", r.miss_bound)?;
    if let Some(path) = &r.written {
        writeln!(out, "signed: {path}")?;
    }
    writeln!(out, "level {}; limits:", r.level)?;
    r.limits.iter().try_for_each(|l| writeln!(out, "  - {l}"))
}
