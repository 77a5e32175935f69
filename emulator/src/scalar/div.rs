//! `div.rnd`, the correctly rounded division.

use super::Mods;
use super::float::{Class, Ieee, Magnitude, TOP, inf, nan, round_pack, unpack, zero};

/// `a / b`.
///
/// # Bits
/// Correctly rounded. `0 / 0` and `inf / inf` are NaN; `x / 0` is an infinity of the XOR of the signs.
#[must_use]
pub fn div<F: Ieee>(a: F::Bits, b: F::Bits, mods: Mods) -> F::Bits {
    let (x, y) = (unpack::<F>(a, mods.ftz), unpack::<F>(b, mods.ftz));
    let sign = x.sign != y.sign;
    match (x.class, y.class) {
        (Class::Nan, _) | (_, Class::Nan) | (Class::Zero, Class::Zero) | (Class::Inf, Class::Inf) => {
            nan::<F>(&[a, b], mods)
        }
        (Class::Inf, _) | (_, Class::Zero) => inf::<F>(sign, mods),
        (Class::Zero, _) | (_, Class::Inf) => zero::<F>(sign, mods),
        (Class::Finite(m), Class::Finite(n)) => {
            // 63-bit significands in, a 63- or 64-bit quotient out, the remainder as sticky bit below it.
            let (dividend, divisor) = ((m.sig >> 64) << 63, n.sig >> 64);
            let quotient = (dividend / divisor) << 1 | u128::from(dividend % divisor != 0);
            round_pack::<F>(sign, Magnitude { exp: m.exp - n.exp, sig: quotient << (TOP - 64) }, mods)
        }
    }
}
