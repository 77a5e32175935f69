//! `lastbit fingerprint watch`.

use std::path::PathBuf;

use anyhow::bail;
use fingerprint::trace::Trace;
use fingerprint::watch::{Alarm, Moved, State, far};
use serde::Serialize;

use super::connect::{self, About, Connect};
use super::enroll::{Probes, take};
use crate::argument;
use crate::output::{Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Base address of the endpoint
    #[arg(value_name = "URL")]
    url: String,

    /// Existing folder of what was seen before; an empty one is filled with a reference first
    #[arg(long, value_name = "DIR")]
    state: PathBuf,

    /// Draws of the reference
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = argument::count(2, 100))]
    draws: u32,

    #[command(flatten)]
    probes: Probes,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Look {
    schema: &'static str,
    endpoint: String,
    /// Looks so far; 0 when this was the reference.
    looks: usize,
    /// What moved this time.
    moved: Vec<Moved>,
    /// Mean distance to the reference, nats.
    distance: Option<String>,
    /// What moved in several looks in a row, and when it began, in seconds since 1970.
    alarm: Option<(Vec<Moved>, u64)>,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if !args.state.is_dir() {
        bail!("{} is not a folder; make it first", args.state.display());
    }
    if args.connect.dry_run {
        return connect::dry(args.format, &args.url, &args.probes.most());
    }
    let file = args.state.join("watch.json");
    let looked = |draw| -> anyhow::Result<Trace> {
        let about = About { seed: args.probes.probe_seed, batch: 1, draw, ..About::default() };
        let session = args.connect.session(&args.url, about)?;
        Ok(connect::block_on(take(&session, args.connect.model.as_deref(), args.probes, 1))?.0)
    };
    args.connect.announce(&args.url, &args.probes.most())?;
    if !file.exists() {
        let mut names = Vec::new();
        for draw in 0..args.draws {
            let (path, _) = looked(draw)?.write(&args.state)?;
            names.push(path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned());
        }
        names.dedup();
        State::new(&args.url, args.probes.probe_seed, names).save(&file)?;
        return print(&args, 0, Vec::new(), None, None);
    }
    let mut state = State::open(&file)?;
    if state.endpoint != args.url || state.seed != args.probes.probe_seed.to_string() {
        bail!("{} watches {} with probes of seed {}", args.state.display(), state.endpoint, state.seed);
    }
    let reference: Vec<Trace> =
        state.reference.iter().map(|name| connect::trace(&args.state.join(name))).collect::<Result<_, _>>()?;
    // A number of its own: nothing is taken from the journal of another look.
    let trace = looked(args.draws + u32::try_from(state.batches.len())?)?;
    let (_, digest) = trace.write(&args.state)?;
    let alarm = state.look(&reference, &trace, digest.to_string(), source::now_unix_us() / 1_000_000);
    state.save(&file)?;
    let moved = state.batches.last().map(|b| b.moved.clone()).unwrap_or_default();
    print(&args, state.batches.len(), moved, Some(fingerprint::report::figure(far(&reference, &trace))), alarm)
}

fn print(
    args: &Args,
    looks: usize,
    moved: Vec<Moved>,
    distance: Option<String>,
    alarm: Option<Alarm>,
) -> anyhow::Result<Outcome> {
    let outcome = if alarm.is_some() { Outcome::SomethingDiffers } else { Outcome::AllMatch };
    let alarm = alarm.map(|a| (a.moved, a.since));
    let look =
        Look { schema: "lastbit/fingerprint-watch-look/v1", endpoint: args.url.clone(), looks, moved, distance, alarm };
    let names = |moved: &[Moved]| match moved {
        [] => "nothing moved".to_owned(),
        some => format!("moved: {}", some.iter().map(|m| m.name()).collect::<Vec<_>>().join(", ")),
    };
    args.format.print(&look, |out| match (&look.alarm, look.looks) {
        (_, 0) => writeln!(out, "{}: the reference is recorded", look.endpoint),
        (Some((moved, since)), n) => {
            writeln!(out, "{}: look {n}: ALARM, {}, since {since} (seconds since 1970)", look.endpoint, names(moved))
        }
        (None, n) => {
            let distance = look.distance.as_deref().unwrap_or("unknown");
            writeln!(
                out,
                "{}: look {n}: {} ({distance} nats from the reference); no alarm",
                look.endpoint,
                names(&look.moved)
            )
        }
    })?;
    Ok(outcome)
}
