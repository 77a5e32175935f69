//! `lastbit fingerprint record` and `enroll`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use engine::Mode;
use fingerprint::client::Usage;
use fingerprint::library::{self, reference};
use fingerprint::probe;
use fingerprint::session::Session;
use fingerprint::tier::{self, Capability};
use fingerprint::trace::{Model, Stack, Trace};
use serde::Serialize;

use super::connect::{self, About, Connect};
use super::factory;
use crate::argument;
use crate::output::{Format, Outcome, progress};
use crate::source::Emulation;
use crate::verb::generate::parse_mode;

/// Which probes.
#[derive(clap::Args, Clone, Copy)]
pub struct Probes {
    /// Greedy probes
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = argument::count(1, 1000))]
    pub probes: u32,

    /// Tokens of each
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = argument::count(1, 4096))]
    pub tokens: u32,

    /// Seed of the probes; references and targets must have the same
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub probe_seed: u64,
}

impl Probes {
    /// The most that one draw can use.
    pub fn most(&self) -> Vec<(&'static str, Usage)> {
        let n = u64::from(self.probes);
        let draw = Usage { requests: n, prompt: 256 * n, output: u64::from(self.tokens) * n };
        vec![("what is offered", Usage { requests: 9, prompt: 180, output: 36 }), ("greedy probes (P5)", draw)]
    }
}

/// Options of `record`.
#[derive(clap::Args)]
pub struct RecordArgs {
    /// Base address as OpenAI clients take it
    #[arg(value_name = "URL")]
    url: String,

    /// Existing folder for the trace
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,

    /// Requests at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = argument::count(1, 64))]
    concurrency: u32,

    #[command(flatten)]
    probes: Probes,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    format: Format,
}

/// Options of `enroll`.
#[derive(clap::Args)]
pub struct EnrollArgs {
    /// Base address of a known stack
    #[arg(value_name = "URL", required_unless_present = "emulate", conflicts_with = "emulate")]
    url: Option<String>,

    /// What is known of the stack: format=F,engine=E,version=V,backend=B,hardware=H
    #[arg(long, value_name = "NAME=VALUE,...", requires = "url", value_parser = stack)]
    stack: Option<Stack>,

    /// GPU generations to emulate, for example sm_80,sm_89,sm_90: reference traces of GPUs that are not there
    #[arg(long, value_name = "SM,...", value_delimiter = ',', value_parser = argument::profile)]
    emulate: Vec<String>,

    /// Numerics modes of the emulated stacks
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', default_value = "throughput", value_parser = parse_mode)]
    mode: Vec<Mode>,

    /// Weights for the emulated stacks [default: the model inside this binary]
    #[arg(long, value_name = "MODEL", requires = "emulate")]
    weights: Option<PathBuf>,

    /// Existing folder for the traces
    #[arg(long, value_name = "DIR")]
    library: PathBuf,

    /// Draws of noise: how many requests run at a time in each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,1,2,4,8", value_parser = argument::count(1, 64))]
    batches: Vec<u32>,

    #[command(flatten)]
    probes: Probes,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Written {
    schema: &'static str,
    traces: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    file: PathBuf,
    stack: Option<String>,
    batch: u32,
    probes: usize,
}

/// Sends the probes and returns what came back, bare, and what the endpoint offers.
pub async fn take(
    session: &Session,
    model: Option<&str>,
    probes: Probes,
    at_once: u32,
) -> anyhow::Result<(Trace, Capability)> {
    let cap = tier::detect(session, model).await?;
    let sent = probe::greedy(probes.probe_seed, probes.probes as usize, probes.tokens);
    let answered = library::record(session, &cap, &sent, at_once as usize).await?;
    if answered == 0 {
        bail!("no probe was answered");
    }
    let mut header = session.header().clone();
    header.model.name.clone_from(&cap.model);
    Ok((reference(&session.trace(), header), cap))
}

pub fn record(args: RecordArgs) -> anyhow::Result<Outcome> {
    if args.connect.dry_run {
        return connect::dry(args.format, &args.url, &args.probes.most());
    }
    folder(&args.out)?;
    let about = About { seed: args.probes.probe_seed, batch: args.concurrency, ..About::default() };
    let session = args.connect.session(&args.url, about)?;
    args.connect.announce(&args.url, &args.probes.most())?;
    let model = args.connect.model.as_deref();
    let (trace, _) = connect::block_on(take(&session, model, args.probes, args.concurrency))?;
    write(&args.out, vec![trace], args.format)
}

pub fn enroll(args: EnrollArgs) -> anyhow::Result<Outcome> {
    folder(&args.library)?;
    match &args.url {
        Some(url) => known(&args, url),
        None => emulated(&args),
    }
}

/// A stack that somebody runs, and knows.
fn known(args: &EnrollArgs, url: &str) -> anyhow::Result<Outcome> {
    let Some(stack) = &args.stack else { bail!("a reference needs a name: give --stack") };
    if args.connect.dry_run {
        return connect::dry(args.format, url, &args.probes.most());
    }
    let mut traces = Vec::new();
    for (draw, batch) in (0..).zip(&args.batches) {
        let about =
            About { stack: Some(stack.clone()), seed: args.probes.probe_seed, batch: *batch, draw, ..About::default() };
        let session = args.connect.session(url, about)?;
        args.connect.announce(url, &args.probes.most())?;
        traces.push(connect::block_on(take(&session, args.connect.model.as_deref(), args.probes, *batch))?.0);
    }
    write(&args.library, traces, args.format)
}

/// Stacks of GPUs that are not there.
fn emulated(args: &EnrollArgs) -> anyhow::Result<Outcome> {
    let mut traces = Vec::new();
    let bar = progress((args.emulate.len() * args.mode.len() * args.batches.len()) as u64, "recording");
    let model = factory::load(args.weights.as_deref())?;
    let about = Model { name: None, ..factory::about(&model)? };
    for profile in &args.emulate {
        for mode in &args.mode {
            let stack = factory::stack(profile, *mode);
            let served = factory::Served::start(model.clone(), profile, *mode, &args.emulation)?;
            for (draw, batch) in (0..).zip(&args.batches) {
                bar.set_message(format!("{profile} {} beside {}", mode.name(), batch - 1));
                let about = About {
                    stack: Some(stack.clone()),
                    model: about.clone(),
                    seed: args.probes.probe_seed,
                    batch: *batch,
                    draw,
                };
                let session = args.connect.session(&served.url(), about)?;
                let (mut trace, _) = served.block_on(take(&session, None, args.probes, *batch))?;
                // Ports are chosen anew each time; the trace is to be the same.
                trace.header.endpoint = "emulated".to_owned();
                trace.header.date = 0;
                traces.push(trace);
                bar.inc(1);
            }
            served.stop()?;
        }
    }
    bar.finish_and_clear();
    write(&args.library, traces, args.format)
}

fn folder(path: &Path) -> anyhow::Result<()> {
    if !path.is_dir() {
        bail!("{} is not a folder; make it first", path.display());
    }
    Ok(())
}

fn write(folder: &Path, traces: Vec<Trace>, format: Format) -> anyhow::Result<Outcome> {
    let mut written = Written { schema: "lastbit/fingerprint-traces/v1", traces: Vec::new() };
    for trace in traces {
        let (file, _) = trace.write(folder)?;
        let stack = trace.header.stack.as_ref().map(ToString::to_string);
        written.traces.push(Line { file, stack, batch: trace.header.batch, probes: trace.records.len() });
    }
    format.print(&written, |out| {
        written.traces.iter().try_for_each(|l| {
            let stack = l.stack.as_ref().map_or(String::new(), |s| format!("  {s}, {} at a time", l.batch));
            writeln!(out, "{}{stack}", l.file.display())
        })
    })?;
    Ok(Outcome::AllMatch)
}

fn stack(text: &str) -> Result<Stack, String> {
    let unknown = || "unknown".to_owned();
    let mut stack =
        Stack { format: unknown(), engine: unknown(), version: unknown(), backend: unknown(), hardware: unknown() };
    for part in text.split(',') {
        let member = match part.split_once('=') {
            Some(("format", v)) => (&mut stack.format, v),
            Some(("engine", v)) => (&mut stack.engine, v),
            Some(("version", v)) => (&mut stack.version, v),
            Some(("backend", v)) => (&mut stack.backend, v),
            Some(("hardware", v)) => (&mut stack.hardware, v),
            _ => {
                return Err(format!(
                    "`{part}` is not NAME=VALUE with a name of format, engine, version, backend, hardware"
                ));
            }
        };
        *member.0 = member.1.to_owned();
    }
    Ok(stack)
}
