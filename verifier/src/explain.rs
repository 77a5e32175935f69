//! Findings in words, from the result document alone.

use crate::ranges::Ranges;
use crate::result::{Divergence, RecordResult};
use crate::verdict::Verdict;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The first difference, in a sentence or two.
pub fn divergence(d: &Divergence) -> String {
    let mut out = format!(
        "The logged bits first leave the claimed computation in step {}, in the row of {} at position {}",
        d.step,
        request(&d.request),
        d.position
    );
    match (&d.bits, d.index) {
        (Some(bits), Some(index)) => {
            let _ = write!(
                out,
                ": element {index} of {} is {} where the claim gives {}.",
                d.place(),
                hex(&bits.logged),
                hex(&bits.replayed)
            );
        }
        _ => {
            let _ = write!(out, ": {} differs (the bits themselves were not opened).", d.place());
        }
    }
    if let Some(until) = &d.agrees_until {
        let _ = write!(out, " Everything compared before it agrees, up to {until}.");
    }
    match (&d.origin, d.between.as_slice()) {
        (Some(origin), _) => {
            let _ = write!(out, " The difference arises in {origin}.");
        }
        (None, [only]) => {
            let _ = write!(out, " The difference arises in {only}.");
        }
        (None, [first, .., last]) => {
            let _ = write!(out, " The difference arises between {first} and {last}.");
        }
        (None, []) => {}
    }
    out
}

/// A request as sentences name it: its id, after the word unless the id begins with it.
pub fn request(id: &str) -> String {
    if id.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("request")) {
        id.to_owned()
    } else {
        format!("request {id}")
    }
}

/// What the verdicts that occur say, one line each, and when a match is one although other claims fit: for a reader who has not met the words.
pub fn legend(verdicts: impl IntoIterator<Item = Verdict>) -> Vec<String> {
    let seen: BTreeSet<Verdict> = verdicts.into_iter().collect();
    let mut lines: Vec<String> = seen.iter().map(|v| format!("{v}: {}", v.meaning())).collect();
    if seen.contains(&Verdict::Match) || seen.contains(&Verdict::Indistinguishable) {
        lines.push(ALTERNATIVES.to_owned());
    }
    lines
}

/// When other claims that fit take a match away, and when they are listed beside it.
pub const ALTERNATIVES: &str = "Bits seldom tell how many rows ran beside the logged ones, or which of several GPU generations computed them. By default a verdict does \
    not ask: it is MATCH, and whatever else would fit is listed. An auditor who requires the claims rows or hardware gets INDISTINGUISHABLE \
    for the same bits.";

/// A hex pattern with its prefix and groups of four digits.
pub fn hex(digits: &str) -> String {
    let mut out = String::from("0x");
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(4) {
            out.push('_');
        }
        out.push(c);
    }
    out
}

/// What else the same bits support, one line each; never empty.
pub fn alternatives(r: &RecordResult) -> Vec<String> {
    let a = &r.alternatives;
    let mut lines = Vec::new();
    if a.hidden_capacity > 0 {
        let same: Ranges = a.extra_rows.iter().filter(|n| *n > 0).collect();
        let joint = if same.is_empty() {
            "no one number of extra rows fits every decode step".to_owned()
        } else {
            format!("{same} extra in every decode step would fit as well")
        };
        lines.push(format!(
            "Rows: up to {} unreported rows in a single step would leave its bits unchanged ({} row-steps in all are known to, within the \
             search limit); {joint}.",
            a.hidden_capacity, a.hidden_row_steps
        ));
    }
    if !a.profiles.is_empty() {
        lines.push(format!("Hardware: {} would give the same bits.", a.profiles.join(", ")));
    }
    for d in &a.dispatch {
        lines.push(format!("Kernel choice: {} {} would give the same bits in step {}.", d.choice, d.values, d.steps));
    }
    if lines.is_empty() {
        lines.push("Nothing else that was tried.".to_owned());
    }
    lines
}

/// A record's finding as plain text for a terminal.
pub fn words(r: &RecordResult) -> String {
    let mut out = format!("{}: {}", r.name(), r.verdict);
    if let Some(level) = r.level {
        let _ = write!(out, " (level {level}: {})", level.meaning());
    }
    let _ = writeln!(out, "\n  {}", r.headline);
    if let Some(d) = &r.divergence {
        let _ = writeln!(out, "\nFirst difference\n  {}", divergence(d));
        if let Some(bits) = &d.bits {
            for (name, digits) in [("logged", &bits.logged), ("replayed", &bits.replayed)] {
                let value =
                    u32::from_str_radix(digits, 16).map_or(String::new(), |b| crate::report::value(&bits.dtype, b));
                let _ = writeln!(out, "  {name:<9} {} {}  {value}", bits.dtype, split(&bits.dtype, digits));
            }
        }
        if let Some(n) = d.differing {
            let _ = writeln!(
                out,
                "  {n} of {} elements differ in this row; {} of {} rows of the step differ somewhere",
                d.elements, d.rows_differing, d.rows
            );
        }
    }
    if !r.growth.is_empty() {
        let _ = writeln!(out, "\nHow it grows (elements that differ, largest distance in ulp)");
        for p in &r.growth {
            let point = crate::ops::Point { layer: p.layer, op: p.op }.to_string();
            let _ = writeln!(out, "  {point:<26} {:>6} of {:<6} {:>10} ulp", p.differing, p.elements, p.max_ulp);
        }
    }
    if !r.causes.is_empty() {
        let _ = writeln!(out, "\nProbable cause");
        for c in &r.causes {
            let _ = writeln!(out, "  {}", c.headline());
            if let crate::result::Cause::Unexplained { needed, .. } = c {
                let _ = writeln!(out, "  what would settle it: {needed}");
            }
        }
    }
    let _ = writeln!(out, "\nWhat else would fit");
    for line in alternatives(r) {
        let _ = writeln!(out, "  {line}");
    }
    if !r.set_aside.is_empty() {
        let _ = writeln!(out, "\nSet aside (not used; the audit recomputed without it)");
        for s in &r.set_aside {
            let _ = writeln!(out, "  {}: {}", s.name, s.reason);
        }
    }
    if !r.unverified.is_empty() {
        let _ = writeln!(out, "\nNot verified");
        for u in &r.unverified {
            let _ = writeln!(out, "  {}: {} ({})", u.fact, u.declared, u.why);
        }
    }
    if !r.tried.is_empty() {
        let _ = writeln!(out, "\nTried");
        for t in &r.tried {
            let colon = if t.detail.is_empty() { "" } else { ": " };
            let _ = writeln!(out, "  {} - {}{colon}{}", t.hypothesis, t.outcome.words(), t.detail);
        }
    }
    out
}

/// `0 01111111 0000000`: sign, exponent, fraction.
fn split(dtype: &str, digits: &str) -> String {
    let width: usize = match dtype {
        "bf16" => 16,
        "f32" => 32,
        _ => return digits.to_owned(),
    };
    let Ok(bits) = u32::from_str_radix(digits, 16) else { return digits.to_owned() };
    let binary = format!("{bits:0width$b}");
    match (binary.get(..1), binary.get(1..9), binary.get(9..width)) {
        (Some(sign), Some(exponent), Some(fraction)) => format!("{} = {sign} {exponent} {fraction}", hex(digits)),
        _ => digits.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_once() {
        assert_eq!(
            [request("a"), request("request-0"), request("Request 7"), request("")].join(","),
            "request a,request-0,Request 7,request "
        );
    }

    #[test]
    fn patterns_are_grouped() {
        assert_eq!(hex("3f80"), "0x3f80");
        assert_eq!(hex("3f800000"), "0x3f80_0000");
        assert_eq!(split("bf16", "3f80"), "0x3f80 = 0 01111111 0000000");
        assert_eq!(split("f32", "nonsense"), "nonsense");
    }
}
