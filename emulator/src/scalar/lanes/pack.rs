//! Conversions between f32 and packed bf16 of a warp.

use super::{INF, SIGN, warp_fn};

warp_fn! {
    /// `cvt.rn.bf16x2.f32 out, high, low`.
    ///
    /// # Bits
    /// [`scalar::pack2`](crate::scalar::pack2) to bf16, to nearest even, in every lane.
    pub fn pack_bf16x2_rn(high, low) = |x, y| bf16_rn(x) << 16 | bf16_rn(y);
}

warp_fn! {
    /// The low bf16 of each register as f32.
    ///
    /// # Bits
    /// A move of bits, as kernels do it with `shl` and `and`: NaN payloads are kept.
    pub fn widen_bf16_low(a) = |x| x << 16;
}

warp_fn! {
    /// The high bf16 of each register as f32.
    ///
    /// # Bits
    /// As [`widen_bf16_low`].
    pub fn widen_bf16_high(a) = |x| x & 0xffff_0000;
}

/// One f32 as bf16, to nearest even; NaN gives `7fff`.
///
/// # Bits
/// Half of [`pack_bf16x2_rn`].
#[must_use]
#[inline(always)]
pub fn bf16_rn(bits: u32) -> u32 {
    // The carry of the rounding runs into the exponent, and from the largest one to infinity.
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1))) >> 16;
    if bits & !SIGN > INF { 0x7fff } else { rounded }
}
