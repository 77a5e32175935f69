//! The exact search for the coefficients of one segment.
//!
//! Every output bounds `a * 2^a_shift + b * r + c * q(r)` from both sides, so the triples that explain all outputs are
//! the integer points of a polytope. Three remainders eliminate `a` and `b` and bound `c`; two eliminate `a` and bound
//! `b` for each `c`; a pass over all remainders then gives the exact range of `a` for each `(b, c)`. Nothing is
//! estimated: the search finds every triple, or proves that there is none.

use crate::mufu::datapath::Datapath;
use crate::mufu::{Function, Row};

/// Width of the constant coefficient: |a| up to 2^26.
pub(in crate::mufu) const A_LIMIT: i32 = 1 << 26;

/// Widths of the other coefficients: |b| and |c| stay below these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mufu) struct Limits {
    pub b: i32,
    pub c: i32,
    pub text: &'static str,
}

impl Limits {
    /// The widths of `function` (`specs/kernel-recipes.md` 2.1).
    pub const fn of(function: Function) -> Self {
        match function {
            Function::Sin | Function::Cos => Self { b: 1 << 15, c: 1 << 11, text: "26, 15 and 11 bits" },
            _ => Self { b: 1 << 16, c: 1 << 10, text: "26, 16 and 10 bits" },
        }
    }
}

/// What is known of the sums of one segment.
#[derive(Debug)]
pub(super) struct Segment<'a> {
    path: &'a Datapath,
    limits: Limits,
    /// `q(r)` for every remainder.
    quadratic: &'a [i64],
    /// Bounds of the sum less the bias, for every remainder; unbounded where there is no output.
    low: Vec<i64>,
    high: Vec<i64>,
    known: usize,
}

/// Far outside every sum, and far enough inside `i64` to compute with.
const UNBOUNDED: i64 = 1 << 56;

/// The triples that explain a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Triples {
    /// For each feasible `(b, c)` the range of `a`.
    pub families: Vec<Family>,
}

/// All triples with one `b` and one `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family {
    pub b: i32,
    pub c: i32,
    /// First and last `a`.
    pub a: (i32, i32),
}

impl Triples {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.families.iter().map(|family| (family.a.1 - family.a.0 + 1) as u64).sum()
    }

    /// The canonical one: smallest `|c|`, then smallest `|b|`, then smallest `a`.
    pub fn canonical(&self) -> Option<Row> {
        let family = self.families.iter().min_by_key(|family| (family.c.abs(), family.b.abs()))?;
        Some(Row { a: family.a.0, b: family.b, c: family.c })
    }
}

impl<'a> Segment<'a> {
    pub fn new(path: &'a Datapath, limits: Limits, quadratic: &'a [i64]) -> Self {
        let size = quadratic.len();
        Self { path, limits, quadratic, low: vec![-UNBOUNDED; size], high: vec![UNBOUNDED; size], known: 0 }
    }

    /// Adds one output: the sum at `r` lies in `low..=high`.
    pub fn bound(&mut self, r: u32, low: i64, high: i64) {
        let r = r as usize;
        if self.low[r] == -UNBOUNDED {
            self.known += 1;
        }
        self.low[r] = self.low[r].max(low - self.path.bias);
        self.high[r] = self.high[r].min(high - self.path.bias);
    }

    /// The number of remainders with an output.
    pub fn known(&self) -> usize {
        self.known
    }

    /// Every triple within the coefficient widths that explains all outputs.
    pub fn solve(&self) -> Triples {
        let anchors = self.anchors();
        let (c_low, c_high) = self.c_range(&anchors);
        let limit = i128::from(self.limits.c - 1);
        let mut families = Vec::new();
        for c in c_low.max(-limit)..=c_high.min(limit) {
            let c = c as i32;
            let (b_low, b_high) = self.b_range(&anchors, c);
            let limit = i128::from(self.limits.b - 1);
            for b in b_low.max(-limit)..=b_high.min(limit) {
                let b = b as i32;
                if let Some(a) = self.a_range(b, c) {
                    families.push(Family { b, c, a });
                }
            }
        }
        Triples { families }
    }

    /// The outputs that `row` does not explain.
    pub fn mismatches(&self, row: Row) -> usize {
        let bias = self.path.bias;
        (0..self.low.len())
            .filter(|&r| {
                let sum = self.path.sum(row, r as u32) - bias;
                sum < self.low[r] || sum > self.high[r]
            })
            .count()
    }

    /// A triple close to the outputs, for segments that no triple explains: through three of them.
    pub fn nearest(&self) -> Row {
        let anchors = self.anchors();
        let (Some(&r0), Some(&r1), Some(&r2)) = (anchors.first(), anchors.get(anchors.len() / 2), anchors.last())
        else {
            return Row::default();
        };
        let clamp = |value: i128, limit: i32| value.clamp(-i128::from(limit), i128::from(limit)) as i32;
        let (c_low, c_high) = self.c_bounds(r0, r1, r2).unwrap_or((0, 0));
        let c = clamp((c_low + c_high) / 2, self.limits.c - 1);
        let (b_low, b_high) = self.b_bounds(r0, r2, c).unwrap_or((0, 0));
        let b = clamp((b_low + b_high) / 2, self.limits.b - 1);
        let rest = (self.low[r1] + self.high[r1]) / 2 - i64::from(b) * r1 as i64 - i64::from(c) * self.quadratic[r1];
        Row { a: clamp(i128::from(rest >> self.path.a_shift), A_LIMIT), b, c }
    }

    /// Remainders to take bounds from: some at each end and in the middle.
    fn anchors(&self) -> Vec<usize> {
        const SPREAD: usize = 24;
        let size = self.low.len();
        let known = |r: &usize| self.low[*r] > -UNBOUNDED;
        let mut anchors: Vec<usize> = (0..size).filter(known).take(SPREAD).collect();
        let (middle, end) = (size / 2, size);
        anchors.extend((middle..end).filter(known).take(SPREAD));
        anchors.extend((middle..end).rev().filter(known).take(SPREAD));
        anchors.sort_unstable();
        anchors.dedup();
        anchors
    }

    /// The range of `c` that all anchors allow.
    fn c_range(&self, anchors: &[usize]) -> (i128, i128) {
        let mut range = (-i128::from(self.limits.c), i128::from(self.limits.c));
        let third = anchors.len() / 3;
        for &r0 in &anchors[..third] {
            for &r1 in &anchors[third..2 * third] {
                for &r2 in &anchors[2 * third..] {
                    if let Some((low, high)) = self.c_bounds(r0, r1, r2) {
                        range = (range.0.max(low), range.1.min(high));
                    }
                }
            }
        }
        range
    }

    /// The range of `b` that all anchors allow, given `c`.
    fn b_range(&self, anchors: &[usize], c: i32) -> (i128, i128) {
        let mut range = (-i128::from(self.limits.b), i128::from(self.limits.b));
        let half = anchors.len() / 2;
        for &r0 in &anchors[..half] {
            for &r1 in &anchors[half..] {
                if let Some((low, high)) = self.b_bounds(r0, r1, c) {
                    range = (range.0.max(low), range.1.min(high));
                }
            }
        }
        range
    }

    /// The integers `c` that the outputs at three remainders allow, whatever `a` and `b` are.
    fn c_bounds(&self, r0: usize, r1: usize, r2: usize) -> Option<(i128, i128)> {
        // w0 * S(r0) - w1 * S(r1) + w2 * S(r2) = c * (w0 * q(r0) - w1 * q(r1) + w2 * q(r2))
        let (w0, w1, w2) = ((r2 - r1) as i128, (r2 - r0) as i128, (r1 - r0) as i128);
        let [(l0, h0), (l1, h1), (l2, h2)] = [r0, r1, r2].map(|r| (i128::from(self.low[r]), i128::from(self.high[r])));
        let [q0, q1, q2] = [r0, r1, r2].map(|r| i128::from(self.quadratic[r]));
        let divisor = w0 * q0 - w1 * q1 + w2 * q2;
        quotients(w0 * l0 - w1 * h1 + w2 * l2, w0 * h0 - w1 * l1 + w2 * h2, divisor)
    }

    /// The integers `b` that the outputs at two remainders allow, given `c` and whatever `a` is.
    fn b_bounds(&self, r0: usize, r1: usize, c: i32) -> Option<(i128, i128)> {
        let quadratic = i128::from(c) * i128::from(self.quadratic[r1] - self.quadratic[r0]);
        let low = i128::from(self.low[r1] - self.high[r0]) - quadratic;
        let high = i128::from(self.high[r1] - self.low[r0]) - quadratic;
        quotients(low, high, r1 as i128 - r0 as i128)
    }

    /// The exact range of `a`, or `None` if no `a` explains all outputs.
    fn a_range(&self, b: i32, c: i32) -> Option<(i32, i32)> {
        const CHUNK: usize = 4096;
        let (mut low, mut high) = (-UNBOUNDED, UNBOUNDED);
        let bounds = self.low.chunks(CHUNK).zip(self.high.chunks(CHUNK)).zip(self.quadratic.chunks(CHUNK));
        for (chunk, ((lows, highs), quadratic)) in bounds.enumerate() {
            let first = (chunk * CHUNK) as i64;
            for (i, ((l, h), q)) in lows.iter().zip(highs).zip(quadratic).enumerate() {
                let rest = i64::from(b) * (first + i as i64) + i64::from(c) * q;
                low = low.max(l - rest);
                high = high.min(h - rest);
            }
            if low > high {
                return None;
            }
        }
        let step = 1i64 << self.path.a_shift;
        let first = (low + step - 1).div_euclid(step).max(-i64::from(A_LIMIT));
        let last = high.div_euclid(step).min(i64::from(A_LIMIT));
        (first <= last).then_some((first as i32, last as i32))
    }
}

/// The integers `x` with `low <= x * divisor <= high`, as a possibly empty range; `None` if the divisor is not positive.
fn quotients(low: i128, high: i128, divisor: i128) -> Option<(i128, i128)> {
    (divisor > 0).then(|| (-(-low).div_euclid(divisor), high.div_euclid(divisor)))
}
