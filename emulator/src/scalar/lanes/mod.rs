//! The hot scalar operations over the 32 lanes of a warp.
//!
//! Each is one branch-free integer function of a lane, looped over the warp and compiled once per [`Level`]: the
//! compiler turns it into vector code. The trick they share: a magnitude is added to the exponent field instead of being
//! or-ed into it, so that subnormals, normals and carries need no cases, and sticky bits make 32 bits enough to round.
//!
//! # Bits
//! Equal to the functions of [`scalar`](super), bit-compared on boundary pairs and weighted random operands at every
//! level. Operations that are not here are looped over their reference by the caller.

use crate::simd::{Level, warp_fn};

mod add;
mod compare;
mod fma;
mod mul;
mod pack;
mod select;

pub use crate::simd::Warp;
pub use add::{add_rn, sub_rn};
pub use compare::compare;
pub use fma::fma_rn;
pub use mul::mul_rn;
pub use pack::{bf16_rn, pack_bf16x2_rn, widen_bf16_high, widen_bf16_low};
pub use select::{abs, max, min, neg};

const SIGN: u32 = 0x8000_0000;
const INF: u32 = 0x7f80_0000;
const NAN: u32 = 0x7fff_ffff;
const MIN_NORMAL: u32 = 0x0080_0000;

/// A subnormal magnitude becomes zero of its sign.
#[inline(always)]
fn flush<const FTZ: bool>(bits: u32) -> u32 {
    if FTZ && bits & !SIGN < MIN_NORMAL { bits & SIGN } else { bits }
}

/// `value >> count` with the lost bits or-ed into bit 0; `count` below 32.
#[inline(always)]
fn shift_sticky(value: u32, count: u32) -> u32 {
    let kept = value >> (count & 31);
    kept | u32::from(kept << (count & 31) != value)
}

/// Rounds to nearest even and joins significand and exponent.
///
/// `q` holds the significand with its leading one at bit 31 (lower for a subnormal, which has `field == 0`), sticky in
/// bit 0; `field` is the biased exponent less one.
#[inline(always)]
fn round_join(q: u32, field: u32) -> u32 {
    let kept = q >> 8;
    let lost = q & 0xff;
    let up = u32::from(lost + (kept & 1) > 0x80);
    ((field << 23) + kept + up).min(INF)
}
