//! `fma.rn.f32` of a warp.

use super::mul::split;
use super::{INF, MIN_NORMAL, NAN, SIGN, flush, round_join, warp_fn};

warp_fn! {
    /// `fma.rn.f32`, or `fma.rn.ftz.f32` with `FTZ`.
    ///
    /// # Bits
    /// [`scalar::fma`](crate::scalar::fma) in every lane.
    pub fn fma_rn<const FTZ: bool>(a, b, c) = lane::<FTZ>;
}

/// Exponent given to zeros: far below every other, so that the other term is aligned to.
const NO_EXPONENT: i32 = -1024;

#[inline(always)]
fn lane<const FTZ: bool>(a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (flush::<FTZ>(a), flush::<FTZ>(b), flush::<FTZ>(c));
    let (product_sign, addend_sign) = ((a ^ b) & SIGN, c & SIGN);
    let (x, y, z) = (a & !SIGN, b & !SIGN, c & !SIGN);
    let ((ex, mx), (ey, my), (ez, mz)) = (split::<FTZ>(x), split::<FTZ>(y), split::<FTZ>(z));
    let (small, large) = (x.min(y), x.max(y));

    // Both terms with their leading one at bit 61 (the product perhaps at 60). 14 low bits of the product and 38 of the
    // addend are zero: an alignment that loses bits leaves at most two leading bits to cancel.
    let product_zero = small == 0;
    let product = if product_zero { 0 } else { (u64::from(mx) * u64::from(my)) << 14 };
    let addend = if z == 0 { 0 } else { u64::from(mz) << 38 };
    let ep = if product_zero { NO_EXPONENT } else { ex + ey - 126 };
    let ec = if z == 0 { NO_EXPONENT } else { ez };
    let addend_leads = ep < ec;
    let (first, second) = if addend_leads { (addend, product) } else { (product, addend) };
    let distance = u64::from(ep.abs_diff(ec).min(63));
    let kept = second >> distance;
    let aligned = kept | u64::from(kept << distance != second);

    let subtract = if product_sign == addend_sign { 0 } else { u64::MAX };
    let sum = first.wrapping_add((aligned ^ subtract).wrapping_sub(subtract));
    let negative = (sum as i64 >> 63) as u64;
    let sum = (sum ^ negative).wrapping_sub(negative);
    let first_sign = if addend_leads { addend_sign } else { product_sign };
    let sign = first_sign ^ (negative as u32 & SIGN);

    // Leading one to bit 63, down again if that is below the normal range, then 64 bits to 32 with a sticky bit.
    let shift = u64::from(sum.leading_zeros());
    let exponent = ep.max(ec) + 2 - shift as i32;
    let below = (1 - exponent).clamp(0, 63) as u64;
    let q = (sum << (shift & 63)) >> below;
    let lost = (q << below) >> (shift & 63) != sum;
    let q = (q >> 32) as u32 | u32::from(q as u32 != 0 || lost);
    let magnitude = round_join(q, (exponent.max(1) - 1) as u32);
    let magnitude = if FTZ && magnitude < MIN_NORMAL { 0 } else { magnitude };
    let finite = if sum == 0 { product_sign & addend_sign } else { magnitude | sign };

    let product_inf = large >= INF;
    let nan = large > INF || z > INF || (product_inf && (product_zero || (z == INF && product_sign != addend_sign)));
    let special = if nan { NAN } else { INF | if product_inf { product_sign } else { addend_sign } };
    if product_inf || z >= INF { special } else { finite }
}
