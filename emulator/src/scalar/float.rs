//! Taking a float apart for exact arithmetic, and putting the rounded result together.
//!
//! Formats are the rows of [`crate::format`]; here each IEEE one is a *type* ([`Ieee`]), so that an operation is written
//! once and its operands have the right width. Internally a non-zero value is `sig * 2^(exp - 126)` with a 128-bit
//! significand whose leading one stands at bit 126 after unpacking: one bit of headroom remains for a carry, and 126
//! fraction bits hold the exact product of two f64 significands (106 bits), so that every operation here is exact up to
//! a sticky bit. The rounding itself is [`crate::round::pack`], once for the whole crate.

use super::Mods;
use crate::format::{self, Format};
use crate::round::{Overflow, Rounding, pack};

/// An IEEE-like binary format of scalar arithmetic.
pub trait Ieee {
    /// The unsigned integer that carries the bits.
    type Bits: Copy + Eq + core::fmt::Debug + core::fmt::LowerHex;
    /// The constants of the format.
    const FORMAT: &'static Format;
    /// Whether NaN results keep an operand's payload (f64) or are the canonical all-ones NaN (all others).
    const KEEPS_PAYLOAD: bool = false;

    /// The sign bit.
    const SIGN: u64 = 1 << (Self::FORMAT.width - 1);
    /// The bits of +infinity.
    const INF: u64 = Self::FORMAT.max_magnitude() + 1;
    /// The bits of 1.0.
    const ONE: u64 = (Self::FORMAT.bias as u64) << Self::FORMAT.fraction_bits;
    /// The canonical NaN of NVIDIA arithmetic: sign 0, all other bits 1.
    const NAN: u64 = Self::SIGN - 1;

    /// Widens the bits.
    fn widen(bits: Self::Bits) -> u64;
    /// Narrows bits that are known to fit.
    fn narrow(bits: u64) -> Self::Bits;
}

/// Declares format types: the name, its carrier, its constants, whether NaN payloads are kept.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident($bits:ty, $format:path $(, $payload:literal)?);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl Ieee for $name {
            type Bits = $bits;
            const FORMAT: &'static Format = &$format;
            $(const KEEPS_PAYLOAD: bool = $payload;)?
            fn widen(bits: $bits) -> u64 {
                u64::from(bits)
            }
            fn narrow(bits: u64) -> $bits {
                bits as $bits
            }
        }
    )*};
}

formats! {
    /// IEEE binary16.
    F16(u16, format::F16);
    /// bfloat16: the upper half of an f32.
    Bf16(u16, format::BF16);
    /// IEEE binary32.
    F32(u32, format::F32);
    /// IEEE binary64.
    F64(u64, format::F64, true);
}

/// Position of the leading one of an unpacked significand.
pub(super) const TOP: u32 = 126;

/// A float taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unpacked {
    /// True for a set sign bit.
    pub sign: bool,
    /// What kind of value this is.
    pub class: Class,
}

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Zero.
    Zero,
    /// A finite non-zero value.
    Finite(Magnitude),
    /// Infinity.
    Inf,
    /// NaN, of any payload.
    Nan,
}

/// A non-zero magnitude `sig * 2^(exp - TOP)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Magnitude {
    /// Exponent of bit [`TOP`].
    pub exp: i32,
    /// Significand. Bit 0 may be sticky: set if anything non-zero lies at or below it.
    pub sig: u128,
}

impl Magnitude {
    /// The same value with the leading one at bit [`TOP`]; the significand has at most `TOP + 1` bits.
    pub fn normalised(self) -> Self {
        let shift = self.sig.leading_zeros() - (127 - TOP);
        Self { exp: self.exp - shift as i32, sig: self.sig << shift }
    }
}

/// `value >> count`, with bit 0 set if any bit was lost.
pub(super) fn shift_right_sticky(value: u128, count: u32) -> u128 {
    match count {
        0 => value,
        1..=127 => (value >> count) | u128::from(value & ((1 << count) - 1) != 0),
        _ => u128::from(value != 0),
    }
}

/// Takes `bits` apart; with `ftz`, subnormals come out as zeros.
pub(super) fn unpack<F: Ieee>(bits: F::Bits, ftz: bool) -> Unpacked {
    let bits = F::widen(bits);
    let class = match F::FORMAT.unpack(bits) {
        format::Unpacked::Nan => Class::Nan,
        format::Unpacked::Infinite { .. } => Class::Inf,
        format::Unpacked::Finite { significand: 0, .. } => Class::Zero,
        format::Unpacked::Finite { significand, .. } if ftz && significand < 1 << F::FORMAT.fraction_bits => {
            Class::Zero
        }
        format::Unpacked::Finite { significand, exponent, .. } => {
            let sig = u128::from(significand) << (TOP - F::FORMAT.fraction_bits);
            Class::Finite(Magnitude { exp: exponent, sig }.normalised())
        }
    };
    Unpacked { sign: bits & F::SIGN != 0, class }
}

/// Rounds a non-zero value to the format and applies `.ftz` and `.sat`.
///
/// # Bits
/// IEEE 754 rounding with gradual underflow. Overflow gives infinity, or the largest finite number where the direction
/// points toward zero. With `mods.ftz` a subnormal rounded result becomes zero of its sign.
pub(super) fn round_pack<F: Ieee>(sign: bool, value: Magnitude, mods: Mods) -> F::Bits {
    let bits = pack(F::FORMAT, sign, value.sig, value.exp - TOP as i32, mods.rounding, Overflow::ByRounding);
    let subnormal = bits & F::INF == 0;
    finish::<F>(if mods.ftz && subnormal { bits & F::SIGN } else { bits }, mods)
}

/// A zero of the given sign.
pub(super) fn zero<F: Ieee>(sign: bool, mods: Mods) -> F::Bits {
    finish::<F>(if sign { F::SIGN } else { 0 }, mods)
}

/// The sign of a sum that is exactly zero although its terms are not both zeros of one sign.
pub(super) fn exact_zero_sign(rounding: Rounding) -> bool {
    rounding == Rounding::Down
}

/// An infinity of the given sign.
pub(super) fn inf<F: Ieee>(sign: bool, mods: Mods) -> F::Bits {
    finish::<F>(if sign { F::SIGN | F::INF } else { F::INF }, mods)
}

/// The NaN that results from `operands`, at least one of which may be NaN.
///
/// # Bits
/// Canonical, except for formats that keep payloads (f64): the first NaN operand with its quiet bit set, or
/// `fff8000000000000` if none is. Which operand wins is not documented by the vendor.
pub(super) fn nan<F: Ieee>(operands: &[F::Bits], mods: Mods) -> F::Bits {
    if mods.sat {
        return F::narrow(0);
    }
    if !F::KEEPS_PAYLOAD {
        return F::narrow(F::NAN);
    }
    let quiet = 1 << (F::FORMAT.fraction_bits - 1);
    let first = operands.iter().map(|&bits| F::widen(bits)).find(|bits| bits & !F::SIGN > F::INF);
    F::narrow(first.map_or(F::SIGN | F::INF | quiet, |bits| bits | quiet))
}

/// Applies `.sat` to a result that is not NaN.
fn finish<F: Ieee>(bits: u64, mods: Mods) -> F::Bits {
    let clamped = match (mods.sat, bits & F::SIGN != 0) {
        (false, _) => bits,
        (true, true) => 0,
        (true, false) => bits.min(F::ONE),
    };
    F::narrow(clamped)
}
