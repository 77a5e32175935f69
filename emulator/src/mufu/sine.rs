//! `MUFU.SIN` and `MUFU.COS`.
//!
//! One table over a quadrant serves both. What is open is how the argument becomes revolutions ([`SineArgument`]); the
//! interpolation after it is one model.

use super::datapath::SIN;
use super::{FRACTION, INF, LEADING, MufuTables, NAN, SIGN};
use crate::Error;
use crate::scalar::{self, F32, Mods, Rounding};

/// Switch: how radians become revolutions in fixed point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SineArgument {
    /// In wide fixed point, by a 24-bit constant: the separate range-reduction step of the G80. The committed golden
    /// values are of this path.
    FixedPoint,
    /// By an f32 multiplication with `3e22f983` toward zero: what compiled code of sm_70 and later shows.
    MultiplyTowardZero,
}

impl SineArgument {
    /// Both settings.
    pub const ALL: [Self; 2] = [Self::FixedPoint, Self::MultiplyTowardZero];

    /// The setting without evidence to the contrary: that of current chips.
    pub const DEFAULT: Self = Self::MultiplyTowardZero;

    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedPoint => "fixed-point",
            Self::MultiplyTowardZero => "multiply-rz",
        }
    }

    /// Where the setting comes from, and that neither is confirmed.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::FixedPoint => "range reduction of the G80 (gpu-arithmetic 6.6); open for current chips",
            Self::MultiplyTowardZero => "instruction sequences seen on sm_70 and later (gpu-arithmetic 6.6); open",
        }
    }
}

/// The bit of the interpolated sum that stands for 1.
pub(super) const TOP_BIT: u32 = 37;
/// Fraction bits of a revolution: two choose the quadrant.
const TURN_BITS: i32 = 25;
/// `1 / (2 pi)` as f32.
const ONE_OVER_TWO_PI: u32 = 0x3e22_f983;
/// The significand of [`ONE_OVER_TWO_PI`].
const FIXED_ONE_OVER_TWO_PI: u64 = 0xa2_f983;

/// An argument as the interpolator gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quadrant {
    /// Sign bit of the result.
    pub sign: u32,
    /// Position in the quadrant, mirrored where the sine falls.
    pub fraction: u32,
}

/// `sin(x)`, x in radians, as `sin.approx.ftz.f32` gives it.
///
/// # Bits
/// The interpolated sum is truncated to 24 significant bits. Subnormal operands and results are zero of their sign;
/// infinities and NaN give `7fffffff`.
///
/// # Errors
/// [`Error::UnsupportedMufu`] if the tables were fitted without outputs of sine or cosine.
pub fn sin(tables: &MufuTables, argument: SineArgument, x: u32) -> Result<u32, Error> {
    evaluate(tables, reduce(x, argument, false), "sin")
}

/// `cos(x)`, x in radians, as `cos.approx.ftz.f32` gives it.
///
/// # Bits
/// As [`sin`].
///
/// # Errors
/// As [`sin`].
pub fn cos(tables: &MufuTables, argument: SineArgument, x: u32) -> Result<u32, Error> {
    evaluate(tables, reduce(x, argument, true), "cos")
}

fn evaluate(tables: &MufuTables, reduced: Result<Quadrant, u32>, function: &'static str) -> Result<u32, Error> {
    let probe = "sin.approx.ftz.f32 over [1, 4), with which to fit the profile again";
    let rows = tables.sin.as_ref().ok_or(Error::UnsupportedMufu { function, probe })?;
    Ok(match reduced {
        Ok(Quadrant { sign, fraction }) => {
            let (segment, r) = SIN.split(fraction);
            sign | normalise(SIN.interpolate(rows.row(segment), r))
        }
        Err(special) => special,
    })
}

/// Sign and position in the quadrant, or the result of an operand that does not reach the interpolator.
pub(super) fn reduce(x: u32, argument: SineArgument, cosine: bool) -> Result<Quadrant, u32> {
    let magnitude = x & !SIGN;
    if magnitude >= INF {
        return Err(NAN);
    }
    let turn = match argument {
        SineArgument::FixedPoint => {
            let (significand, exponent) = parts(magnitude);
            shifted((significand * FIXED_ONE_OVER_TWO_PI) >> 16, exponent - 8)
        }
        SineArgument::MultiplyTowardZero => {
            let mods = Mods { rounding: Rounding::TowardZero, ..Mods::RN_FTZ };
            let (significand, exponent) = parts(scalar::mul::<F32>(magnitude, ONE_OVER_TWO_PI, mods));
            shifted(significand, exponent - 23 + TURN_BITS)
        }
    };
    let quadrant = turn >> 23 & 3;
    let (quadrant, sign) = if cosine { ((quadrant + 1) & 3, 0) } else { (quadrant, x >> 31) };
    let fraction = if quadrant & 1 == 1 { !turn & FRACTION } else { turn & FRACTION };
    Ok(Quadrant { sign: (sign ^ quadrant >> 1) << 31, fraction })
}

/// Significand and exponent; subnormals count as zero.
fn parts(magnitude: u32) -> (u64, i32) {
    let significand = if magnitude < LEADING { 0 } else { magnitude & FRACTION | LEADING };
    (u64::from(significand), (magnitude >> 23) as i32 - 127)
}

/// `value * 2^shift`, rounded down, modulo a revolution.
fn shifted(value: u64, shift: i32) -> u32 {
    let moved = match shift {
        TURN_BITS.. => 0,
        0.. => value << shift,
        _ => value.checked_shr(shift.unsigned_abs()).unwrap_or(0),
    };
    moved as u32 & ((1 << TURN_BITS) - 1)
}

/// A sum as f32, truncated. Sums are not negative: fitted constants are not.
fn normalise(sum: i64) -> u32 {
    if sum <= 0 {
        return 0;
    }
    let top = sum.ilog2();
    let significand = if top >= 23 { sum >> (top - 23) } else { sum << (23 - top) };
    (127 + top - TOP_BIT) << 23 | significand as u32 & FRACTION
}
