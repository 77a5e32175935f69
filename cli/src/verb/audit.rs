//! `lastbit audit`: re-compute a log, say what differs, write the signed report. `lastbit explain`: the same in words.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use record::log::Checkpoint;
use serde::Serialize;
use verifier::audit::Options;
use verifier::challenge::Plan;
use verifier::plan::Mode;
use verifier::result::{AuditResult, Limits, SignedResult, Subject};
use verifier::{disclosure, explain, report};

use crate::inspect::{Inspection, inspect};
use crate::output::{Format, Outcome};
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

    /// `schedule`: repeat the logged steps; `prefill`: one teacher-forced prefill a request (`invariant` logs)
    #[arg(long, value_name = "HOW", default_value = "schedule", value_parser = replay_mode)]
    mode: Mode,

    /// Name that the log must have
    #[arg(long)]
    origin: Option<String>,

    /// A checkpoint of this log seen before: the log must continue it
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,

    /// A receipt that a client presents; may be given several times
    #[arg(long, value_name = "FILE")]
    receipt: Vec<PathBuf>,

    /// Audit this many records, drawn by --beacon, instead of all
    #[arg(long, value_name = "N", requires = "beacon")]
    sample: Option<u64>,

    /// Randomness published after the checkpoint was signed, at least 16 bytes of hex
    #[arg(long, value_name = "HEX", requires = "sample")]
    beacon: Option<String>,

    /// Name of this audit; with the beacon it decides the sample
    #[arg(long, value_name = "TEXT", default_value = "audit")]
    audit_id: String,

    /// Look for up to this many unreported rows in a step
    #[arg(long, value_name = "N", default_value_t = Limits::default().extra_rows)]
    extra_rows: u32,

    /// Look for kernel splits up to this
    #[arg(long, value_name = "N", default_value_t = Limits::default().splits)]
    splits: u32,

    /// Look for this many other seeds
    #[arg(long, value_name = "N", default_value_t = Limits::default().seeds)]
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

impl Input {
    fn audit(&self) -> anyhow::Result<AuditResult> {
        if !self.log.is_dir() {
            bail!("{} is not a folder; give the folder of a log", self.log.display());
        }
        let key = source::public_key(&self.key)?;
        let model = Arc::new(source::model(self.model.as_deref())?);
        let pinned = match &self.checkpoint {
            Some(path) => Some(Checkpoint::verify(&source::file(path)?, &key)?),
            None => None,
        };
        let plan = match (self.sample, &self.beacon) {
            (Some(records), Some(beacon)) => {
                Plan::Challenge { beacon: beacon.clone(), audit: self.audit_id.clone(), records }
            }
            _ => Plan::All,
        };
        let options = Options {
            mode: self.mode,
            limits: Limits { extra_rows: self.extra_rows, splits: self.splits, seeds: self.seeds },
            ..Options::default()
        };
        // Names, not paths: the result must not depend on where the auditor keeps the log.
        let named =
            |path: &Path| path.file_name().map_or_else(|| "log".to_owned(), |n| n.to_string_lossy().into_owned());
        let recheck = disclosure::recheck("LOG", "MODEL", "OPERATOR.pub", self.mode);
        let what = Inspection {
            log: &self.log,
            subject: Subject { name: named(&self.log), note: String::new() },
            key: &key,
            origin: self.origin.as_deref(),
            pinned: pinned.as_ref(),
            receipts: self.receipt.clone(),
            own_receipts: false,
            plan,
            recheck,
        };
        inspect(&what, &model, &self.emulation, &options)
    }
}

/// Runs `audit`.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let result = args.input.audit()?;
    if let (Some(key), Some(out)) = (&args.auditor_key, &args.out) {
        let key = source::private_key(key)?;
        let name = result.subject.name.clone();
        let file = format!("{name}.audit.json");
        let signed = SignedResult::sign(result.clone(), &key)?.named(&file);
        std::fs::create_dir_all(out)?;
        let html = report::render(std::slice::from_ref(&signed), &format!("Audit of {name}"))?;
        let json = source::write_new(&out.join(&file), &signed.bytes)?;
        let page = source::write_new(&out.join(format!("{name}.html")), html.as_bytes())?;
        eprintln!("lastbit: wrote {} (signed) and {}", json.display(), page.display());
    }
    args.format.print(&result, || {
        println!("{}: {}", result.subject.name, result.verdict);
        println!("  {}", result.headline);
        for r in &result.records {
            println!("  record {}: {} - {}", r.seq, r.verdict, r.headline);
        }
    })?;
    Ok(outcome(&result))
}

/// Runs `explain`.
pub fn explain(args: ExplainArgs) -> anyhow::Result<Outcome> {
    let result = args.input.audit()?;
    if let Some(n) = args.record
        && result.log.refused.is_none()
        && !result.records.iter().any(|r| r.seq == n)
    {
        bail!("the log has no audited record {n}");
    }
    let wanted = result.records.iter().filter(|r| args.record.is_none_or(|n| n == r.seq));
    let explained = Explained {
        schema: "lastbit/explain/v1",
        verdict: result.verdict.to_string(),
        refused: result.log.refused.as_ref().map(|r| format!("{}: {}", r.reason, r.detail)),
        records: wanted
            .map(|r| ExplainedRecord { seq: r.seq, verdict: r.verdict.to_string(), words: explain::words(r) })
            .collect(),
    };
    args.format.print(&explained, || {
        if let Some(refused) = &explained.refused {
            println!("the log is refused: {refused}");
        }
        explained.records.iter().for_each(|r| println!("{}", r.words));
    })?;
    Ok(outcome(&result))
}

/// The exit code of a verdict.
pub fn outcome(result: &AuditResult) -> Outcome {
    match result.verdict.exit_code() {
        0 => Outcome::AllMatch,
        1 => Outcome::SomethingDiffers,
        _ => Outcome::CouldNotTell,
    }
}
