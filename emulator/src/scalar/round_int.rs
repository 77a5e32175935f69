//! `cvt.rni.f32.f32` and its kin: rounding to an integral value of the same format.

use super::float::{Class, Ieee, TOP, inf, nan, round_pack, unpack, zero};
use super::{Magnitude, Mods};
use crate::round::shift_right;

/// `a` rounded to an integer in the direction of `mods.rounding`, as a float.
///
/// # Bits
/// Exact for magnitudes of `2^FRAC_BITS` and more. A result of zero keeps the sign of `a`.
#[must_use]
pub fn round_to_integral<F: Ieee>(a: F::Bits, mods: Mods) -> F::Bits {
    let x = unpack::<F>(a, mods.ftz);
    match x.class {
        Class::Nan => nan::<F>(&[a], mods),
        Class::Inf => inf::<F>(x.sign, mods),
        Class::Zero => zero::<F>(x.sign, mods),
        Class::Finite(m) if m.exp >= F::FORMAT.fraction_bits as i32 => round_pack::<F>(x.sign, m, mods),
        Class::Finite(m) => {
            let integer = round_magnitude(x.sign, m, mods);
            if integer == 0 {
                return zero::<F>(x.sign, mods);
            }
            // An integer of at most FRAC_BITS + 1 bits: the rounding inside is exact.
            round_pack::<F>(x.sign, Magnitude { exp: TOP as i32, sig: integer }, mods)
        }
    }
}

/// The magnitude rounded to an integer, for exponents below [`TOP`].
pub(super) fn round_magnitude(sign: bool, m: Magnitude, mods: Mods) -> u128 {
    shift_right(m.sig, (TOP as i32 - m.exp).unsigned_abs(), sign, mods.rounding)
}
