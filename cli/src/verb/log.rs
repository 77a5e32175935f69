//! `lastbit log`: making a log, and checking one without replaying anything.

use std::path::PathBuf;

use record::log::{Directory, Expect, verify};
use record::{Log, LogRefusal};
use serde::Serialize;

use crate::argument;
use crate::output::{EXIT_CODES, Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Create an empty log; nothing else ever creates one
    Init(InitArgs),
    /// Check signatures, hash chain, checkpoint and record files, without replaying
    #[command(after_help = EXIT_CODES)]
    Verify(VerifyArgs),
}

#[derive(clap::Args)]
struct InitArgs {
    /// Folder to create
    dir: PathBuf,

    /// Name of the log, unique to it: for example `example.org/eu-1`
    #[arg(long, value_parser = argument::origin)]
    origin: String,

    /// Private key that signs the log (made by `lastbit keygen`)
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Created {
    schema: &'static str,
    log: PathBuf,
    origin: String,
}

#[derive(clap::Args)]
struct VerifyArgs {
    /// Folder of the log
    dir: PathBuf,

    /// Public key of the operator
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Verified {
    schema: &'static str,
    verified: bool,
    origin: Option<String>,
    acknowledged: u64,
    unacknowledged: u64,
    head: Option<String>,
    /// Stable name of the reason.
    reason: Option<&'static str>,
    refusal: Option<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Verb::Init(args) => {
            let key = source::private_key(&args.key)?;
            Log::init(&args.dir, &args.origin, &key)?;
            let created = Created { schema: "lastbit/log-init/v1", log: args.dir, origin: args.origin };
            args.format.print(&created, |out| {
                writeln!(out, "{} is an empty log named {}", created.log.display(), created.origin)
            })?;
            Ok(Outcome::AllMatch)
        }
        Verb::Verify(args) => check(args),
    }
}

fn check(args: VerifyArgs) -> anyhow::Result<Outcome> {
    source::log_folder(&args.dir)?;
    let key = source::public_key(&args.key)?;
    let directory = Directory::new(&args.dir);
    let result = verify(&directory, &key, &Expect::default()).and_then(|log| {
        // A record file may be damaged although the log is not.
        (0..log.checkpoint.size).try_for_each(|index| log.record(index).map(|_| ()))?;
        Ok(log)
    });
    let report = match &result {
        Ok(log) => Verified {
            schema: "lastbit/log-verify/v1",
            verified: true,
            origin: Some(log.checkpoint.origin.clone()),
            acknowledged: log.checkpoint.size,
            unacknowledged: log.unacknowledged(),
            head: Some(log.checkpoint.chain.to_string()),
            reason: None,
            refusal: None,
        },
        Err(refusal) => Verified {
            schema: "lastbit/log-verify/v1",
            verified: false,
            origin: None,
            acknowledged: 0,
            unacknowledged: 0,
            head: None,
            reason: Some(refusal.code()),
            refusal: Some(refusal.to_string()),
        },
    };
    args.format.print(&report, |out| match &result {
        Ok(log) => writeln!(
            out,
            "{}: {} acknowledged records verify{}; chain head {}",
            log.checkpoint.origin,
            log.checkpoint.size,
            match log.unacknowledged() {
                0 => String::new(),
                n => format!(", and {n} beyond the checkpoint that were never acknowledged"),
            },
            log.checkpoint.chain
        ),
        Err(refusal) => writeln!(out, "refused: {}: {refusal}", refusal.code()),
    })?;
    Ok(outcome(result.as_ref().err()))
}

/// A refusal that says nothing about the log's keeper is not held against them.
fn outcome(refusal: Option<&LogRefusal>) -> Outcome {
    match refusal {
        None => Outcome::AllMatch,
        Some(refusal) if refusal.is_finding() => Outcome::SomethingDiffers,
        Some(_) => Outcome::CouldNotTell,
    }
}
