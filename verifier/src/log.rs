//! The audit of a whole log: verification first, then each record, then the fold.

use crate::audit::{self, Input, Options};
use crate::challenge::{self, Plan};
use crate::compare::Opened;
use crate::disclosure;
use crate::error::Error;
use crate::headline;
use crate::intake;
use crate::replay::Replayer;
use crate::result::{AuditResult, Auditor, IdentityField, LogFacts, Method, RecordResult, Refusal, SCHEMA, Subject};
use crate::verdict::{Level, Verdict, fold_records};
use record::log::{self, Expect, LogRefusal, Source};
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

/// Finds the evidence file of the record with a digest; nothing when it was not opened.
pub type EvidenceOf<'a> = dyn Fn(&Digest) -> Result<Option<Vec<u8>>, Error> + 'a;

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
    /// Receipts presented by clients, as files.
    pub receipts: Vec<Vec<u8>>,
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
/// [`Error`] when the audit cannot be made. A log that is refused is a result.
pub fn audit(
    input: &LogInput<'_>,
    options: &Options,
    progress: &dyn Fn(u64, usize, usize),
) -> Result<AuditResult, Error> {
    let mut result = blank(input, options);
    let expect = Expect { origin: input.origin, checkpoint: input.pinned, receipts: &[] };
    let verified = match log::verify(input.source, input.key, &expect) {
        Ok(verified) => verified,
        Err(refusal) => return Ok(refused(result, &refusal)),
    };
    let entries = verified.entries.len() as u64;
    result.log.origin = Some(verified.checkpoint.origin.clone());
    result.log.entries = entries;
    result.log.first = verified.entries.first().map(|e| e.header.sequence);
    result.log.last = verified.entries.last().map(|e| e.header.sequence);
    result.log.head = verified.entries.last().map(|e| e.header.chain.after.to_string());
    let receipts = read_receipts(&input.receipts, &verified.checkpoint.origin, input.key);
    let chosen = challenge::choose(&input.plan, &verified.checkpoint.root, entries)?;
    result.sampling = challenge::describe(&input.plan, entries, chosen.len() as u64);

    let mut records = Vec::new();
    for index in chosen {
        let record = match verified.record(index) {
            Ok(record) => record,
            Err(refusal) => return Ok(refused(result, &refusal)),
        };
        let audited = one(input, options, index, &record, &receipts, &|done, of| progress(index, done, of))?;
        records.push((record, audited));
    }
    // A receipt for an entry that is not in the log is a finding about the log.
    if let Some(promised) = receipts.iter().filter_map(|r| r.as_ref().ok()).find(|r| r.log.index >= entries) {
        let detail = format!("a receipt promises entry {}, the log has {entries}", promised.log.index);
        result.log.refused = Some(Refusal { reason: "rolled-back".to_owned(), detail });
    }
    let invariant = records.iter().any(|(r, _)| r.stack.mode == "invariant");
    let (originals, audited): (Vec<Record>, Vec<RecordResult>) = records.into_iter().unzip();
    let pairs: Vec<_> = originals.into_iter().map(Some).zip(&audited).collect();
    result.channels = disclosure::channels(&pairs);
    result.limitations = disclosure::limitations(invariant);
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
    index: u64,
    record: &Record,
    receipts: &[Result<Receipt, String>],
    progress: &dyn Fn(usize, usize),
) -> Result<RecordResult, Error> {
    let prepared = (input.prepare)(record)?;
    let opened = match (input.evidence)(&record.digest()?)? {
        Some(file) => intake::open(&file, record),
        None => Ok(Opened::default()),
    };
    let presented = receipts.iter().filter_map(|receipt| match receipt {
        // A receipt that cannot be read belongs to no record: it is held against the first.
        Err(why) => (index == 0).then(|| Err(why.clone())),
        Ok(r) if r.log.index == index => Some(r.check(record).map_err(|e| format!("request {}: {e}", r.request))),
        Ok(_) => None,
    });
    let record_input = Input {
        seq: index,
        record,
        opened,
        receipts: presented.collect(),
        identity: prepared.identity,
        replayer: prepared.replayer.as_deref(),
    };
    audit::audit(&record_input, options, progress)
}

fn read_receipts(files: &[Vec<u8>], origin: &str, key: &PublicKey) -> Vec<Result<Receipt, String>> {
    files
        .iter()
        .map(|file| Receipt::verify(file, origin, key).map_err(|e| format!("a receipt is not valid: {e}")))
        .collect()
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
        },
        sampling: challenge::describe(&input.plan, 0, 0),
        records: Vec::new(),
        verdict: Verdict::Inconclusive,
        level: None,
        headline: String::new(),
        channels: Vec::new(),
        limitations: disclosure::limitations(false),
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
