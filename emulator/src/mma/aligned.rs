//! Alignment and truncation: what all truncated fused sums share (`gpu-arithmetic` 2.4 and 3.4).

use super::tfdpa::ZeroPolicy;
use crate::format::Unpacked;

/// One summand: `significand * 2^(exponent - fraction)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub exponent: i32,
    pub significand: i64,
    pub fraction: i32,
}

impl Term {
    /// The product of two finite operands, unnormalised; `fraction` is the sum of their fraction bits.
    pub fn product(a: Unpacked, b: Unpacked, fraction: i32, zeros: ZeroPolicy) -> Self {
        let ((ea, ma), (eb, mb)) = (operand(a, zeros), operand(b, zeros));
        Self { exponent: ea + eb, significand: ma * mb, fraction }
    }

    /// A finite operand by itself.
    pub fn single(value: Unpacked, fraction: u32, zeros: ZeroPolicy) -> Self {
        let (exponent, significand) = operand(value, zeros);
        Self { exponent, significand, fraction: fraction as i32 }
    }
}

/// Exponent and signed significand of a finite operand, zeros by the policy.
pub(super) fn operand(value: Unpacked, zeros: ZeroPolicy) -> (i32, i64) {
    let Unpacked::Finite { negative, significand, exponent } = value else {
        unreachable!("specials were resolved before the sum");
    };
    let exponent = if significand == 0 && zeros == ZeroPolicy::SentinelMinus126 { -126 } else { exponent };
    (exponent, if negative { -(significand as i64) } else { significand as i64 })
}

/// The largest exponent of the terms that take part, `None` if none does.
pub(super) fn largest(terms: &[Term], zeros: ZeroPolicy) -> Option<i32> {
    let takes_part = |t: &&Term| zeros == ZeroPolicy::SentinelMinus126 || t.significand != 0;
    terms.iter().filter(takes_part).map(|t| t.exponent).max()
}

/// The terms in units of `2^(exponent - fraction)`, each rounded toward zero by itself, summed.
pub(super) fn truncated_sum(terms: &[Term], exponent: i32, fraction: i32) -> i64 {
    terms.iter().map(|t| truncate(t.significand, fraction - t.fraction + t.exponent - exponent)).sum()
}

/// The whole of a fused step whose terms are all aligned together: the sum and the exponent of its unit, `None` if no term takes part.
pub(super) fn fused_sum(terms: &[Term], fraction: i32, zeros: ZeroPolicy, floor: Option<i32>) -> Option<(i64, i32)> {
    let mut exponent = largest(terms, zeros)?;
    if let (ZeroPolicy::Exclude, Some(floor)) = (zeros, floor) {
        exponent = exponent.max(floor);
    }
    Some((truncated_sum(terms, exponent, fraction), exponent - fraction))
}

/// `value * 2^shift`, rounded toward zero. Zero has no bits to lose: its exponent may lie anywhere.
pub(super) fn truncate(value: i64, shift: i32) -> i64 {
    match shift {
        _ if value == 0 => 0,
        0.. => value << shift,
        -63..0 => value.signum() * (value.abs() >> -shift),
        _ => 0,
    }
}

/// `value * 2^shift`, rounded toward minus infinity.
pub(super) fn floor(value: i64, shift: i32) -> i64 {
    match shift {
        _ if value == 0 => 0,
        0.. => value << shift,
        -63..0 => value >> -shift,
        _ => value >> 63,
    }
}
