//! `lastbit bench serve`: streams against a service of ours, as many at a time as are asked for.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use comfy_table::{Cell, CellAlignment};
use eventsource_stream::Eventsource as _;
use futures_util::StreamExt as _;
use record::{PublicKey, Receipt};
use serde::Serialize;
use serde_json::{Value, json};

use crate::argument;
use crate::output::{Format, Outcome, table};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Base address of the service
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8000/v1")]
    url: String,

    /// Streams at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = argument::count(1, 4096))]
    streams: u32,

    /// Requests in all
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = argument::count(1, 1 << 20))]
    requests: u32,

    /// Tokens asked for in each
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = argument::count(1, 1 << 20))]
    max_tokens: u32,

    /// What prompts begin with; a number of their own follows
    #[arg(long, value_name = "TEXT", default_value = "In the beginning")]
    prompt: String,

    /// The operator's public key: every receipt is verified
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Environment variable that holds the API key
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,

    #[command(flatten)]
    format: Format,
}

/// Milliseconds.
#[derive(Serialize)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    most: f64,
}

#[derive(Serialize)]
struct Receipts {
    /// Answers that came with one.
    given: u32,
    /// Those that were verified; null without a key.
    valid: Option<u32>,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    model: String,
    streams: u32,
    requests: u32,
    max_tokens: u32,
    /// Answers that were whole.
    answered: u32,
    /// Calls that were told to come later, and came.
    waited: u32,
    failed: u32,
    /// The first of them.
    failure: Option<String>,
    seconds: f64,
    tokens: u64,
    tokens_per_s: f64,
    requests_per_s: f64,
    /// From the call to the first token's event.
    first_token_ms: Option<Percentiles>,
    /// From event to event; several tokens may share one.
    between_tokens_ms: Option<Percentiles>,
    receipts: Receipts,
}

/// What a stream saw of one answer.
#[derive(Default)]
struct Answer {
    tokens: u64,
    waited: u32,
    first: Option<Duration>,
    between: Vec<Duration>,
    /// Whether there was a receipt, and whether it was found valid.
    receipt: Option<Option<bool>>,
}

/// Whom to ask, and what.
struct Asking {
    http: reqwest::Client,
    url: String,
    api_key: Option<String>,
    key: Option<PublicKey>,
    model: String,
    prompt: String,
    max_tokens: u32,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let key = args.key.as_ref().map(|k| source::public_key(k)).transpose()?;
    let api_key = match &args.api_key_env {
        Some(name) => Some(std::env::var(name).with_context(|| format!("--api-key-env {name}"))?),
        None => None,
    };
    fingerprint::client::install_tls();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a runtime")?;
    let report = runtime.block_on(measure(&args, key, api_key))?;
    args.format.print(&report, |out| print_text(out, &report))?;
    let whole = report.failed == 0 && report.receipts.valid.is_none_or(|valid| valid == report.answered);
    Ok(if whole { Outcome::AllMatch } else { Outcome::SomethingDiffers })
}

async fn measure(args: &Args, key: Option<PublicKey>, api_key: Option<String>) -> anyhow::Result<Report> {
    let http = reqwest::Client::builder().no_proxy().build().context("making a client")?;
    let url = args.url.trim_end_matches('/').to_owned();
    let (prompt, max_tokens) = (args.prompt.clone(), args.max_tokens);
    let mut asking = Asking { http, url, api_key, key, model: String::new(), prompt, max_tokens };
    let models: Value = asking.get("models").await?;
    let model = models.pointer("/data/0/id").and_then(Value::as_str);
    asking.model = model.context("the service names no model")?.to_owned();
    let (asking, next) = (Arc::new(asking), Arc::new(AtomicU32::new(0)));
    let begun = Instant::now();
    let mut streams = tokio::task::JoinSet::new();
    for _ in 0..args.streams.min(args.requests) {
        let (asking, next, requests) = (asking.clone(), next.clone(), args.requests);
        streams.spawn(async move {
            let mut answers = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return answers;
                }
                answers.push(asking.ask(number).await);
            }
        });
    }
    let answers = streams.join_all().await.into_iter().flatten();
    let seconds = begun.elapsed().as_secs_f64();
    let (mut good, mut failures) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(answer) => good.push(answer),
            Err(why) => failures.push(format!("{why:#}")),
        }
    }
    let tokens = good.iter().map(|a| a.tokens).sum();
    let count = |f: &dyn Fn(&Answer) -> bool| good.iter().filter(|a| f(a)).count() as u32;
    let receipts = Receipts {
        given: count(&|a| a.receipt.is_some()),
        valid: asking.key.is_some().then(|| count(&|a| a.receipt == Some(Some(true)))),
    };
    Ok(Report {
        schema: "lastbit/bench-serve/v1",
        model: asking.model.clone(),
        streams: args.streams,
        requests: args.requests,
        max_tokens,
        answered: good.len() as u32,
        waited: good.iter().map(|a| a.waited).sum(),
        failed: failures.len() as u32,
        failure: failures.into_iter().next(),
        seconds,
        tokens,
        tokens_per_s: tokens as f64 / seconds,
        requests_per_s: good.len() as f64 / seconds,
        first_token_ms: percentiles(good.iter().filter_map(|a| a.first).collect()),
        between_tokens_ms: percentiles(good.iter().flat_map(|a| a.between.iter().copied()).collect()),
        receipts,
    })
}

impl Asking {
    fn authorised(&self, call: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.api_key {
            Some(key) => call.bearer_auth(key),
            None => call,
        }
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}/{path}", self.url);
        let response = self.authorised(self.http.get(&url)).send().await.with_context(|| format!("asking {url}"))?;
        response.error_for_status()?.json().await.with_context(|| format!("what {url} answered"))
    }

    /// One request, as a stream; waits as long as it is told to.
    async fn ask(&self, number: u32) -> anyhow::Result<Answer> {
        let body = json!({
            "model": self.model, "prompt": format!("{} {number}", self.prompt), "max_tokens": self.max_tokens,
            "stream": true, "stream_options": {"include_usage": true},
        });
        let mut answer = Answer::default();
        let (begun, response) = loop {
            let begun = Instant::now();
            let call = self.http.post(format!("{}/completions", self.url)).json(&body);
            let response = self.authorised(call).send().await?;
            if response.status() != reqwest::StatusCode::TOO_MANY_REQUESTS {
                break (begun, response);
            }
            answer.waited += 1;
            let stated =
                response.headers().get(reqwest::header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
            tokio::time::sleep(Duration::from_secs(stated.unwrap_or(1))).await;
        };
        let status = response.status();
        if !status.is_success() {
            bail!("request {number}: {status}: {}", response.text().await.unwrap_or_default());
        }
        let mut events = response.bytes_stream().eventsource();
        let (mut last, mut done) = (begun, false);
        while let Some(event) = events.next().await {
            let event = event.with_context(|| format!("request {number}"))?;
            if event.data == "[DONE]" {
                done = true;
                break;
            }
            let event: Value = serde_json::from_str(&event.data).with_context(|| format!("request {number}"))?;
            if let Some(error) = event.get("error") {
                bail!("request {number}: {error}");
            }
            let text = event.pointer("/choices/0/text").and_then(Value::as_str).unwrap_or_default();
            if !text.is_empty() {
                let now = Instant::now();
                match answer.first {
                    None => answer.first = Some(now - begun),
                    Some(_) => answer.between.push(now - last),
                }
                last = now;
            }
            let tokens = event.pointer("/usage/completion_tokens").and_then(Value::as_u64);
            answer.tokens = tokens.unwrap_or(answer.tokens);
            if let Some(choice) = event.pointer("/lastbit/choices/0") {
                answer.receipt = self.receipt(choice);
            }
        }
        if !done {
            bail!("request {number}: the stream broke off");
        }
        Ok(answer)
    }

    /// The receipt of a choice, if there is one, and what the key says to it.
    fn receipt(&self, choice: &Value) -> Option<Option<bool>> {
        let receipt = choice.get("receipt")?.as_str()?;
        let origin = choice.pointer("/record/origin").and_then(Value::as_str).unwrap_or_default();
        Some(self.key.as_ref().map(|key| Receipt::verify(receipt.as_bytes(), origin, key).is_ok()))
    }
}

fn percentiles(mut values: Vec<Duration>) -> Option<Percentiles> {
    values.sort_unstable();
    let most = values.last()?.as_secs_f64() * 1e3;
    let at = |percent: usize| values[(values.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    Some(Percentiles { p50: at(50), p90: at(90), p99: at(99), most })
}

fn print_text(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let Report { model, streams, requests, answered, waited, failed, seconds, tokens, receipts, .. } = report;
    writeln!(out, "{model}: {requests} requests, {streams} at a time, {seconds:.1} s")?;
    writeln!(out, "{answered} answered, {failed} failed, {waited} times told to come later")?;
    if let Some(failure) = &report.failure {
        writeln!(out, "the first failure: {failure}")?;
    }
    writeln!(out, "{tokens} tokens, {:.1} tokens/s, {:.2} requests/s", report.tokens_per_s, report.requests_per_s)?;
    let mut table = table(["ms", "median", "p90", "p99", "most"]);
    for (name, values) in [("first token", &report.first_token_ms), ("between tokens", &report.between_tokens_ms)] {
        let Some(v) = values else { continue };
        let cells =
            [v.p50, v.p90, v.p99, v.most].map(|x| Cell::new(format!("{x:.1}")).set_alignment(CellAlignment::Right));
        table.add_row([Cell::new(name)].into_iter().chain(cells));
    }
    writeln!(out, "{table}")?;
    match receipts.valid {
        Some(valid) => writeln!(out, "{valid} of {answered} receipts are valid"),
        None => writeln!(out, "{} receipts, not verified (--key)", receipts.given),
    }
}
