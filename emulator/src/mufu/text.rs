//! MUFU profiles as text.
//!
//! ```text
//! # comments and blank lines anywhere
//! mufu-profile 1
//! rcp 128
//! 67108861 65025 502      one line a segment: a b c, decimal
//! ...
//! rsq 128
//! ex2 64
//! lg2 64
//! sin 64                   optional; also the cosine's
//! ```
//!
//! A function may say `listed` instead of its number of segments: then its dumps must come along.

use super::fit::{Dump, Outcome};
use super::{Function, MufuTables, Row};
use crate::Error;
use core::fmt::Write;

const HEADER: &str = "mufu-profile 1";
const LISTED: &str = "listed";

impl MufuTables {
    /// Reads a profile in which every function has coefficients.
    ///
    /// # Errors
    /// [`Error::MufuText`] for text that is not a profile; [`Error::MufuDump`] for a function that is missing, has the
    /// wrong number of segments, or has coefficients wider than the unit's.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::parse_with(text, &[])
    }

    /// Reads a profile; functions that are `listed` take their outputs from `dumps`.
    ///
    /// # Errors
    /// Those of [`MufuTables::parse`]; [`Error::MufuDump`] if the dumps of a listed function are missing or do not
    /// agree with each other.
    pub fn parse_with(text: &str, dumps: &[Dump]) -> Result<Self, Error> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default().trim()))
            .filter(|(_, line)| !line.is_empty());
        let refuse = |line, problem: &str| Err(Error::MufuText { line, problem: problem.to_owned() });
        match lines.next() {
            Some((_, HEADER)) => {}
            Some((line, _)) => return refuse(line, "the first line must be `mufu-profile 1`"),
            None => return refuse(1, "it is empty; the first line must be `mufu-profile 1`"),
        }
        let mut outcomes: Vec<(Function, Outcome)> = Vec::new();
        while let Some((line, text)) = lines.next() {
            let Some((name, size)) = text.split_once(' ') else {
                return refuse(line, "expected a function and its number of segments");
            };
            let Some(function) = Function::TABULATED.into_iter().find(|function| function.name() == name) else {
                return refuse(line, "unknown function; known are rcp, rsq, ex2, lg2, sin");
            };
            if outcomes.iter().any(|(known, _)| *known == function) {
                return refuse(line, "this function stands here twice");
            }
            let outcome = if size.trim() == LISTED {
                Outcome::Listed(dumps.iter().filter(|dump| dump.function() == function).cloned().collect())
            } else {
                let Ok(size @ 1..=128) = size.trim().parse::<usize>() else {
                    return refuse(line, "the number of segments must be 1 to 128");
                };
                let mut rows = Vec::with_capacity(size);
                for _ in 0..size {
                    let Some((line, text)) = lines.next() else {
                        return refuse(line, "the profile ends before the last segment of this function");
                    };
                    let Some(row) = row(text) else { return refuse(line, "expected three integers: a b c") };
                    rows.push(row);
                }
                Outcome::Rows(rows)
            };
            outcomes.push((function, outcome));
        }
        Self::from_outcomes(outcomes.iter().map(|(function, outcome)| (*function, outcome)))
    }

    /// The profile as text, with `comment` (any number of lines) at its head.
    #[must_use]
    pub fn to_text(&self, comment: &str) -> String {
        let mut text = String::new();
        for line in comment.lines() {
            text.push_str(format!("# {line}").trim_end());
            text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{HEADER}");
        for function in Function::TABULATED {
            match self.rows(function) {
                None if function == Function::Sin => {}
                Some(rows) => {
                    let _ = writeln!(text, "{function} {}", rows.len());
                    for Row { a, b, c } in rows {
                        let _ = writeln!(text, "{a} {b} {c}");
                    }
                }
                None => {
                    let _ = writeln!(text, "{function} {LISTED}");
                }
            }
        }
        text
    }
}

fn row(text: &str) -> Option<Row> {
    let mut words = text.split_ascii_whitespace().map(str::parse);
    let row = Row { a: words.next()?.ok()?, b: words.next()?.ok()?, c: words.next()?.ok()? };
    words.next().is_none().then_some(row)
}
