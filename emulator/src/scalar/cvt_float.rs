//! `cvt` between float formats, and the packed forms. TF32 is [`crate::format::f32_to_tf32`].

use super::Mods;
use super::float::{Bf16, Class, F16, F32, Ieee, inf, nan, round_pack, unpack, zero};

/// `a` of format `S` as a float of format `D`.
///
/// # Bits
/// One rounding; exact where `D` holds all values of `S`. `mods.ftz` flushes a subnormal operand and a subnormal result.
/// NaN becomes the canonical NaN of `D` (for f64, `7fffffffffffffff`).
#[must_use]
pub fn convert<S: Ieee, D: Ieee>(a: S::Bits, mods: Mods) -> D::Bits {
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
pub fn convert_satfinite<S: Ieee, D: Ieee>(a: S::Bits, mods: Mods) -> D::Bits {
    let bits = D::widen(convert::<S, D>(a, mods));
    D::narrow(if bits & !D::SIGN == D::INF { bits - 1 } else { bits })
}

/// `cvt.{f16x2,bf16x2}.f32 d, high, low`: the first source in the upper half.
#[must_use]
pub fn pack2<D: Ieee<Bits = u16>>(high: u32, low: u32, mods: Mods) -> u32 {
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
