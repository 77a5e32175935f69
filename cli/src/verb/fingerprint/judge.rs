//! `lastbit fingerprint identify`, `verify` and `compare`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use fingerprint::library::Library;
use fingerprint::report::Report;
use fingerprint::sampled::Sampled;
use fingerprint::stage::inspect::cost;
use fingerprint::trace::Trace;
use fingerprint::verdict::{self, Claimed, Run};

use super::connect::{self, About, Connect, Out};
use super::enroll::{Probes, take};
use crate::argument;
use crate::output::Outcome;

/// A target and the references.
#[derive(clap::Args)]
pub struct Target {
    /// Base address of an endpoint, or a trace file
    #[arg(value_name = "URL|TRACE")]
    target: String,

    /// Folder of reference traces
    #[arg(long, value_name = "DIR")]
    library: PathBuf,

    /// Tokens to draw at temperature 1 as well, for endpoints that show no log-probabilities
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = argument::count(0, 1_000_000))]
    sampled: u32,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    out: Out,
}

/// Options of `identify`.
#[derive(clap::Args)]
pub struct IdentifyArgs {
    #[command(flatten)]
    target: Target,
}

/// Options of `verify`.
#[derive(clap::Args)]
pub struct VerifyArgs {
    /// What is claimed: NAME=VALUE[,NAME=VALUE] with names of format, engine, version, backend, hardware
    #[arg(value_name = "CLAIM", value_parser = claim)]
    claim: Claimed,

    #[command(flatten)]
    target: Target,
}

/// Options of `compare`.
#[derive(clap::Args)]
pub struct CompareArgs {
    /// A trace
    first: PathBuf,
    /// Another one of the same probes
    second: PathBuf,

    #[command(flatten)]
    out: Out,
}

fn claim(text: &str) -> Result<Claimed, String> {
    Claimed::parse(text).map_err(|e| e.to_string())
}

/// Asks the target the library's probes, or reads its trace, and judges.
fn judge(
    target: Target,
    repeat: &str,
    judge: impl FnOnce(&Library, &Trace, Run) -> fingerprint::Result<Report>,
) -> anyhow::Result<Outcome> {
    let library = Library::open(&target.library)?;
    let (probes, tokens) = library.probes();
    let seed = library.seed().unwrap_or(0);
    let probes = Probes { probes: u32::try_from(probes)?, tokens, probe_seed: seed };
    if target.connect.dry_run {
        return connect::dry(target.out.format, &target.target, &probes.most());
    }
    target.out.check()?;
    let mut run = Run { subject: target.target.clone(), seed, repeat: vec![repeat.to_owned()], ..Run::default() };
    let trace = if connect::is_address(&target.target) {
        let session = target.connect.session(&target.target, About { seed, batch: 1, ..About::default() })?;
        target.connect.announce(&target.target, &probes.most())?;
        // One runtime: connections of one do not live on in another.
        let (trace, cap) = connect::block_on(async {
            let (trace, cap) = take(&session, target.connect.model.as_deref(), probes, 1).await?;
            if target.sampled > 0 {
                run.seen = Sampled::of(&library).draw(&session, &cap, &library, target.sampled).await?;
            }
            Ok((trace, cap))
        })?;
        run.tier = cap.summary();
        run.cost = cost(&session);
        trace
    } else {
        if target.sampled > 0 {
            bail!("tokens are drawn from an endpoint; {} is a trace", target.target);
        }
        run.tier = "as recorded".to_owned();
        connect::trace(Path::new(&target.target))?
    };
    run.traces.push(target.out.keep(&trace)?);
    target.out.print(&judge(&library, &trace, run)?)
}

pub fn identify(args: IdentifyArgs) -> anyhow::Result<Outcome> {
    let repeat =
        format!("lastbit fingerprint identify {} --library {}", args.target.target, args.target.library.display());
    judge(args.target, &repeat, verdict::identify)
}

pub fn verify(args: VerifyArgs) -> anyhow::Result<Outcome> {
    let (claim, target) = (args.claim, args.target);
    let repeat = format!("lastbit fingerprint verify {claim} {} --library {}", target.target, target.library.display());
    judge(target, &repeat, |library, trace, run| verdict::verify(library, trace, &claim, run))
}

pub fn compare(args: CompareArgs) -> anyhow::Result<Outcome> {
    args.out.check()?;
    let (a, b) = (connect::trace(&args.first)?, connect::trace(&args.second)?);
    let run = Run {
        subject: format!("{} and {}", args.first.display(), args.second.display()),
        tier: "as recorded".to_owned(),
        seed: a.header.seed.parse().unwrap_or(0),
        repeat: vec![format!("lastbit fingerprint compare {} {}", args.first.display(), args.second.display())],
        ..Run::default()
    };
    args.out.print(&verdict::compare(&a, &b, run)?)
}
