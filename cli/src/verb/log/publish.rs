//! `lastbit log publish`: the log as tiles, cosigned.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use record::log::{Directory, Expect, verify_entries};
use record::tlog::{AddCheckpoint, Published, WitnessKey, cosignatures, merge, publish};
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

    /// Folder to publish into: a new one, or one that holds an earlier state of this log
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Ask the witness at this address (`http://HOST[:PORT][/PATH]`) to cosign; may be given several times
    #[arg(long, value_name = "URL")]
    witness: Vec<String>,

    /// Key of the witness, as `name+id+base64`; once for each --witness, in the same order
    #[arg(long, value_name = "KEY", value_parser = super::witness_key)]
    witness_key: Vec<WitnessKey>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    origin: String,
    size: u64,
    files_written: u64,
    cosigned_by: Vec<String>,
    not_cosigned: Vec<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if args.witness.len() != args.witness_key.len() {
        bail!("give one --witness-key for each --witness");
    }
    source::log_folder(&args.dir)?;
    let key = source::public_key(&args.key)?;
    let directory = Directory::new(&args.dir);
    let log = verify_entries(&directory, &key, &Expect::default()).context("the log is not published")?;
    let files_written = publish(&log, &args.out)?;
    let published = Published::new(&args.out);
    let size = log.checkpoint.size;
    let mut not_cosigned = Vec::new();
    if !args.witness.is_empty() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
        for (url, witness) in args.witness.iter().zip(&args.witness_key) {
            let note = published.note().context("reading what was published")?;
            let request = |old: u64| {
                let proof = log.tree().consistency(old, size).ok()?;
                Some(AddCheckpoint { old, proof, checkpoint: log.note.clone() }.to_bytes())
            };
            // What the witness saw last is what was published last, if nothing went wrong; else it says.
            let answer = runtime.block_on(server::witness::ask(url, size, request));
            match answer.map_err(anyhow::Error::from).and_then(|line| Ok(merge(&note, &line, witness)?)) {
                Ok(cosigned) => published.set_checkpoint(&cosigned)?,
                Err(error) => {
                    let why = output::sentence(&error);
                    output::note(format_args!("not cosigned by {}: {why}", witness.name));
                    not_cosigned.push(format!("{}: {why}", witness.name));
                }
            }
        }
    }
    let told = cosignatures(&published.note()?, &args.witness_key)?;
    let outcome = if not_cosigned.is_empty() { Outcome::AllMatch } else { Outcome::CouldNotTell };
    let report = Report {
        schema: "lastbit/log-publish/v1",
        origin: log.checkpoint.origin.clone(),
        size,
        files_written,
        cosigned_by: told.into_iter().map(|c| c.name).collect(),
        not_cosigned,
    };
    args.format.print(&report, |out| {
        let by = if report.cosigned_by.is_empty() { "nobody".to_owned() } else { report.cosigned_by.join(", ") };
        writeln!(
            out,
            "{}: {size} entries published in {}, {files_written} files written, cosigned by {by}",
            report.origin,
            args.out.display()
        )
    })?;
    Ok(outcome)
}
