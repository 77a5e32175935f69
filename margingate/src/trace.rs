//! Measured pairs: one step under fast kernels in a batch, and the same step by the reference, from the same prefix. As text, so that thresholds and
//! signals can be studied again without the model.
//!
//! One line a step, comma separated, f32 values as 8 hex digits:
//! `source,sequence,schedule,position,rows,kv,dirty,reference,first,second,margin,delta,distance,flip`.

use std::fmt::Write as _;

use crate::margin::Margin;

/// The first line of a trace.
pub const HEADER: &str =
    "source,sequence,schedule,position,rows,kv,dirty,reference,first,second,margin,delta,distance,flip";

/// One synchronous step: both runs share the prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// Which set of prompts.
    pub source: u32,
    /// Which prompt of all.
    pub sequence: u32,
    /// Which schedule.
    pub schedule: u32,
    /// Position of the row.
    pub position: u32,
    /// Rows of the step.
    pub rows: u32,
    /// Longest KV length of the step.
    pub kv: u32,
    /// Columns before the row that were not the reference's.
    pub dirty: u32,
    /// The step ran the reference's kernels: only those columns differ.
    pub reference: bool,
    /// The batched run's first and second token.
    pub top: [u32; 2],
    /// Its margin.
    pub margin: Margin,
    /// `(l*_1 - l*_2) - (l_1 - l_2)`, `*` being the reference: how much the batch changes the difference of those two.
    pub delta: f32,
    /// Euclidean distance of the LM head's rows of the two.
    pub distance: f32,
    /// The reference chose another token than the batched run.
    pub flip: bool,
}

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("trace line {line}: {what}")]
pub struct BadTrace {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// The lines of steps, without the header.
pub fn lines(steps: &[Observed]) -> String {
    let mut out = String::new();
    for s in steps {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{:08x},{:08x},{:08x},{}",
            s.source,
            s.sequence,
            s.schedule,
            s.position,
            s.rows,
            s.kv,
            s.dirty,
            u8::from(s.reference),
            s.top[0],
            s.top[1],
            s.margin.bits(),
            s.delta.to_bits(),
            s.distance.to_bits(),
            u8::from(s.flip)
        );
    }
    out
}

/// Reads a whole trace: the header, then steps.
///
/// # Errors
/// [`BadTrace`] for the first line that is not as [`lines`] writes it.
pub fn read(text: &str) -> Result<Vec<Observed>, BadTrace> {
    let mut all = text.lines().enumerate();
    if all.next().map(|(_, l)| l) != Some(HEADER) {
        return Err(BadTrace { line: 1, what: "the header of a trace is missing" });
    }
    all.map(|(at, text)| line(text).map_err(|what| BadTrace { line: at + 1, what })).collect()
}

fn line(text: &str) -> Result<Observed, &'static str> {
    let fields: Vec<&str> = text.split(',').collect();
    let [
        source,
        sequence,
        schedule,
        position,
        rows,
        kv,
        dirty,
        reference,
        first,
        second,
        margin,
        delta,
        distance,
        flip,
    ] = fields[..]
    else {
        return Err("14 fields are wanted");
    };
    let number = |t: &str| t.parse::<u32>().map_err(|_| "a field is no whole number");
    let bits = |t: &str| {
        let digits = t.len() == 8 && t.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = digits.then(|| u32::from_str_radix(t, 16).ok()).flatten();
        bits.ok_or("an f32 is 8 hex digits")
    };
    let yes = |t: &str| match t {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("yes and no are 1 and 0"),
    };
    let finite = |t: &str| {
        let value = f32::from_bits(bits(t)?);
        if value.is_finite() { Ok(value) } else { Err("a difference or distance is not finite") }
    };
    Ok(Observed {
        source: number(source)?,
        sequence: number(sequence)?,
        schedule: number(schedule)?,
        position: number(position)?,
        rows: number(rows)?,
        kv: number(kv)?,
        dirty: number(dirty)?,
        reference: yes(reference)?,
        top: [number(first)?, number(second)?],
        margin: Margin::from_bits(bits(margin)?).map_err(|_| "a margin is NaN or negative")?,
        delta: finite(delta)?,
        distance: finite(distance)?,
        flip: yes(flip)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_survive_the_way_there_and_back() {
        let s = Observed {
            source: 1,
            sequence: 2,
            schedule: 3,
            position: 4,
            rows: 5,
            kv: 6,
            dirty: 4,
            reference: false,
            top: [7, u32::MAX],
            margin: Margin::INFINITE,
            delta: -0.25,
            distance: 1.5,
            flip: true,
        };
        let all = [s, Observed { margin: Margin::new(0.1), flip: false, ..s }];
        let text = format!("{HEADER}\n{}", lines(&all));
        assert_eq!(read(&text).unwrap(), all);
        assert_eq!(read("x").unwrap_err().line, 1);
        for (from, to) in [
            (",1\n", ",2\n"),
            ("7f800000", "7fc00000"),
            ("7f800000", "7f80000"),
            ("be800000", "7f800000"),
            ("1,2,3", "1,2,x"),
        ] {
            let bad = text.replacen(from, to, 1);
            assert_eq!(read(&bad).unwrap_err().line, 2, "{from} {to}");
        }
    }
}
