//! `min` and `max`.

use super::Ieee;
use super::float::{Class, unpack};

/// The smaller operand; `nan` is the `.NaN` modifier.
///
/// # Bits
/// `-0 < +0`. One NaN operand: the other operand, or the canonical NaN with `nan`. Two NaN: the canonical NaN. `ftz`
/// flushes the operands first.
#[must_use]
pub fn min<F: Ieee>(a: F::Bits, b: F::Bits, nan: bool, ftz: bool) -> F::Bits {
    select::<F>(a, b, nan, ftz, |x, y| x <= y)
}

/// The larger operand; `nan` is the `.NaN` modifier.
///
/// # Bits
/// As [`min`].
#[must_use]
pub fn max<F: Ieee>(a: F::Bits, b: F::Bits, nan: bool, ftz: bool) -> F::Bits {
    select::<F>(a, b, nan, ftz, |x, y| x >= y)
}

fn select<F: Ieee>(a: F::Bits, b: F::Bits, propagate: bool, ftz: bool, first: impl Fn(i64, i64) -> bool) -> F::Bits {
    match (flushed::<F>(a, ftz), flushed::<F>(b, ftz)) {
        (Some(x), Some(y)) => F::narrow(if first(order::<F>(x), order::<F>(y)) { x } else { y }),
        (Some(x), None) | (None, Some(x)) if !propagate => F::narrow(x),
        _ => F::narrow(F::NAN),
    }
}

/// The operand after `.ftz`, or `None` for NaN.
fn flushed<F: Ieee>(a: F::Bits, ftz: bool) -> Option<u64> {
    match unpack::<F>(a, ftz).class {
        Class::Nan => None,
        Class::Zero => Some(F::widen(a) & F::SIGN),
        _ => Some(F::widen(a)),
    }
}

/// A key that orders bit patterns as their values, `-0` just below `+0`.
fn order<F: Ieee>(bits: u64) -> i64 {
    let magnitude = (bits & !F::SIGN) as i64;
    if bits & F::SIGN != 0 { !magnitude } else { magnitude }
}
