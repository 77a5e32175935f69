//! `MUFU.LG2`, the base-2 logarithm.

use super::datapath::LG2;
use super::{FRACTION, INF, LEADING, MufuTables, NAN, ONE, SIGN};

/// Fraction bits of the fixed-point logarithm.
pub(super) const FIXED_BITS: u32 = 36;

/// `log2(x)` as `lg2.approx.ftz.f32` gives it.
///
/// # Bits
/// Within `2^-22`. The fixed-point sum of exponent and interpolated fraction is truncated to 24 significant bits;
/// negative sums are negated by one's complement. Zeros and subnormals give `-inf`, other negative operands and NaN
/// `7fffffff`, `+inf` gives `+inf`, 1 gives `+0`.
#[must_use]
pub fn lg2(tables: &MufuTables, x: u32) -> u32 {
    match reduce(x) {
        Ok((power, fraction)) => {
            let (segment, r) = LG2.split(fraction);
            normalise(power + LG2.interpolate(tables.lg2.row(segment), r))
        }
        Err(special) => special,
    }
}

/// The exponent in fixed point and the fraction, or the result of an operand that does not reach the interpolator.
pub(super) fn reduce(x: u32) -> Result<(i64, u32), u32> {
    let (sign, magnitude) = (x & SIGN, x & !SIGN);
    match magnitude {
        0x7f80_0001.. => Err(NAN),
        0..LEADING => Err(SIGN | INF),
        _ if sign != 0 => Err(NAN),
        INF => Err(INF),
        ONE => Err(0),
        _ => Ok(((i64::from(magnitude >> 23) - 127) << FIXED_BITS, magnitude & FRACTION)),
    }
}

/// A fixed-point logarithm as f32.
fn normalise(fixed: i64) -> u32 {
    let (sign, magnitude) = if fixed < 0 { (SIGN, !fixed) } else { (0, fixed) };
    if magnitude == 0 {
        return sign;
    }
    let top = magnitude.ilog2();
    let significand = if top >= 23 { magnitude >> (top - 23) } else { magnitude << (23 - top) };
    sign | (127 + top - FIXED_BITS) << 23 | significand as u32 & FRACTION
}
