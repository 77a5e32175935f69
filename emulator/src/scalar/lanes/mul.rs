//! `mul.rn.f32` of a warp.

use super::{INF, MIN_NORMAL, NAN, SIGN, flush, round_join, shift_sticky, warp_fn};

warp_fn! {
    /// `mul.rn.f32`, or `mul.rn.ftz.f32` with `FTZ`.
    ///
    /// # Bits
    /// [`scalar::mul`](crate::scalar::mul) in every lane.
    pub fn mul_rn<const FTZ: bool>(a, b) = lane::<FTZ>;
}

/// Biased exponent and 24-bit significand with its leading one at bit 23, also of subnormals.
#[inline(always)]
pub(super) fn split<const FTZ: bool>(magnitude: u32) -> (i32, u32) {
    if FTZ {
        return ((magnitude >> 23) as i32, magnitude & (MIN_NORMAL - 1) | MIN_NORMAL);
    }
    let exponent = (magnitude >> 23).max(1);
    let significand = magnitude - ((exponent - 1) << 23);
    let shift = significand.leading_zeros() - 8;
    (exponent as i32 - shift as i32, significand << (shift & 31))
}

#[inline(always)]
fn lane<const FTZ: bool>(a: u32, b: u32) -> u32 {
    let (a, b) = (flush::<FTZ>(a), flush::<FTZ>(b));
    let sign = (a ^ b) & SIGN;
    let (x, y) = (a & !SIGN, b & !SIGN);
    let ((ex, mx), (ey, my)) = (split::<FTZ>(x), split::<FTZ>(y));
    let product = u64::from(mx) * u64::from(my);
    // 48 bits to 32 with a sticky bit, then the leading one to bit 31.
    let q = (product >> 16) as u32 | u32::from(product as u32 & 0xffff != 0);
    let short = (q >> 31) ^ 1;
    let exponent = ex + ey - 126 - short as i32;
    let below = (1 - exponent).clamp(0, 31) as u32;
    let magnitude = round_join(shift_sticky(q << short, below), (exponent.max(1) - 1) as u32);
    let magnitude = if FTZ && magnitude < MIN_NORMAL { 0 } else { magnitude };
    let (small, large) = (x.min(y), x.max(y));
    let finite = if small == 0 { sign } else { sign | magnitude };
    let special = if large > INF || small == 0 { NAN } else { sign | INF };
    if large >= INF { special } else { finite }
}
