//! Which clauses of laws and standards a signed audit can be evidence for, and what it has to say to each. Never a legal conclusion.
//!
//! Clauses and dates are data (`data/crosswalk.json`); only what a result says of each kind of evidence is written here.

use super::export::sampling;
use crate::error::Error;
use crate::result::{ChannelState, ClaimKind, SignedResult};
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// The mapping as it is kept.
#[derive(Deserialize)]
struct Data {
    note: String,
    frameworks: Vec<Framework>,
}

#[derive(Deserialize)]
struct Framework {
    name: String,
    text: String,
    dates: String,
    clauses: Vec<Clause>,
}

#[derive(Deserialize)]
struct Clause {
    clause: String,
    about: String,
    evidence: Vec<Kind>,
}

/// What an audit can show.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Log,
    Completeness,
    Chain,
    Formats,
    Recheck,
    Period,
    Retention,
    Verdicts,
    Findings,
    Sampling,
    Causes,
    Channels,
    Identity,
    Limits,
}

/// A mapping filled with what one result says.
#[derive(Clone, Debug, Serialize)]
pub struct Crosswalk {
    /// What it is, and what it is not.
    pub note: String,
    /// By framework.
    pub frameworks: Vec<Mapped>,
}

/// One law or standard.
#[derive(Clone, Debug, Serialize)]
pub struct Mapped {
    /// Its short name.
    pub name: String,
    /// Its full name.
    pub text: String,
    /// From when it applies, to be checked before use.
    pub dates: String,
    /// Its clauses.
    pub clauses: Vec<MappedClause>,
}

/// One clause.
#[derive(Clone, Debug, Serialize)]
pub struct MappedClause {
    /// Its number.
    pub clause: String,
    /// What it is about, in our words.
    pub about: String,
    /// What this result says that bears on it.
    pub evidence: Vec<String>,
}

/// Fills the mapping with what a signed result says.
///
/// # Errors
/// [`Error::Report`] when the data that are part of this program cannot be read, which would be a bug here.
pub fn of(signed: &SignedResult) -> Result<Crosswalk, Error> {
    let data: Data = serde_json::from_str(include_str!("../../data/crosswalk.json"))
        .map_err(|e| Error::Report { reason: e.to_string() })?;
    let clause = |c: Clause| MappedClause {
        evidence: c.evidence.iter().map(|kind| says(signed, *kind)).collect(),
        clause: c.clause,
        about: c.about,
    };
    let frameworks = data.frameworks.into_iter().map(|f| Mapped {
        name: f.name,
        text: f.text,
        dates: f.dates,
        clauses: f.clauses.into_iter().map(clause).collect(),
    });
    Ok(Crosswalk { note: data.note, frameworks: frameworks.collect() })
}

fn says(signed: &SignedResult, kind: Kind) -> String {
    let r = &signed.result;
    let records = r.records.len();
    let with = |claim: ClaimKind, verdict: Verdict| {
        r.records.iter().filter(|x| x.claims.iter().any(|c| c.claim == claim && c.verdict == verdict)).count()
    };
    let count = |v: Verdict| r.records.iter().filter(|x| x.verdict == v).count();
    match kind {
        Kind::Log => match &r.log.refused {
            Some(refused) => format!("Log refused ({}): {}", refused.reason, refused.detail),
            None => format!(
                "Log {} with {} entries, sequence {}.",
                r.log.origin.as_deref().unwrap_or("without a readable name"),
                r.log.entries,
                span(r.log.first, r.log.last)
            ),
        },
        Kind::Completeness => format!(
            "{} of {records} audited records leave no fact open that can decide a bit.",
            with(ClaimKind::Completeness, Verdict::Match)
        ),
        Kind::Chain => format!(
            "Entries signed by the operator's key {}, hash chain up to {}; in {} of {records} audited records leaves, roots and chain follow from what they commit to.",
            r.log.key.as_deref().unwrap_or("(none)"),
            r.log.head.as_deref().unwrap_or("(not known)"),
            with(ClaimKind::Commitments, Verdict::Match)
        ),
        Kind::Formats => "Record, log and result have published formats (docs/spec), so that logs can be read without the operator's software.".to_owned(),
        Kind::Recheck => format!("The result names {} commands that repeat the audit; it needs no network.", r.recheck.len()),
        Kind::Period => format!(
            "Sequence {} of the log is covered, without gap where the log was accepted. Times are the operator's word and are not part of this result.",
            span(r.log.first, r.log.last)
        ),
        Kind::Retention => "How long records are kept is not visible to an audit: the oldest entry that can still be opened is a lower bound.".to_owned(),
        Kind::Verdicts => format!(
            "{}: {} match, {} do not, {} are refused, {} could not be told.",
            r.verdict,
            count(Verdict::Match),
            count(Verdict::Mismatch),
            count(Verdict::Error),
            records - count(Verdict::Match) - count(Verdict::Mismatch) - count(Verdict::Error)
        ),
        Kind::Findings => r.headline.clone(),
        Kind::Sampling => format!("{}.", sampling(signed)),
        Kind::Causes => {
            let causes: Vec<String> = r.records.iter().flat_map(|x| &x.causes).map(|c| c.headline()).take(3).collect();
            if causes.is_empty() { "No cause was sought: nothing differs.".to_owned() } else { causes.join("; ") }
        }
        Kind::Channels => format!(
            "{} of {} ways to pass information or work beside the audit are closed by it; the others are listed as uncontrolled.",
            r.channels.iter().filter(|c| c.state == ChannelState::Verified).count(),
            r.channels.len()
        ),
        Kind::Identity => format!(
            "Model, kernels, profile and policy of {} of {records} audited records are those that the auditor has.",
            with(ClaimKind::Identity, Verdict::Match)
        ),
        Kind::Limits => format!("{} limitations of the method are stated in the result.", r.limitations.len()),
    }
}

fn span(first: Option<u64>, last: Option<u64>) -> String {
    match (first, last) {
        (Some(a), Some(b)) => format!("{a} to {b}"),
        _ => "(none)".to_owned(),
    }
}
