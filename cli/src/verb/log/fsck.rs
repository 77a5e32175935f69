//! `lastbit log fsck`: every file of a log's folder, derived again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use record::log::{Directory, Expect, VerifiedLog, verify_entries};
use record::tlog::Published;
use record::{Digest, Evidence, LogRefusal, Record};
use serde::Serialize;

use crate::output::{self, Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the log
    dir: PathBuf,

    /// Public key of the log
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// The folder that the log was published into
    #[arg(long, value_name = "DIR")]
    published: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    origin: Option<String>,
    entries: u64,
    records: u64,
    evidence: u64,
    receipts: u64,
    published: Option<u64>,
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct Problem {
    file: String,
    reason: String,
    /// Does it contradict what the log's key signed? Otherwise a copy is damaged or a file is foreign.
    finding: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    source::log_folder(&args.dir)?;
    let key = source::public_key(&args.key)?;
    let directory = Directory::new(&args.dir);
    let schema = "lastbit/log-fsck/v1";
    let mut report = Report {
        schema,
        origin: None,
        entries: 0,
        records: 0,
        evidence: 0,
        receipts: 0,
        published: None,
        problems: Vec::new(),
    };
    match verify_entries(&directory, &key, &Expect::default()) {
        Err(refusal) => report.refused("the log", &refusal),
        Ok(log) => {
            report.origin = Some(log.checkpoint.origin.clone());
            report.entries = log.entries.len() as u64;
            let records = report.records(&log);
            report.evidence(&directory, &records)?;
            report.receipts(&directory, &log, &records)?;
            report.foreign(&args.dir, &records)?;
            if let Some(dir) = &args.published {
                report.published(dir, &log);
            }
        }
    }
    args.format.print(&report, |out| {
        for problem in &report.problems {
            writeln!(out, "{}: {}", problem.file, problem.reason)?;
        }
        let name = report.origin.as_deref().unwrap_or("the log");
        let published = report.published.map_or(String::new(), |size| format!(", {size} published"));
        writeln!(
            out,
            "{name}: {} entries, {} records, {} evidence files, {} receipts{published}; {} problems",
            report.entries,
            report.records,
            report.evidence,
            report.receipts,
            report.problems.len()
        )
    })?;
    Ok(match (report.problems.is_empty(), report.problems.iter().any(|problem| problem.finding)) {
        (true, _) => Outcome::AllMatch,
        (_, true) => Outcome::SomethingDiffers,
        _ => Outcome::CouldNotTell,
    })
}

impl Report {
    fn problem(&mut self, file: impl Into<String>, reason: impl Into<String>, finding: bool) {
        self.problems.push(Problem { file: file.into(), reason: reason.into(), finding });
    }

    fn refused(&mut self, file: &str, refusal: &LogRefusal) {
        self.problem(file, format!("{}: {refusal}", refusal.code()), refusal.is_finding());
    }

    /// Records by digest, with their place.
    fn records(&mut self, log: &VerifiedLog<'_>) -> BTreeMap<Digest, (u64, Record)> {
        let mut records = BTreeMap::new();
        for (index, entry) in (0..).zip(&log.entries) {
            match log.record(index) {
                Ok(record) => {
                    self.records += 1;
                    records.insert(entry.header.record, (index, record));
                }
                Err(refusal) => self.refused(&format!("records/{}.replay", entry.header.record.to_hex()), &refusal),
            }
        }
        records
    }

    fn evidence(&mut self, directory: &Directory, records: &BTreeMap<Digest, (u64, Record)>) -> anyhow::Result<()> {
        for name in names(&directory.path().join("evidence"))? {
            let file = format!("evidence/{name}");
            let record = name.strip_suffix(".evidence").and_then(|hex| format!("sha256:{hex}").parse().ok());
            let Some((_, record)) = record.and_then(|digest: Digest| records.get(&digest)) else {
                self.problem(file, "no record of this log that could be read has this evidence", false);
                continue;
            };
            let path = directory.path().join(&file);
            let opened = source::file(&path, verifier::directory::MAX_EVIDENCE)
                .and_then(|bytes| Ok(Evidence::from_file(&bytes)?))
                .and_then(|evidence| Ok(evidence.check(record)?));
            match opened {
                Ok(()) => self.evidence += 1,
                Err(error) => self.problem(file, output::sentence(&error), false),
            }
        }
        Ok(())
    }

    fn receipts(
        &mut self,
        directory: &Directory,
        log: &VerifiedLog<'_>,
        records: &BTreeMap<Digest, (u64, Record)>,
    ) -> anyhow::Result<()> {
        let by_index: BTreeMap<u64, &Record> = records.values().map(|(index, record)| (*index, record)).collect();
        for name in names(&directory.path().join("receipts"))? {
            let file = format!("receipts/{name}");
            let bytes = match source::file(&directory.path().join(&file), source::MAX_RECEIPT) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.problem(file, output::sentence(&error), false);
                    continue;
                }
            };
            match log.keys.receipt(&bytes, &log.checkpoint.origin) {
                // A receipt that the key signed and the log does not honour is the operator's contradiction.
                Ok(receipt) => match by_index.get(&receipt.log.index).map(|record| receipt.check(record)) {
                    Some(Ok(())) => self.receipts += 1,
                    Some(Err(error)) => self.problem(file, error.to_string(), true),
                    None if receipt.log.index >= log.entries.len() as u64 => {
                        self.problem(file, "it promises an entry that the log does not have", true);
                    }
                    None => self.problem(file, "its record could not be read", false),
                },
                Err(error) => self.problem(file, error.to_string(), false),
            }
        }
        Ok(())
    }

    /// Files that are no part of a log, and records that no entry names.
    fn foreign(&mut self, dir: &Path, records: &BTreeMap<Digest, (u64, Record)>) -> anyhow::Result<()> {
        let known = ["checkpoint", "entries", "evidence", "keys", "lock", "receipts", "records", "session", "torn"];
        for name in names(dir)? {
            if !known.contains(&name.as_str()) {
                self.problem(name, "no part of a log", false);
            }
        }
        let named = |name: &str| {
            let digest = name.strip_suffix(".replay").and_then(|hex| format!("sha256:{hex}").parse::<Digest>().ok());
            digest.is_some_and(|digest| records.contains_key(&digest))
        };
        let bad: Vec<String> = self.problems.iter().map(|problem| problem.file.clone()).collect();
        for name in names(&dir.join("records"))? {
            let file = format!("records/{name}");
            if !named(&name) && !bad.contains(&file) {
                self.problem(file, "no entry names it", false);
            }
        }
        Ok(())
    }

    fn published(&mut self, dir: &Path, log: &VerifiedLog<'_>) {
        match Published::new(dir).check(&log.keys) {
            Ok(checkpoint) => {
                self.published = Some(checkpoint.size);
                if log.tree().root_at(checkpoint.size).ok() != Some(checkpoint.root) {
                    self.problem(dir.display().to_string(), "what is published is another history than this log", true);
                }
            }
            Err(error) => self.problem(dir.display().to_string(), error.to_string(), false),
        }
    }
}

/// The names in a folder, in order; none if it is not there.
fn names(dir: &Path) -> anyhow::Result<Vec<String>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let names: std::io::Result<Vec<String>> =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
    let mut names = names.with_context(|| format!("reading {}", dir.display()))?;
    names.sort();
    Ok(names)
}
