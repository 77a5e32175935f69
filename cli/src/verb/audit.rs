//! `lastbit audit`: re-compute a log, say what differs, write the signed report. `lastbit explain`: the same in words.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use record::model_signing::{MAX_SIGNATURE_BYTES, ModelKey, SignedModel};
use record::{LogRefusal, PrivateKey};
use serde::Serialize;
use verifier::audit::Options;
use verifier::challenge::Plan;
use verifier::plan::Mode;
use verifier::result::{AuditResult, Limits, SignedResult, Subject};
use verifier::{disclosure, explain, report};

use crate::argument;
use crate::draw::Draw;
use crate::inspect::{Inspection, inspect};
use crate::output::{self, Format, Outcome};
use crate::source::{self, Emulation};

/// What an auditor brings to a log.
#[derive(clap::Args)]
pub struct Input {
    /// Folder of the log
    log: PathBuf,

    /// Public key of the operator: records signed by any other key are refused
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Model folder, obtained independently of the operator [default: the model inside this binary]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,

    /// `schedule`: repeat the logged steps; `prefill`: one teacher-forced prefill a request (`invariant` and `portable` logs)
    #[arg(long, value_name = "HOW", default_value = "schedule", value_parser = replay_mode)]
    mode: Mode,

    /// Name that the log must have
    #[arg(long, value_parser = argument::origin)]
    origin: Option<String>,

    /// A receipt that a client presents; may be given several times
    #[arg(long, value_name = "FILE")]
    receipt: Vec<PathBuf>,

    #[command(flatten)]
    draw: Draw,

    /// A signature over the model's files (OpenSSF model signing, made with a key): records must declare the model that it names
    #[arg(long, value_name = "FILE", requires = "model_signing_key")]
    model_signature: Option<PathBuf>,

    /// Public key of whoever signs the model
    #[arg(long, value_name = "FILE", requires = "model_signature")]
    model_signing_key: Option<PathBuf>,

    /// Look for up to this many unreported rows in a step, at most 4096
    #[arg(long, value_name = "N", default_value_t = Limits::default().extra_rows, value_parser = argument::count(0, argument::MAX_EXTRA_ROWS))]
    extra_rows: u32,

    /// Look for kernel splits up to this, at most 64
    #[arg(long, value_name = "N", default_value_t = Limits::default().splits, value_parser = argument::count(0, argument::MAX_SPLITS))]
    splits: u32,

    /// Look for this many other seeds, at most 1048576
    #[arg(long, value_name = "N", default_value_t = Limits::default().seeds, value_parser = argument::count(0, argument::MAX_SEEDS))]
    seeds: u32,

    #[command(flatten)]
    emulation: Emulation,
}

/// Options of `audit`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// Sign the result with this private key and write it to --out
    #[arg(long, value_name = "FILE", requires = "out")]
    auditor_key: Option<PathBuf>,

    /// Folder for `NAME.audit.json` and `NAME.html`; neither may exist yet
    #[arg(long, value_name = "DIR", requires = "auditor_key")]
    out: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

/// Options of `explain`.
#[derive(clap::Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    input: Input,

    /// Only this record, by its place in the log
    #[arg(long, value_name = "N")]
    record: Option<u64>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Explained {
    schema: &'static str,
    verdict: String,
    refused: Option<String>,
    records: Vec<ExplainedRecord>,
}

#[derive(Serialize)]
struct ExplainedRecord {
    seq: u64,
    verdict: String,
    words: String,
}

fn replay_mode(name: &str) -> Result<Mode, String> {
    [Mode::Schedule, Mode::Prefill]
        .into_iter()
        .find(|m| m.name() == name)
        .ok_or_else(|| "it is schedule or prefill".to_owned())
}

fn signed_model(signature: &Path, key: &Path) -> anyhow::Result<SignedModel> {
    let key = ModelKey::from_pem(&source::text(key, source::MAX_TEXT)?)
        .with_context(|| format!("the key {}", key.display()))?;
    let bytes = source::file(signature, MAX_SIGNATURE_BYTES as u64)?;
    SignedModel::verify(&bytes, &key).with_context(|| format!("the model signature {}", signature.display()))
}

impl Input {
    /// A name, not a path: the result must not depend on where the auditor keeps the log.
    fn name(&self) -> String {
        self.log.file_name().map_or_else(|| "log".to_owned(), |n| n.to_string_lossy().into_owned())
    }

    fn audit(&self) -> anyhow::Result<AuditResult> {
        source::log_folder(&self.log)?;
        let key = source::public_key(&self.key)?;
        let model = Arc::new(source::model(self.model.as_deref())?);
        let pinned = self.draw.pinned(&self.log, &key)?;
        let signed = match (&self.model_signature, &self.model_signing_key) {
            (Some(signature), Some(key)) => Some(signed_model(signature, key)?),
            _ => None,
        };
        let options = Options {
            mode: self.mode,
            limits: Limits { extra_rows: self.extra_rows, splits: self.splits, seeds: self.seeds },
            ..Options::default()
        };
        let recheck = disclosure::recheck("LOG", "MODEL", "OPERATOR.pub", self.mode);
        let with = |plan: Plan| Inspection {
            log: &self.log,
            subject: Subject { name: self.name(), note: String::new() },
            key: &key,
            origin: self.origin.as_deref(),
            pinned: pinned.as_ref().map(|(checkpoint, _)| checkpoint),
            receipts: self.receipt.clone(),
            own_receipts: false,
            signed_model: signed.as_ref(),
            plan,
            recheck: recheck.clone(),
        };
        // How fast this machine audits this log: by its first record, which the beacon does not choose.
        let rate = || -> anyhow::Result<f64> {
            let begun = std::time::Instant::now();
            let first = inspect(&with(Plan::These([0].into())), &model, &self.emulation, &options, &|_, _| ())?;
            let rows: u32 = first.records.iter().map(|record| record.size.rows).sum();
            Ok(f64::from(rows.max(1)) / begun.elapsed().as_secs_f64().max(1e-3))
        };
        let what = with(self.draw.plan(pinned.as_ref().map(|(_, note)| note.as_slice()), rate)?);
        let mut result = inspect(&what, &model, &self.emulation, &options, &|_, _| ())?;
        let drawn = self.draw.words(&result);
        for line in &mut result.recheck {
            if line.starts_with("lastbit")
                && let Some((command, remark)) = line.split_once("    #")
            {
                *line = format!("{command}{drawn}    #{remark}");
            }
        }
        Ok(result)
    }
}

/// Where the signed result and its page go. Everything that can be wrong with the auditor's key and folder is found before the audit.
struct Reports {
    key: PrivateKey,
    json: PathBuf,
    page: PathBuf,
    title: String,
}

impl Reports {
    fn new(name: &str, key: &Path, out: &Path) -> anyhow::Result<Self> {
        let key = source::private_key(key)?;
        if out.exists() && !out.is_dir() {
            bail!("{} is not a folder", out.display());
        }
        // The name is signed with the result, so it needs a canonical form.
        record::canonical::to_bytes(&name)
            .with_context(|| format!("the log's folder {name:?} cannot be named in a report"))?;
        let [json, page] = ["audit.json", "html"].map(|ending| out.join(format!("{name}.{ending}")));
        for path in [&json, &page] {
            source::free(path)?;
        }
        Ok(Self { key, json, page, title: report_title(name) })
    }

    /// Both files or none, as far as the system lets us; never a part of one.
    fn write(&self, result: &AuditResult) -> anyhow::Result<()> {
        let file = self.json.file_name().unwrap_or_default().to_string_lossy();
        let signed = SignedResult::sign(result.clone(), &self.key)?.named(file);
        let html = report::render(std::slice::from_ref(&signed), &self.title)?;
        if let Some(folder) = self.json.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        source::write_new(&self.json, &signed.bytes)?;
        if let Err(error) = source::write_new(&self.page, html.as_bytes()) {
            let _ = std::fs::remove_file(&self.json);
            return Err(error);
        }
        output::note(format_args!("wrote {} (signed) and {}", self.json.display(), self.page.display()));
        Ok(())
    }
}

/// Title of the page about one log.
pub fn report_title(name: &str) -> String {
    format!("Audit of {name}")
}

/// A result in a few lines.
pub fn summary(out: &mut dyn Write, result: &AuditResult) -> io::Result<()> {
    writeln!(out, "{}: {}", result.subject.name, result.verdict)?;
    writeln!(out, "  {}", result.headline)?;
    for r in &result.records {
        writeln!(out, "  {}: {} - {}", r.name(), r.verdict, r.headline)?;
    }
    writeln!(out)?;
    let verdicts = result.records.iter().map(|r| r.verdict).chain([result.verdict]);
    explain::legend(verdicts).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Runs `audit`.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let reports = match (&args.auditor_key, &args.out) {
        (Some(key), Some(out)) => Some(Reports::new(&args.input.name(), key, out)?),
        _ => None,
    };
    let result = args.input.audit()?;
    if let Some(reports) = &reports {
        reports.write(&result)?;
    }
    args.format.print(&result, |out| summary(out, &result))?;
    Ok(outcome(&result))
}

/// Runs `explain`.
pub fn explain(args: ExplainArgs) -> anyhow::Result<Outcome> {
    let result = args.input.audit()?;
    if let Some(n) = args.record
        && result.log.refused.is_none()
        && !result.records.iter().any(|r| r.covers(n))
    {
        bail!("the log has no audited record {n}");
    }
    let wanted = result.records.iter().filter(|r| args.record.is_none_or(|n| r.covers(n)));
    let explained = Explained {
        schema: "lastbit/explain/v1",
        verdict: result.verdict.to_string(),
        refused: result.log.refused.as_ref().map(|r| format!("{}: {}", r.reason, r.detail)),
        records: wanted
            .map(|r| ExplainedRecord { seq: r.seq, verdict: r.verdict.to_string(), words: explain::words(r) })
            .collect(),
    };
    args.format.print(&explained, |out| {
        match &explained.refused {
            Some(refused) => writeln!(out, "the log is refused: {refused}")?,
            None if explained.records.is_empty() => {
                writeln!(out, "{}: the log has no record, so there is nothing to explain", explained.verdict)?;
            }
            None => {}
        }
        explained.records.iter().try_for_each(|r| writeln!(out, "{}", r.words))
    })?;
    Ok(outcome(&result))
}

/// The exit code of a result. A refusal that says nothing about the log's keeper (wrong key, wrong origin ...) is not held against them.
pub fn outcome(result: &AuditResult) -> Outcome {
    if let Some(refused) = &result.log.refused
        && !LogRefusal::code_is_finding(&refused.reason)
    {
        return Outcome::CouldNotTell;
    }
    match result.verdict.exit_code() {
        0 => Outcome::AllMatch,
        1 => Outcome::SomethingDiffers,
        _ => Outcome::CouldNotTell,
    }
}
