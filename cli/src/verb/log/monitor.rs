//! `lastbit log monitor`: do the checkpoints that different readers were given belong to one history?

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use record::log::{Directory, Expect, KeyHistory, verify_entries};
use record::merkle::Tree;
use record::tlog::{Misbehaviour, Published, Reading, compare};
use record::{Error, PublicKey};
use serde::Serialize;

use crate::output::{Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Checkpoints, as readers or witnesses were given them
    #[arg(required = true)]
    checkpoints: Vec<PathBuf>,

    /// Public key of the log
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Key statements of the log, if its key was changed
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,

    /// A published folder or a log's folder: checkpoints of different sizes can only be compared by the entries
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,

    /// Largest checkpoint seen before; read if it is there, and replaced when a larger one continues it
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Where to write the proof if the log contradicts itself; must not exist yet
    #[arg(long, value_name = "FILE", default_value = "log.misbehaviour")]
    out: PathBuf,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    origin: String,
    largest: u64,
    compared: usize,
    /// Pairs of checkpoints that could not be compared, by size.
    undecided: Vec<(u64, u64)>,
    misbehaviour: Option<String>,
    proof: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    source::free(&args.out)?;
    let key = source::public_key(&args.key)?;
    let (keys, tree) = match &args.tree {
        Some(dir) => entries(dir, &key, args.keys.as_deref())?,
        None => (super::key_history(&key, args.keys.as_deref())?, None),
    };
    let mut readings: Vec<Reading> = Vec::new();
    let state = args.state.iter().filter(|path| path.symlink_metadata().is_ok());
    for path in args.checkpoints.iter().chain(state) {
        let reading = Reading::new(source::file(path, source::MAX_CHECKPOINT)?, &keys);
        readings.push(reading.with_context(|| format!("the checkpoint {}", path.display()))?);
    }
    let hub = tree.as_ref().map(|(reading, _)| reading.clone());
    readings.extend(hub);
    readings.sort_by_key(|reading| reading.checkpoint.size);
    let Some(largest) = readings.last().cloned() else { bail!("there is nothing to compare") };

    // Of one history are all that agree with the largest; of two sizes alike, with each other.
    let (mut undecided, mut found, mut compared) = (Vec::new(), None, 0);
    for pair in readings.windows(2).map(|pair| (&pair[0], &pair[1])).chain(readings.iter().map(|r| (r, &largest))) {
        let (one, other) = pair;
        match compare(one, other, tree.as_ref().map(|(_, tree)| tree)) {
            Ok(None) => compared += 1,
            Ok(Some(shown)) => {
                found = Some(shown);
                break;
            }
            Err(Error::Undecided) => undecided.push((one.checkpoint.size, other.checkpoint.size)),
            Err(Error::Origin) => bail!("{:?} and {:?} are two logs", one.checkpoint.origin, other.checkpoint.origin),
            Err(other) => return Err(other.into()),
        }
    }
    undecided.sort_unstable();
    undecided.dedup();
    let proof = found.as_ref().map(|shown| write(shown, &args.out)).transpose()?;
    if let (Some(path), None, true) = (&args.state, &found, undecided.is_empty()) {
        replace(path, &largest.note)?;
    }
    let outcome = match (&found, undecided.is_empty()) {
        (Some(_), _) => Outcome::SomethingDiffers,
        (None, true) => Outcome::AllMatch,
        (None, false) => Outcome::CouldNotTell,
    };
    let report = Report {
        schema: "lastbit/log-monitor/v1",
        origin: largest.checkpoint.origin.clone(),
        largest: largest.checkpoint.size,
        compared,
        undecided,
        misbehaviour: found.map(|shown| shown.words().to_owned()),
        proof,
    };
    args.format.print(&report, |out| match (&report.misbehaviour, &report.proof) {
        (Some(words), Some(proof)) => {
            writeln!(out, "{} contradicts itself ({words}); the proof is in {}", report.origin, proof.display())
        }
        _ if report.undecided.is_empty() => {
            writeln!(out, "{}: one history, up to {} entries", report.origin, report.largest)
        }
        _ => writeln!(
            out,
            "{}: nothing contradicts, but checkpoints of different sizes cannot be compared without the entries of the largest; give them with --tree",
            report.origin
        ),
    })?;
    Ok(outcome)
}

type Known = (KeyHistory, Option<(Reading, Tree)>);

/// The tree of a published folder, or of a log's own.
fn entries(dir: &Path, key: &PublicKey, statements: Option<&Path>) -> anyhow::Result<Known> {
    source::log_folder(dir)?;
    if dir.join("entries").is_file() {
        let directory = Directory::new(dir);
        let log = verify_entries(&directory, key, &Expect::default())?;
        let reading = Reading { checkpoint: log.checkpoint.clone(), note: log.note.clone() };
        return Ok((log.keys.clone(), Some((reading, log.tree().clone()))));
    }
    let (keys, published) = (super::key_history(key, statements)?, Published::new(dir));
    let (checkpoint, tree) = published.load(&keys)?;
    let note = published.note().with_context(|| format!("reading {}", published.checkpoint_path().display()))?;
    Ok((keys, Some((Reading { checkpoint, note }, tree))))
}

fn write(shown: &Misbehaviour, path: &Path) -> anyhow::Result<PathBuf> {
    source::write_new(path, &shown.to_bytes()?)
}

/// The monitor's own memory: replaced whole.
fn replace(path: &Path, note: &[u8]) -> anyhow::Result<()> {
    let mut fresh = path.to_owned().into_os_string();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let _ = std::fs::remove_file(&fresh);
    source::write_new(&fresh, note)?;
    std::fs::rename(&fresh, path).with_context(|| format!("writing {}", path.display()))
}
