//! The audit of a whole log: verification first, then each record, then the fold.
//!
//! What is wrong with one record, or with what came with it, is said of that record; every other record is audited all the same.

use crate::audit::{self, Input, Options};
use crate::challenge::{self, Drawn, Plan, Population};
use crate::claims;
use crate::compare::Opened;
use crate::disclosure;
use crate::error::Error;
use crate::headline;
use crate::intake;
use crate::replay::Replayer;
use crate::result::{
    AuditResult, Auditor, IdentityField, LogFacts, Method, RecordResult, Refusal, SCHEMA, SetAside, Subject,
};
use crate::scheduling::{self, Follower};
use crate::strata::Facts;
use crate::verdict::{Level, Verdict, fold_records};
use record::inference::{Mentions, join, runs};
use record::log::{self, Expect, KeyHistory, LogRefusal, Source};
use record::{Digest, PublicKey, Receipt, Record};

/// Revision of the auditor's arithmetic; it is the engine's.
pub use engine::journal::NUMERICS_REVISION;

/// What is at hand to replay a record: identities compared, and the arithmetic if it is there.
pub struct Prepared {
    /// Declared identities against those at hand.
    pub identity: Vec<IdentityField>,
    /// The arithmetic; absent when the declared one is not at hand.
    pub replayer: Option<Box<dyn Replayer>>,
}

/// Finds the evidence file of the record with a digest; nothing when it was not opened. An error is no obstacle: the file is set aside.
pub type EvidenceOf<'a> = dyn Fn(&Digest) -> Result<Option<Vec<u8>>, Error> + 'a;

/// A receipt as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    /// Its name, for messages.
    pub name: String,
    /// Its bytes, or why it could not be read.
    pub bytes: Result<Vec<u8>, String>,
    /// Who keeps it.
    pub holder: Holder,
}

/// Who keeps a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A client handed it to the auditor: one that is not valid is the caller's mistake.
    Client,
    /// It lies beside the log, where anyone may have put it: one that is not valid is set aside.
    Log,
}

/// Compares a record's declarations with what is at hand, and prepares its replay.
pub type Prepare<'a> = dyn Fn(&Record) -> Result<Prepared, Error> + 'a;

/// A log and everything the auditor brings.
pub struct LogInput<'a> {
    /// Whose log.
    pub subject: Subject,
    /// The log.
    pub source: &'a dyn Source,
    /// Key that its entries must be signed by.
    pub key: &'a PublicKey,
    /// The log's name, if the auditor knows it.
    pub origin: Option<&'a str>,
    /// A checkpoint seen before, already verified.
    pub pinned: Option<&'a log::Checkpoint>,
    /// Receipts.
    pub receipts: Vec<Presented>,
    /// The evidence file of a record, if it was opened.
    pub evidence: &'a EvidenceOf<'a>,
    /// What is at hand to replay a record.
    pub prepare: &'a Prepare<'a>,
    /// Which records.
    pub plan: Plan,
    /// Commands that repeat this audit.
    pub recheck: Vec<String>,
}

/// Audits a log.
///
/// `progress` is told the sequence number, the passes done and the passes of the walk.
///
/// # Errors
/// [`Error::Receipt`] for a client's receipt that is no valid receipt of this operator for this log, [`Error::Challenge`] for a beacon that is
/// unusable. A log that is refused is a result, and so is a record that cannot be audited.
pub fn audit(
    input: &LogInput<'_>,
    options: &Options,
    progress: &dyn Fn(u64, usize, usize),
) -> Result<AuditResult, Error> {
    let mut result = blank(input, options);
    let expect = Expect { origin: input.origin, checkpoint: input.pinned, receipts: &[] };
    let verified = match log::verify_entries(input.source, input.key, &expect) {
        Ok(verified) => verified,
        Err(refusal) => return Ok(refused(result, &refusal)),
    };
    let entries = verified.entries.len() as u64;
    result.log.origin = Some(verified.checkpoint.origin.clone());
    result.log.entries = entries;
    result.log.first = verified.entries.first().map(|e| e.header.sequence);
    result.log.last = verified.entries.last().map(|e| e.header.sequence);
    result.log.head = verified.entries.last().map(|e| e.header.chain.after.to_string());
    let receipts;
    (receipts, result.log.set_aside) = read_receipts(&input.receipts, &verified.checkpoint.origin, &verified.keys)?;

    // Every record is read, the ones that were not drawn too: one that is not what its entry names is a finding, a request may go on
    // in any later record, and the scheduling rule is followed from the beginning.
    let (mut mentions, mut facts) = (Vec::new(), Vec::new());
    let (mut scheduling, mut follower) = (Vec::new(), Follower::default());
    for index in 0..entries {
        let stored = verified.stored(index).ok();
        scheduling.push(follower.record(stored.as_ref()));
        mentions.push(stored.as_ref().map(Mentions::of));
        facts.push(stored.as_ref().map(Facts::of).unwrap_or_default());
    }
    let runs = runs(&mentions);
    Facts::complete(&mut facts, &runs);
    // A challenge is drawn from what was committed to before its beacon: the checkpoint that the auditor kept, if there is one.
    let committed = match &input.plan {
        Plan::Challenge(_) => input.pinned.unwrap_or(&verified.checkpoint),
        Plan::All | Plan::These(_) => &verified.checkpoint,
    };
    let population = match &input.plan {
        Plan::Challenge(_) => committed.size.min(entries),
        Plan::All | Plan::These(_) => entries,
    };
    let facts = facts.get(..population as usize).unwrap_or_default();
    let drawn = challenge::draw(&input.plan, &Population { root: committed.root, facts })?;
    result.sampling = challenge::describe(&input.plan, population, entries - population, &drawn);
    let chosen = drawn.records;
    let mut records: Vec<(Option<Record>, RecordResult)> = Vec::new();
    for run in runs {
        let first = run.start as u64;
        let parts: Result<Vec<Record>, LogRefusal> = run.clone().map(|at| verified.stored(at as u64)).collect();
        let digest = &verified.entries[run.start].header.record;
        let parts = match parts {
            Ok(parts) => parts,
            Err(refusal) => {
                let (verdict, why) = unreadable(digest, &refusal);
                records.push((None, audit::unread(first, digest, verdict, why)));
                continue;
            }
        };
        if !run.clone().any(|at| chosen.contains(&(at as u64))) {
            continue;
        }
        let rule = scheduling::worst(scheduling[run].iter().cloned());
        let told = &|done, of| progress(first, done, of);
        let whole = match join(&parts.iter().collect::<Vec<_>>()) {
            Ok(whole) => whole,
            Err(e) => {
                let why = format!("the records of a session contradict one another: {e}");
                records.push((None, audit::unread(first, digest, Verdict::Error, why)));
                continue;
            }
        };
        let audited = match one(input, options, first, (&parts, &whole), &receipts, rule, told) {
            Ok(audited) => audited,
            Err(e) => audit::unread(first, digest, Verdict::Unverifiable, format!("not audited: {e}")),
        };
        records.push((Some(whole), audited));
    }
    // A receipt for an entry that is not in the log is a finding about the log.
    if let Some(promised) = receipts.iter().find(|r| r.log.index >= entries) {
        let detail = format!("a receipt promises entry {}, the log has {entries}", promised.log.index);
        result.log.refused = Some(Refusal { reason: "rolled-back".to_owned(), detail });
    }
    let mut modes: Vec<_> = records.iter().filter_map(|(r, _)| claims::mode(r.as_ref()?)).collect();
    modes.sort_unstable();
    modes.dedup();
    let (originals, audited): (Vec<Option<Record>>, Vec<RecordResult>) = records.into_iter().unzip();
    let pairs: Vec<_> = originals.into_iter().zip(&audited).collect();
    result.channels = disclosure::channels(&pairs);
    result.limitations = disclosure::limitations(&modes);
    result.records = audited;
    let of_log = result.log.refused.as_ref().map(|_| Verdict::Error);
    result.verdict = fold_records(result.records.iter().map(|r| r.verdict).chain(of_log));
    result.level = lowest_level(&result.records);
    result.headline = headline::log(&result);
    Ok(result)
}

fn one(
    input: &LogInput<'_>,
    options: &Options,
    first: u64,
    (parts, record): (&[Record], &Record),
    receipts: &[Receipt],
    scheduling: scheduling::Outcome,
    progress: &dyn Fn(usize, usize),
) -> Result<RecordResult, Error> {
    let prepared = (input.prepare)(record).unwrap_or_else(|e| Prepared {
        identity: vec![IdentityField {
            field: "replay".to_owned(),
            declared: record.stack.device.profile.clone(),
            found: Some(format!("it cannot be prepared: {e}")),
            agrees: false,
        }],
        replayer: None,
    });
    let (mut opened, mut set_aside, mut agreeing, mut steps) = (Opened::default(), Vec::new(), Vec::new(), 0);
    for (index, part) in (first..).zip(parts) {
        let digest = part.digest()?;
        let found = (input.evidence)(&digest).map_err(|e| e.reason());
        match found.and_then(|file| file.map_or(Ok(Opened::default()), |file| intake::open(&file, part))) {
            Ok(rows) => opened.absorb(rows, steps),
            Err(reason) => set_aside.push(SetAside { name: format!("{}.evidence", digest.to_hex()), reason }),
        }
        steps += part.steps.len();
        let presented = receipts.iter().filter(|r| r.log.index == index);
        agreeing.extend(presented.map(|r| r.check(part).map_err(|e| format!("of request number {}: {e}", r.request))));
    }
    let record_input = Input {
        seq: first,
        parts,
        record,
        opened,
        set_aside,
        receipts: agreeing,
        scheduling,
        identity: prepared.identity,
        replayer: prepared.replayer.as_deref(),
    };
    audit::audit(&record_input, options, progress)
}

/// Receipts that the operator's key signed for this log, and the copies beside the log that are none.
fn read_receipts(files: &[Presented], origin: &str, keys: &KeyHistory) -> Result<(Vec<Receipt>, Vec<SetAside>), Error> {
    let (mut valid, mut set_aside) = (Vec::new(), Vec::new());
    for file in files {
        let read = match &file.bytes {
            Ok(bytes) => keys.receipt(bytes, origin).map_err(|e| match e {
                record::Error::NoteUnsigned { .. } => {
                    format!("it is not signed by the operator's key under the name of this log, {origin}")
                }
                e => e.to_string(),
            }),
            Err(reason) => Err(reason.clone()),
        };
        match (read, file.holder) {
            (Ok(receipt), _) => valid.push(receipt),
            (Err(reason), Holder::Client) => return Err(Error::Receipt { name: file.name.clone(), reason }),
            (Err(reason), Holder::Log) => set_aside.push(SetAside { name: file.name.clone(), reason }),
        }
    }
    Ok((valid, set_aside))
}

/// What a record that its log refuses amounts to: one that could not be read says nothing about its operator.
fn unreadable(record: &Digest, refusal: &LogRefusal) -> (Verdict, String) {
    let why = match refusal {
        // The system's own words differ from one system to the next, and paths from one auditor to the next.
        LogRefusal::Unreadable { source, .. } => {
            format!("{}.replay cannot be read: {}", record.to_hex(), source.kind())
        }
        refusal => refusal.to_string(),
    };
    let verdict = match refusal {
        LogRefusal::Unreadable { .. } => Verdict::Inconclusive,
        LogRefusal::RecordMalformed { source, .. } if matches!(**source, record::Error::UnknownType { .. }) => {
            Verdict::Unverifiable
        }
        _ => Verdict::Error,
    };
    (verdict, format!("{}: {why}", refusal.code()))
}

fn blank(input: &LogInput<'_>, options: &Options) -> AuditResult {
    AuditResult {
        schema: SCHEMA.to_owned(),
        subject: input.subject.clone(),
        auditor: Auditor {
            tool: "lastbit".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            numerics_revision: NUMERICS_REVISION as u32,
        },
        method: Method {
            replay: "emulate".to_owned(),
            schedule: options.mode.name().to_owned(),
            required: options.required.clone(),
            limits: options.limits.clone(),
        },
        log: LogFacts {
            origin: None,
            entries: 0,
            first: None,
            last: None,
            head: None,
            key: Some(input.key.id().to_string()),
            refused: None,
            set_aside: Vec::new(),
        },
        sampling: challenge::describe(&input.plan, 0, 0, &Drawn::default()),
        records: Vec::new(),
        verdict: Verdict::Inconclusive,
        level: None,
        headline: String::new(),
        channels: Vec::new(),
        limitations: disclosure::limitations(&[]),
        recheck: input.recheck.clone(),
    }
}

/// A log that was refused: nothing of it is used. One that could not be read at all says nothing about its operator.
fn refused(mut result: AuditResult, refusal: &LogRefusal) -> AuditResult {
    result.log.refused = Some(Refusal { reason: refusal.code().to_owned(), detail: refusal.to_string() });
    result.verdict = match refusal {
        LogRefusal::Unreadable { .. } => Verdict::Inconclusive,
        LogRefusal::UnknownVersion { .. } => Verdict::Unverifiable,
        _ => Verdict::Error,
    };
    result.records.clear();
    result.headline = headline::log(&result);
    result
}

fn lowest_level(records: &[RecordResult]) -> Option<Level> {
    records.iter().map(|r| r.level).min().flatten()
}
