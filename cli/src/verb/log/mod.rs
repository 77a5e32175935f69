//! `lastbit log`: making a log, publishing, proving and witnessing it, and checking one without replaying anything.

mod check;
mod fsck;
mod keys;
mod monitor;
mod prove;
mod publish;
mod witness;

use std::path::{Path, PathBuf};

use record::log::{Directory, Expect, KeyHistory, MAX_KEYS_BYTES, verify, verify_entries};
use record::tlog::WitnessKey;
use record::{Log, LogRefusal, PublicKey};
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
    /// Publish the log in tiles that any static file server can serve, and ask witnesses to cosign it
    Publish(publish::Args),
    /// Write a proof: that an entry is in the log, or that the log continues an older size
    Prove(prove::Args),
    /// Check a proof offline: inclusion, consistency, or misbehaviour
    #[command(after_help = EXIT_CODES)]
    Check(Box<check::Args>),
    /// Be a witness: cosign checkpoints of known logs, one history each
    Witness(witness::Args),
    /// Compare checkpoints that different readers were given; a contradiction is written down as a proof
    #[command(after_help = EXIT_CODES)]
    Monitor(Box<monitor::Args>),
    /// Derive every file of a log's folder again and name each one that is not what it should be
    #[command(after_help = EXIT_CODES)]
    Fsck(fsck::Args),
    /// Name the key that may revoke the log's key
    Recovery(keys::RecoveryArgs),
    /// Hand the log over to another key
    Rotate(keys::RotateArgs),
    /// Revoke the log's key, which is lost or stolen, by the recovery key
    Revoke(keys::RevokeArgs),
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

    /// Only checkpoint, signatures, links and tree: leave the record files alone
    #[arg(long)]
    structure: bool,

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
        Verb::Publish(args) => publish::run(args),
        Verb::Prove(args) => prove::run(args),
        Verb::Check(args) => check::run(*args),
        Verb::Witness(args) => witness::run(args),
        Verb::Monitor(args) => monitor::run(*args),
        Verb::Fsck(args) => fsck::run(args),
        Verb::Recovery(args) => keys::recovery(args),
        Verb::Rotate(args) => keys::rotate(args),
        Verb::Revoke(args) => keys::revoke(args),
    }
}

/// Whose signature counts on a proof or a checkpoint that comes without its log.
#[derive(clap::Args)]
struct Trust {
    /// Public key of the log
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Key statements of the log (`keys` in its folder), if its key was changed
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,

    /// A witness as `name+id+base64`; may be given several times
    #[arg(long, value_name = "KEY", value_parser = witness_key)]
    witness_key: Vec<WitnessKey>,

    /// How many of these witnesses must have cosigned [default: all of them]
    #[arg(long, value_name = "N")]
    quorum: Option<usize>,
}

fn witness_key(text: &str) -> Result<WitnessKey, String> {
    WitnessKey::parse(text).map_err(|e| e.to_string())
}

impl Trust {
    fn keys(&self) -> anyhow::Result<KeyHistory> {
        let key = crate::source::public_key(&self.key)?;
        key_history(&key, self.keys.as_deref())
    }
}

fn key_history(key: &PublicKey, statements: Option<&Path>) -> anyhow::Result<KeyHistory> {
    Ok(match statements {
        Some(path) => KeyHistory::verify(&source::file(path, MAX_KEYS_BYTES)?, key)?,
        None => KeyHistory::of_key(key.clone()),
    })
}

fn check(args: VerifyArgs) -> anyhow::Result<Outcome> {
    source::log_folder(&args.dir)?;
    let key = source::public_key(&args.key)?;
    let directory = Directory::new(&args.dir);
    let read = if args.structure { verify_entries } else { verify };
    let result = read(&directory, &key, &Expect::default());
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
