//! `abs` and `neg`.

use super::Ieee;
use super::float::{Class, Unpacked, unpack};

/// `|a|`: the sign bit cleared.
///
/// # Bits
/// With `ftz` subnormals become `+0`. The NaN of f32, f16 and bf16 is canonical (PTX leaves it open), that of f64 keeps
/// its payload.
#[must_use]
pub fn abs<F: Ieee>(a: F::Bits, ftz: bool) -> F::Bits {
    with_sign::<F>(a, ftz, |_| false)
}

/// `-a`: the sign bit flipped.
///
/// # Bits
/// With `ftz` subnormals become zero of the flipped sign. The NaN of f32, f16 and bf16 is canonical (PTX leaves it
/// open), that of f64 keeps its payload.
#[must_use]
pub fn neg<F: Ieee>(a: F::Bits, ftz: bool) -> F::Bits {
    with_sign::<F>(a, ftz, |sign| !sign)
}

fn with_sign<F: Ieee>(a: F::Bits, ftz: bool, sign: impl Fn(bool) -> bool) -> F::Bits {
    let Unpacked { sign: before, class } = unpack::<F>(a, ftz);
    let magnitude = match class {
        Class::Nan if !F::KEEPS_PAYLOAD => return F::narrow(F::NAN),
        Class::Zero => 0,
        _ => F::widen(a) & !F::SIGN,
    };
    F::narrow(if sign(before) { magnitude | F::SIGN } else { magnitude })
}
