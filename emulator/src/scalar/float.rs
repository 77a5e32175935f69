//! Taking a float apart, and the one rounding routine that puts it together.
//!
//! A format is a type described by two numbers ([`Format`]); unpacking and rounding are written once over them.
//! Internally a finite value is `sig * 2^(exp - 126)` with a 128-bit significand whose leading one stands at bit 126
//! after unpacking, so that one bit of headroom remains for a carry. 126 fraction bits hold the exact product of two
//! f64 significands (106 bits), so every operation here is exact up to a sticky bit.

use super::{Mods, Rounding};

/// A binary interchange format: sign, `EXP_BITS` exponent bits, `FRAC_BITS` stored fraction bits.
pub trait Format {
    /// The unsigned integer that carries the bits.
    type Bits: Copy + Eq + core::fmt::Debug + core::fmt::LowerHex;
    /// Width of the exponent field.
    const EXP_BITS: u32;
    /// Stored fraction bits.
    const FRAC_BITS: u32;
    /// Whether NaN results keep an operand's payload (f64) or are the canonical all-ones NaN (all others).
    const KEEPS_PAYLOAD: bool = false;

    /// Exponent bias.
    const BIAS: i32 = (1 << (Self::EXP_BITS - 1)) - 1;
    /// Exponent of the smallest normal number, and of every subnormal.
    const EMIN: i32 = 1 - Self::BIAS;
    /// The sign bit.
    const SIGN: u64 = 1 << (Self::EXP_BITS + Self::FRAC_BITS);
    /// The bits of +infinity.
    const INF: u64 = ((1 << Self::EXP_BITS) - 1) << Self::FRAC_BITS;
    /// The bits of 1.0.
    const ONE: u64 = (Self::BIAS as u64) << Self::FRAC_BITS;
    /// The canonical NaN of NVIDIA arithmetic: sign 0, all other bits 1.
    const NAN: u64 = Self::SIGN - 1;

    /// Widens the bits.
    fn widen(bits: Self::Bits) -> u64;
    /// Narrows bits that are known to fit.
    fn narrow(bits: u64) -> Self::Bits;
}

/// Declares formats: the name, its carrier, exponent bits, fraction bits.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident($bits:ty, $exp:literal, $frac:literal $(, $payload:literal)?);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl Format for $name {
            type Bits = $bits;
            const EXP_BITS: u32 = $exp;
            const FRAC_BITS: u32 = $frac;
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
    F16(u16, 5, 10);
    /// bfloat16: the upper half of an f32.
    Bf16(u16, 8, 7);
    /// IEEE binary32.
    F32(u32, 8, 23);
    /// IEEE binary64.
    F64(u64, 11, 52, true);
}

/// Position of the leading one of an unpacked significand.
pub const TOP: u32 = 126;

/// A float taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// True for a set sign bit.
    pub sign: bool,
    /// What kind of value this is.
    pub class: Class,
}

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
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
pub struct Magnitude {
    /// Exponent of bit [`TOP`].
    pub exp: i32,
    /// Significand. Bit 0 may be sticky: set if anything non-zero lies at or below it.
    pub sig: u128,
}

impl Magnitude {
    /// The same value with the leading one at bit [`TOP`].
    ///
    /// A set sticky bit moves up when shifting left; callers guarantee that it stays below the rounding position (it
    /// is set only by alignments that cancel at most one leading bit afterwards).
    #[must_use]
    pub fn normalised(self) -> Self {
        let zeros = self.sig.leading_zeros();
        if zeros == 0 {
            Self { exp: self.exp + 1, sig: shift_right_sticky(self.sig, 1) }
        } else {
            Self { exp: self.exp - (zeros as i32 - 1), sig: self.sig << (zeros - 1) }
        }
    }
}

/// `value >> count`, with bit 0 set if any bit was lost.
#[must_use]
pub fn shift_right_sticky(value: u128, count: u32) -> u128 {
    match count {
        0 => value,
        1..=127 => (value >> count) | u128::from(value & ((1 << count) - 1) != 0),
        _ => u128::from(value != 0),
    }
}

/// Takes `bits` apart; with `ftz`, subnormals come out as zeros.
#[must_use]
pub fn unpack<F: Format>(bits: F::Bits, ftz: bool) -> Unpacked {
    let bits = F::widen(bits);
    let field = ((bits & F::INF) >> F::FRAC_BITS) as i32;
    let fraction = u128::from(bits & ((1 << F::FRAC_BITS) - 1));
    let class = if field == (1 << F::EXP_BITS) - 1 {
        if fraction == 0 { Class::Inf } else { Class::Nan }
    } else if field == 0 {
        if fraction == 0 || ftz {
            Class::Zero
        } else {
            Class::Finite(Magnitude { exp: F::EMIN, sig: fraction << (TOP - F::FRAC_BITS) }.normalised())
        }
    } else {
        let sig = (fraction | 1 << F::FRAC_BITS) << (TOP - F::FRAC_BITS);
        Class::Finite(Magnitude { exp: field - F::BIAS, sig })
    };
    Unpacked { sign: bits & F::SIGN != 0, class }
}

/// Rounds a non-zero value to the format and applies `.ftz` and `.sat`.
///
/// # Bits
/// IEEE 754 rounding with gradual underflow. Overflow gives infinity, or the largest finite number where the direction
/// points toward zero. With `mods.ftz` a subnormal rounded result becomes zero of its sign.
#[must_use]
pub fn round_pack<F: Format>(sign: bool, value: Magnitude, mods: Mods) -> F::Bits {
    let mut value = value.normalised();
    if value.exp < F::EMIN {
        value.sig = shift_right_sticky(value.sig, (F::EMIN - value.exp).unsigned_abs());
        value.exp = F::EMIN;
    }
    let rounded = round_at(sign, value.sig, TOP - F::FRAC_BITS, mods.rounding) as u64;
    // The leading one of a normal significand adds 1 to the exponent field, and a carry adds another: adding instead
    // of or-ing makes the subnormal, normal and carried cases the same.
    let field = (value.exp - F::EMIN) as u64;
    let magnitude = if field >= 1 << F::EXP_BITS {
        F::INF // far out of range: the addition below would leave the field
    } else {
        ((field << F::FRAC_BITS) + rounded).min(F::INF)
    };
    let magnitude = if magnitude == F::INF && !overflows_to_inf(sign, mods.rounding) { F::INF - 1 } else { magnitude };
    let magnitude = if mods.ftz && magnitude < 1 << F::FRAC_BITS { 0 } else { magnitude };
    finish::<F>(if sign { F::SIGN | magnitude } else { magnitude }, mods)
}

/// `sig / 2^drop` rounded to an integer in the direction `rounding`, for a value of the given sign.
#[must_use]
pub fn round_at(sign: bool, sig: u128, drop: u32, rounding: Rounding) -> u128 {
    let kept = sig >> drop;
    let lost = sig & ((1 << drop) - 1);
    let half = 1 << (drop - 1);
    let up = match rounding {
        Rounding::Rn => lost > half || (lost == half && kept & 1 == 1),
        Rounding::Rna => lost >= half,
        Rounding::Rz => false,
        Rounding::Rm => sign && lost != 0,
        Rounding::Rp => !sign && lost != 0,
    };
    kept + u128::from(up)
}

fn overflows_to_inf(sign: bool, rounding: Rounding) -> bool {
    match rounding {
        Rounding::Rn | Rounding::Rna => true,
        Rounding::Rz => false,
        Rounding::Rm => sign,
        Rounding::Rp => !sign,
    }
}

/// A zero of the given sign.
#[must_use]
pub fn zero<F: Format>(sign: bool, mods: Mods) -> F::Bits {
    finish::<F>(if sign { F::SIGN } else { 0 }, mods)
}

/// The sign of a sum that is exactly zero although its terms are not both zeros of one sign.
#[must_use]
pub fn exact_zero_sign(rounding: Rounding) -> bool {
    rounding == Rounding::Rm
}

/// An infinity of the given sign.
#[must_use]
pub fn inf<F: Format>(sign: bool, mods: Mods) -> F::Bits {
    finish::<F>(if sign { F::SIGN | F::INF } else { F::INF }, mods)
}

/// The NaN that results from `operands`, at least one of which may be NaN.
///
/// # Bits
/// Canonical, except for formats that keep payloads (f64): the first NaN operand with its quiet bit set, or
/// `fff8000000000000` if none is. Which operand wins is not documented by the vendor.
#[must_use]
pub fn nan<F: Format>(operands: &[F::Bits], mods: Mods) -> F::Bits {
    if mods.sat {
        return F::narrow(0);
    }
    if !F::KEEPS_PAYLOAD {
        return F::narrow(F::NAN);
    }
    let quiet = 1 << (F::FRAC_BITS - 1);
    let first = operands.iter().map(|&bits| F::widen(bits)).find(|bits| bits & !F::SIGN > F::INF);
    F::narrow(first.map_or(F::SIGN | F::INF | quiet, |bits| bits | quiet))
}

/// Applies `.sat` to a result that is not NaN.
fn finish<F: Format>(bits: u64, mods: Mods) -> F::Bits {
    let clamped = match (mods.sat, bits & F::SIGN != 0) {
        (false, _) => bits,
        (true, true) => 0,
        (true, false) => bits.min(F::ONE),
    };
    F::narrow(clamped)
}
