//! Findings in one line.

use crate::result::{AuditResult, ClaimResult, RecordResult};
use crate::verdict::{Level, Verdict};

/// The finding of a record. A difference that was found is named even where something else decides the verdict.
pub fn record(r: &RecordResult) -> String {
    let first = |verdict: Verdict| r.claims.iter().find(|c| c.verdict == verdict);
    let named = |c: &ClaimResult| format!("{}: {}", c.claim, c.detail);
    match r.verdict {
        Verdict::Match => {
            let level = r.level.map_or(String::new(), |l| format!(" at level {l}"));
            let (rows, tokens) = (r.size.rows, r.size.tokens);
            if r.level == Some(Level::T) {
                return format!("{tokens} tokens re-computed by the reference, each is the one, at level T");
            }
            let also = generations(r).map_or(String::new(), |g| format!("; {g}"));
            format!("{rows} rows and {tokens} tokens re-computed, every bit agrees{level}{also}")
        }
        Verdict::Mismatch => match r.causes.first() {
            Some(cause) => cause.headline(),
            None => first(Verdict::Mismatch).map_or("the record is not what it claims".to_owned(), named),
        },
        v => {
            let reason = first(v).map_or_else(|| v.meaning().to_owned(), named);
            let difference = first(Verdict::Mismatch).map(|c| format!("; beside that, a mismatch: {}", named(c)));
            reason + &difference.unwrap_or_default()
        }
    }
}

/// That the bits do not pin the GPU generation down, and to what they narrow it.
fn generations(r: &RecordResult) -> Option<String> {
    let others = &r.alternatives.profiles;
    (!others.is_empty())
        .then(|| format!("the GPU generation is not pinned down, {} would give the same bits", others.join(" or ")))
}

/// The finding of a log.
pub fn log(r: &AuditResult) -> String {
    if let Some(refused) = &r.log.refused {
        return format!("{}: {}", refused.reason, refused.detail);
    }
    match r.records.iter().find(|x| x.verdict == r.verdict) {
        Some(one) if r.records.len() == 1 => one.headline.clone(),
        Some(_) if r.verdict == Verdict::Match => {
            let open = r.records.iter().filter(|x| generations(x).is_some()).count();
            let also = match open {
                0 => String::new(),
                n => format!("; in {n} of them the GPU generation is not pinned down"),
            };
            let records: u64 = r.records.iter().map(|x| x.last - x.seq + 1).sum();
            format!("{records} records re-computed, every bit agrees{also}")
        }
        Some(one) => {
            let n = r.records.iter().filter(|x| x.verdict == r.verdict).count();
            format!("{n} of {} findings; the first is of {}: {}", r.records.len(), one.name(), one.headline)
        }
        None => "no record was audited".to_owned(),
    }
}
