//! Which units of a GPU a kernel computes with, and the functions that the special-function unit is not asked for.

use ptx::builder::{F32, KernelBuilder};

/// What a kernel may compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Units {
    /// Tensor cores and the special-function unit: the bits are those of a GPU generation.
    Special,
    /// Integers, and f32 operations that IEEE 754 rounds correctly: the bits are the same on every machine.
    Ieee,
}

/// `1.5 * 2^23`: a sum of magnitude below `2^22` with it is rounded to a whole number, which its low bits then are.
const MAGIC: f32 = 12_582_912.0;
/// Coefficients of `2^r` on `|r| <= 1/2`, of `r^6` to `r^1`; that of `r^0` is 1. Source: kernel-recipes, section 13.
const EXP2: [u32; 6] = [0x3920_fdde, 0x3aaf_9f29, 0x3c1d_96a6, 0x3d63_5774, 0x3e75_fdee, 0x3f31_7218];
/// Below this exponent the result is `+0`: one above that of the smallest normal number, so that `x * c` may be rounded.
const LOWEST: f64 = -125.0;

/// The least `x` whose `2^(x c)` is not flushed to `+0`: `-125 / c` in f64, rounded once to f32. `c` is positive.
fn floor(c: f32) -> f32 {
    (LOWEST / f64::from(c)) as f32
}

/// `2^(x c)` for `x <= 0` and a constant `c > 0`.
///
/// # Bits
/// Every step f32, nearest even:
///
/// ```text
/// t = fma(x, c, 12582912);  n = 12582912 - t       n is minus the whole number nearest to x c
/// r = fma(x, c, n)
/// p = fma(..fma(fma(c6, r, c5), r, c4).., r, 1)    c6 .. c1 = 3920fdde 3aaf9f29 3c1d96a6 3d635774 3e75fdee 3f317218
/// 2^(x c) = p * f32 of bits (bits(t) << 23) + 3f800000, or +0 where x < rn(-125/c)
/// ```
///
/// Less than 1.05 ulp from `2^(x c)`, checked against f64 in the kernels' tests. `x = -inf` gives `+0`, `x = +-0` gives 1, NaN gives NaN.
pub(super) fn exp2(k: &mut KernelBuilder, x: F32, c: f32) -> F32 {
    let t = k.fma_rn(x, c, MAGIC);
    let n = k.sub_rn(MAGIC, t);
    let r = k.fma_rn(x, c, n);
    let [first, rest @ ..] = EXP2.map(f32::from_bits);
    let p = k.mov_f32(first);
    for coefficient in rest.into_iter().chain([1.0]) {
        k.fma_rn_into(p, p, r, coefficient);
    }
    // The low bits of `t` hold the whole number: shifted, it is an exponent, to which the bias is added.
    let bits = k.bits_of_f32(t);
    let power = k.shl_b32(bits, 23);
    let power = k.add_u32(power, 1.0_f32.to_bits());
    let power = k.f32_of_bits(power);
    k.mul_rn_into(p, p, power);
    let vanishes = k.setp_lt_f32(x, floor(c));
    k.selp_f32_into(p, 0.0, p, vanishes);
    p
}

/// `1 / sqrt(x)`.
///
/// # Bits
/// [`Units::Special`]: `rsqrt.approx.ftz(x)`. [`Units::Ieee`]: `rcp.rn(sqrt.rn(x))`, two roundings.
pub(super) fn rsqrt(k: &mut KernelBuilder, units: Units, x: F32) -> F32 {
    match units {
        Units::Special => k.rsqrt_approx_ftz(x),
        Units::Ieee => {
            let root = k.sqrt_rn(x);
            k.rcp_rn(root)
        }
    }
}
