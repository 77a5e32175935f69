//! `lastbit log recovery`, `rotate` and `revoke`: key statements.

use std::path::PathBuf;

use record::{Log, PublicKey};
use serde::Serialize;

use crate::output::{Format, Outcome};
use crate::source::{self, now_unix_us};
use crate::verb::generate::open_log;

/// Options of `recovery`.
#[derive(clap::Args)]
pub struct RecoveryArgs {
    /// Folder of the log
    dir: PathBuf,

    /// Private key of the log
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Private key that may revoke it; keep it elsewhere
    #[arg(long, value_name = "FILE")]
    recovery_key: PathBuf,

    #[command(flatten)]
    common: Common,
}

/// Options of `rotate`.
#[derive(clap::Args)]
pub struct RotateArgs {
    /// Folder of the log
    dir: PathBuf,

    /// Private key of the log so far
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Private key that signs from here on
    #[arg(long, value_name = "FILE")]
    new_key: PathBuf,

    #[command(flatten)]
    common: Common,
}

/// Options of `revoke`.
#[derive(clap::Args)]
pub struct RevokeArgs {
    /// Folder of the log
    dir: PathBuf,

    /// Private key that may revoke (named earlier by `lastbit log recovery`)
    #[arg(long, value_name = "FILE")]
    recovery_key: PathBuf,

    /// Private key that signs from here on
    #[arg(long, value_name = "FILE")]
    new_key: PathBuf,

    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    /// Why, for whoever reads the log
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    event: &'static str,
    origin: String,
    size: u64,
    key_id: String,
}

fn told(event: &'static str, log: &Log, key: &PublicKey, format: Format) -> anyhow::Result<Outcome> {
    let (schema, key_id) = ("lastbit/log-key/v1", key.id().to_string());
    let report = Report { schema, event, origin: log.origin().to_owned(), size: log.size(), key_id };
    format.print(&report, |out| match event {
        "recovery" => writeln!(out, "{}: key {} may revoke", report.origin, report.key_id),
        _ => writeln!(out, "{}: from entry {} on, key {} signs", report.origin, report.size, report.key_id),
    })?;
    Ok(Outcome::AllMatch)
}

/// Runs `recovery`.
pub fn recovery(args: RecoveryArgs) -> anyhow::Result<Outcome> {
    let recovery = source::private_key(&args.recovery_key)?;
    let mut log = open_log(&args.dir, source::private_key(&args.key)?)?;
    log.set_recovery(&recovery, &args.common.reason, now_unix_us())?;
    told("recovery", &log, &recovery.public(), args.common.format)
}

/// Runs `rotate`.
pub fn rotate(args: RotateArgs) -> anyhow::Result<Outcome> {
    let successor = source::private_key(&args.new_key)?;
    let mut log = open_log(&args.dir, source::private_key(&args.key)?)?;
    let public = successor.public();
    log.rotate(successor, &args.common.reason, now_unix_us())?;
    told("rotate", &log, &public, args.common.format)
}

/// Runs `revoke`.
pub fn revoke(args: RevokeArgs) -> anyhow::Result<Outcome> {
    let (recovery, successor) = (source::private_key(&args.recovery_key)?, source::private_key(&args.new_key)?);
    let public = successor.public();
    let (log, _) = Log::revoke(&args.dir, &recovery, successor, &args.common.reason, now_unix_us())?;
    told("revoke", &log, &public, args.common.format)
}
