//! A signed result in formats that other tools read: OSCAL, CycloneDX, SARIF, JUnit, CSV.
//!
//! Each is drawn from the signed bytes alone, carries their SHA-256, and has the same bytes on every run. A signed result holds no time; formats
//! that must state one get the caller's, or the first second of 1970.
//!
//! Fail closed: a gate that reads SARIF or JUnit stops at a required claim that could not be judged, as it does at one that fails.

mod csv;
mod cyclonedx;
mod junit;
mod oscal;
mod sarif;

use crate::error::Error;
use crate::result::{ClaimKind, ClaimResult, RecordResult, SignedResult};
use crate::verdict::Verdict;
use record::Digest;
use record::digest::Tagged;

/// A format that a signed result can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OSCAL 1.0.6 assessment results: an observation a record, a finding a `MISMATCH` or `ERROR`.
    Oscal,
    /// CycloneDX 1.6: the model as a component; claims, evidence and attestations as declarations.
    CycloneDx,
    /// SARIF 2.1.0.
    Sarif,
    /// JUnit XML, a test case a claim.
    Junit,
    /// Comma-separated values (RFC 4180), a line a claim.
    Csv,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::Oscal, Self::CycloneDx, Self::Sarif, Self::Junit, Self::Csv];

    /// Its name on the command line and in addresses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oscal => "oscal",
            Self::CycloneDx => "cyclonedx",
            Self::Sarif => "sarif",
            Self::Junit => "junit",
            Self::Csv => "csv",
        }
    }

    /// How files of it end.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Oscal => "oscal.json",
            Self::CycloneDx => "cdx.json",
            Self::Sarif => "sarif",
            Self::Junit => "junit.xml",
            Self::Csv => "csv",
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Oscal => "application/json",
            Self::CycloneDx => "application/vnd.cyclonedx+json",
            Self::Sarif => "application/sarif+json",
            Self::Junit => "application/xml",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }

    /// The format of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }
}

/// The time that is stated where a format demands one and the caller gives none.
pub const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// Writes a signed result. `time` is RFC 3339 in UTC, for formats that must state one.
///
/// # Errors
/// [`Error::Report`] when the document cannot be written, which would be a bug here.
pub fn write(signed: &SignedResult, format: Format, time: Option<&str>) -> Result<Vec<u8>, Error> {
    let time = time.unwrap_or(NO_TIME);
    match format {
        Format::Oscal => json(&oscal::document(signed, time)),
        Format::CycloneDx => json(&cyclonedx::document(signed)),
        Format::Sarif => json(&sarif::document(signed)),
        Format::Junit => Ok(junit::document(signed).into_bytes()),
        Format::Csv => Ok(csv::document(signed).into_bytes()),
    }
}

fn json(value: &serde_json::Value) -> Result<Vec<u8>, Error> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|e| Error::Report { reason: e.to_string() })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// How a claim weighs: whether the audit required it, and what came of it. A required claim that nobody judged is there as `INCONCLUSIVE`.
struct Judged<'a> {
    claim: ClaimKind,
    verdict: Verdict,
    detail: &'a str,
    required: bool,
}

impl Judged<'_> {
    /// It stops a gate.
    fn stops(&self) -> bool {
        match self.verdict {
            Verdict::Match => false,
            Verdict::Mismatch | Verdict::Error => true,
            _ => self.required,
        }
    }
}

/// The claims of a record, in their order.
fn judged<'a>(signed: &'a SignedResult, record: &'a RecordResult) -> Vec<Judged<'a>> {
    let required = &signed.result.method.required;
    let mut out: Vec<Judged<'a>> = record
        .claims
        .iter()
        .map(|c: &ClaimResult| Judged {
            claim: c.claim,
            verdict: c.verdict,
            detail: &c.detail,
            required: required.contains(&c.claim),
        })
        .collect();
    let absent = required.iter().filter(|k| !k.may_be_absent() && !record.claims.iter().any(|c| c.claim == **k));
    // A record that could not be read has one claim, which says so; the others are not repeated for it.
    if record.claims.len() > 1 {
        out.extend(absent.map(|claim| Judged {
            claim: *claim,
            verdict: Verdict::Inconclusive,
            detail: "it was not judged",
            required: true,
        }));
    }
    out
}

/// The name of the signed file, as it lies beside the export.
fn file(signed: &SignedResult) -> String {
    signed.file.clone().unwrap_or_else(|| format!("{}.audit.json", signed.digest().to_hex()))
}

/// A UUID that names something of a document by what it is: of the form of RFC 9562 version 5, from a tagged SHA-256.
fn uuid(document: &Digest, what: &str) -> String {
    let digest = Tagged::new("lastbit/report-uuid/v1").digest(document).text(what).finish();
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Text in one line, never empty: what OSCAL calls a string.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}

/// The sampling and its miss bound in a sentence.
pub fn sampling(signed: &SignedResult) -> String {
    let s = &signed.result.sampling;
    let mut out = format!("{} of {} records audited, plan {}", s.audited, s.population, s.plan);
    if let Some(beacon) = &s.beacon {
        out.push_str(&format!(", beacon {beacon}"));
    }
    for b in &s.bounds {
        out.push_str(&format!("; chance of missing all of {} dishonest: {}", b.dishonest, b.miss));
    }
    out
}
