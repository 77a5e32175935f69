//! `cvt` to and from the 8-, 6- and 4-bit formats and the scale format UE8M0.
//!
//! PTX converts pairs; element conversions are here, and [`pack_narrow`] puts a pair together.

use super::{Bf16, F16, F32, Ieee, Mods, Rounding, convert};
use crate::format::{E2M1, E2M3, E3M2, E4M3, E5M2, Format, Unpacked, narrow_f32, widen_to_f32};
use crate::round::Overflow;

/// A narrow format that `cvt` converts to and from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Narrow {
    /// `.e4m3`
    E4m3,
    /// `.e5m2`
    E5m2,
    /// `.e3m2`, in the low 6 bits of a byte.
    E3m2,
    /// `.e2m3`, in the low 6 bits of a byte.
    E2m3,
    /// `.e2m1`, 4 bits.
    E2m1,
}

impl Narrow {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::E4m3, Self::E5m2, Self::E3m2, Self::E2m3, Self::E2m1];

    /// Its constants.
    #[must_use]
    pub const fn format(self) -> &'static Format {
        match self {
            Self::E4m3 => &E4M3,
            Self::E5m2 => &E5M2,
            Self::E3m2 => &E3M2,
            Self::E2m3 => &E2M3,
            Self::E2m1 => &E2M1,
        }
    }

    /// The bits that one element of a pair takes: 4 for E2M1, else 8.
    #[must_use]
    pub const fn container(self) -> u32 {
        if matches!(self, Self::E2m1) { 4 } else { 8 }
    }
}

/// `cvt.rn.satfinite[.relu]` of an f32 to a narrow format.
///
/// # Bits
/// To nearest even with gradual underflow; a magnitude beyond the largest finite number, infinity among them, becomes
/// that number with its sign. NaN becomes `7f`, in the formats without NaN the largest positive number. With `relu`
/// everything negative becomes `+0`.
#[must_use]
pub fn to_narrow(a: u32, to: Narrow, relu: bool) -> u8 {
    let is_nan = a & !(1 << 31) > F32::INF as u32;
    if relu && a >> 31 == 1 && !is_nan {
        return 0;
    }
    narrow_f32(a, to.format(), Rounding::NearestEven, Overflow::Saturate) as u8
}

/// `cvt.rn.satfinite[.relu]` of a 16-bit float to a narrow format.
///
/// # Bits
/// As [`to_narrow`]: widening first changes nothing.
#[must_use]
pub fn half_to_narrow<S: Ieee<Bits = u16>>(a: u16, to: Narrow, relu: bool) -> u8 {
    to_narrow(convert::<S, F32>(a, Mods::RN), to, relu)
}

/// A narrow element as f16 (`cvt.rn.f16x2.*`): exact, NaN `7fff`.
#[must_use]
pub fn narrow_to_f16(a: u8, from: Narrow) -> u16 {
    convert::<F32, F16>(widen_to_f32(u64::from(a), from.format()), Mods::RN)
}

/// A narrow element as bf16: exact, NaN `7fff`.
#[must_use]
pub fn narrow_to_bf16(a: u8, from: Narrow) -> u16 {
    convert::<F32, Bf16>(widen_to_f32(u64::from(a), from.format()), Mods::RN)
}

/// A pair as `cvt` leaves it: the first source in the high byte (E2M1: the high nibble of one byte).
#[must_use]
pub fn pack_narrow(to: Narrow, first: u8, second: u8) -> u16 {
    u16::from(first) << to.container() | u16::from(second)
}

/// The elements of a pair, first (high) and second (low).
#[must_use]
pub fn unpack_narrow(from: Narrow, pair: u16) -> [u8; 2] {
    let mask = (1u16 << from.format().width) - 1;
    [(pair >> from.container() & mask) as u8, (pair & mask) as u8]
}

/// The roundings of a conversion to UE8M0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleRounding {
    /// `.rz`: the power of two at or below.
    TowardZero,
    /// `.rp`: the power of two at or above.
    Up,
}

/// `cvt.{rz,rp}[.satfinite].ue8m0` of an f32.
///
/// # Bits
/// The sign is ignored. NaN gives `ff`. A magnitude above `2^127` (rounded up, or infinite) gives `fe` with `satfinite`,
/// else `ff`; below `2^-127` (zero among them) gives `00`, the smallest scale. Infinity without `satfinite` and
/// underflow are not in the specification; the ISA says what NaN and saturation give, the rest follows from there being
/// no other code.
#[must_use]
pub fn to_ue8m0(a: u32, rounding: ScaleRounding, satfinite: bool) -> u8 {
    const TOO_LARGE: i32 = 0xff;
    let code = match crate::format::F32.unpack(u64::from(a)) {
        Unpacked::Nan => return 0xff,
        Unpacked::Infinite { .. } => TOO_LARGE,
        Unpacked::Finite { significand: 0, .. } => 0,
        Unpacked::Finite { significand, exponent, .. } => {
            let top = 63 - significand.leading_zeros() as i32;
            let up = rounding == ScaleRounding::Up && !significand.is_power_of_two();
            exponent - 23 + top + 127 + i32::from(up)
        }
    };
    match code {
        TOO_LARGE.. if satfinite => 0xfe,
        code => code.clamp(0, TOO_LARGE) as u8,
    }
}

/// `cvt.{rz,rp}[.satfinite].ue8m0x2.bf16x2`, one element.
///
/// # Bits
/// As [`to_ue8m0`].
#[must_use]
pub fn bf16_to_ue8m0(a: u16, rounding: ScaleRounding, satfinite: bool) -> u8 {
    to_ue8m0(u32::from(a) << 16, rounding, satfinite)
}

/// `cvt.rn.bf16x2.ue8m0x2`, one element: exact (`00` is the subnormal `0040`), NaN `7fff`.
#[must_use]
pub fn ue8m0_to_bf16(a: u8) -> u16 {
    match a {
        0 => 0x0040,
        0xff => Bf16::NAN as u16,
        code => u16::from(code) << 7,
    }
}
