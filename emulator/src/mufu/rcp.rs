//! `MUFU.RCP`, the reciprocal.

use super::datapath::RCP;
use super::{FRACTION, INF, LEADING, MufuTables, NAN, Reduced, SIGN, evaluate};

/// `1 / x` as `rcp.approx.ftz.f32` gives it.
///
/// # Bits
/// Within 1 ulp. Subnormal operands count as zero of their sign and give an infinity of it; subnormal results are
/// flushed; infinities give zero of their sign; NaN gives `7fffffff`.
#[must_use]
pub fn rcp(tables: &MufuTables, x: u32) -> u32 {
    evaluate(reduce(x), &RCP, &tables.rcp)
}

/// What the interpolator gets, or the result of an operand that does not reach it.
pub(super) fn reduce(x: u32) -> Result<Reduced, u32> {
    let (sign, magnitude) = (x & SIGN, x & !SIGN);
    match magnitude {
        0x7f80_0001.. => Err(NAN),
        INF => Err(sign),
        0..LEADING => Err(sign | INF),
        _ => Ok(Reduced { sign, exponent: 253 - (magnitude >> 23) as i32, fraction: magnitude & FRACTION }),
    }
}
