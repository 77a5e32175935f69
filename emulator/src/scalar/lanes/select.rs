//! `min.f32`, `max.f32`, `abs.f32` and `neg.f32` of a warp.

use super::{INF, NAN, SIGN, flush, warp_fn};

warp_fn! {
    /// `max.f32`, or `max.ftz.f32` with `FTZ`.
    ///
    /// # Bits
    /// [`scalar::max`](crate::scalar::max) without `.NaN` in every lane.
    pub fn max<const FTZ: bool>(a, b) = |x, y| pick::<FTZ>(x, y, |p, q| p >= q);
}

warp_fn! {
    /// `min.f32`, or `min.ftz.f32` with `FTZ`.
    ///
    /// # Bits
    /// [`scalar::min`](crate::scalar::min) without `.NaN` in every lane.
    pub fn min<const FTZ: bool>(a, b) = |x, y| pick::<FTZ>(x, y, |p, q| p <= q);
}

warp_fn! {
    /// `abs.f32`, or `abs.ftz.f32` with `FTZ`.
    ///
    /// # Bits
    /// [`scalar::abs`](crate::scalar::abs) in every lane.
    pub fn abs<const FTZ: bool>(a) = |x| canonical(flush::<FTZ>(x) & !SIGN);
}

warp_fn! {
    /// `neg.f32`, or `neg.ftz.f32` with `FTZ`.
    ///
    /// # Bits
    /// [`scalar::neg`](crate::scalar::neg) in every lane.
    pub fn neg<const FTZ: bool>(a) = |x| canonical(flush::<FTZ>(x) ^ SIGN);
}

#[inline(always)]
fn canonical(bits: u32) -> u32 {
    if bits & !SIGN > INF { NAN } else { bits }
}

#[inline(always)]
fn pick<const FTZ: bool>(a: u32, b: u32, first: impl Fn(i32, i32) -> bool) -> u32 {
    let (a, b) = (flush::<FTZ>(a), flush::<FTZ>(b));
    let chosen = if first(order(a), order(b)) { a } else { b };
    let (a_nan, b_nan) = (a & !SIGN > INF, b & !SIGN > INF);
    let other = if b_nan { a } else { b };
    let nan = if a_nan && b_nan { NAN } else { other };
    if a_nan || b_nan { nan } else { chosen }
}

/// Orders bit patterns as their values, `-0` just below `+0`: flips the magnitude bits of negative numbers.
#[inline(always)]
fn order(bits: u32) -> i32 {
    bits as i32 ^ ((bits as i32 >> 31) & i32::MAX)
}
