//! `cvt` between float formats, and the packed forms.

use super::float::{Bf16, Class, F16, F32, Format, inf, nan, round_pack, unpack, zero};
use super::{Mods, Rounding};

/// `a` of format `S` as a float of format `D`.
///
/// # Bits
/// One rounding; exact where `D` holds all values of `S`. `mods.ftz` flushes a subnormal operand and a subnormal result.
/// NaN becomes the canonical NaN of `D` (for f64, `7fffffffffffffff`).
#[must_use]
pub fn convert<S: Format, D: Format>(a: S::Bits, mods: Mods) -> D::Bits {
    let x = unpack::<S>(a, mods.ftz);
    match x.class {
        Class::Nan => nan::<D>(&[D::narrow(D::NAN)], mods),
        Class::Inf => inf::<D>(x.sign, mods),
        Class::Zero => zero::<D>(x.sign, mods),
        Class::Finite(m) => round_pack::<D>(x.sign, m, mods),
    }
}

/// `cvt.satfinite`: as [`convert`], but what overflows (infinities included) becomes the largest finite number of its
/// sign. NaN stays NaN.
#[must_use]
pub fn convert_satfinite<S: Format, D: Format>(a: S::Bits, mods: Mods) -> D::Bits {
    let bits = D::widen(convert::<S, D>(a, mods));
    D::narrow(if bits & !D::SIGN == D::INF { bits - 1 } else { bits })
}

/// `cvt.{f16x2,bf16x2}.f32 d, high, low`: the first source in the upper half.
#[must_use]
pub fn pack2<D: Format<Bits = u16>>(high: u32, low: u32, mods: Mods) -> u32 {
    u32::from(convert::<F32, D>(high, mods)) << 16 | u32::from(convert::<F32, D>(low, mods))
}

/// `cvt.f32.f16`: exact.
#[must_use]
pub fn widen_f16(a: u16) -> u32 {
    convert::<F16, F32>(a, Mods::RN)
}

/// `cvt.f32.bf16`: exact, NaN canonical.
#[must_use]
pub fn widen_bf16(a: u16) -> u32 {
    convert::<Bf16, F32>(a, Mods::RN)
}

/// `cvt.{rna,rn,rz}.tf32.f32`: 10 fraction bits are kept, the low 13 bits of the result are zero.
///
/// # Bits
/// Rounding works on the magnitude, ties as the mode says; overflow of a nearest mode gives infinity; NaN is `7fffffff`
/// (a NaN with its low 13 bits cleared stays a NaN).
#[must_use]
pub fn tf32_from_f32(a: u32, rounding: Rounding) -> u32 {
    const LOST: u32 = 13;
    let magnitude = a & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0x7fff_ffff;
    }
    let low = magnitude & ((1 << LOST) - 1);
    let kept = magnitude >> LOST;
    let half = 1 << (LOST - 1);
    let sign = a & 0x8000_0000;
    let up = match rounding {
        Rounding::Rna => low >= half,
        Rounding::Rn => low > half || (low == half && kept & 1 == 1),
        Rounding::Rz => false,
        Rounding::Rm => sign != 0 && low != 0,
        Rounding::Rp => sign == 0 && low != 0,
    };
    // A carry out of the fraction moves into the exponent, and from the largest one to infinity, as it must.
    sign | (kept + u32::from(up)) << LOST
}
