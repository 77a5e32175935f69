//! What a run found, in words whose meaning is fixed. Specified by `docs/spec/fingerprint-report.md`.
//!
//! A report holds no floating-point numbers: those are texts, so it has a canonical form and can be signed.

mod html;
mod text;

pub use html::page;
pub use text::write;

use record::envelope::{self, Statement, Subject};
use record::{Digest, PrivateKey, PublicKey};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::stats::Interval;

/// Version of the format.
pub const SCHEMA: &str = "lastbit/fingerprint-report/v1";
/// Type of the statement that carries a signed report.
pub const PREDICATE_TYPE: &str = "https://lastbit.dev/fingerprint-report/v1";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing that was tested contradicts what the endpoint claims.
    Consistent,
    /// Something does.
    Rejected,
    /// It cannot be told.
    Inconclusive,
}

/// The words of a report, and nothing else is claimed by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// An arithmetic fact about the numbers returned; needs no reference and no model of noise.
    Certain,
    /// Measured, with an interval.
    Measured,
    /// A set that holds the truth with a stated probability, if it is on record at all.
    Probable,
    /// What is compared gives the same answers to every probe.
    NotSeparable,
    /// The endpoint does not offer what the test needs, or the budget did not reach.
    NotTestable,
    /// A claim does not fit, at a stated level.
    Rejected,
    /// A claim fits so far. That is no proof.
    NotRejected,
    /// A rule of the interface is kept.
    Ok,
    /// A rule of the interface is not kept.
    Fails,
    /// What the endpoint says of itself; anyone can say anything.
    Says,
}

impl Word {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Word::Certain => "certain",
            Word::Measured => "measured",
            Word::Probable => "probability",
            Word::NotSeparable => "not separable",
            Word::NotTestable => "not testable",
            Word::Rejected => "REJECTED",
            Word::NotRejected => "not rejected",
            Word::Ok => "ok",
            Word::Fails => "FAIL",
            Word::Says => "says",
        }
    }

    /// For a reader who meets it first.
    pub fn meaning(self) -> &'static str {
        match self {
            Word::Certain => {
                "an arithmetic fact about the numbers returned; no reference and no model of noise is needed"
            }
            Word::Measured => "measured, with a 95 % interval",
            Word::Probable => "a set that holds the true one with the stated probability, if it is on record at all",
            Word::NotSeparable => "no probe tells these apart",
            Word::NotTestable => "the endpoint does not offer what the test needs, or the budget did not reach",
            Word::Rejected => {
                "the claim does not fit, at the stated level; that shows another configuration, not intent"
            }
            Word::NotRejected => "the claim fits so far, which is no proof",
            Word::Ok => "the interface's rule is kept",
            Word::Fails => "the interface's rule is not kept",
            Word::Says => "the endpoint's own word",
        }
    }
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What it is about.
    pub about: String,
    /// How it is known.
    pub word: Word,
    /// The finding.
    pub says: String,
    /// Estimate and 95 % interval, or none where the word needs none.
    pub interval: Option<[String; 3]>,
}

impl Finding {
    /// A finding. Text from elsewhere is made safe to print and to sign.
    pub fn new(about: &str, word: Word, says: impl AsRef<str>) -> Self {
        Self { about: about.to_owned(), word, says: safe(says.as_ref()), interval: None }
    }

    /// With an interval.
    #[must_use]
    pub fn with(mut self, interval: Interval) -> Self {
        self.interval = Some([interval.at, interval.low, interval.high].map(figure));
        self
    }
}

/// Findings of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// `numerics`, `noise`, `surface`, `contract`, `references`.
    pub title: String,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// Distances or counts between named things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What the cells are.
    pub caption: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows: name, cells.
    pub rows: Vec<(String, Vec<String>)>,
}

/// What a run used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Requests.
    pub requests: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub output_tokens: u64,
    /// Money, where prices were given.
    pub money: Option<String>,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Program and version.
    pub tool: String,
    /// `inspect`, `identify`, `verify`, `watch`, `compare`.
    pub kind: String,
    /// Address or trace.
    pub subject: String,
    /// Model as asked for.
    pub model: Option<String>,
    /// Capability tier and what it means.
    pub tier: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The verdict in one line.
    pub verdict: String,
    /// Evidence.
    pub sections: Vec<Section>,
    /// Tables.
    pub tables: Vec<Table>,
    /// What the run cannot see.
    pub limits: Vec<String>,
    /// What it used.
    pub cost: Cost,
    /// Digests of the traces it rests on.
    pub traces: Vec<String>,
    /// How to do it again.
    pub repeat: Vec<String>,
}

impl Report {
    /// Findings of a section.
    pub fn section(&self, title: &str) -> &[Finding] {
        self.sections.iter().find(|s| s.title == title).map_or(&[], |s| &s.findings)
    }

    /// A finding by its section and what it is about.
    pub fn finding(&self, title: &str, about: &str) -> Option<&Finding> {
        self.section(title).iter().find(|f| f.about == about)
    }

    /// The report in an envelope: the signed file's bytes.
    ///
    /// # Errors
    /// [`Error::Record`].
    pub fn sign(&self, key: &PrivateKey) -> Result<Vec<u8>> {
        let mut subjects = Vec::new();
        for trace in &self.traces {
            let digest: Digest = trace.parse()?;
            subjects.push(Subject::new("trace", "sha256", &digest));
        }
        Ok(envelope::sign(&Statement::new(PREDICATE_TYPE, subjects, self), key)?)
    }

    /// A report from an envelope, the signature checked first.
    ///
    /// # Errors
    /// [`Error::Record`]; [`Error::Report`] for another version.
    pub fn open(bytes: &[u8], key: &PublicKey) -> Result<Self> {
        let statement = envelope::verify(bytes, &[key])?.statement::<Report>(PREDICATE_TYPE)?;
        let report = statement.predicate;
        if report.schema != SCHEMA {
            return Err(Error::Report(format!("schema {:?}; this version reads {SCHEMA:?}", report.schema)));
        }
        Ok(report)
    }
}

/// Text that prints as one line and has one spelling: whatever is not plain is written out.
pub fn safe(text: &str) -> String {
    let plain = |c: char| c == ' ' || c.is_ascii_graphic() || matches!(c, '…' | '±' | '≤' | '≥' | '×' | '·' | '–');
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if plain(c) {
            out.push(c)
        } else {
            out.extend(c.escape_unicode())
        }
        out
    })
}

/// Part of a foreign text, quoted.
pub fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    let begin: String = text.chars().take(MOST).collect();
    let dots = if text.chars().count() > MOST { "…" } else { "" };
    format!("\"{}{dots}\"", safe(&begin))
}

/// A number in three significant digits.
pub fn figure(x: f64) -> String {
    if x == 0.0 || x.is_nan() {
        return "0".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let size = libm::floor(libm::log10(x.abs()));
    if (-3.0..6.0).contains(&size) {
        let places = (2.0 - size).max(0.0) as usize;
        let text = format!("{x:.places$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    } else {
        format!("{x:.2e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (x, text) in
            [(0.0, "0"), (0.5, "0.5"), (12.0, "12"), (0.012_345, "0.0123"), (1e-7, "1.00e-7"), (4.1e7, "4.10e7")]
        {
            assert_eq!(figure(x), text);
        }
    }

    #[test]
    fn foreign_text_cannot_reach_the_terminal() {
        assert_eq!(safe("a\u{1b}[2J\u{e9}\n"), "a\\u{1b}[2J\\u{e9}\\u{a}");
        assert_eq!(quoted(&"x".repeat(70)), format!("\"{}…\"", "x".repeat(60)));
    }

    #[test]
    fn a_signed_report_reads_back_and_an_altered_one_does_not() {
        let key = PrivateKey::from_seed(&[3; 32]);
        let report = Report {
            schema: SCHEMA.into(),
            tool: "t".into(),
            kind: "inspect".into(),
            subject: "http://h/v1".into(),
            model: None,
            tier: "A".into(),
            outcome: Outcome::Inconclusive,
            verdict: "cannot tell".into(),
            sections: vec![Section {
                title: "noise".into(),
                findings: vec![Finding::new("x", Word::Measured, "y").with(crate::stats::wilson(1, 2))],
            }],
            tables: Vec::new(),
            limits: Vec::new(),
            cost: Cost::default(),
            traces: vec![Digest::of_file(b"t").to_string()],
            repeat: Vec::new(),
        };
        let bytes = report.sign(&key).unwrap();
        assert_eq!(Report::open(&bytes, &key.public()).unwrap(), report);
        assert!(Report::open(&bytes, &PrivateKey::from_seed(&[4; 32]).public()).is_err());
        let mut text = String::new();
        write(&report, &mut text).unwrap();
        assert!(text.contains("VERDICT   cannot tell") && text.contains("0.5"), "{text}");
        let page = page(&report, "digest").unwrap();
        assert!(page.contains("cannot tell") && !page.contains("<script"));
    }
}
