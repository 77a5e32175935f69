//! `add` and `sub`.

use super::float::{Class, Ieee, Magnitude, exact_zero_sign, inf, nan, round_pack, shift_right_sticky, unpack, zero};
use super::{Mods, Unpacked};

/// `a + b`.
///
/// # Bits
/// One rounding. Unlike signs that cancel give `+0` (`-0` toward minus infinity); `-0 + -0` is `-0`.
#[must_use]
pub fn add<F: Ieee>(a: F::Bits, b: F::Bits, mods: Mods) -> F::Bits {
    let (x, y) = (unpack::<F>(a, mods.ftz), unpack::<F>(b, mods.ftz));
    if x.class == Class::Nan || y.class == Class::Nan {
        return nan::<F>(&[a, b], mods);
    }
    add_unpacked::<F>(x, y, mods)
}

/// `a - b`: the addition of `b` with its sign flipped.
#[must_use]
pub fn sub<F: Ieee>(a: F::Bits, b: F::Bits, mods: Mods) -> F::Bits {
    let (x, y) = (unpack::<F>(a, mods.ftz), unpack::<F>(b, mods.ftz));
    if x.class == Class::Nan || y.class == Class::Nan {
        return nan::<F>(&[a, b], mods);
    }
    add_unpacked::<F>(x, Unpacked { sign: !y.sign, ..y }, mods)
}

/// The rounded sum of two values that are not NaN. The significands may have any leading position up to [`TOP`].
///
/// [`TOP`]: super::float::TOP
pub(super) fn add_unpacked<F: Ieee>(x: Unpacked, y: Unpacked, mods: Mods) -> F::Bits {
    match (x.class, y.class) {
        (Class::Inf, Class::Inf) if x.sign != y.sign => nan::<F>(&[], mods),
        (Class::Inf, _) => inf::<F>(x.sign, mods),
        (_, Class::Inf) => inf::<F>(y.sign, mods),
        (Class::Zero, Class::Zero) if x.sign == y.sign => zero::<F>(x.sign, mods),
        (Class::Zero, Class::Zero) => zero::<F>(exact_zero_sign(mods.rounding), mods),
        (Class::Finite(m), Class::Zero) => round_pack::<F>(x.sign, m, mods),
        (Class::Zero, Class::Finite(m)) => round_pack::<F>(y.sign, m, mods),
        (Class::Finite(m), Class::Finite(n)) => add_finite::<F>((x.sign, m), (y.sign, n), mods),
        (Class::Nan, _) | (_, Class::Nan) => unreachable!("callers dispose of NaN"),
    }
}

fn add_finite<F: Ieee>(x: (bool, Magnitude), y: (bool, Magnitude), mods: Mods) -> F::Bits {
    let (x, y) = ((x.0, x.1.normalised()), (y.0, y.1.normalised()));
    let ((sign, large), (other, small)) = if (x.1.exp, x.1.sig) >= (y.1.exp, y.1.sig) { (x, y) } else { (y, x) };
    // At least 20 low bits of either significand are zero, so a shift that loses bits is followed by at most one
    // cancelled leading bit, and the sticky bit stays far below the rounding position.
    let aligned = shift_right_sticky(small.sig, (large.exp - small.exp).unsigned_abs());
    let sig = if sign == other { large.sig + aligned } else { large.sig - aligned };
    if sig == 0 {
        return zero::<F>(exact_zero_sign(mods.rounding), mods);
    }
    round_pack::<F>(sign, Magnitude { exp: large.exp, sig }, mods)
}
