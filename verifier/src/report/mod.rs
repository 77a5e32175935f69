//! One self-contained HTML page from signed results; the same in formats of other tools ([`export`]) and by clauses of laws and standards
//! ([`crosswalk`]).
//!
//! The page is drawn from the signed JSON alone and carries its digest; it reads without scripts, needs no network and no font file, prints on
//! A4 or Letter, and says in text whatever it also says in colour. Everything that comes from a document is escaped. The signed bytes are in the page
//! too: its one script ([`RECHECK`]) verifies them in the browser, and no other can run, since the page's policy names script and style by hash.

pub mod bits;
pub mod crosswalk;
pub mod export;
pub mod svg;
mod view;

pub use bits::value;

use crate::error::Error;
use crate::result::SignedResult;
use crate::verdict::Verdict;
use askama::Template;

/// The style sheet of reports.
const CSS: &str = include_str!("../../templates/report.css");

/// Verifies signed bytes and inclusion proofs in a browser (WebCrypto, Ed25519) and says what it did.
pub const RECHECK: &str = include_str!("../../templates/recheck.js");

/// What a content security policy calls an inline style or script.
fn source_hash(text: &str) -> String {
    use base64::Engine as _;
    let digest = record::Digest::of_file(text.as_bytes());
    format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(digest.as_bytes()))
}

/// The page. See `templates/report.html`.
#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    title: &'a str,
    lede: String,
    css: &'static str,
    script: &'static str,
    /// `sha256-` and base64, of style and script.
    hashes: [String; 2],
    audits: Vec<view::Audit<'a>>,
    tally: Vec<(Verdict, usize)>,
    alternatives: &'static str,
    identities: Vec<view::Identities<'a>>,
    channels: Vec<view::Channels<'a>>,
    limitations: Vec<&'a str>,
    recheck: Vec<&'a str>,
}

impl Page<'_> {
    /// Log, how it was audited, and whose keys: equal rows of several logs are one.
    fn methods(&self) -> Vec<(String, String, String)> {
        let mut rows: Vec<(Vec<&str>, String, String)> = Vec::new();
        for a in &self.audits {
            let (m, l, by) = (&a.result.method, &a.result.method.limits, &a.result.auditor);
            let how = format!(
                "{}, by {}; at most {} extra rows, {} splits and {} seeds searched; {} {}, numerics revision {}",
                m.replay, m.schedule, l.extra_rows, l.splits, l.seeds, by.tool, by.version, by.numerics_revision
            );
            let operator = a.result.log.key.as_deref().unwrap_or("none");
            let keys = format!("operator {operator}, auditor {}", a.signer);
            match rows.iter_mut().find(|row| row.1 == how && row.2 == keys) {
                Some(row) => row.0.push(&a.result.subject.name),
                None => rows.push((vec![&a.result.subject.name], how, keys)),
            }
        }
        rows.into_iter().map(|(names, how, keys)| (names.join(", "), how, keys)).collect()
    }
}

/// Renders several audits side by side as one HTML document.
///
/// # Errors
/// [`Error::Report`] when the template cannot be rendered, which would be a bug here.
pub fn render(results: &[SignedResult], title: &str) -> Result<String, Error> {
    let audits: Vec<_> = results.iter().enumerate().map(|(i, r)| view::Audit::new(i, r)).collect();
    let records = || results.iter().flat_map(|r| &r.result.records);
    let tally = Verdict::ALL
        .into_iter()
        .map(|v| {
            let refused = results.iter().filter(|r| r.result.records.is_empty() && r.result.verdict == v).count();
            (v, records().filter(|r| r.verdict == v).count() + refused)
        })
        .collect();
    let tokens: u64 = records().map(|r| u64::from(r.size.tokens)).sum();
    let rows: u64 = records().map(|r| u64::from(r.size.rows)).sum();
    let lede = format!(
        "{}: {}, {} of computation, {} of output, re-computed and compared bit for bit.",
        count(results.len() as u64, "audited log"),
        count(records().count() as u64, "record"),
        count(rows, "row"),
        count(tokens, "token"),
    );
    Page {
        title,
        lede,
        css: CSS,
        script: RECHECK,
        hashes: [CSS, RECHECK].map(source_hash),
        tally,
        alternatives: crate::explain::ALTERNATIVES,
        identities: view::identities(results),
        channels: view::channels(results),
        limitations: view::union(results.iter().map(|r| r.result.limitations.as_slice())),
        recheck: view::union(results.iter().map(|r| r.result.recheck.as_slice())),
        audits,
    }
    .render()
    .map_err(|e| Error::Report { reason: e.to_string() })
}

fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", grouped(n)) }
}

/// Digits in groups of three.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
        assert_eq!(count(1, "record"), "1 record");
    }
}
