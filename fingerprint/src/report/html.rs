//! A report as one self-contained page, in the look of the audit reports.

use askama::Template;

use super::{Finding, Outcome, Report, Word};
use crate::error::{Error, Result};

#[derive(Template)]
#[template(path = "fingerprint.html")]
struct Page<'a> {
    report: &'a Report,
    digest: &'a str,
    css: &'static str,
    words: Vec<(&'static str, &'static str)>,
}

impl Page<'_> {
    /// The colour class of the audit page's verdicts.
    fn class(&self) -> &'static str {
        match self.report.outcome {
            Outcome::Consistent => "MATCH",
            Outcome::Rejected => "MISMATCH",
            Outcome::Inconclusive => "INCONCLUSIVE",
        }
    }

    fn outcome(&self) -> &'static str {
        match self.report.outcome {
            Outcome::Consistent => "CONSISTENT",
            Outcome::Rejected => "REJECTED",
            Outcome::Inconclusive => "CANNOT TELL",
        }
    }

    fn word(&self, finding: &Finding) -> &'static str {
        match finding.word {
            Word::Ok | Word::Certain | Word::NotRejected => "MATCH",
            Word::Fails | Word::Rejected => "MISMATCH",
            _ => "INCONCLUSIVE",
        }
    }

    fn interval(&self, finding: &Finding) -> String {
        finding.interval.as_ref().map_or(String::new(), |[at, low, high]| format!("{at} ({low} to {high})"))
    }
}

/// Draws the page. `digest` names the bytes it is drawn from.
///
/// # Errors
/// [`Error::Report`] when the template cannot be rendered, which would be a bug here.
pub fn page(report: &Report, digest: &str) -> Result<String> {
    let mut words: Vec<(&str, &str)> = Vec::new();
    for finding in report.sections.iter().flat_map(|s| &s.findings) {
        let word = (finding.word.name(), finding.word.meaning());
        if !words.contains(&word) {
            words.push(word);
        }
    }
    // One style sheet for every page of the project.
    let css = include_str!("../../../verifier/templates/report.css");
    Page { report, digest, css, words }.render().map_err(|e| Error::Report(e.to_string()))
}
