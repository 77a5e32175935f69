//! Rounding and packing: the one place where an exact integer becomes a floating-point bit pattern.
//!
//! [`pack`] rounds any exact value once into any [`Format`]. The three final conversions of fused dot-adds ([`rz32`], [`rne16`],
//! [`rne32`], `gpu-arithmetic` section 2.3) are that routine with the rules silicon adds: the result zero is always `+0`, and rounding
//! toward zero overflows to infinity.

use crate::format::{E8M13, F16, F32, Format, Specials};

/// A rounding direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To nearest, ties to even (`.rn`).
    NearestEven,
    /// To nearest, ties away from zero (`.rna`).
    NearestAway,
    /// Toward zero (`.rz`).
    TowardZero,
    /// Toward minus infinity (`.rm`).
    Down,
    /// Toward plus infinity (`.rp`).
    Up,
}

/// What a rounded value beyond the largest finite number becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// IEEE: infinity if the rounding mode points away from zero there, else the largest finite number.
    ByRounding,
    /// Infinity whatever the rounding mode (final conversions of tensor cores).
    Infinity,
    /// The largest finite number (`.satfinite`).
    Saturate,
}

/// Rounds `(-1)^negative * significand * 2^scale` into `format`, once.
///
/// A format without infinity gives its NaN instead, and one with neither its largest finite number. A zero keeps the sign asked for,
/// except in the formats that have no negative zero.
///
/// **Bits.** Exact for every 128-bit significand and every scale within ±2^30. Checked against `rustc_apfloat` in all modes.
#[must_use]
pub fn pack(
    format: &Format,
    negative: bool,
    significand: u128,
    scale: i32,
    rounding: Rounding,
    overflow: Overflow,
) -> u64 {
    debug_assert!(
        !matches!(format.specials, Specials::PowerOfTwo | Specials::Integer),
        "UE8M0 has neither zero nor fraction, integers have no exponent: their conversions are `cvt`'s"
    );
    let fraction_bits = format.fraction_bits as i32;
    let sign = if format.signed { u64::from(negative) << (format.exponent_bits + format.fraction_bits) } else { 0 };
    if significand == 0 {
        return finish(format, sign, 0);
    }
    let top = 127 - significand.leading_zeros() as i32;
    let exponent = (top + scale).max(format.min_exponent());
    // The result in units of 2^(exponent - p); one bit of headroom for the carry of rounding.
    let shift = exponent - fraction_bits - scale;
    let rounded =
        if shift <= 0 { significand << -shift } else { shift_right(significand, shift as u32, negative, rounding) };
    // `rounded` is at most 2^(p+1), so it fits; adding it to the exponent field lets a carry renormalise by itself.
    let rounded = rounded as u64;
    if exponent + format.bias >= 1 << format.exponent_bits {
        return overflowed(format, sign, negative, rounding, overflow);
    }
    let magnitude = (((exponent + format.bias - 1) as u64) << format.fraction_bits) + rounded;
    if magnitude > format.max_magnitude() {
        overflowed(format, sign, negative, rounding, overflow)
    } else {
        finish(format, sign, magnitude)
    }
}

fn finish(format: &Format, sign: u64, magnitude: u64) -> u64 {
    if magnitude == 0 && format.specials == Specials::NegativeZeroNan {
        return 0;
    }
    (sign | magnitude) << format.ignored_bits
}

fn overflowed(format: &Format, sign: u64, negative: bool, rounding: Rounding, overflow: Overflow) -> u64 {
    let away = match rounding {
        Rounding::NearestEven | Rounding::NearestAway => true,
        Rounding::TowardZero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    };
    let infinite = overflow == Overflow::Infinity || (overflow == Overflow::ByRounding && away);
    match (infinite, format.specials, format.canonical_nan()) {
        (true, Specials::Ieee, _) => finish(format, sign, format.max_magnitude() + 1),
        (true, _, Some(nan)) => nan,
        _ => finish(format, sign, format.max_magnitude()),
    }
}

/// `value * 2^-shift` rounded to an integer; `shift > 0`.
pub(crate) fn shift_right(value: u128, shift: u32, negative: bool, rounding: Rounding) -> u128 {
    let (quotient, rest, half) = if shift >= 128 {
        // Below one half, except that a shift of exactly 128 has its half at 2^127.
        (0, value, if shift == 128 { Some(1_u128 << 127) } else { None })
    } else {
        (value >> shift, value & ((1 << shift) - 1), Some(1 << (shift - 1)))
    };
    let up = match rounding {
        Rounding::TowardZero => false,
        Rounding::Down => negative && rest != 0,
        Rounding::Up => !negative && rest != 0,
        Rounding::NearestAway => half.is_some_and(|half| rest >= half),
        Rounding::NearestEven => half.is_some_and(|half| rest > half || (rest == half && quotient & 1 == 1)),
    };
    quotient + u128::from(up)
}

fn fused(format: &Format, sum: i128, scale: i32, rounding: Rounding) -> u64 {
    let bits = pack(format, sum < 0, sum.unsigned_abs(), scale, rounding, Overflow::Infinity);
    // A fused operation never returns -0, whether the sum is zero or a negative one underflows.
    let sign = 1_u64 << (format.width - 1);
    if bits == sign { 0 } else { bits }
}

/// The f32 nearest `sum * 2^scale` toward zero; overflow gives infinity, zero is always `+0`.
#[must_use]
pub fn rz32(sum: i128, scale: i32) -> u32 {
    fused(&F32, sum, scale, Rounding::TowardZero) as u32
}

/// As [`rz32`] with 13 fraction bits: the result of FP8 sums on Ada and Hopper.
#[must_use]
pub fn rz_e8m13(sum: i128, scale: i32) -> u32 {
    fused(&E8M13, sum, scale, Rounding::TowardZero) as u32
}

/// The f16 nearest `sum * 2^scale`, ties to even; overflow gives infinity, zero is always `+0`.
#[must_use]
pub fn rne16(sum: i128, scale: i32) -> u16 {
    fused(&F16, sum, scale, Rounding::NearestEven) as u16
}

/// As [`rne16`], except that a negative sum which underflows to zero gives `-0`. A zero sum still gives `+0`.
#[must_use]
pub fn rne16_signed(sum: i128, scale: i32) -> u16 {
    pack(&F16, sum < 0, sum.unsigned_abs(), scale, Rounding::NearestEven, Overflow::Infinity) as u16
}

/// The f32 nearest `sum * 2^scale`, ties to even; overflow gives infinity, a negative sum that underflows `-0`, a zero sum `+0`.
#[must_use]
pub fn rne32_signed(sum: i128, scale: i32) -> u32 {
    pack(&F32, sum < 0, sum.unsigned_abs(), scale, Rounding::NearestEven, Overflow::Infinity) as u32
}

/// The f32 nearest `sum * 2^scale`, ties to even; overflow gives infinity, zero is always `+0`.
#[must_use]
pub fn rne32(sum: i128, scale: i32) -> u32 {
    fused(&F32, sum, scale, Rounding::NearestEven) as u32
}

#[cfg(test)]
mod tests;
