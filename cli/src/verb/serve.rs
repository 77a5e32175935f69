//! `lastbit serve`: an OpenAI-compatible service that logs every step.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use engine::fault::Fault;
use engine::kernels::KvType;
use engine::runtime::Limits;
use engine::scheduler::Settings;
use engine::{Build, Engine, Mode};
use record::PrivateKey;
use serde::{Deserialize, Serialize};
use server::worker::{self, Ledger};
use server::{ApiKeys, Config, Serving};

use super::generate::{open_log, parse_mode};
use crate::argument;
use crate::gate::GateArgs;
use crate::operate::Evidence;
use crate::output::{Format, Outcome};
use crate::source::{self, Emulation};

/// Options. Each one stands above the environment variable of its name, and that above the configuration file.
#[derive(clap::Args)]
pub struct Args {
    /// Configuration file (TOML); its members have the names of the options, with `_` for `-`
    #[arg(long, value_name = "FILE", env = "LASTBIT_CONFIG")]
    config: Option<PathBuf>,

    /// Where to listen [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS:PORT", env = "LASTBIT_LISTEN")]
    listen: Option<SocketAddr>,

    /// Hugging Face model folder [default: the model inside this binary]
    #[arg(long, value_name = "DIR", env = "LASTBIT_MODEL")]
    model: Option<PathBuf>,

    /// Numerics mode: `invariant` (a row's bits depend on its own tokens only), `portable` (the same, on any hardware), `throughput`, or `gated`
    /// (rows at risk are verified) [default: throughput]
    #[arg(long, value_name = "MODE", env = "LASTBIT_MODE", value_parser = parse_mode)]
    mode: Option<Mode>,

    /// Where kernels run: emulated, cuda, or cuda:N for GPU number N [default: emulated]
    #[arg(long, value_name = "DEVICE", env = "LASTBIT_DEVICE")]
    device: Option<argument::Device>,

    /// GPU generation to emulate [default: sm_90]
    #[arg(long, value_name = "SM", env = "LASTBIT_PROFILE", value_parser = argument::profile)]
    profile: Option<String>,

    /// Tensor-parallel ranks to simulate: 1, 2, 4 or 8 [default: 1]
    #[arg(long, value_name = "N", env = "LASTBIT_TENSOR_PARALLEL", value_parser = argument::count(1, 8))]
    tensor_parallel: Option<u32>,

    /// Element type of the KV cache: bf16, or fp8 (e4m3 with a scale of one) [default: bf16]
    #[arg(long, value_name = "TYPE", env = "LASTBIT_KV", value_parser = argument::kv)]
    kv: Option<KvType>,

    /// Log to append to (made by `lastbit log init`)
    #[arg(long, value_name = "DIR", env = "LASTBIT_LOG_DIR", conflicts_with = "no_log")]
    log: Option<PathBuf>,

    /// Private key of the log
    #[arg(long, value_name = "FILE", env = "LASTBIT_KEY", conflicts_with = "no_log")]
    key: Option<PathBuf>,

    /// Serve without a log: nothing can be proved afterwards, and there are no receipts
    #[arg(long)]
    no_log: bool,

    /// What records commit to, and whether the tensors are kept for an auditor [default: none]
    #[arg(long, value_enum, env = "LASTBIT_EVIDENCE")]
    evidence: Option<Evidence>,

    /// File of API keys, one a line; without keys everybody may ask, and only this machine can
    #[arg(long, value_name = "FILE", env = "LASTBIT_API_KEYS_FILE")]
    api_keys: Option<PathBuf>,

    /// Requests in the cache at a time [default: 64]
    #[arg(long, value_name = "N", value_parser = argument::count(1, 2048))]
    slots: Option<u32>,

    /// Pages of the cache, of 16 positions each [default: 512]
    #[arg(long, value_name = "N", value_parser = argument::count(1, 1 << 20))]
    pages: Option<u32>,

    /// Most prompt tokens of one request in one step [default: whole prompts]
    #[arg(long, value_name = "N", value_parser = argument::count(1, u32::MAX))]
    chunk: Option<u32>,

    /// Share computed prefixes among requests
    #[arg(long)]
    prefix_cache: bool,

    /// Pages of host memory for preempted requests [default: 0, they are computed again]
    #[arg(long, value_name = "N", value_parser = argument::count(0, 1 << 20))]
    swap_pages: Option<u32>,

    /// Choices that run or wait; beyond that, calls are answered with 429 [default: 256]
    #[arg(long, value_name = "N", value_parser = argument::count(1, 1 << 20))]
    queue: Option<u32>,

    /// Seconds that running requests get to end in after SIGTERM [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = argument::count(0, 86_400))]
    drain_seconds: Option<u32>,

    /// Go wrong on purpose, to test what watches a service; mode throughput only. The log, every answer and /health say so: logit, column, swap, rows=N
    /// or delay=MILLISECONDS, each with @EVERY for some steps only; may be given several times
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,

    /// Log lines on standard error as JSON; what is logged follows LASTBIT_LOG, for example `debug` [default: info]
    #[arg(long)]
    json_log: bool,

    #[command(flatten)]
    gate: GateArgs,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    format: Format,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    listen: Option<SocketAddr>,
    model: Option<PathBuf>,
    mode: Option<String>,
    device: Option<argument::Device>,
    profile: Option<String>,
    tensor_parallel: Option<u32>,
    kv: Option<String>,
    log: Option<PathBuf>,
    key: Option<PathBuf>,
    no_log: bool,
    evidence: Option<String>,
    api_keys: Option<PathBuf>,
    slots: Option<u32>,
    pages: Option<u32>,
    chunk: Option<u32>,
    prefix_cache: bool,
    swap_pages: Option<u32>,
    json_log: bool,
    /// Limits and times.
    service: Config,
}

impl File {
    fn read(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text = source::text(path, source::MAX_TEXT)?;
        toml::from_str(&text).with_context(|| format!("reading the configuration {}", path.display()))
    }
}

#[derive(Serialize)]
struct Begun<'a> {
    schema: &'static str,
    address: SocketAddr,
    model: &'a str,
    log: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let file = File::read(args.config.as_deref())?;
    trace(args.json_log || file.json_log)?;
    let engine = engine(&args, &file)?;
    // Refused before the log is touched.
    engine::fault::Faults::new(args.fault.clone(), &engine)?;
    let settings = Settings {
        chunk: args.chunk.or(file.chunk),
        prefix_cache: args.prefix_cache || file.prefix_cache,
        swap_pages: args.swap_pages.or(file.swap_pages).unwrap_or(0),
        ..Settings::plain(engine.limits().max_rows)
    };
    let keys = keys(args.api_keys.as_deref().or(file.api_keys.as_deref()))?;
    let ledger = ledger(&args, &file)?;
    let mut config = file.service;
    if let Some(queue) = args.queue {
        config.limits.queue = queue;
    }
    if let Some(seconds) = args.drain_seconds {
        config.drain_seconds = u64::from(seconds);
    }
    if config.limits.queue == 0 || config.limits.choices == 0 || config.connections == 0 {
        bail!("a service needs room for at least one connection and one choice");
    }
    let address = args.listen.or(file.listen).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8000)));
    // Connections need little: the engine's thread and the emulated device do the work.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let listener =
            tokio::net::TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
        let address = listener.local_addr()?;
        let model = engine.model().name.clone();
        let faults = args.fault.iter().map(Fault::to_string).collect();
        let begun = Begun { schema: "lastbit/serve/v1", address, model: &model, log: ledger.origin(), faults };
        let stop = stop()?;
        args.format.print(&begun, |out| {
            writeln!(out, "listening on http://{address}")?;
            match begun.log {
                Some(log) => writeln!(out, "serving {model}, logging to {log}"),
                None => writeln!(out, "serving {model}; NOTHING IS LOGGED"),
            }?;
            match begun.faults.is_empty() {
                true => Ok(()),
                false => writeln!(out, "FAULTS ON PURPOSE: {}", begun.faults.join(" ")),
            }
        })?;
        // In a process of its own, within limits.
        let render: server::Render = Arc::new(|template, messages| {
            crate::chat::render(template, messages).map_err(|e| crate::output::sentence(&e))
        });
        let serving = Serving { engine, settings, ledger, faults: args.fault.clone(), keys, config, render };
        server::serve(listener, serving, stop).await?;
        Ok(Outcome::AllMatch)
    })
}

fn engine(args: &Args, file: &File) -> anyhow::Result<Engine> {
    let mode = match (args.mode, &file.mode) {
        (Some(mode), _) => mode,
        (None, Some(name)) => parse_mode(name).map_err(anyhow::Error::msg).context("`mode` of the configuration")?,
        (None, None) => Mode::Throughput,
    };
    let profile = match (&args.profile, &file.profile) {
        (Some(profile), _) => Some(profile.clone()),
        (None, Some(name)) => {
            Some(argument::profile(name).map_err(anyhow::Error::msg).context("`profile` of the configuration")?)
        }
        (None, None) => None,
    };
    let usual = Limits::default();
    let limits = Limits {
        slots: args.slots.or(file.slots).unwrap_or(usual.slots),
        pages: args.pages.or(file.pages).unwrap_or(usual.pages),
        ..usual
    };
    let model = Arc::new(source::model(args.model.as_deref().or(file.model.as_deref()))?);
    let place = args.device.or(file.device).unwrap_or_default();
    let device = source::device(place, profile.as_deref(), &args.emulation)?;
    let ranks = args.tensor_parallel.or(file.tensor_parallel).unwrap_or(1);
    let key = args.key.as_ref().or(file.key.as_ref()).map(|k| source::private_key(k)).transpose()?;
    let kv = match (args.kv, &file.kv) {
        (Some(kv), _) => kv,
        (None, Some(name)) => argument::kv(name).map_err(anyhow::Error::msg).context("`kv` of the configuration")?,
        (None, None) => KvType::Bf16,
    };
    let engine = Engine::built(model, device, mode, limits, Build { ranks, kv })?;
    args.gate.attach(engine, key.as_ref().map(PrivateKey::public).as_ref())
}

/// Keys from the file and from `LASTBIT_API_KEYS`.
fn keys(path: Option<&Path>) -> anyhow::Result<ApiKeys> {
    let mut text = match path {
        Some(path) => source::text(path, 1 << 20)?,
        None => String::new(),
    };
    if let Ok(more) = std::env::var("LASTBIT_API_KEYS") {
        text.push('\n');
        text.push_str(&more.replace(',', "\n"));
    }
    let keys = ApiKeys::parse(&text).context("API keys")?;
    if keys.is_empty() && path.is_some() {
        bail!("the file of API keys has none");
    }
    Ok(keys)
}

fn ledger(args: &Args, file: &File) -> anyhow::Result<Ledger> {
    let (log, key) = (args.log.as_ref().or(file.log.as_ref()), args.key.as_ref().or(file.key.as_ref()));
    match (log, key, args.no_log || file.no_log) {
        (Some(_), _, true) if args.log.is_none() && !file.no_log => Ok(Ledger::Nowhere),
        (None, None, true) => Ok(Ledger::Nowhere),
        (_, _, true) => bail!("a log and no log are asked for at once"),
        (Some(dir), Some(key), false) => {
            let evidence = match (args.evidence, &file.evidence) {
                (Some(evidence), _) => evidence,
                (None, Some(name)) => <Evidence as clap::ValueEnum>::from_str(name, false)
                    .map_err(anyhow::Error::msg)
                    .context("`evidence` of the configuration")?,
                (None, None) => Evidence::None,
            };
            let evidence = worker::Evidence { level: evidence.level(), kept: evidence != Evidence::None };
            Ok(Ledger::Log { log: open_log(dir, source::private_key(key)?)?, evidence })
        }
        _ => bail!(
            "give --log and --key (see `lastbit log init`), or say --no-log: nothing is served unlogged by accident"
        ),
    }
}

/// Done at the first SIGTERM or SIGINT. A second one ends the process at once; the log stands that.
pub(super) fn stop() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tokio::spawn(async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            tracing::warn!("ended by a second signal");
            std::process::exit(130);
        });
    })
}

pub(super) fn trace(json: bool) -> anyhow::Result<()> {
    use tracing_subscriber::EnvFilter;
    let filter = match std::env::var("LASTBIT_LOG") {
        Ok(filter) => EnvFilter::try_new(filter).context("LASTBIT_LOG")?,
        Err(_) => EnvFilter::new("info"),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    let set = if json { lines.json().try_init() } else { lines.try_init() };
    set.map_err(|e| anyhow::anyhow!("setting up the log lines: {e}"))
}
