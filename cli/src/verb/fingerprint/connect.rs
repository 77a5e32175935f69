//! What every verb that asks an endpoint shares: address, key, budget, where answers are kept, how reports come out.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use fingerprint::client::{Budget, Client, Key, Patience, Usage};
use fingerprint::report::{self, Report};
use fingerprint::session::Session;
use fingerprint::trace::{Header, Model, SCHEMA, Stack, Trace};

use crate::argument;
use crate::output::{self, Format, Outcome};
use crate::source;

/// An endpoint, and what it may cost.
#[derive(clap::Args)]
pub struct Connect {
    /// Model to ask for [default: the first one listed]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// Environment variable that holds the API key. It is sent to this endpoint alone, over https or to this machine, and written nowhere
    #[arg(long, value_name = "VARIABLE")]
    key_env: Option<String>,

    /// Most requests
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = argument::count(1, 1 << 24))]
    max_requests: u32,

    /// Most tokens, prompts and answers together
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = argument::count(1, u32::MAX))]
    max_tokens: u32,

    /// Most money, in the currency of the prices
    #[arg(long, value_name = "AMOUNT", requires = "price_out", value_parser = amount)]
    max_cost: Option<f64>,

    /// Price of a million prompt tokens
    #[arg(long, value_name = "AMOUNT", default_value_t = 0.0, value_parser = amount)]
    price_in: f64,

    /// Price of a million generated tokens
    #[arg(long, value_name = "AMOUNT", default_value_t = 0.0, value_parser = amount)]
    price_out: f64,

    /// Seconds that one answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = argument::count(1, 86_400))]
    timeout: u32,

    /// Minutes that the run may take
    #[arg(long, value_name = "MINUTES", default_value_t = 30, value_parser = argument::count(1, 100_000))]
    time: u32,

    /// Say what would be sent at most, and send nothing
    #[arg(long)]
    pub dry_run: bool,

    /// File in which every exchange is kept as it happens; an interrupted run with the same file goes on where it was
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,

    /// Existing folder for the bodies as they came, each under its digest
    #[arg(long, value_name = "DIR")]
    raw: Option<PathBuf>,
}

/// What a trace is to say of itself.
#[derive(Clone, Debug, Default)]
pub struct About {
    pub stack: Option<Stack>,
    pub model: Model,
    pub seed: u64,
    pub batch: u32,
    pub draw: u32,
}

impl Connect {
    /// The limits.
    pub fn budget(&self) -> Budget {
        Budget {
            requests: u64::from(self.max_requests),
            tokens: u64::from(self.max_tokens),
            money: self.max_cost,
            prompt_price: self.price_in,
            output_price: self.price_out,
        }
    }

    /// Says what will be sent at most, before anything is. Refuses what the budget cannot hold.
    pub fn announce(&self, url: &str, stages: &[(&str, Usage)]) -> anyhow::Result<()> {
        let total = stages.iter().fold(Usage::default(), |sum, (_, u)| sum.plus(*u));
        let budget = self.budget();
        let money = |u: &Usage| match self.price_in > 0.0 || self.price_out > 0.0 {
            true => format!(", {:.4} of money", budget.price(u.prompt, u.output)),
            false => String::new(),
        };
        output::note(format_args!("{url}: at most {total}{}, one at a time unless noise is measured", money(&total)));
        for (name, usage) in stages.iter().filter(|(_, u)| u.requests > 0) {
            output::note(format_args!("  {name}: at most {usage}{}", money(usage)));
        }
        if total.requests > budget.requests || total.tokens() > budget.tokens {
            let allowed = format!("{} requests and {} tokens", budget.requests, budget.tokens);
            output::note(format_args!(
                "the budget of {allowed} may end the run early; what it does not reach is reported as not tested"
            ));
        }
        Ok(())
    }

    /// A session.
    pub fn session(&self, url: &str, about: About) -> anyhow::Result<Session> {
        let key = self.key_env.as_deref().map(Key::from_env).transpose()?;
        let patience = Patience { total: Duration::from_secs(u64::from(self.timeout)), ..Patience::default() };
        let client = Client::new(url, key, patience)?;
        let header = Header {
            schema: SCHEMA.to_owned(),
            tool: format!("lastbit {}", env!("CARGO_PKG_VERSION")),
            model: Model { name: self.model.clone().or(about.model.name), ..about.model },
            stack: about.stack,
            endpoint: client.base().to_owned(),
            seed: about.seed.to_string(),
            batch: about.batch,
            draw: about.draw,
            date: source::now_unix_us() / 1_000_000,
        };
        let mut session = Session::new(client, self.budget(), header, Duration::from_secs(u64::from(self.time) * 60));
        if let Some(journal) = &self.journal {
            // Each draw is a run of its own.
            let own = match about.draw {
                0 => journal.clone(),
                draw => journal.with_added_extension(draw.to_string()),
            };
            session = session.journal(&own)?;
        }
        if let Some(folder) = &self.raw {
            if !folder.is_dir() {
                bail!("{} is not a folder", folder.display());
            }
            session = session.raw(folder.clone());
        }
        Ok(session)
    }
}

fn amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() && x >= 0.0 => Ok(x),
        _ => Err("an amount is a number of at least 0".to_owned()),
    }
}

/// Runs asynchronous work.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(work)
}

/// A seed that nobody knew before, for probes that nobody can have prepared for.
pub fn fresh_seed() -> anyhow::Result<u64> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|e| anyhow::anyhow!("no randomness to be had: {e}"))?;
    Ok(u64::from(u32::from_le_bytes(bytes)))
}

/// Where reports and traces go.
#[derive(clap::Args)]
pub struct Out {
    /// Existing folder for the trace, under the digest of its content
    #[arg(long, value_name = "DIR")]
    pub trace_dir: Option<PathBuf>,

    /// HTML page to write
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Signed report to write
    #[arg(long, value_name = "FILE", requires = "signing_key")]
    signed: Option<PathBuf>,

    /// Private key that signs it (made by `lastbit keygen`)
    #[arg(long, value_name = "FILE", requires = "signed")]
    signing_key: Option<PathBuf>,

    #[command(flatten)]
    pub format: Format,
}

impl Out {
    /// Refuses, before anything is sent, files that are in the way.
    pub fn check(&self) -> anyhow::Result<()> {
        for path in [&self.html, &self.signed].into_iter().flatten() {
            source::free(path)?;
        }
        match &self.trace_dir {
            Some(folder) if !folder.is_dir() => bail!("{} is not a folder", folder.display()),
            _ => Ok(()),
        }
    }

    /// Keeps a trace, and returns its digest.
    pub fn keep(&self, trace: &Trace) -> anyhow::Result<String> {
        match &self.trace_dir {
            Some(folder) => Ok(trace.write(folder)?.1.to_string()),
            None => Ok(record::Digest::of_file(&trace.to_bytes()?).to_string()),
        }
    }

    /// Prints a report and writes what was asked for.
    pub fn print(&self, report: &Report) -> anyhow::Result<Outcome> {
        let bytes = serde_json::to_vec(report)?;
        let mut digest = record::Digest::of_file(&bytes);
        if let (Some(path), Some(key)) = (&self.signed, &self.signing_key) {
            let signed = report.sign(&source::private_key(key)?)?;
            digest = record::Digest::of_file(&signed);
            source::write_new(path, &signed)?;
        }
        if let Some(path) = &self.html {
            source::write_new(path, report::page(report, &digest.to_string())?.as_bytes())?;
        }
        let mut text = String::new();
        report::write(report, &mut text).map_err(|_| io::Error::other("writing the report"))?;
        self.format.print(report, |out| out.write_all(text.as_bytes()))?;
        Ok(match report.outcome {
            report::Outcome::Consistent => Outcome::AllMatch,
            report::Outcome::Rejected => Outcome::SomethingDiffers,
            report::Outcome::Inconclusive => Outcome::CouldNotTell,
        })
    }
}

/// Is this the address of an endpoint, rather than a file?
pub fn is_address(place: &str) -> bool {
    place.starts_with("http://") || place.starts_with("https://")
}

/// Prints the most that would be sent.
pub fn dry(format: Format, url: &str, stages: &[(&'static str, Usage)]) -> anyhow::Result<Outcome> {
    #[derive(serde::Serialize)]
    struct Stage {
        stage: &'static str,
        requests: u64,
        prompt_tokens: u64,
        output_tokens: u64,
    }
    #[derive(serde::Serialize)]
    struct Dry<'a> {
        schema: &'static str,
        endpoint: &'a str,
        at_most: Vec<Stage>,
    }
    let one = |&(stage, u): &(&'static str, Usage)| Stage {
        stage,
        requests: u.requests,
        prompt_tokens: u.prompt,
        output_tokens: u.output,
    };
    let plan = Dry { schema: "lastbit/fingerprint-plan/v1", endpoint: url, at_most: stages.iter().map(one).collect() };
    format.print(&plan, |out| {
        plan.at_most.iter().try_for_each(|s| {
            writeln!(out, "{}: {} requests, {} tokens", s.stage, s.requests, s.prompt_tokens + s.output_tokens)
        })?;
        writeln!(out, "nothing was sent")
    })?;
    Ok(Outcome::AllMatch)
}

/// The trace in a file.
pub fn trace(path: &Path) -> anyhow::Result<Trace> {
    Ok(Trace::open(path)?)
}
