//! Conversions between f32 and the 16-bit and TF32 formats.
//!
//! Widening is exact. Narrowing rounds once, keeps subnormals, and turns every NaN into the canonical one.

use super::{BF16, F16, F32, Format, TF32, Unpacked};
use crate::round::{Overflow, Rounding, pack};

/// f32 bits to another format's bits.
///
/// **Bits.** One rounding of the exact value, gradual underflow, sign of zero kept, infinities kept where the format has them (else
/// `overflow` decides), NaN to the canonical NaN (for a format without NaN: the largest finite number, positive, as `cvt` does).
#[must_use]
pub fn narrow_f32(bits: u32, to: &Format, rounding: Rounding, overflow: Overflow) -> u64 {
    match F32.unpack(u64::from(bits)) {
        Unpacked::Nan => to.canonical_nan().unwrap_or(to.max_magnitude()),
        Unpacked::Infinite { negative } => {
            // An infinity is not an overflow: only saturation takes it away.
            let overflow = if overflow == Overflow::Saturate { overflow } else { Overflow::Infinity };
            pack(to, negative, 1, i32::MAX / 2, rounding, overflow)
        }
        Unpacked::Finite { negative, significand, exponent } => {
            pack(to, negative, u128::from(significand), exponent - F32.fraction_bits as i32, rounding, overflow)
        }
    }
}

/// Bits of a format no wider than f32 to f32 bits, exactly. NaN gives `7fffffff`.
#[must_use]
pub fn widen_to_f32(bits: u64, from: &Format) -> u32 {
    debug_assert!(from.exponent_bits <= F32.exponent_bits && from.fraction_bits <= F32.fraction_bits);
    match from.unpack(bits) {
        Unpacked::Nan => 0x7fff_ffff,
        Unpacked::Infinite { negative } => u32::from(negative) << 31 | 0x7f80_0000,
        Unpacked::Finite { negative, significand, exponent } => {
            let scale = exponent - from.fraction_bits as i32;
            pack(&F32, negative, u128::from(significand), scale, Rounding::NearestEven, Overflow::Infinity) as u32
        }
    }
}

/// f32 to bf16. Overflow follows the rounding mode: to nearest gives infinity, toward zero the largest finite number.
#[must_use]
pub fn f32_to_bf16(bits: u32, rounding: Rounding) -> u16 {
    narrow_f32(bits, &BF16, rounding, Overflow::ByRounding) as u16
}

/// f32 to f16. Overflow follows the rounding mode.
#[must_use]
pub fn f32_to_f16(bits: u32, rounding: Rounding) -> u16 {
    narrow_f32(bits, &F16, rounding, Overflow::ByRounding) as u16
}

/// f32 to TF32, held in 32 bits whose low 13 are zero. NaN gives `7fffffff`, whose low bits the reader of a TF32 operand ignores.
#[must_use]
pub fn f32_to_tf32(bits: u32, rounding: Rounding) -> u32 {
    narrow_f32(bits, &TF32, rounding, Overflow::ByRounding) as u32
}

/// bf16 to f32: the bits move to the upper half. A NaN keeps its payload.
#[must_use]
pub fn bf16_to_f32(bits: u16) -> u32 {
    u32::from(bits) << 16
}

/// f16 to f32, exactly. NaN gives `7fffffff`.
#[must_use]
pub fn f16_to_f32(bits: u16) -> u32 {
    widen_to_f32(u64::from(bits), &F16)
}
