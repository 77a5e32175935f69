//! Fingerprints, inventory, keys, comparison, search, trail.

use std::collections::BTreeSet;

use fingerprint::report::Report;
use record::Digest;
use serde::Serialize;

use super::{known_keys, trust};
use crate::App;
use crate::error::{Error, Result, missing};
use crate::store::{BlobRow, ClaimCount, Deed, FingerprintRow, Hit, KeyRow, LogRow, PartRow, RunRow, Tally};

/// A fingerprint report.
#[derive(Serialize)]
pub(crate) struct Fingerprint {
    pub digest: String,
    pub signer: String,
    pub trust: String,
    pub report: Report,
    /// Other reports about the same subject, newest first: drift over time.
    pub others: Vec<FingerprintRow>,
}

pub(crate) fn fingerprint(app: &App, id: &Digest) -> Result<Fingerprint> {
    let all = app.store.fingerprints()?;
    let hex = id.to_hex();
    let row =
        all.iter().find(|f| f.digest == hex).cloned().ok_or_else(|| missing(format!("fingerprint report {id}")))?;
    let bytes = app.store.bytes(id)?;
    let keys = known_keys(app)?;
    let report = keys.iter().find_map(|key| Report::open(&bytes, key).ok());
    let report = report.ok_or_else(|| Error::Altered("the stored report no longer verifies".to_owned()))?;
    let others = all.into_iter().filter(|f| f.subject == row.subject && f.digest != hex).collect();
    Ok(Fingerprint { digest: hex, trust: trust(app, &row.signer)?, signer: row.signer, report, others })
}

/// Models and stacks of all verified logs.
#[derive(Serialize)]
pub(crate) struct Inventory {
    pub models: Vec<PartRow>,
    pub stacks: Vec<PartRow>,
}

pub(crate) fn inventory(app: &App) -> Result<Inventory> {
    let (models, stacks) = app.store.parts()?.into_iter().partition(|p| p.kind == "model");
    Ok(Inventory { models, stacks })
}

/// Keys, and what waits for one.
#[derive(Serialize)]
pub(crate) struct Keys {
    pub keys: Vec<KeyRow>,
    pub held: Vec<BlobRow>,
    pub held_logs: Vec<LogRow>,
}

pub(crate) fn keys(app: &App) -> Result<Keys> {
    let held_logs = app.store.logs()?.into_iter().filter(|l| l.state == "held").collect();
    Ok(Keys { keys: app.store.keys()?, held: app.store.blobs_in("held")?, held_logs })
}

/// Two audits side by side.
#[derive(Serialize)]
pub(crate) struct Comparison {
    pub a: RunRow,
    pub b: RunRow,
    /// What differs or is the same: fact, of the first, of the second, the same.
    pub facts: Vec<(String, String, String, bool)>,
    /// Claim, worst verdict in the first, in the second.
    pub claims: Vec<(String, String, String)>,
    /// Records that both judged with different verdicts, or that one alone judged: place, verdicts, headlines.
    pub records: Vec<Pair>,
    /// Records with the same verdict in both.
    pub same: u64,
    /// There are more than are listed.
    pub more: bool,
    pub tallies: [Vec<Tally>; 2],
}

/// A record in two audits.
#[derive(Serialize)]
pub(crate) struct Pair {
    pub seq: u64,
    pub same_bytes: bool,
    pub a: Option<(String, String)>,
    pub b: Option<(String, String)>,
}

/// Records listed in a comparison.
const PAIRS: usize = 200;

pub(crate) fn compare(app: &App, a: &Digest, b: &Digest) -> Result<Comparison> {
    let (one, two) = (super::opened(app, a)?, super::opened(app, b)?);
    let (ra, rb) = (app.store.run(a)?, app.store.run(b)?);
    let fact = |name: &str, x: String, y: String| (name.to_owned(), x.clone(), y.clone(), x == y);
    let text = |x: &Option<String>| x.clone().unwrap_or_else(|| "–".to_owned());
    let facts = vec![
        fact("verdict", ra.verdict.clone(), rb.verdict.clone()),
        fact("level", text(&ra.level), text(&rb.level)),
        fact("log", text(&ra.origin), text(&rb.origin)),
        fact("chain head", text(&ra.head), text(&rb.head)),
        fact("operator's key", text(&ra.operator), text(&rb.operator)),
        fact("auditor's key", ra.signer.clone(), rb.signer.clone()),
        fact("audited", format!("{} of {}", ra.audited, ra.population), format!("{} of {}", rb.audited, rb.population)),
        fact("miss bound", text(&ra.miss), text(&rb.miss)),
        fact("program", ra.tool.clone(), rb.tool.clone()),
    ];
    let worst = |counts: &[ClaimCount], claim: &str| {
        let of = |v: &verifier::Verdict| counts.iter().any(|c| c.claim == claim && c.verdict == v.name());
        verifier::Verdict::ALL.iter().rev().find(|v| of(v)).map_or("–".to_owned(), |v| v.name().to_owned())
    };
    let (ca, cb) = (app.store.claims(Some(&ra.digest), 1)?, app.store.claims(Some(&rb.digest), 1)?);
    let claims = verifier::result::ClaimKind::ALL
        .iter()
        .map(|k| (k.name().to_owned(), worst(&ca, k.name()), worst(&cb, k.name())))
        .filter(|(_, x, y)| x != "–" || y != "–")
        .collect();
    let seqs: BTreeSet<u64> = one.result.records.iter().chain(&two.result.records).map(|r| r.seq).collect();
    let find = |signed: &verifier::result::SignedResult, seq: u64| {
        signed
            .result
            .records
            .binary_search_by_key(&seq, |r| r.seq)
            .ok()
            .and_then(|i| signed.result.records.get(i))
            .cloned()
    };
    let (mut records, mut same, mut more) = (Vec::new(), 0, false);
    for seq in seqs {
        let (x, y) = (find(&one, seq), find(&two, seq));
        if let (Some(x), Some(y)) = (&x, &y)
            && x.verdict == y.verdict
            && x.headline == y.headline
        {
            same += 1;
            continue;
        }
        if records.len() == PAIRS {
            more = true;
            break;
        }
        let same_bytes = matches!((&x, &y), (Some(x), Some(y)) if x.digest == y.digest);
        let shown = |r: Option<verifier::result::RecordResult>| r.map(|r| (r.verdict.name().to_owned(), r.headline));
        records.push(Pair { seq, same_bytes, a: shown(x), b: shown(y) });
    }
    let tallies = [app.store.tally(Some(&ra.digest))?, app.store.tally(Some(&rb.digest))?];
    Ok(Comparison { a: ra, b: rb, facts, claims, records, same, more, tallies })
}

/// What a search found.
#[derive(Serialize)]
pub(crate) struct Search {
    pub q: String,
    pub hits: Vec<Hit>,
}

pub(crate) fn search(app: &App, q: &str) -> Result<Search> {
    let q: String = q.chars().take(200).collect();
    Ok(Search { hits: app.store.search(&q)?, q })
}

/// Who did what.
#[derive(Serialize)]
pub(crate) struct Trail {
    pub deeds: Vec<Deed>,
    pub next: Option<u64>,
    /// Lines whose chain was followed, or what is wrong with it.
    pub checked: Result<u64, String>,
}

pub(crate) fn trail(app: &App, before: Option<u64>) -> Result<Trail> {
    let mut deeds = app.store.trail(before, 101)?;
    let next = if deeds.len() > 100 { deeds.pop().map(|_| deeds.last().map_or(0, |d| d.n)) } else { None };
    Ok(Trail { deeds, next, checked: app.store.check_trail().map_err(|e| e.to_string()) })
}
