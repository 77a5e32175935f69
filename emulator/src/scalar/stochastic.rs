//! `cvt.rs`, the stochastic rounding of f32 to f16 and bf16 (PTX 8.7, sm_100a).

use super::{F16, Ieee};
use crate::Error;
use crate::open::Open;

/// A format with a `.rs` conversion whose random bits are known.
pub trait Stochastic: Ieee<Bits = u16> {
    /// The number of random bits one element takes: as many as fraction bits are discarded.
    const RANDOM_BITS: u32 = 23 - Self::FORMAT.fraction_bits;
}

impl Stochastic for F16 {}
impl Stochastic for super::Bf16 {}

/// `a` rounded to `D` with the random bits `random` (the low [`Stochastic::RANDOM_BITS`] count).
///
/// # Bits
/// The random bits are added to the discarded fraction; a carry out of it rounds away from zero, whatever the sign. So 0
/// rounds toward zero, and an exact value stays. Overflow gives infinity, with `satfinite` the largest finite number;
/// NaN is canonical.
///
/// # Errors
/// [`Error::Unsupported`] for an f16 result below the normal range that is not exact: more bits are discarded there than
/// are random, and nothing public says where they are added.
pub fn convert_stochastic<D: Stochastic>(a: u32, random: u32, satfinite: bool) -> Result<u16, Error> {
    let sign = u64::from(a >> 31) << 15;
    let magnitude = a & 0x7fff_ffff;
    let limit = if satfinite { D::INF - 1 } else { D::INF };
    if magnitude > 0x7f80_0000 {
        return Ok(D::narrow(D::NAN));
    }
    if magnitude == 0x7f80_0000 {
        return Ok(D::narrow(sign | limit));
    }
    let bits = D::RANDOM_BITS;
    let bias = 127 - D::FORMAT.bias;
    if (magnitude >> 23) as i32 <= bias && bias > 0 && magnitude != 0 {
        return subnormal::<D>(sign, magnitude, bias);
    }
    let random = random & ((1 << bits) - 1);
    // Exponent and fraction are one number, so the carry renormalises by itself. bf16 keeps f32's exponent.
    let rounded = u64::from(magnitude.saturating_sub((bias as u32) << 23) + random) >> bits;
    Ok(D::narrow(sign | rounded.min(limit)))
}

/// A result below the normal range: exact, or open.
fn subnormal<D: Stochastic>(sign: u64, magnitude: u32, bias: i32) -> Result<u16, Error> {
    let field = (magnitude >> 23) as i32;
    let significand = u64::from(magnitude & 0x7f_ffff | if field == 0 { 0 } else { 1 << 23 });
    let drop = D::RANDOM_BITS as i32 + 1 + bias - field.max(1);
    let lost = if drop < 64 { significand & ((1 << drop) - 1) } else { significand };
    if lost != 0 {
        return Err(Open::StochasticSubnormal.unsupported());
    }
    Ok(D::narrow(sign | significand >> drop))
}
