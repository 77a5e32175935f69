//! `lastbit log prove`: proofs as files.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use record::log::{Directory, Expect, verify_entries};
use record::tlog::{AddCheckpoint, InclusionProof};
use serde::Serialize;

use crate::output::{Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the log
    dir: PathBuf,

    /// Public key of the log
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Prove that this entry is in the log; writes NAME.tlog-proof, and the entry itself as NAME.entry
    #[arg(long, value_name = "INDEX", conflicts_with = "from", required_unless_present = "from")]
    entry: Option<u64>,

    /// Prove that the log continues what it was at this size; writes NAME.consistency
    #[arg(long, value_name = "SIZE")]
    from: Option<u64>,

    /// Prove against this checkpoint, for example a published one with cosignatures [default: the log's own]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,

    /// Path of the files to write, without their endings
    #[arg(long, value_name = "NAME")]
    out: PathBuf,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    size: u64,
    files: Vec<PathBuf>,
    bytes: usize,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    source::log_folder(&args.dir)?;
    let key = source::public_key(&args.key)?;
    let directory = Directory::new(&args.dir);
    let log = verify_entries(&directory, &key, &Expect::default()).context("nothing is proved of this log")?;
    let (checkpoint, note) = match &args.checkpoint {
        None => (log.checkpoint.clone(), log.note.clone()),
        Some(path) => {
            let note = source::file(path, source::MAX_CHECKPOINT)?;
            (log.keys.checkpoint(&note).with_context(|| format!("the checkpoint {}", path.display()))?, note)
        }
    };
    let size = checkpoint.size;
    if log.tree().root_at(size).ok() != Some(checkpoint.root) {
        bail!("the checkpoint given is not of this log, or of a later state than this folder has");
    }
    let named = |ending: &str| {
        let mut name = args.out.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    };
    let write = |path: PathBuf, bytes: &[u8]| source::write_new(&path, bytes);
    let (files, bytes) = match (args.entry, args.from) {
        (Some(index), _) => {
            if index >= size {
                bail!("the checkpoint covers {size} entries; there is no entry {index} among them");
            }
            let mut line = Vec::new();
            log.each_line(|at, found| {
                if at == index {
                    line = found.to_vec();
                }
                Ok(())
            })?;
            let proof = InclusionProof { index, path: log.tree().prove_at(size, index)?, checkpoint: note };
            // What is handed out has been checked once.
            proof.verify(&line, &log.keys)?;
            let bytes = proof.to_bytes();
            source::free(&named(".entry"))?;
            (vec![write(named(".tlog-proof"), &bytes)?, write(named(".entry"), &line)?], bytes.len())
        }
        (None, Some(old)) => {
            if old > size {
                bail!("the checkpoint covers {size} entries, fewer than {old}");
            }
            let bytes = AddCheckpoint { old, proof: log.tree().consistency(old, size)?, checkpoint: note }.to_bytes();
            (vec![write(named(".consistency"), &bytes)?], bytes.len())
        }
        (None, None) => bail!("give --entry or --from"),
    };
    let report = Report { schema: "lastbit/log-prove/v1", size, files, bytes };
    args.format.print(&report, |out| {
        let files: Vec<String> = report.files.iter().map(|f| f.display().to_string()).collect();
        writeln!(out, "wrote {} ({bytes} bytes of proof, against {size} entries)", files.join(" and "))
    })?;
    Ok(Outcome::AllMatch)
}
