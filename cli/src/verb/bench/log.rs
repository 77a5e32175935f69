//! `lastbit bench log`: how long the structure of a large log takes to verify.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use record::digest::Tagged;
use record::envelope::{Statement, Subject, predicate, sign};
use record::inference::ChainSpan;
use record::log::{Checkpoint, EntryHeader, Expect, Source, verify_entries};
use record::merkle::Tree;
use record::{Digest, PrivateKey, commit};
use serde::Serialize;

use super::gemm::thread_seconds;
use crate::argument;
use crate::output::{Format, Outcome, progress};

/// Options of `bench log`.
#[derive(clap::Args)]
pub struct Args {
    /// Entries of the log
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = argument::count(1, 1 << 24))]
    entries: u32,

    /// Folder for the entries, about 2 kB each, while it runs [default: the system's]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    entries: u32,
    bytes: u64,
    clock: &'static str,
    cores: u32,
    seconds: f64,
    microseconds_per_entry: f64,
    seconds_per_million: f64,
}

const ORIGIN: &str = "bench.example/log";

/// A log whose records are nowhere: its structure can be verified all the same.
struct Entries {
    checkpoint: Vec<u8>,
    path: PathBuf,
}

impl Source for Entries {
    fn checkpoint(&self) -> std::io::Result<Vec<u8>> {
        Ok(self.checkpoint.clone())
    }

    fn entries(&self) -> std::io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(BufReader::new(File::open(&self.path)?)))
    }

    fn keys(&self) -> std::io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn record(&self, _: &Digest) -> std::io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let folder = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    };
    let folder = folder.context("a folder for the entries")?;
    let key = PrivateKey::generate()?;
    let log = write(args.entries, folder.path().join("entries"), &key)?;
    let bytes = std::fs::metadata(&log.path)?.len();

    let zero = Instant::now();
    let now = || thread_seconds().unwrap_or_else(|| zero.elapsed().as_secs_f64());
    let begun = now();
    let verified = verify_entries(&log, &key.public(), &Expect::default())?;
    let seconds = now() - begun;
    anyhow::ensure!(verified.entries.len() == args.entries as usize, "a part of the log was not verified");
    let each = seconds / f64::from(args.entries);
    let report = Report {
        schema: "lastbit/bench-log/v1",
        entries: args.entries,
        bytes,
        clock: if thread_seconds().is_some() { "processor time of the thread" } else { "wall clock" },
        cores: 1,
        seconds,
        microseconds_per_entry: each * 1e6,
        seconds_per_million: each * 1e6,
    };
    args.format.print(&report, |out| {
        writeln!(
            out,
            "{} entries, {} bytes: signatures, links and tree in {:.2} s on one core ({}), {:.1} us an entry, {:.1} s a million",
            report.entries, report.bytes, report.seconds, report.clock, report.microseconds_per_entry, report.seconds_per_million
        )
    })?;
    Ok(Outcome::AllMatch)
}

/// Entries as a log's writer writes them, of records that were never made.
fn write(count: u32, path: PathBuf, key: &PrivateKey) -> anyhow::Result<Entries> {
    let (public, mut tree, mut chain, mut previous) = (key.public(), Tree::default(), commit::genesis(ORIGIN), None);
    let bar = progress(count.into(), "signing entries");
    let mut file = BufWriter::new(File::create(&path)?);
    for sequence in 0..u64::from(count) {
        let digest = |what: &'static str| Tagged::new(what).u64(sequence).finish();
        let (record, after) = (digest("bench/record"), digest("bench/chain"));
        let header = EntryHeader {
            origin: ORIGIN.to_owned(),
            sequence,
            previous,
            record,
            chain: ChainSpan { before: chain, after },
            time_unix_us: 1_764_547_200_000_000 + sequence,
            key_id: public.id(),
            public_key: public.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let subjects = vec![
            Subject::new("record", "lastbit-record-v1", &record),
            Subject::new("file", "sha256", &digest("bench/file")),
            Subject::new("outputs", "lastbit-outputs-v1", &digest("bench/outputs")),
        ];
        let line = sign(&Statement::new(predicate::LOG_ENTRY, subjects, header), key)?;
        tree.push(&line)?;
        (previous, chain) = (Some(Tagged::new("lastbit/entry/v1").bytes(&line).finish()), after);
        file.write_all(&line)?;
        file.write_all(b"\n")?;
        if sequence % 1024 == 0 {
            bar.set_position(sequence);
        }
    }
    file.flush()?;
    bar.finish_and_clear();
    let (size, root) = (tree.size(), tree.root()?);
    let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size, root, chain, keys: None }.sign(key)?;
    Ok(Entries { checkpoint, path })
}
