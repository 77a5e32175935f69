//! The special function unit (MUFU), bit for bit: reciprocal, reciprocal square root, base-2 exponential and logarithm,
//! sine and cosine.
//!
//! The unit splits a significand into a segment number and a remainder `r`, and evaluates one quadratic polynomial per
//! segment on integers, with a squarer that truncates each partial product ([`datapath`]). The coefficients are data
//! ([`MufuTables`]): fewer than 1,200 small integers, fitted from dumps of a unit's outputs by [`fit`]. The committed
//! profile [`MufuTables::g80`] was fitted from the vectors in `tests/data/mufu`.
//!
//! Source: `specs/gpu-arithmetic.md` 6, `specs/kernel-recipes.md` 2; the datapath was first described by the envytools
//! project (MIT) for the G80 of 2006. Why it is believed to hold for current generations stands there: error counts of
//! exhaustive probes of RCP and RSQ on A100, L40S and H100 equal those of this model to the last digit; EX2 has strong,
//! LG2 weaker evidence.
//!
//! [`approx`] has the `.approx` instructions of PTX, which wrap the unit; [`probe`] the kernels that dump it on a card.
//!
//! Deliberately missing, and refused by name ([`Function::model`], [`crate::open`]): TANH, SQRT, the 64-bit high-word and
//! the 16-bit modes.

pub mod approx;
pub mod datapath;
pub mod fit;
pub mod lanes;
pub mod probe;

mod ex2;
mod function;
mod lg2;
mod listing;
mod rcp;
mod rsq;
mod sine;
mod tables;
mod text;

pub use ex2::ex2;
pub use function::Function;
pub use lg2::lg2;
pub use rcp::rcp;
pub use rsq::rsq;
pub use sine::{SineArgument, cos, sin};
pub use tables::{MufuTables, Row, Rows, Unit};

use datapath::Datapath;

const SIGN: u32 = 0x8000_0000;
const INF: u32 = 0x7f80_0000;
const NAN: u32 = 0x7fff_ffff;
const ONE: u32 = 0x3f80_0000;
/// Fraction bits of f32.
const FRACTION: u32 = 0x007f_ffff;
/// The leading one of an f32 significand.
const LEADING: u32 = 0x0080_0000;

/// An operand of RCP, RSQ or EX2 as the interpolator gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reduced {
    /// Sign bit of the result.
    sign: u32,
    /// Biased exponent of the result, if its significand stays below `2^24`.
    exponent: i32,
    /// What chooses segment and remainder.
    fraction: u32,
}

impl Reduced {
    /// Joins sign, exponent and a significand in `[2^23, 2^24]`.
    ///
    /// # Bits
    /// A significand of `2^24` is `2^23` with the next exponent. Exponents of 0 and below give zero of the sign (the
    /// unit has no subnormal results), of 255 and above infinity.
    fn pack(self, significand: u32) -> u32 {
        let exponent = self.exponent + i32::from(significand == 2 * LEADING);
        match exponent {
            ..=0 => self.sign,
            255.. => self.sign | INF,
            _ => self.sign | (exponent as u32) << 23 | significand & FRACTION,
        }
    }
}

/// The result of RCP, RSQ or EX2.
fn evaluate<const N: usize>(reduced: Result<Reduced, u32>, path: &Datapath, unit: &Unit<N>) -> u32 {
    match reduced {
        Ok(reduced) => reduced.pack(unit.significand(path, reduced.fraction)),
        Err(special) => special,
    }
}
