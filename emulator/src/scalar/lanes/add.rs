//! `add.rn.f32` and `sub.rn.f32` of a warp.

use super::{INF, MIN_NORMAL, NAN, SIGN, flush, round_join, shift_sticky, warp_fn};

warp_fn! {
    /// `add.rn.f32`, or `add.rn.ftz.f32` with `FTZ`.
    ///
    /// # Bits
    /// [`scalar::add`](crate::scalar::add) in every lane.
    pub fn add_rn<const FTZ: bool>(a, b) = lane::<FTZ>;
}

warp_fn! {
    /// `sub.rn.f32`, or `sub.rn.ftz.f32` with `FTZ`.
    ///
    /// # Bits
    /// [`scalar::sub`](crate::scalar::sub) in every lane.
    pub fn sub_rn<const FTZ: bool>(a, b) = |x, y: u32| lane::<FTZ>(x, y ^ SIGN);
}

#[inline(always)]
fn lane<const FTZ: bool>(a: u32, b: u32) -> u32 {
    let (a, b) = (flush::<FTZ>(a), flush::<FTZ>(b));
    // Signed comparison: magnitudes have 31 bits, and AVX2 has no unsigned one.
    let swap = ((a & !SIGN) as i32) < (b & !SIGN) as i32;
    let (large, small) = if swap { (b, a) } else { (a, b) };
    let (x, y) = (large & !SIGN, small & !SIGN);
    let (ex, ey) = ((x >> 23).max(1), (y >> 23).max(1));
    // 24-bit significands with their leading one at bit 30.
    let mx = (x - ((ex - 1) << 23)) << 7;
    let my = shift_sticky((y - ((ey - 1) << 23)) << 7, (ex - ey).min(31));
    let subtract = ((a ^ b) as i32 >> 31) as u32;
    let sum = mx.wrapping_add((my ^ subtract).wrapping_sub(subtract));
    // Leading one to bit 31, unless that would take the exponent below that of the subnormals.
    let shift = sum.leading_zeros().min(ex);
    let magnitude = round_join(sum << (shift & 31), ex - shift);
    let magnitude = if FTZ && magnitude < MIN_NORMAL { 0 } else { magnitude };
    let finite = if sum == 0 { a & b & SIGN } else { magnitude | large & SIGN };
    let nan = x > INF || (y == INF && subtract != 0);
    let special = if nan { NAN } else { large };
    if x >= INF { special } else { finite }
}
