//! `lastbit reveal`: an operator's answer to a challenge. Tensors that nobody kept are computed again and opened against what was committed to.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use record::Record;
use record::inference::{Mentions, join, runs};
use record::log::{Directory, Expect, verify_entries};
use serde::Serialize;
use verifier::challenge::{Plan, Population, draw};
use verifier::engine_replay::AtHand;
use verifier::reveal::reveal;
use verifier::strata::Facts;

use crate::draw::Draw;
use crate::output::{Format, Outcome, progress};
use crate::source::{self, Emulation};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the log
    log: PathBuf,

    /// Public key of the log
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Model folder [default: the model inside this binary]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,

    /// Folder for the evidence files; none may be there yet [default: the log's own `evidence`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    draw: Draw,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    records: Vec<u64>,
    rows: usize,
    bytes: u64,
    files: Vec<PathBuf>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    source::log_folder(&args.log)?;
    if args.draw.is_timed() {
        bail!("a time is the auditor's to measure: answer with the --sample that the audit states");
    }
    let key = source::public_key(&args.key)?;
    let directory = Directory::new(&args.log);
    let pinned = args.draw.pinned(&args.log, &key)?;
    let expect = Expect { checkpoint: pinned.as_ref().map(|(checkpoint, _)| checkpoint), ..Expect::default() };
    let log = verify_entries(&directory, &key, &expect).context("nothing of this log is revealed")?;
    let records: Vec<Record> = (0..log.entries.len() as u64)
        .map(|index| log.record(index))
        .collect::<Result<_, _>>()
        .context("nothing of this log is revealed")?;
    let mentions: Vec<Option<Mentions>> = records.iter().map(|record| Some(Mentions::of(record))).collect();
    let (runs, mut facts) = (runs(&mentions), records.iter().map(Facts::of).collect::<Vec<_>>());
    Facts::complete(&mut facts, &runs);

    // The same sample as the auditor's: from what the checkpoint commits to.
    let plan = args.draw.plan(pinned.as_ref().map(|(_, note)| note.as_slice()), || bail!("not timed"))?;
    let committed = match (&plan, &pinned) {
        (Plan::Challenge(_), Some((checkpoint, _))) => checkpoint,
        _ => &log.checkpoint,
    };
    let population = if matches!(plan, Plan::Challenge(_)) { committed.size as usize } else { records.len() };
    let facts = facts.get(..population).unwrap_or_default();
    let drawn = draw(&plan, &Population { root: committed.root, facts })?.records;

    let model = Arc::new(source::model(args.model.as_deref())?);
    let emulation = args.emulation.clone();
    let at_hand = AtHand::on_emulated(model, move |profile| emulation.device(profile));
    let mut report = Report { schema: "lastbit/reveal/v1", records: Vec::new(), rows: 0, bytes: 0, files: Vec::new() };
    let bar = progress(1, "revealing");
    for run in runs.into_iter().filter(|run| run.clone().any(|at| drawn.contains(&(at as u64)))) {
        let parts = &records[run.clone()];
        let whole = join(&parts.iter().collect::<Vec<_>>())?;
        let prepared = at_hand.prepare(&whole)?;
        let Some(replayer) = prepared.replayer else {
            let missing: Vec<&str> = prepared.identity.iter().filter(|f| !f.agrees).map(|f| f.field.as_str()).collect();
            bail!("record {}: what it declares is not at hand ({})", run.start, missing.join(", "));
        };
        let opened = reveal(parts, &whole, replayer.as_ref(), &|done, of| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        });
        for (index, evidence) in run.clone().zip(opened.with_context(|| format!("record {}", run.start))?) {
            let path = match &args.out {
                None => directory.evidence_path(&evidence.record),
                Some(out) => out.join(format!("{}.evidence", evidence.record.to_hex())),
            };
            report.rows += evidence.rows.len();
            report.records.push(index as u64);
            // Kept evidence is as good: what it opens is committed to, as this is.
            if args.out.is_some() || !path.exists() {
                let bytes = evidence.to_file()?;
                report.bytes += bytes.len() as u64;
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
                }
                report.files.push(source::write_new(&path, &bytes)?);
            }
        }
    }
    bar.finish_and_clear();
    args.format.print(&report, |out| {
        writeln!(
            out,
            "{} records: {} rows computed again, all as committed to; {} files, {} bytes",
            report.records.len(),
            report.rows,
            report.files.len(),
            report.bytes
        )
    })?;
    Ok(Outcome::AllMatch)
}
