//! Findings in one line.

use crate::result::{AuditResult, RecordResult};
use crate::verdict::Verdict;

/// The finding of a record.
pub fn record(r: &RecordResult) -> String {
    let first = |verdict: Verdict| r.claims.iter().find(|c| c.verdict == verdict).map(|c| (c.claim, c.detail.as_str()));
    match r.verdict {
        Verdict::Match => {
            let level = r.level.map_or(String::new(), |l| format!(" at level {l}"));
            format!("{} rows and {} tokens re-computed, every bit agrees{level}", r.size.rows, r.size.tokens)
        }
        Verdict::Mismatch => match r.causes.first() {
            Some(cause) => cause.headline(),
            None => first(Verdict::Mismatch)
                .map_or("the record is not what it claims".to_owned(), |(c, d)| format!("{c}: {d}")),
        },
        v => first(v).map_or_else(|| v.meaning().to_owned(), |(c, d)| format!("{c}: {d}")),
    }
}

/// The finding of a log.
pub fn log(r: &AuditResult) -> String {
    if let Some(refused) = &r.log.refused {
        return format!("{}: {}", refused.reason, refused.detail);
    }
    match r.records.iter().find(|x| x.verdict == r.verdict) {
        Some(one) if r.records.len() == 1 => one.headline.clone(),
        Some(_) if r.verdict == Verdict::Match => format!("{} records re-computed, every bit agrees", r.records.len()),
        Some(one) => {
            let n = r.records.iter().filter(|x| x.verdict == r.verdict).count();
            format!("{n} of {} records; the first is {}: {}", r.records.len(), one.seq, one.headline)
        }
        None => "no record was audited".to_owned(),
    }
}
