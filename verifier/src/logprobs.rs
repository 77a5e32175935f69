//! Are the logged log-probabilities those that the logits give? They are as good a place to hide information as any other output.

use crate::explain::request as named;
use crate::replay::Replayer;
use crate::result::{ClaimKind, ClaimResult, Unverified};
use crate::tokens::Sampled;
use crate::verdict::{Level, Verdict};
use record::{F32Bits, Record};

/// The claim `logprobs`, and what of it stays unverified; nothing for a record that logs none.
///
/// **Bits.** Compared as f32 patterns with what [`Replayer::logprob`] gives for the replayed (or opened) logits.
pub fn check(
    record: &Record,
    replayer: &dyn Replayer,
    sampled: &[Sampled],
) -> Option<(ClaimResult, Option<Unverified>)> {
    let logged = count(record)?;
    let (mut checked, mut wrong, mut first, mut reason) = (0, 0, None, None);
    for s in sampled {
        let Some(request) = record.requests.get(s.request) else { continue };
        let index = (s.position as usize + 1).checked_sub(request.prompt.len());
        let Some(bits) = index.and_then(|i| request.logprobs.as_ref()?.get(i)) else { continue };
        let Some(logits) = &s.logits else { continue };
        match replayer.logprob(logits, s.position, s.token) {
            Ok(own) => {
                checked += 1;
                if own != bits.0 {
                    wrong += 1;
                    first.get_or_insert_with(|| different(&request.id, index.unwrap_or(0), *bits, own));
                }
            }
            Err(e) => {
                reason.get_or_insert_with(|| e.to_string());
            }
        }
    }
    let missing = logged - checked;
    let why = reason.unwrap_or_else(|| "no replay gives their logits and none were opened".to_owned());
    let left = (missing > 0).then(|| unverified(missing, &why));
    let (verdict, detail) = match (first, missing) {
        (Some(first), _) => (Verdict::Mismatch, format!("{wrong} of {logged} are not those of the logits; {first}")),
        (None, 0) => (Verdict::Match, format!("{logged} recomputed from the logits, every bit agrees")),
        (None, _) => (Verdict::Inconclusive, format!("{missing} of {logged} not recomputed: {why}")),
    };
    Some((ClaimResult { claim: ClaimKind::Logprobs, verdict, level: Some(Level::L), detail }, left))
}

/// The claim of a record that was not replayed, for the same reason as its bits.
pub fn not_replayed(record: &Record, verdict: Verdict, why: &str) -> Option<(ClaimResult, Option<Unverified>)> {
    let logged = count(record)?;
    Some((ClaimResult::new(ClaimKind::Logprobs, verdict, why), Some(unverified(logged, why))))
}

/// How many values are logged; nothing if no request logs any.
fn count(record: &Record) -> Option<usize> {
    let logged = || record.requests.iter().filter_map(|r| r.logprobs.as_ref());
    logged().next()?;
    Some(logged().map(Vec::len).sum())
}

fn unverified(count: usize, why: &str) -> Unverified {
    Unverified { fact: "log-probabilities".to_owned(), declared: format!("{count} values"), why: why.to_owned() }
}

fn different(request: &str, index: usize, logged: F32Bits, own: u32) -> String {
    format!("the first is that of token {index} of {}: logged {:08x}, recomputed {own:08x}", named(request), logged.0)
}
