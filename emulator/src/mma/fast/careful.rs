//! The careful path: one column in f64, for whatever leaves the window.
//!
//! f64 holds every product of two operands (at most 48 bits), every power of two in reach and every sum of truncated terms exactly, so
//! again no rounding decides a bit. Infinities and NaNs need no case of their own: IEEE rules give a sum that is NaN or an infinity
//! exactly when the specification does.

use super::kernel::NO_TERM;
use super::operand::WORD_BIAS;
use crate::mma::{TFdpa, ZeroPolicy};
use crate::round::rz32;

/// One column: inputs and result.
pub(super) struct Work<'a> {
    params: &'a TFdpa,
    terms: usize,
    /// f32 bits of A by k, lanes are rows.
    pub a: [[u32; 16]; 16],
    /// f32 bits of B by k.
    pub b: [u32; 16],
    /// f32 bits of C.
    pub c: [u32; 16],
    /// Largest exponent of the products plus twice [`WORD_BIAS`], or below [`NO_TERM`] if there is none.
    pub words: [u32; 16],
    /// The result.
    pub d: [u32; 16],
}

impl<'a> Work<'a> {
    #[inline(always)]
    pub(super) fn new(params: &'a TFdpa, terms: usize) -> Self {
        Self { params, terms, a: [[0; 16]; 16], b: [0; 16], c: [0; 16], words: [0; 16], d: [0; 16] }
    }
}

/// An exponent below every other: no term.
const NONE: i32 = -10_000;

/// `2^exponent`, for exponents of normal f64.
#[inline(always)]
fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// Computes `work.d`.
#[inline(always)]
pub(super) fn column(work: &mut Work<'_>) {
    let TFdpa { fraction, zeros, floor, .. } = *work.params;
    let sentinel = zeros == ZeroPolicy::SentinelMinus126;
    let floor = if sentinel { NONE } else { floor.unwrap_or(NONE) };
    let zero_exponent = if sentinel { -126 } else { NONE };
    let mut scale = [0; 16];
    for r in 0..16 {
        let products = if work.words[r] < NO_TERM { NONE } else { work.words[r] as i32 - 2 * WORD_BIAS as i32 };
        let magnitude = work.c[r] & 0x7fff_ffff;
        let accumulator = if magnitude == 0 { zero_exponent } else { (magnitude >> 23).max(1) as i32 - 127 };
        let largest = products.max(accumulator);
        // Without a term every summand is a zero, so any scale will do.
        scale[r] = fraction - if largest == NONE { 0 } else { largest.max(floor) };
    }
    let mut sums = [0.0; 16];
    for r in 0..16 {
        sums[r] = (f64::from(f32::from_bits(work.c[r])) * power(scale[r])).trunc();
    }
    for k in 0..work.terms {
        let b = f64::from(f32::from_bits(work.b[k]));
        for r in 0..16 {
            sums[r] += (f64::from(f32::from_bits(work.a[k][r])) * b * power(scale[r])).trunc();
        }
    }
    for r in 0..16 {
        work.d[r] = convert(sums[r], scale[r]);
    }
}

/// `sum * 2^-scale` as f32, toward zero; `sum` is an integer below 2^53, an infinity or NaN.
#[inline(always)]
fn convert(sum: f64, scale: i32) -> u32 {
    let bits = (sum * power(-scale)).to_bits();
    let sign = (bits >> 32) as u32 & 0x8000_0000;
    let field = (bits >> 52 & 0x7ff) as i32 - (1023 - 127);
    if (1..255).contains(&field) {
        return sign | (field as u32) << 23 | (bits >> 29) as u32 & 0x007f_ffff;
    }
    if sum.is_nan() {
        0x7fff_ffff
    } else if field >= 255 {
        sign | 0x7f80_0000
    } else {
        rz32(sum as i128, -scale)
    }
}
