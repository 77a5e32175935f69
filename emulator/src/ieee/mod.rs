//! Kernels of IEEE operations alone, as a processor computes them: the same bits as on any GPU, many values at a time.
//!
//! The engine's portable kernels hold no instruction whose result a generation decides; their order of operations is stated there and
//! repeated here. As with [`crate::gemm::Chain`], which is the matrix product of this family, sum, product, quotient, square root and `fma`
//! of IEEE 754 to nearest even *are* the definition and not an approximation of another, so the host's own decide bits here, and every
//! level is compared with the integer code of [`crate::scalar`]. Deliberately missing: whatever is not a step of such a kernel.

#![allow(clippy::needless_range_loop)] // Index loops of constant length read like the lanes they are, and always unroll.

pub mod attention;
mod norm;
mod silu;

pub use norm::rms_norm;
pub use silu::silu_mul;

use crate::scalar::{self, Mods};
use crate::simd::lanes::Lanes;

/// Sixteen words.
type Line = [u32; 16];

const ONE: u32 = 0x3f80_0000;
const MINUS_ONE: u32 = 0xbf80_0000;
const MINUS_INFINITY: u32 = 0xff80_0000;
const HIGH: u32 = 0xffff_0000;
/// `1.5 * 2^23`: adding it rounds to a whole number, in the low bits of the sum.
const MAGIC: u32 = 0x4b40_0000;
/// Coefficients of `2^r` on `|r| <= 1/2`, of `r^6` to `r^0`. Source: kernel-recipes, section 13.
const EXP2: [u32; 7] = [0x3920_fdde, 0x3aaf_9f29, 0x3c1d_96a6, 0x3d63_5774, 0x3e75_fdee, 0x3f31_7218, ONE];

/// Bits of the least `x` whose `2^(x c)` does not vanish: `-125 / c`.
fn floor(c: f32) -> u32 {
    ((-125.0 / f64::from(c)) as f32).to_bits()
}

/// `2^(x c)` for `x <= 0` and `c > 0`, f32 bits.
///
/// # Bits
/// Every step f32, nearest even:
///
/// ```text
/// t = fma(x, c, 12582912);  n = 12582912 - t;  r = fma(x, c, n)
/// p = fma(..fma(fma(c6, r, c5), r, c4).., r, 1)     c6 .. c1 = 3920fdde 3aaf9f29 3c1d96a6 3d635774 3e75fdee 3f317218
/// 2^(x c) = p * f32 of bits (bits(t) << 23) + 3f800000, or +0 where x < rn(-125/c)
/// ```
#[must_use]
pub fn exp2(x: u32, c: f32) -> u32 {
    let fma = |a, b, c| scalar::fma::<scalar::F32>(a, b, c, Mods::RN);
    let scale = c.to_bits();
    if f32::from_bits(x) < f32::from_bits(floor(c)) {
        return 0;
    }
    let t = fma(x, scale, MAGIC);
    let r = fma(x, scale, scalar::sub::<scalar::F32>(MAGIC, t, Mods::RN));
    let p = EXP2[1..].iter().fold(EXP2[0], |p, coefficient| fma(p, r, *coefficient));
    scalar::mul::<scalar::F32>(p, (t << 23).wrapping_add(ONE), Mods::RN)
}

/// [`exp2`], sixteen at a time. A NaN has any payload.
#[inline(always)]
fn exp2_lanes<S: Lanes>(s: S, c: f32, x: S::V) -> S::V {
    let (scale, magic) = (s.splat(c.to_bits()), s.splat(MAGIC));
    let t = s.fma(x, scale, magic);
    let n = s.fma(t, s.splat(MINUS_ONE), magic);
    let r = s.fma(x, scale, n);
    let mut p = s.splat(EXP2[0]);
    for coefficient in &EXP2[1..] {
        p = s.fma(p, r, s.splat(*coefficient));
    }
    let power = s.add(s.shl::<23>(t), s.splat(ONE));
    let p = s.mul(p, power);
    // Among negative numbers more bits are less; NaNs, whose bits are more than those of -inf, stay.
    let (below, nan) = (s.gt_unsigned(x, s.splat(floor(c))), s.gt_unsigned(x, s.splat(MINUS_INFINITY)));
    s.clear(p, below & !nan)
}

/// Low and high halves of words, as f32.
#[inline(always)]
fn widen<S: Lanes>(s: S, pairs: S::V) -> [S::V; 2] {
    [s.shl::<16>(pairs), s.and(pairs, s.splat(HIGH))]
}

/// The sum of 32 lanes, each distance of a butterfly after the other: the same in every lane.
#[inline(always)]
fn butterfly(mut l: [f32; 32]) -> f32 {
    for distance in [16, 8, 4, 2, 1] {
        // (An array of its own: the lanes change together.)
        let mut sums = [0.0; 32];
        for j in 0..32 {
            sums[j] = l[j] + l[j ^ distance];
        }
        l = sums;
    }
    l[0]
}

/// A line of f32 bits as floats.
#[inline(always)]
fn floats(line: &Line) -> [f32; 16] {
    line.map(f32::from_bits)
}
