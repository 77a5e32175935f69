//! The `.approx` instructions of PTX, which wrap the unit.
//!
//! The `.ftz` forms are the unit itself. The others scale operands that the unit would flush by exact powers of two and
//! undo that afterwards; the compiler emits this, and only [`Wrapper`] says how well its choice is known.
//!
//! Source: `specs/gpu-arithmetic.md` 5.5, `specs/kernel-recipes.md` 1.

use super::{LEADING, MufuTables, SIGN, SineArgument, cos, ex2, lg2, rcp, rsq, sin};
use crate::Error;
use crate::open::Open;
use crate::profile::Confidence;
use crate::scalar::{self, F32, Mods};

/// An instruction that wraps the unit in scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrapper {
    /// `rcp.approx.f32`: operands outside `[2^-126, 2^126]` are scaled, and the result is scaled back with one rounding.
    Rcp,
    /// `rsqrt.approx.f32`: subnormal operands times `2^24`, the result times `2^12`.
    Rsqrt,
    /// `ex2.approx.f32`: operands below -126 are halved and the result is squared.
    Ex2,
    /// `lg2.approx.f32`: subnormal operands times `2^24`, the result less 24.
    Lg2,
}

impl Wrapper {
    /// Every wrapper.
    pub const ALL: [Self; 4] = [Self::Rcp, Self::Rsqrt, Self::Ex2, Self::Lg2];

    /// The instruction.
    #[must_use]
    pub const fn instruction(self) -> &'static str {
        match self {
            Self::Rcp => "rcp.approx.f32",
            Self::Rsqrt => "rsqrt.approx.f32",
            Self::Ex2 => "ex2.approx.f32",
            Self::Lg2 => "lg2.approx.f32",
        }
    }

    /// How well its scaling is established, and on what.
    #[must_use]
    pub const fn evidence(self) -> (Confidence, &'static str) {
        match self {
            Self::Ex2 => (
                Confidence::Open,
                "likely: with it the largest error of exp2f is the 2.38344 ulp published for sm_75 (kernel-recipes 2.2)",
            ),
            Self::Rcp => (
                Confidence::Open,
                "scaling seen in compiled code, factors not recorded; any exact power of two gives these bits",
            ),
            Self::Rsqrt | Self::Lg2 => (Confidence::Open, "scaling seen in compiled code (gpu-arithmetic 5.5)"),
        }
    }
}

/// Switch: what the forms without `.ftz` do with operands the unit flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subnormals {
    /// They are scaled as [`Wrapper`] says.
    Scaled,
    /// The bare unit, as with `.ftz`.
    Flushed,
}

impl Subnormals {
    /// The name in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scaled => "scaled",
            Self::Flushed => "flushed",
        }
    }
}

/// The switches of the approximate instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Switches {
    /// How sine and cosine reduce their argument.
    pub sine_argument: SineArgument,
    /// The forms without `.ftz`.
    pub subnormals: Subnormals,
}

impl Switches {
    /// What is most likely on current chips; nothing here is confirmed.
    pub const DEFAULT: Self = Self { sine_argument: SineArgument::DEFAULT, subnormals: Subnormals::Scaled };
}

const TWO_TO_24: u32 = 0x4b80_0000;
const TWO_TO_12: u32 = 0x4580_0000;
const MINUS_24: u32 = 0xc1c0_0000;
const MINUS_126: u32 = 0xc2fc_0000;
const HALF: u32 = 0x3f00_0000;
/// 2^126.
const LARGEST_PLAIN_DIVISOR: u32 = 0x7e80_0000;
/// 2^-4 and 2^4.
const DOWN_4: u32 = 0x3d80_0000;

fn mul(a: u32, b: u32) -> u32 {
    scalar::mul::<F32>(a, b, Mods::RN)
}

fn subnormal(x: u32) -> bool {
    (1..LEADING).contains(&(x & !SIGN))
}

/// `rcp.approx.f32`.
///
/// # Bits
/// Subnormal operands and results are kept under [`Subnormals::Scaled`]. The one rounding is that of a subnormal result.
#[must_use]
pub fn rcp_approx(tables: &MufuTables, switches: Switches, x: u32) -> u32 {
    if switches.subnormals == Subnormals::Flushed {
        return rcp(tables, x);
    }
    if subnormal(x) {
        // At most 2^-126 * 2^24, and back: the result may overflow, as it must.
        mul(rcp(tables, mul(x, TWO_TO_24)), TWO_TO_24)
    } else if (LARGEST_PLAIN_DIVISOR + 1..0x7f80_0000).contains(&(x & !SIGN)) {
        mul(rcp(tables, mul(x, DOWN_4)), DOWN_4)
    } else {
        rcp(tables, x)
    }
}

/// `rsqrt.approx.f32`.
#[must_use]
pub fn rsqrt_approx(tables: &MufuTables, switches: Switches, x: u32) -> u32 {
    if switches.subnormals == Subnormals::Scaled && subnormal(x) {
        mul(rsq(tables, mul(x, TWO_TO_24)), TWO_TO_12)
    } else {
        rsq(tables, x)
    }
}

/// `ex2.approx.f32`.
///
/// # Bits
/// Below -126 the square of `2^(x/2)`, rounded to nearest even, subnormal results kept.
#[must_use]
pub fn ex2_approx(tables: &MufuTables, switches: Switches, x: u32) -> u32 {
    let below = x & SIGN != 0 && x & !SIGN <= 0x7f80_0000 && x & !SIGN > MINUS_126 & !SIGN;
    if switches.subnormals == Subnormals::Scaled && below {
        let root = ex2(tables, mul(x, HALF));
        mul(root, root)
    } else {
        ex2(tables, x)
    }
}

/// `lg2.approx.f32`.
#[must_use]
pub fn lg2_approx(tables: &MufuTables, switches: Switches, x: u32) -> u32 {
    if switches.subnormals == Subnormals::Scaled && subnormal(x) {
        scalar::add::<F32>(lg2(tables, mul(x, TWO_TO_24)), MINUS_24, Mods::RN)
    } else {
        lg2(tables, x)
    }
}

/// `sin.approx[.ftz].f32`; the two forms differ in nothing that is known.
///
/// # Errors
/// Those of [`sin()`].
pub fn sin_approx(tables: &MufuTables, switches: Switches, x: u32) -> Result<u32, Error> {
    sin(tables, switches.sine_argument, x)
}

/// `cos.approx[.ftz].f32`, as [`sin_approx`].
///
/// # Errors
/// Those of [`cos()`].
pub fn cos_approx(tables: &MufuTables, switches: Switches, x: u32) -> Result<u32, Error> {
    cos(tables, switches.sine_argument, x)
}

/// `div.approx[.ftz].f32`: `a` times the unit's reciprocal of `b`.
///
/// # Bits
/// One rounding, that of the product. Divisors above `2^126` give a zero of the quotient's sign, or NaN if `a` is
/// infinite. `ftz` flushes `a` and the product too.
///
/// # Errors
/// [`Error::Unsupported`] for a subnormal divisor without `ftz`.
pub fn div_approx(tables: &MufuTables, a: u32, b: u32, ftz: bool) -> Result<u32, Error> {
    if !ftz && subnormal(b) {
        return Err(Open::DivApproxSubnormal.unsupported());
    }
    let mods = if ftz { Mods::RN_FTZ } else { Mods::RN };
    Ok(scalar::mul::<F32>(a, rcp(tables, b), mods))
}
