//! `MUFU.RSQ`, the reciprocal square root.

use super::datapath::RSQ;
use super::{FRACTION, INF, LEADING, MufuTables, NAN, Reduced, SIGN, evaluate};

/// `1 / sqrt(x)` as `rsqrt.approx.ftz.f32` gives it.
///
/// # Bits
/// Within 2 ulp; exact for powers of four. Zeros and subnormals give an infinity of their sign, other negative operands
/// and NaN `7fffffff`, `+inf` gives `+0`.
#[must_use]
pub fn rsq(tables: &MufuTables, x: u32) -> u32 {
    evaluate(reduce(x), &RSQ, &tables.rsq)
}

/// What the interpolator gets, or the result of an operand that does not reach it.
pub(super) fn reduce(x: u32) -> Result<Reduced, u32> {
    let (sign, magnitude) = (x & SIGN, x & !SIGN);
    match magnitude {
        0x7f80_0001.. => Err(NAN),
        0..LEADING => Err(sign | INF),
        _ if sign != 0 => Err(NAN),
        INF => Err(0),
        _ => {
            let power = (magnitude >> 23) as i32 - 127;
            let fraction = magnitude & FRACTION | if power & 1 == 1 { LEADING } else { 0 };
            let exponent = 126 - power.div_euclid(2);
            if fraction == 0 {
                return Err(((exponent + 1) as u32) << 23); // a power of four
            }
            Ok(Reduced { sign: 0, exponent, fraction })
        }
    }
}
