//! `mul`.

use super::Mods;
use super::float::{Class, Ieee, Magnitude, TOP, inf, nan, round_pack, unpack, zero};

/// `a * b`.
///
/// # Bits
/// One rounding. The sign of zeros and infinities is the XOR of the signs; `0 * inf` is NaN.
#[must_use]
pub fn mul<F: Ieee>(a: F::Bits, b: F::Bits, mods: Mods) -> F::Bits {
    let (x, y) = (unpack::<F>(a, mods.ftz), unpack::<F>(b, mods.ftz));
    let sign = x.sign != y.sign;
    match multiply(x.class, y.class) {
        Class::Nan => nan::<F>(&[a, b], mods),
        Class::Inf => inf::<F>(sign, mods),
        Class::Zero => zero::<F>(sign, mods),
        Class::Finite(product) => round_pack::<F>(sign, product, mods),
    }
}

/// The exact product of two magnitudes.
pub(super) fn multiply(x: Class, y: Class) -> Class {
    match (x, y) {
        (Class::Nan, _) | (_, Class::Nan) | (Class::Zero, Class::Inf) | (Class::Inf, Class::Zero) => Class::Nan,
        (Class::Inf, _) | (_, Class::Inf) => Class::Inf,
        (Class::Zero, _) | (_, Class::Zero) => Class::Zero,
        (Class::Finite(m), Class::Finite(n)) => {
            // 63-bit upper parts: no format has more significand bits, so nothing is lost, and the leading one of the
            // product stands at bit 124 or 125.
            let product = (m.sig >> 64) * (n.sig >> 64);
            Class::Finite(Magnitude { exp: m.exp + n.exp + 1, sig: product << (TOP - 125) }.normalised())
        }
    }
}
