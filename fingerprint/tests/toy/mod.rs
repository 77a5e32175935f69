//! A toy endpoint: a made-up language model behind the OpenAI interface, with every fault that a test may want.
#![allow(dead_code, reason = "each test file uses its own part of the toy")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use fingerprint::api::{Answer, Choice, Step};
use fingerprint::client::{Budget, Client, Exchange, Key, Patience};
use fingerprint::decimal::Decimal;
use fingerprint::session::Session;
use fingerprint::stats::Random;
use fingerprint::trace::{Header, Model, Record, SCHEMA, Stack, Trace};
use serde_json::{Value, json};

/// Tokens of the vocabulary: `" w0"` to `" w199"`.
const VOCABULARY: usize = 200;

/// How the endpoint behaves.
#[derive(Clone, Debug)]
pub struct Toy {
    /// Significand bits that logits are rounded to.
    pub bits: i32,
    /// The kernels: another number, other rounding errors.
    pub stack: u64,
    /// Size of rounding errors before the logits are rounded.
    pub error: f64,
    /// Size of further errors when requests run at the same time.
    pub batch: f64,
    /// Size of further errors the first time a prompt is seen.
    pub cold: f64,
    /// Every so many requests another stack answers.
    pub detour: Option<(u64, u64)>,
    /// Size of random noise on logits.
    pub noise: f64,
    /// Position from which generated tokens are computed with larger errors.
    pub onset: Option<(usize, f64)>,
    pub ignore: &'static [&'static str],
    pub default_temperature: f64,
    pub logprobs: bool,
    pub null_logprobs: bool,
    pub drop_entries: bool,
    pub hide_best: bool,
    pub decimals: Option<usize>,
    pub most_top: usize,
    pub echo: bool,
    pub chat: bool,
    pub ids: bool,
    pub bos: usize,
    pub window: Option<(usize, bool)>,
    pub models: Vec<&'static str>,
    pub one_model: bool,
    pub fingerprint: Option<&'static str>,
    pub null_top_drops: bool,
    /// Chat answers: text, reasoning, tool calls.
    pub said: Option<(&'static str, &'static str, usize)>,
}

impl Default for Toy {
    fn default() -> Self {
        Toy {
            bits: 24,
            stack: 1,
            error: 1e-6,
            batch: 0.0,
            cold: 0.0,
            detour: None,
            noise: 0.0,
            onset: None,
            ignore: &[],
            default_temperature: 1.0,
            logprobs: true,
            null_logprobs: false,
            drop_entries: false,
            hide_best: false,
            decimals: None,
            most_top: 20,
            echo: false,
            chat: false,
            ids: true,
            bos: 0,
            window: None,
            models: vec!["toy"],
            one_model: false,
            fingerprint: Some("vllm-0.32.0-toy"),
            null_top_drops: false,
            said: None,
        }
    }
}

struct Served {
    toy: Toy,
    requests: AtomicU64,
    running: AtomicUsize,
    seen: std::sync::Mutex<std::collections::BTreeSet<Vec<usize>>>,
}

/// An endpoint that runs until the test ends.
pub struct Endpoint {
    pub address: SocketAddr,
    served: Arc<Served>,
}

impl Endpoint {
    pub async fn serve(toy: Toy) -> Self {
        let served = Arc::new(Served {
            toy,
            requests: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            seen: Default::default(),
        });
        let app = Router::new()
            .route("/v1/models", get(models))
            .route("/v1/completions", post(completions))
            .route("/v1/chat/completions", post(chat))
            .with_state(served.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, served }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn requests(&self) -> u64 {
        self.served.requests.load(Ordering::SeqCst)
    }

    pub fn session(&self) -> Session {
        session(&self.url(), None)
    }
}

/// A session with a large budget.
pub fn session(url: &str, stack: Option<Stack>) -> Session {
    let client = Client::new(url, None, Patience::default()).unwrap();
    Session::new(client, budget(), header_of(url, stack), Duration::from_secs(120))
}

pub fn with_key(url: &str, key: &str, patience: Patience) -> Session {
    let client = Client::new(url, Some(Key::new(key).unwrap()), patience).unwrap();
    Session::new(client, budget(), header_of(url, None), Duration::from_secs(120))
}

pub fn budget() -> Budget {
    Budget { requests: 10_000, tokens: 10_000_000, money: None, prompt_price: 0.0, output_price: 0.0 }
}

pub fn header_of(url: &str, stack: Option<Stack>) -> Header {
    Header {
        schema: SCHEMA.into(),
        tool: "test".into(),
        model: Model { name: Some("toy".into()), ..Model::default() },
        stack,
        endpoint: url.into(),
        seed: "7".into(),
        batch: 1,
        draw: 0,
        date: 0,
    }
}

pub fn stack(format: &str, engine: &str, backend: &str, hardware: &str) -> Stack {
    Stack {
        format: format.into(),
        engine: engine.into(),
        version: "1".into(),
        backend: backend.into(),
        hardware: hardware.into(),
    }
}

async fn models(State(served): State<Arc<Served>>) -> Response {
    served.requests.fetch_add(1, Ordering::SeqCst);
    let list: Vec<Value> = served.toy.models.iter().map(|m| json!({"id": m, "object": "model"})).collect();
    answer(json!({"object": "list", "data": list}))
}

fn answer(value: Value) -> Response {
    ([(header::SERVER, "uvicorn")], axum::Json(value)).into_response()
}

fn refuse(status: u16, message: &str) -> Response {
    let body = json!({"error": {"message": message, "type": "BadRequestError"}});
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}

/// Ids of a text: a word `w17` is 17, any other its hash.
fn ids(text: &str) -> Vec<usize> {
    let id = |word: &str| match word.strip_prefix('w').and_then(|n| n.parse::<usize>().ok()) {
        Some(n) if n < VOCABULARY => n,
        _ => Random::named(1, word).below(VOCABULARY),
    };
    text.split_whitespace().map(id).collect()
}

fn token(id: usize) -> String {
    format!(" w{id}")
}

fn round(x: f64, bits: i32) -> f64 {
    if x == 0.0 {
        return x;
    }
    let unit = libm::ldexp(1.0, libm::ilogb(x) - bits + 1);
    unit * libm::rint(x / unit)
}

/// Errors of one computation.
struct Errors {
    stack: u64,
    size: f64,
    more: f64,
    extra: u64,
    noise: f64,
}

fn logits(toy: &Toy, context: &[usize], errors: &Errors, random: &mut Random) -> Vec<f64> {
    let mut name = String::new();
    for id in &context[context.len().saturating_sub(3)..] {
        name.push_str(&format!("{id},"));
    }
    let mut base = Random::named(99, &format!("{name}{}", context.len() % 5));
    let mut own = Random::named(errors.stack, &format!("{name}{}", context.len()));
    let mut extra = Random::named(errors.extra, &format!("{name}{}", context.len()));
    let one = |i: usize| {
        let clean = if i % 10 == context.len() % 10 { 16.1 + 8.0 * base.unit() } else { 8.0 + 6.0 * base.unit() };
        let off = errors.size * own.normal() + errors.more * extra.normal() + errors.noise * random.normal();
        round(clean + off, toy.bits)
    };
    (0..VOCABULARY).map(one).collect()
}

fn logprobs(logits: &[f64]) -> Vec<f64> {
    let total = libm::log(logits.iter().map(|l| libm::exp(l - 30.0)).sum::<f64>()) + 30.0;
    logits.iter().map(|l| f64::from((l - total) as f32)).collect()
}

/// What the toy makes of a request.
struct Made {
    prompt: Vec<usize>,
    choices: Vec<Vec<(usize, Vec<f64>)>>,
}

async fn make(served: &Served, body: &Value, prompt: Vec<usize>) -> Result<Made, Response> {
    let toy = &served.toy;
    let number = served.requests.fetch_add(1, Ordering::SeqCst);
    served.running.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(if toy.batch > 0.0 { 30 } else { 1 })).await;
    let crowd = served.running.load(Ordering::SeqCst) > 1;
    let honoured = |name: &str| !toy.ignore.contains(&name);
    let cold = served.seen.lock().unwrap().insert(prompt.clone());
    let mut prompt = prompt;
    if let Some((window, silent)) = toy.window
        && prompt.len() > window
    {
        if !silent {
            served.running.fetch_sub(1, Ordering::SeqCst);
            return Err(refuse(400, "too long"));
        }
        prompt = prompt[prompt.len() - window..].to_vec();
    }
    let stack = match toy.detour {
        Some((every, other)) if number % every == every - 1 => other,
        _ => toy.stack,
    };
    let more = if crowd { toy.batch } else { 0.0 } + if cold { toy.cold } else { 0.0 };
    let errors = Errors { stack, size: toy.error, more, extra: number, noise: toy.noise };
    let mut temperature = body["temperature"].as_f64().unwrap_or(toy.default_temperature);
    if !honoured("temperature") {
        temperature = 1.0;
    }
    let greedy = temperature == 0.0
        || (honoured("top_k") && body["top_k"] == json!(1))
        || (honoured("top_p") && body["top_p"].as_f64().is_some_and(|p| p < 0.001));
    let most = if honoured("max_tokens") { body["max_tokens"].as_u64().unwrap_or(16) } else { 40 };
    let mut choices = Vec::new();
    for n in 0..body["n"].as_u64().unwrap_or(1) {
        let seed = body["seed"].as_u64().filter(|_| honoured("seed")).unwrap_or(number + 1000);
        let mut draw = Random::new(seed.wrapping_add(n * 7919));
        let mut noise = Random::new(number * 31 + n);
        let mut context = prompt.clone();
        let mut steps = Vec::new();
        for _ in 0..most {
            let mut errors = Errors { ..errors };
            // Tokens after the onset see a worse cache when they are generated than when they are read.
            if let Some((at, size)) = toy.onset
                && context.len() >= at
                && !steps.is_empty()
            {
                errors.more += size;
            }
            let logits = logits(toy, &context, &errors, &mut noise);
            let lps = logprobs(&logits);
            let best = (0..VOCABULARY).fold(0, |b, i| if lps[i] > lps[b] { i } else { b });
            let id = if greedy { best } else { sample(&logits, temperature, &mut draw) };
            steps.push((id, lps));
            context.push(id);
        }
        choices.push(steps);
    }
    served.running.fetch_sub(1, Ordering::SeqCst);
    Ok(Made { prompt, choices })
}

fn sample(logits: &[f64], temperature: f64, random: &mut Random) -> usize {
    let weight = |l: &f64| libm::exp((l - 30.0) / temperature);
    let total: f64 = logits.iter().map(weight).sum();
    let mut left = random.unit() * total;
    for (i, l) in logits.iter().enumerate() {
        left -= weight(l);
        if left < 0.0 {
            return i;
        }
    }
    0
}

fn number(toy: &Toy, value: f64) -> Value {
    match toy.decimals {
        Some(places) => serde_json::from_str(&format!("{value:.places$}")).unwrap(),
        None => json!(value),
    }
}

fn best(toy: &Toy, lps: &[f64], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lps.len()).collect();
    order.sort_by(|a, b| lps[*b].total_cmp(&lps[*a]));
    let skip = usize::from(toy.hide_best);
    order.into_iter().skip(skip).take(k.min(toy.most_top)).collect()
}

fn classic(toy: &Toy, steps: &[(usize, Vec<f64>)], k: usize) -> Value {
    let kept: Vec<_> =
        steps.iter().enumerate().filter(|(i, _)| !(toy.drop_entries && i % 4 == 1)).map(|(_, s)| s).collect();
    let map = |lps: &Vec<f64>| -> Value {
        best(toy, lps, k).into_iter().map(|i| (token(i), number(toy, lps[i]))).collect::<serde_json::Map<_, _>>().into()
    };
    json!({
        "tokens": kept.iter().map(|s| token(s.0)).collect::<Vec<_>>(),
        "token_logprobs": kept.iter().map(|s| number(toy, s.1[s.0])).collect::<Vec<_>>(),
        "top_logprobs": kept.iter().map(|s| map(&s.1)).collect::<Vec<_>>(),
    })
}

async fn completions(State(served): State<Arc<Served>>, _: HeaderMap, body: axum::Json<Value>) -> Response {
    let (toy, body) = (&served.toy, body.0);
    if toy.said.is_some() {
        return refuse(404, "no completions here");
    }
    if let Some(bad) = bad(toy, &body) {
        served.requests.fetch_add(1, Ordering::SeqCst);
        return bad;
    }
    let prompt = match &body["prompt"] {
        Value::String(text) if text.is_empty() => return refuse(400, "empty prompt"),
        Value::String(text) => ids(text),
        Value::Array(all) if toy.ids => {
            let ids: Vec<usize> = all.iter().filter_map(|v| v.as_u64()).map(|n| n as usize).collect();
            if ids.iter().any(|i| *i >= VOCABULARY) {
                return refuse(400, "out of vocabulary");
            }
            ids
        }
        _ => return refuse(400, "prompt"),
    };
    let made = match make(&served, &body, prompt).await {
        Ok(made) => made,
        Err(response) => return response,
    };
    let k = body["logprobs"].as_u64().filter(|_| toy.logprobs);
    let mut choices = Vec::new();
    for (index, steps) in made.choices.iter().enumerate() {
        let mut text: String = steps.iter().map(|s| token(s.0)).collect();
        if let Some(stop) = body["stop"][0].as_str().filter(|_| !toy.ignore.contains(&"stop"))
            && let Some(at) = text.find(stop)
        {
            text.truncate(at);
        }
        let logprobs = match k {
            None => Value::Null,
            Some(_) if toy.null_logprobs => Value::Null,
            Some(k) if toy.echo && body["echo"] == json!(true) => echoed(toy, &made.prompt, steps, k as usize),
            Some(k) => classic(toy, steps, k as usize),
        };
        choices.push(
            json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": "length", "stop_reason": null}),
        );
    }
    let output: usize = made.choices.iter().map(Vec::len).sum();
    let usage = json!({"prompt_tokens": made.prompt.len() + toy.bos, "completion_tokens": output});
    let whole = json!({"id": "cmpl-1", "object": "text_completion", "model": body["model"], "system_fingerprint": toy.fingerprint,
        "choices": choices, "usage": usage});
    if body["stream"] == json!(true) {
        let mut text = String::new();
        for choice in whole["choices"].as_array().unwrap() {
            text.push_str(&format!("data: {}\n\n", json!({"id": "cmpl-1", "choices": [choice]})));
        }
        text.push_str(&format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [], "usage": usage})));
        return ([(header::CONTENT_TYPE, "text/event-stream"), (header::SERVER, "uvicorn")], text).into_response();
    }
    answer(whole)
}

/// The prompt's own tokens, read by the stack without the errors of generation, then the generated ones.
fn echoed(toy: &Toy, prompt: &[usize], steps: &[(usize, Vec<f64>)], k: usize) -> Value {
    let errors = Errors { stack: toy.stack, size: toy.error, more: 0.0, extra: 0, noise: 0.0 };
    let mut random = Random::new(0);
    let read: Vec<(usize, Vec<f64>)> =
        (1..prompt.len()).map(|i| (prompt[i], logprobs(&logits(toy, &prompt[..i], &errors, &mut random)))).collect();
    let (all, rest) = (classic(toy, &read, k), classic(toy, steps, k));
    let join = |name: &str, first: Value| {
        let mut list = vec![first];
        list.extend(all[name].as_array().unwrap().clone());
        list.extend(rest[name].as_array().unwrap().clone());
        list
    };
    json!({"tokens": join("tokens", json!(token(prompt[0]))), "token_logprobs": join("token_logprobs", Value::Null),
        "top_logprobs": join("top_logprobs", Value::Null)})
}

fn bad(toy: &Toy, body: &Value) -> Option<Response> {
    let known = body["model"].as_str().is_none_or(|m| toy.models.contains(&m));
    if !known {
        return Some(refuse(404, "no such model"));
    }
    let t = body["temperature"].as_f64().unwrap_or(1.0);
    if !(0.0..=2.0).contains(&t) {
        return Some(refuse(400, "temperature"));
    }
    if body["top_p"] == json!(0) {
        return Some(refuse(400, "top_p"));
    }
    if body["max_tokens"] == json!(0) {
        return Some(refuse(400, "max_tokens"));
    }
    None
}

async fn chat(State(served): State<Arc<Served>>, body: axum::Json<Value>) -> Response {
    let (toy, body) = (&served.toy, body.0);
    if !toy.chat && toy.said.is_none() {
        return refuse(404, "no chat here");
    }
    if let Some(bad) = bad(toy, &body) {
        return bad;
    }
    let said = body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
    let made = match make(&served, &body, ids(&said)).await {
        Ok(made) => made,
        Err(response) => return response,
    };
    let steps = &made.choices[0];
    let entry = |(id, lps): &(usize, Vec<f64>)| {
        let k = body["top_logprobs"].as_u64().unwrap_or(0) as usize;
        let top: Vec<Value> =
            best(toy, lps, k).into_iter().map(|i| json!({"token": token(i), "logprob": number(toy, lps[i])})).collect();
        json!({"token": token(*id), "logprob": number(toy, lps[*id]), "bytes": null, "top_logprobs": top})
    };
    let dropped = toy.null_top_drops && body.get("top_logprobs").is_some_and(Value::is_null);
    let wanted = body["logprobs"] == json!(true) && toy.logprobs && !toy.null_logprobs && !dropped;
    let logprobs = if wanted { json!({"content": steps.iter().map(entry).collect::<Vec<_>>()}) } else { Value::Null };
    let text: String = steps.iter().map(|s| token(s.0)).collect();
    let mut message = json!({"role": "assistant", "content": text});
    if let Some((text, reasoning, calls)) = toy.said {
        message["content"] = json!(text);
        message["reasoning_content"] = json!(reasoning);
        message["tool_calls"] = json!(vec![json!({"function": {"name": "f"}}); calls]);
    }
    answer(
        json!({"id": "chatcmpl-1", "object": "chat.completion", "model": body["model"], "system_fingerprint": toy.fingerprint,
        "choices": [{"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "length"}],
        "usage": {"prompt_tokens": made.prompt.len() + toy.bos, "completion_tokens": steps.len()}}),
    )
}

/// Greedy probes of a seed, as sent to this endpoint; `at_once` at a time.
pub async fn recorded(toy: Toy, stack: Option<Stack>, seed: u64, probes: usize, at_once: usize) -> Trace {
    let endpoint = Endpoint::serve(toy).await;
    let session = session(&endpoint.url(), stack.clone());
    let cap = fingerprint::tier::detect(&session, None).await.unwrap();
    let sent = fingerprint::probe::greedy(seed, probes, 8);
    assert_eq!(fingerprint::library::record(&session, &cap, &sent, at_once).await.unwrap(), probes);
    let header = Header { endpoint: "toy".into(), batch: at_once as u32, ..header_of("toy", stack) };
    fingerprint::library::reference(&session.trace(), header)
}

/// The same without a network: a draw whose noise is that of `draw`.
pub fn drawn(toy: &Toy, stack: Option<Stack>, seed: u64, probes: usize, draw: u64) -> Trace {
    let record = |probe: fingerprint::probe::Probe| {
        let mut context = ids(probe.prompt.text().unwrap());
        let errors = Errors { stack: toy.stack, size: toy.error, more: toy.batch, extra: draw, noise: 0.0 };
        let mut random = Random::new(draw);
        let mut steps = Vec::new();
        for _ in 0..probe.tokens {
            let lps = logprobs(&logits(toy, &context, &errors, &mut random));
            let id = (0..VOCABULARY).fold(0, |b, i| if lps[i] > lps[b] { i } else { b });
            let decimal = |v: f64| Decimal::parse(&number(toy, v).to_string()).unwrap();
            steps.push(Step {
                token: token(id),
                id: None,
                logprob: Some(decimal(lps[id])),
                top: best(toy, &lps, 20).into_iter().map(|i| (token(i), None, decimal(lps[i]))).collect(),
            });
            context.push(id);
        }
        let text: String = steps.iter().map(|s| s.token.clone()).collect();
        let choice = Choice { text, steps: if toy.logprobs { steps } else { Vec::new() }, ..Choice::default() };
        let answer = Answer { choices: vec![choice], ..Answer::default() };
        Record {
            answer: Some(answer),
            fault: None,
            ..Record::new(&probe.id, "completions", None, &Exchange { status: Some(200), ..Exchange::default() })
        }
    };
    let records = fingerprint::probe::greedy(seed, probes, 8).into_iter().map(record).collect();
    Trace { header: Header { seed: seed.to_string(), draw: draw as u32, ..header_of("toy", stack) }, records }
}
