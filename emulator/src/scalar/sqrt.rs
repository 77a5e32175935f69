//! `sqrt.rnd`, the correctly rounded square root.

use super::Mods;
use super::float::{Class, Ieee, Magnitude, TOP, inf, nan, round_pack, unpack, zero};

/// The square root of `a`.
///
/// # Bits
/// Correctly rounded. `sqrt(-0)` is `-0`; any other negative operand gives NaN.
#[must_use]
pub fn sqrt<F: Ieee>(a: F::Bits, mods: Mods) -> F::Bits {
    let x = unpack::<F>(a, mods.ftz);
    match x.class {
        Class::Zero => zero::<F>(x.sign, mods),
        Class::Inf if !x.sign => inf::<F>(false, mods),
        Class::Finite(m) if !x.sign => {
            // value = square * 2^(2 * half - TOP): the root is isqrt(square) * 2^(half - TOP / 2).
            let half = m.exp.div_euclid(2);
            let square = m.sig << (m.exp.rem_euclid(2));
            let root = square.isqrt();
            let sticky = u128::from(root * root != square);
            round_pack::<F>(false, Magnitude { exp: half, sig: root << (TOP / 2) | sticky }, mods)
        }
        _ => nan::<F>(&[a], mods),
    }
}
