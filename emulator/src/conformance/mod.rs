//! Conformance: judging this crate's arithmetic by vector files.
//!
//! A vector file holds one JSON object a line, one output element of a matrix instruction each, in one of two formats: outputs of a
//! simulator (fields `arch`, `op`, `inst`, `a`, `b`, `c`, `d` and, where the zero policies differ, `alt`), or outputs recorded on
//! hardware (`gpu`, `arch`, `path`, `ab`, `cd`, `k`, ..., and `sm` where the card's name does not tell its profile). [`judge`] runs every line this crate has a model for and reports the rest
//! by name: what is not covered never counts as passed.
//!
//! The crate does no I/O: the caller opens the file.

mod line;
mod report;

pub use line::VectorProblem;
pub use report::{Failure, FileReport, Group};

use crate::Error;
use crate::profile::ZeroPolicy;
use line::Case;
use std::io::BufRead;

/// What the name of a device has in it that answers like a GPU and is none: its answers are no hardware's.
pub const NO_HARDWARE: &str = "not a GPU";

/// Which answers a line must match to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// `d` under [`ZeroPolicy::SentinelMinus126`] *and* `alt` (if present, else `d`) under [`ZeroPolicy::Exclude`].
    Both,
    /// The answer of one policy.
    Only(ZeroPolicy),
}

impl Answers {
    fn policies(self) -> &'static [ZeroPolicy] {
        match self {
            Self::Both => &[ZeroPolicy::Exclude, ZeroPolicy::SentinelMinus126],
            Self::Only(ZeroPolicy::Exclude) => &[ZeroPolicy::Exclude],
            Self::Only(ZeroPolicy::SentinelMinus126) => &[ZeroPolicy::SentinelMinus126],
        }
    }
}

/// Runs every vector of a file; `file` is the name to report. Blank lines are skipped.
///
/// # Errors
/// [`Error::MalformedVector`] with the line number at the first line that is not a vector; [`Error::UnreadableVectors`] if reading
/// fails.
///
/// # Examples
/// ```
/// use emulator::conformance::{judge, Answers};
/// let line = r#"{"arch":"Hopper","op":"mma","inst":"m16n8k4.f32.tf32.tf32.f32",
///     "a":"3f800000000000000000000000000000","b":"40000000000000000000000000000000","c":"3f800000","d":"40400000"}"#;
/// let report = judge("one.jsonl", line.replace('\n', "").as_bytes(), Answers::Both)?;
/// assert_eq!((report.total, report.passed), (1, 1));
/// # Ok::<(), emulator::Error>(())
/// ```
pub fn judge(file: &str, input: impl BufRead, answers: Answers) -> Result<FileReport, Error> {
    let mut report = FileReport::new(file);
    for (number, text) in (1..).zip(input.lines()) {
        let text = text.map_err(|source| Error::UnreadableVectors { file: file.to_owned(), line: number, source })?;
        if text.trim().is_empty() {
            continue;
        }
        let case = Case::parse(&text).map_err(|problem| Error::MalformedVector {
            file: file.to_owned(),
            line: number,
            problem,
        })?;
        let outcome = case.judge(answers.policies()).map_err(|problem| Error::MalformedVector {
            file: file.to_owned(),
            line: number,
            problem,
        })?;
        report.add(number, &case, outcome);
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
