//! The interpolator of the special function unit.
//!
//! For segment `i` with coefficients `(a, b, c)` and remainder `r` the unit forms
//!
//! ```text
//! S = a * 2^a_shift + b * r + c * square(r) * 2^c_shift + bias          result = S >> shift
//! ```
//!
//! The functions differ only in the constants ([`Datapath`]). Source: `specs/gpu-arithmetic.md` 6.2-6.6 and
//! `specs/kernel-recipes.md` 2.1.

use super::Row;

/// The constants of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datapath {
    /// Number of segments.
    pub segments: usize,
    /// Bits of the remainder `r`.
    pub remainder_bits: u32,
    /// Shift of the constant coefficient.
    pub a_shift: u32,
    /// Shift of the quadratic term.
    pub c_shift: u32,
    /// Shift that widens the remainder to the 17 bits of the squarer.
    pub square_shift: u32,
    /// Rounding constant.
    pub bias: i64,
    /// Final right shift.
    pub shift: u32,
}

/// RCP: the upper 7 fraction bits choose the segment.
pub const RCP: Datapath =
    Datapath { segments: 128, remainder_bits: 16, a_shift: 13, c_shift: 0, square_shift: 1, bias: 0x47e7, shift: 15 };
/// RSQ: the parity of the exponent and the upper 6 fraction bits choose the segment.
pub const RSQ: Datapath =
    Datapath { segments: 128, remainder_bits: 17, a_shift: 14, c_shift: 2, square_shift: 0, bias: 0x7fff, shift: 16 };
/// EX2: the upper 6 of 23 fraction bits choose the segment.
pub const EX2: Datapath =
    Datapath { segments: 64, remainder_bits: 17, a_shift: 13, c_shift: 0, square_shift: 0, bias: 0x77e2, shift: 15 };
/// LG2: the upper 6 fraction bits choose the segment.
pub const LG2: Datapath =
    Datapath { segments: 64, remainder_bits: 17, a_shift: 12, c_shift: 1, square_shift: 0, bias: 0x3345, shift: 2 };
/// SIN and COS: the upper 6 of 23 fraction bits of a quadrant choose the segment. Neither rounded nor shifted: the sum
/// itself is normalised and truncated.
pub const SIN: Datapath =
    Datapath { segments: 64, remainder_bits: 17, a_shift: 11, c_shift: 0, square_shift: 0, bias: 0, shift: 0 };

impl Datapath {
    /// Splits a fraction (RSQ: with the parity bit above it) into segment and remainder.
    #[must_use]
    pub fn split(&self, fraction: u32) -> (usize, u32) {
        ((fraction >> self.remainder_bits) as usize, fraction & ((1 << self.remainder_bits) - 1))
    }

    /// The squared remainder as it enters the sum: truncated, and shifted by `c_shift`.
    #[must_use]
    pub fn quadratic(&self, r: u32) -> i64 {
        i64::from(square(r << self.square_shift)) << self.c_shift
    }

    /// The sum `S` before the final shift.
    #[must_use]
    pub fn sum(&self, row: Row, r: u32) -> i64 {
        (i64::from(row.a) << self.a_shift)
            + i64::from(row.b) * i64::from(r)
            + i64::from(row.c) * self.quadratic(r)
            + self.bias
    }

    /// The interpolated value `S >> shift`.
    #[must_use]
    pub fn interpolate(&self, row: Row, r: u32) -> i64 {
        self.sum(row, r) >> self.shift
    }
}

/// The truncated squarer: about `v^2 / 2^19` for a 17-bit `v`.
///
/// # Bits
/// Each of the 17 partial products is truncated by itself; this is not `v * v >> 19`.
#[must_use]
pub fn square(v: u32) -> u32 {
    debug_assert!(v < 1 << 17);
    let sum: u32 = (0..17).filter(|i| v >> i & 1 == 1).map(|i| v >> (18 - i)).sum();
    sum >> 1
}
