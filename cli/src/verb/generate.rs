//! `lastbit generate`: serve prompts in static batches, and log what was served.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use engine::batch::{BatchOptions, NoLog, Outcome as Served, Request, generate};
use engine::chat::Message;
use engine::config::Recommended;
use engine::journal::{Asked, Identity};
use engine::kernels::KvType;
use engine::runtime::{Limits, pages_for};
use engine::sampler::{Adjust, Sampling, Seeded};
use engine::scheduler::Settings;
use engine::step::Observe;
use engine::{Build, Engine, Mode, Model};
use record::{F32Bits, Log, PrivateKey};
use serde::Serialize;

use crate::argument;
use crate::chat;
use crate::gate::GateArgs;
use crate::operate::{self, Declared, Evidence, Scored, Values};
use crate::output::{self, Format, Outcome, progress};
use crate::source::{self, Emulation, now_unix_us};

/// Most requests served together: as many as the engine has rows in a step.
const MAX_BATCH: u32 = 2048;
/// Most tokens asked for; a model's positions end long before.
const MAX_NEW_TOKENS: u32 = 1 << 24;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// A prompt; may be given several times
    #[arg(long, value_name = "TEXT")]
    prompt: Vec<String>,

    /// A text file with one prompt a line: UTF-8, at most 16 MiB; a byte order mark at its start and empty lines are skipped
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,

    /// Hugging Face model folder, GGUF file, or name of a pulled model [default: the model inside this binary]
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,

    /// Each prompt is what a user says: put it into the model's chat template
    #[arg(long)]
    chat: bool,

    /// What the system says before the user
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,

    /// Most tokens to generate for each prompt
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = argument::count(1, MAX_NEW_TOKENS))]
    max_new_tokens: u32,

    /// Numerics mode: `invariant` (a row's bits depend on its own tokens only), `portable` (the same, on any hardware), `throughput`, or `gated`
    /// (rows at risk are verified)
    #[arg(long, value_name = "MODE", default_value = "throughput", value_parser = parse_mode)]
    mode: Mode,

    /// Where kernels run: emulated, cuda, or cuda:N for GPU number N
    #[arg(long, value_name = "DEVICE", default_value = "emulated")]
    device: argument::Device,

    /// GPU generation to emulate [default: sm_90]
    #[arg(long, value_name = "SM", value_parser = argument::profile)]
    profile: Option<String>,

    /// Tensor-parallel ranks to simulate: 1, 2, 4 or 8
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = argument::count(1, 8))]
    tensor_parallel: u32,

    /// Element type of the KV cache: bf16, or fp8 (e4m3 with a scale of one)
    #[arg(long, value_name = "TYPE", default_value = "bf16", value_parser = argument::kv)]
    kv: KvType,

    /// Requests served together
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = argument::count(1, MAX_BATCH))]
    batch: u32,

    /// Most prompt tokens of one request in one step [default: whole prompts]
    #[arg(long, value_name = "N", value_parser = argument::count(1, u32::MAX))]
    chunk: Option<u32>,

    /// Sample at this temperature instead of taking the largest logit
    #[arg(long, value_name = "T", value_parser = argument::temperature)]
    temperature: Option<f32>,

    /// Sample as the model's generation_config.json recommends
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"])]
    recommended: bool,

    /// Keep this many largest logits when sampling
    #[arg(long, value_name = "K", requires = "temperature", value_parser = argument::count(1, u32::MAX))]
    top_k: Option<u32>,

    /// Keep the most likely tokens up to this probability when sampling
    #[arg(long, value_name = "P", requires = "temperature", value_parser = argument::top_p)]
    top_p: Option<f32>,

    /// Keep tokens of at least this part of the largest probability when sampling
    #[arg(long, value_name = "P", requires = "temperature", value_parser = argument::min_p)]
    min_p: Option<f32>,

    /// Divide positive logits of tokens that are in prompt or output by this, and multiply others
    #[arg(long, value_name = "R", value_parser = argument::repetition_penalty)]
    repetition_penalty: Option<f32>,

    /// Take this off the logit of a token that is in the output
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = argument::penalty)]
    presence_penalty: Option<f32>,

    /// Take this off a logit for each time that its token is in the output
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = argument::penalty)]
    frequency_penalty: Option<f32>,

    /// Add a number to the logit of a token id; may be given several times
    #[arg(long, value_name = "ID=X", value_parser = argument::logit_bias)]
    logit_bias: Vec<(u32, f32)>,

    /// Tell and record the log-probability of every token chosen
    #[arg(long)]
    logprobs: bool,

    /// Tell and record the log-probability of every prompt token but the first
    #[arg(long)]
    prompt_logprobs: bool,

    /// Seed of every request [default: derived from nonce, key and request id, which needs --log]
    #[arg(long)]
    seed: Option<u64>,

    /// The client's nonce, lower-case hex of 1 to 16 bytes [default: random]
    #[arg(long, value_name = "HEX", value_parser = argument::nonce)]
    nonce: Option<String>,

    /// Log to append to (made by `lastbit log init`); without it nothing is recorded
    #[arg(long, value_name = "DIR", requires = "key")]
    log: Option<PathBuf>,

    /// Private key of the log
    #[arg(long, value_name = "FILE", requires = "log")]
    key: Option<PathBuf>,

    /// What the record commits to, and whether the tensors are kept for an auditor
    #[arg(long, value_enum, default_value = "s")]
    evidence: Evidence,

    #[command(flatten)]
    gate: GateArgs,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    format: Format,
}

pub(super) fn parse_mode(name: &str) -> Result<Mode, String> {
    let modes = Mode::ALL.into_iter().filter(|m| *m != Mode::Stream).chain([Mode::Gated]);
    let known = || format!("{} or throughput/2", modes.map(Mode::name).collect::<Vec<_>>().join(" or "));
    Mode::from_name(name).ok_or_else(|| format!("a mode is {}", known()))
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    profile: String,
    mode: &'static str,
    responses: Vec<Response>,
}

#[derive(Serialize)]
struct Response {
    id: String,
    prompt: String,
    prompt_ids: Vec<u32>,
    output_ids: Vec<u32>,
    text: String,
    finish: &'static str,
    /// f32 bits, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Vec<F32Bits>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_logprobs: Option<Vec<F32Bits>>,
    record: Option<Place>,
}

#[derive(Clone, Serialize)]
struct Place {
    index: u64,
    digest: String,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let prompts = prompts(&args)?;
    let size = args.batch as usize;
    let model = Arc::new(source::model(args.model.as_deref())?);
    // Whatever can be refused is refused before the log is touched.
    let (sampling, adjust) = (sampling(&args, &model)?, adjust(&args, &model)?);
    let requests = prompts
        .iter()
        .map(|p| {
            let asked = request(&args, &model, sampling, &p.text).with_context(|| p.from.clone())?;
            Ok(Request { adjust: adjust.clone(), ..asked })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let key = args.key.as_deref().map(source::private_key).transpose()?;
    let mut engine =
        args.gate.attach(engine(&args, &model, &requests)?, key.as_ref().map(PrivateKey::public).as_ref())?;
    let settings = Settings { chunk: args.chunk, ..Settings::plain(engine.limits().max_rows) };
    let identity = Identity { text: engine::journal::text(&model, args.chat)?, ..Identity::of(&engine, settings)? };
    let mut log = match (&args.log, key) {
        (Some(dir), Some(key)) => Some(open_log(dir, key)?),
        _ => None,
    };
    let nonce = match &args.nonce {
        Some(nonce) => nonce.clone(),
        None => random_nonce()?,
    };

    let mut report = Report {
        schema: "lastbit/generate/v1",
        profile: engine.device_info().profile,
        mode: args.mode.name(),
        responses: Vec::new(),
    };
    let bar = progress(requests.len() as u64, "requests");
    for (number, batch) in requests.chunks(size).enumerate() {
        let texts = &prompts[number * size..];
        let (ids, outcomes, scored, place) = match &mut log {
            None => {
                let observe = Observe { logits: args.logprobs, ..Observe::TOKENS };
                let options = BatchOptions { chunk: args.chunk, observe };
                let mut scored = Scored::new(NoLog, args.logprobs, batch);
                let outcomes = generate(&mut engine, batch, &options, &mut scored)?;
                ((0..batch.len()).map(|i| format!("{number}-{i}")).collect::<Vec<_>>(), outcomes, scored.values, None)
            }
            Some(log) => {
                let prefix = log.begin_session()?;
                let declared = declare(&args, log, &prefix, &nonce, batch)?;
                let served: Vec<Request> = declared.iter().map(|(_, r)| r.clone()).collect();
                let started = now_unix_us();
                let journal = operate::journal(&engine, log, &prefix, args.evidence);
                let options = BatchOptions { chunk: args.chunk, observe: args.evidence.observe() };
                let before = || format!("batch {number} (those before it are in the log)");
                let mut scored = Scored::new(journal, args.logprobs, batch);
                let outcomes = generate(&mut engine, &served, &options, &mut scored).with_context(before)?;
                let Scored { operator: journal, values, .. } = scored;
                let committed = operate::commit(log, journal, &identity, &declared, &outcomes, &values, started);
                let (ack, _) = committed.with_context(before)?;
                let place = Place { index: ack.index, digest: ack.record.to_string() };
                (declared.iter().map(|(a, _)| a.id.clone()).collect(), outcomes, values, Some(place))
            }
        };
        let all = ids.into_iter().zip(batch).zip(&outcomes).zip(scored).zip(texts);
        for ((((id, request), outcome), scored), prompt) in all {
            report.responses.push(response(&model, id, &prompt.text, request, outcome, scored, place.clone())?);
        }
        bar.inc(batch.len() as u64);
        if !args.format.json {
            print_batch(&report.responses[report.responses.len() - batch.len()..], place.as_ref())?;
        }
    }
    bar.finish_and_clear();
    if args.format.json {
        args.format.print(&report, |_| Ok(()))?;
    }
    Ok(Outcome::AllMatch)
}

/// A prompt and where it comes from, for messages.
struct Prompt {
    text: String,
    from: String,
}

fn prompts(args: &Args) -> anyhow::Result<Vec<Prompt>> {
    let given = (1..).zip(&args.prompt).map(|(n, text)| Prompt { text: text.clone(), from: format!("--prompt {n}") });
    let mut prompts: Vec<Prompt> = given.collect();
    if let Some(path) = &args.prompts {
        let text = source::text(path, source::MAX_PROMPTS)?;
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let before = prompts.len();
        prompts.extend(
            lines.map(|(n, line)| Prompt { text: line.to_owned(), from: format!("{}, line {n}", path.display()) }),
        );
        if prompts.len() == before {
            bail!("{} holds no prompt", path.display());
        }
    }
    if prompts.is_empty() {
        bail!("nothing to do: give --prompt TEXT or --prompts FILE");
    }
    Ok(prompts)
}

pub(super) fn open_log(dir: &std::path::Path, key: PrivateKey) -> anyhow::Result<Log> {
    source::log_folder(dir)?;
    let (log, recovery) = Log::open(dir, key).with_context(|| format!("opening the log in {}", dir.display()))?;
    if recovery.adopted > 0 {
        output::note(format_args!(
            "{} complete but unacknowledged records were found and are acknowledged now",
            recovery.adopted
        ));
    }
    if let Some((bytes, aside)) = recovery.torn {
        output::note(format_args!("{bytes} bytes of a half-written entry were moved to {}", aside.display()));
    }
    Ok(log)
}

fn request(args: &Args, model: &Model, sampling: Sampling, text: &str) -> anyhow::Result<Request> {
    let prompt = ids(args, model, text)?;
    let (positions, most) = (prompt.len() as u64 + u64::from(args.max_new_tokens) - 1, model.config.max_positions);
    if positions > u64::from(most) {
        bail!("a prompt of {} tokens may reach {positions} positions; the model has {most}", prompt.len());
    }
    Ok(Request {
        sampling,
        prompt_logprobs: args.prompt_logprobs,
        stop: model.config.eos.clone(),
        ..Request::new(prompt, args.max_new_tokens)
    })
}

/// Token ids of a prompt.
fn ids(args: &Args, model: &Model, text: &str) -> anyhow::Result<Vec<u32>> {
    if !args.chat {
        return Ok(model.tokenizer.encode(text)?);
    }
    let Some(template) = &model.chat else { bail!("--chat: the model `{}` has no chat template", model.name) };
    let system = args.system.iter().map(|text| Message::new("system", text));
    let messages: Vec<Message> = system.chain([Message::new("user", text)]).collect();
    Ok(model.tokenizer.encode_rendered(&chat::render(template, &messages)?)?)
}

/// How tokens are chosen. The seed of a logged request is derived later, from its nonce.
fn sampling(args: &Args, model: &Model) -> anyhow::Result<Sampling> {
    let asked = |temperature| Seeded {
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        ..Seeded::plain(temperature, args.seed.unwrap_or(0))
    };
    let seeded = match (args.recommended, args.temperature) {
        (true, _) => recommended(args, model)?,
        (false, temperature) => temperature.map(asked),
    };
    let Some(seeded) = seeded else {
        if args.seed.is_some() {
            bail!("--seed: nothing is drawn without --temperature or --recommended");
        }
        return Ok(Sampling::Greedy);
    };
    if args.seed.is_none() && args.log.is_none() {
        bail!("sampling without a log needs --seed: there is no key to derive one from");
    }
    Ok(Sampling::Seeded(seeded))
}

fn recommended(args: &Args, model: &Model) -> anyhow::Result<Option<Seeded>> {
    let r = &model.config.recommended;
    if !r.not_computed.is_empty() {
        bail!(
            "--recommended: the sampler here does not compute {}; choose by --temperature",
            r.not_computed.join(", ")
        );
    }
    if *r == Recommended::default() {
        bail!("--recommended: the model `{}` recommends no sampling", model.name);
    }
    // A temperature that is not stated is 1: the logits as they are.
    let seeded = Seeded {
        temperature: r.temperature.unwrap_or(1.0),
        top_k: r.top_k,
        top_p: r.top_p,
        min_p: r.min_p,
        seed: args.seed.unwrap_or(0),
    };
    Ok(r.sample.then_some(seeded))
}

/// Bias and penalties.
fn adjust(args: &Args, model: &Model) -> anyhow::Result<Adjust> {
    let off = Adjust::default();
    let recommended = model.config.recommended.repetition_penalty.filter(|_| args.recommended);
    let mut bias = args.logit_bias.clone();
    bias.sort_by_key(|(id, _)| *id);
    if let Some((id, _)) = bias.iter().find(|(id, _)| *id >= model.config.vocab_size) {
        bail!("--logit-bias: token {id} is beyond the vocabulary of {}", model.config.vocab_size);
    }
    let adjust = Adjust {
        bias,
        repetition: args.repetition_penalty.or(recommended).unwrap_or(off.repetition),
        frequency: args.frequency_penalty.unwrap_or(off.frequency),
        presence: args.presence_penalty.unwrap_or(off.presence),
    };
    adjust.check()?;
    Ok(adjust)
}

fn engine(args: &Args, model: &Arc<Model>, requests: &[Request]) -> anyhow::Result<Engine> {
    let longest = requests.iter().map(|r| r.prompt.len() as u32 + r.max_new_tokens).max().unwrap_or(1);
    let slots = u32::try_from((args.batch as usize).min(requests.len())).context("--batch")?;
    let limits = Limits { slots, pages: pages_for(slots, longest), ..Limits::default() };
    let device = source::device(args.device, args.profile.as_deref(), &args.emulation)?;
    let build = Build { ranks: args.tensor_parallel, kv: args.kv };
    Ok(Engine::built(model.clone(), device, args.mode, limits, build)?)
}

fn declare(args: &Args, log: &Log, prefix: &str, nonce: &str, batch: &[Request]) -> anyhow::Result<Vec<Declared>> {
    let declare = |(i, request): (usize, &Request)| {
        let mut asked = Asked::derived(format!("{prefix}{i}"), nonce);
        let mut request = request.clone();
        if let Sampling::Seeded(s) = &mut request.sampling {
            match args.seed {
                Some(_) => asked.seed_derivation = "client",
                None => s.seed = operate::derived_seed(&asked, log)?,
            }
        }
        Ok((asked, request))
    };
    batch.iter().enumerate().map(declare).collect()
}

fn response(
    model: &Model,
    id: String,
    prompt: &str,
    request: &Request,
    outcome: &Served,
    scored: Values,
    record: Option<Place>,
) -> anyhow::Result<Response> {
    Ok(Response {
        id,
        prompt: prompt.to_owned(),
        prompt_ids: request.prompt.clone(),
        output_ids: outcome.output.clone(),
        text: model.tokenizer.decode(&outcome.output)?,
        finish: match outcome.finish {
            engine::batch::Finish::Stop => "stop",
            engine::batch::Finish::Length => "length",
            engine::batch::Finish::Cancelled => "cancelled",
        },
        logprobs: scored.output,
        prompt_logprobs: scored.prompt,
        record,
    })
}

/// A batch as soon as it is done; an acknowledgement is only ever printed for what is on disk.
fn print_batch(responses: &[Response], place: Option<&Place>) -> anyhow::Result<()> {
    output::write(|out| {
        for r in responses {
            writeln!(out, "[{}] {}\u{2502}{}\n", r.id, r.prompt, r.text)?;
        }
        if let Some(place) = place {
            writeln!(out, "acknowledged: record {} {}", place.index, place.digest)?;
        }
        Ok(())
    })
}

fn random_nonce() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| anyhow::anyhow!("the system has no randomness to give: {e}"))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
