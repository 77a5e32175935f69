//! `MUFU.EX2`, the base-2 exponential.

use super::datapath::EX2;
use super::{FRACTION, INF, LEADING, MufuTables, NAN, ONE, Reduced, SIGN, evaluate};

/// The magnitude 128.0, at which every result saturates.
pub(super) const LIMIT: u32 = 0x4300_0000;

/// `2^x` as `ex2.approx.ftz.f32` gives it.
///
/// # Bits
/// Within `+1`/`-2` ulp. The operand is first cut to fixed point with 23 fraction bits, so magnitudes below `2^-23` give
/// exactly 1; negative operands are negated by one's complement, which makes them low. `|x| >= 128` gives `+inf` or
/// `+0`, results below `2^-126` give `+0`, NaN gives `7fffffff`.
#[must_use]
pub fn ex2(tables: &MufuTables, x: u32) -> u32 {
    evaluate(reduce(x), &EX2, &tables.ex2)
}

/// What the interpolator gets, or the result of an operand that does not reach it.
pub(super) fn reduce(x: u32) -> Result<Reduced, u32> {
    let (negative, magnitude) = (x & SIGN != 0, x & !SIGN);
    if magnitude > INF {
        return Err(NAN);
    }
    if magnitude >= LIMIT {
        return Err(if negative { 0 } else { INF });
    }
    let fixed = fixed_point(magnitude);
    let (power, fraction) = ((fixed >> 23) as i32, fixed & FRACTION);
    let (power, fraction) = match (negative, fraction) {
        (false, _) => (power, fraction),
        (true, 0) => (-power, 0),
        (true, _) => (-power - 1, !fraction & FRACTION),
    };
    Ok(Reduced { sign: 0, exponent: power + 127, fraction })
}

/// `floor(|x| * 2^23)` for a magnitude below 128.
fn fixed_point(magnitude: u32) -> u32 {
    if magnitude < LEADING {
        return 0;
    }
    let significand = magnitude & FRACTION | LEADING;
    let exponent = (magnitude >> 23) as i32 - (ONE >> 23) as i32;
    if exponent >= 0 { significand << exponent } else { significand.checked_shr(exponent.unsigned_abs()).unwrap_or(0) }
}
