//! `lastbit log check`: what a proof shows, offline.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use record::log::{Checkpoint, KeyHistory, MAX_ENTRY_BYTES};
use record::tlog::{
    AddCheckpoint, Cosignature, InclusionProof, MAX_MISBEHAVIOUR_BYTES, MAX_PROOF_BYTES, Misbehaviour, cosignatures,
};
use record::{Error, LogRefusal};
use serde::Serialize;

use super::Trust;
use crate::output::{self, Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// `*.tlog-proof`, `*.consistency` or `*.misbehaviour`
    proof: PathBuf,

    #[command(flatten)]
    trust: Trust,

    /// The entry that a `*.tlog-proof` is about
    #[arg(long, value_name = "FILE")]
    entry: Option<PathBuf>,

    /// A receipt that must be for this entry
    #[arg(long, value_name = "FILE", requires = "entry")]
    receipt: Option<PathBuf>,

    /// The older checkpoint that a `*.consistency` continues
    #[arg(long, value_name = "FILE")]
    seen: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    kind: &'static str,
    /// Does it show what it is meant to show?
    holds: bool,
    origin: Option<String>,
    size: Option<u64>,
    /// Witnesses that cosigned, and when (seconds since 1970).
    cosigned: Vec<(String, u64)>,
    words: String,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let bytes = source::file(&args.proof, MAX_MISBEHAVIOUR_BYTES.max(MAX_PROOF_BYTES) as u64)?;
    let keys = args.trust.keys()?;
    let (kind, judged) = match bytes.first() {
        Some(b'{') => ("misbehaviour", misbehaviour(&bytes, &keys)),
        Some(b'o') => ("consistency", consistency(&args, &bytes, &keys)),
        _ => ("inclusion", inclusion(&args, &bytes, &keys)),
    };
    let (report, outcome) = match judged.and_then(|shown| shown.report(kind, &args.trust)) {
        Ok(judged) => judged,
        Err(error) => {
            let Some(outcome) = error.downcast_ref::<Error>().and_then(finding) else {
                return Err(error.context(format!("checking {}", args.proof.display())));
            };
            let words = format!("it does not hold: {}", output::sentence(&error));
            let report =
                Report { schema: SCHEMA, kind, holds: false, origin: None, size: None, cosigned: Vec::new(), words };
            (report, outcome)
        }
    };
    args.format.print(&report, |out| writeln!(out, "{}: {}", report.kind, report.words))?;
    Ok(outcome)
}

const SCHEMA: &str = "lastbit/log-check/v1";

/// A proof that fails says something; a file that is none, or the wrong key, does not.
fn finding(error: &Error) -> Option<Outcome> {
    match error {
        Error::Merkle(_) | Error::Receipt(_) | Error::NoteSignature { .. } => Some(Outcome::SomethingDiffers),
        Error::Log(refusal) if refusal.is_finding() => Some(Outcome::SomethingDiffers),
        Error::Log(_) | Error::NoMisbehaviour => Some(Outcome::CouldNotTell),
        _ => None,
    }
}

/// What a proof shows, once it has been verified.
struct Shown {
    checkpoint: Option<Checkpoint>,
    note: Vec<u8>,
    words: String,
    outcome: Outcome,
}

impl Shown {
    fn report(self, kind: &'static str, trust: &Trust) -> anyhow::Result<(Report, Outcome)> {
        let (size, origin) = (self.checkpoint.as_ref().map(|c| c.size), self.checkpoint.map(|c| c.origin));
        let cosigned: Vec<Cosignature> = match &origin {
            Some(_) => cosignatures(&self.note, &trust.witness_key)?,
            None => Vec::new(),
        };
        let wanted = trust.quorum.unwrap_or(trust.witness_key.len());
        let enough = origin.is_none() || cosigned.len() >= wanted;
        let mut words = self.words;
        if !enough {
            words =
                format!("{words}; but {} of the {wanted} witnesses that were asked for cosigned it", cosigned.len());
        } else if !cosigned.is_empty() {
            words = format!(
                "{words}; cosigned by {}",
                cosigned.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
            );
        }
        let outcome = if enough { self.outcome } else { Outcome::CouldNotTell };
        let cosigned = cosigned.into_iter().map(|c| (c.name, c.time_unix_s)).collect();
        Ok((Report { schema: SCHEMA, kind, holds: enough, origin, size, cosigned, words }, outcome))
    }
}

fn inclusion(args: &Args, bytes: &[u8], keys: &KeyHistory) -> anyhow::Result<Shown> {
    let proof = InclusionProof::from_bytes(bytes).context("not a proof")?;
    let Some(entry) = &args.entry else { bail!("give the entry that the proof is about with --entry") };
    let line = source::file(entry, MAX_ENTRY_BYTES as u64)?;
    let checkpoint = match &args.receipt {
        None => proof.verify(&line, keys)?,
        Some(path) => {
            let receipt = source::file(path, source::MAX_RECEIPT)?;
            let origin = keys.checkpoint(&proof.checkpoint).map_err(Error::from)?.origin;
            proof.verify_receipt(&line, &keys.receipt(&receipt, &origin)?, keys)?
        }
    };
    let what = if args.receipt.is_some() { "the receipt's entry" } else { "the entry" };
    let words = format!("{what} is number {} of the {} in {}", proof.index, checkpoint.size, checkpoint.origin);
    Ok(Shown { checkpoint: Some(checkpoint), note: proof.checkpoint, words, outcome: Outcome::AllMatch })
}

fn consistency(args: &Args, bytes: &[u8], keys: &KeyHistory) -> anyhow::Result<Shown> {
    let proof = AddCheckpoint::from_bytes(bytes).context("not a proof")?;
    let Some(seen) = &args.seen else { bail!("give the older checkpoint with --seen") };
    let older = keys
        .checkpoint(&source::file(seen, source::MAX_CHECKPOINT)?)
        .map_err(|refusal: LogRefusal| Error::from(refusal))?;
    let newer = proof.verify(&older, keys)?;
    let words = format!("the {} entries of {} continue the {} seen before", newer.size, newer.origin, older.size);
    Ok(Shown { checkpoint: Some(newer), note: proof.checkpoint, words, outcome: Outcome::AllMatch })
}

fn misbehaviour(bytes: &[u8], keys: &KeyHistory) -> anyhow::Result<Shown> {
    let shown = Misbehaviour::verify(bytes, keys)?;
    let words = format!("{} showed two histories: {}", shown.origin, shown.words());
    Ok(Shown { checkpoint: None, note: Vec::new(), words, outcome: Outcome::SomethingDiffers })
}
