//! `cvt` between floats and integers.

use super::float::{Class, Ieee, Magnitude, TOP, round_pack, unpack, zero};
use super::round_int::round_magnitude;
use super::{Mods, Rounding};

/// An integer type of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Int {
    /// Width in bits: 8, 16, 32 or 64.
    pub bits: u32,
    /// Two's complement if true.
    pub signed: bool,
}

impl Int {
    /// `.s32`
    pub const S32: Self = Self { bits: 32, signed: true };
    /// `.u32`
    pub const U32: Self = Self { bits: 32, signed: false };
    /// `.s64`
    pub const S64: Self = Self { bits: 64, signed: true };
    /// `.u64`
    pub const U64: Self = Self { bits: 64, signed: false };
}

/// `a` as an integer of type `int`, in the low `int.bits` bits.
///
/// # Bits
/// Rounded in the given direction, then clamped to the range of the type. NaN gives 0 if the source is not f64 and the
/// destination not 64 bits wide, otherwise only the top bit of the destination.
#[must_use]
pub fn to_int<F: Ieee>(a: F::Bits, int: Int, rounding: Rounding, ftz: bool) -> u64 {
    let x = unpack::<F>(a, ftz);
    let mask = u64::MAX >> (64 - int.bits);
    let top = 1u64 << (int.bits - 1);
    let limit = match (int.signed, x.sign) {
        (true, true) => u128::from(top),
        (true, false) => u128::from(top - 1),
        (false, true) => 0,
        (false, false) => u128::from(mask),
    };
    let magnitude = match x.class {
        Class::Nan => return if F::FORMAT.fraction_bits < 52 && int.bits < 64 { 0 } else { top },
        Class::Zero => 0,
        Class::Inf => limit,
        Class::Finite(m) if m.exp >= 64 => limit,
        Class::Finite(m) => {
            let mods = Mods { rounding, ftz, sat: false };
            round_magnitude(x.sign, m, mods).min(limit)
        }
    };
    let magnitude = magnitude as u64;
    (if x.sign { magnitude.wrapping_neg() } else { magnitude }) & mask
}

/// The integer of type `int` in the low bits of `value`, as a float.
///
/// # Bits
/// One rounding; zero gives `+0`. Bits of `value` above `int.bits` are ignored.
#[must_use]
pub fn from_int<F: Ieee>(value: u64, int: Int, mods: Mods) -> F::Bits {
    let unused = 64 - int.bits;
    let value = value << unused;
    let sign = int.signed && (value as i64) < 0;
    let magnitude = if int.signed { ((value as i64) >> unused).unsigned_abs() } else { value >> unused };
    if magnitude == 0 {
        return zero::<F>(false, mods);
    }
    round_pack::<F>(sign, Magnitude { exp: TOP as i32, sig: u128::from(magnitude) }, mods)
}
