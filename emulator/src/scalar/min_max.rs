//! `min` and `max`, with `.NaN`, `.abs`, `.xorsign.abs`, and three operands.

use super::Ieee;
use super::float::{Class, unpack};

/// What the sign bits of the operands do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Signs {
    /// They count, as in every comparison.
    #[default]
    Kept,
    /// `.abs`: magnitudes are compared, and a magnitude is the result.
    Ignored,
    /// `.xorsign.abs`: as `.abs`, then the sign of the result is the XOR of the operands' (that of a NaN operand counts
    /// too; a NaN result stays canonical).
    Xored,
}

/// The modifiers of `min` and `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MinMax {
    /// `.NaN`: the canonical NaN if an operand is NaN.
    pub nan: bool,
    /// `.ftz`: operands are flushed first.
    pub ftz: bool,
    /// `.abs`, `.xorsign.abs`.
    pub signs: Signs,
}

/// The smaller operand; `nan` is the `.NaN` modifier.
///
/// # Bits
/// `-0 < +0`. One NaN operand: the other operand, or the canonical NaN with `nan`. Two NaN: the canonical NaN. `ftz`
/// flushes the operands first.
#[must_use]
pub fn min<F: Ieee>(a: F::Bits, b: F::Bits, nan: bool, ftz: bool) -> F::Bits {
    min_with::<F>(a, b, MinMax { nan, ftz, signs: Signs::Kept })
}

/// The larger operand; `nan` is the `.NaN` modifier.
///
/// # Bits
/// As [`min`].
#[must_use]
pub fn max<F: Ieee>(a: F::Bits, b: F::Bits, nan: bool, ftz: bool) -> F::Bits {
    max_with::<F>(a, b, MinMax { nan, ftz, signs: Signs::Kept })
}

/// The smaller operand, all modifiers given.
///
/// # Bits
/// As [`min`]; of equal magnitudes under `.abs` it does not matter which is taken.
#[must_use]
pub fn min_with<F: Ieee>(a: F::Bits, b: F::Bits, mods: MinMax) -> F::Bits {
    select::<F>(a, b, mods, |x, y| x <= y)
}

/// The larger operand, all modifiers given.
///
/// # Bits
/// As [`min_with`].
#[must_use]
pub fn max_with<F: Ieee>(a: F::Bits, b: F::Bits, mods: MinMax) -> F::Bits {
    select::<F>(a, b, mods, |x, y| x >= y)
}

/// The smallest of three: the left fold of [`min_with`] (PTX 8.8; `.xorsign` has no such form).
#[must_use]
pub fn min3<F: Ieee>(a: F::Bits, b: F::Bits, c: F::Bits, mods: MinMax) -> F::Bits {
    min_with::<F>(min_with::<F>(a, b, mods), c, mods)
}

/// The largest of three: the left fold of [`max_with`].
#[must_use]
pub fn max3<F: Ieee>(a: F::Bits, b: F::Bits, c: F::Bits, mods: MinMax) -> F::Bits {
    max_with::<F>(max_with::<F>(a, b, mods), c, mods)
}

fn select<F: Ieee>(a: F::Bits, b: F::Bits, mods: MinMax, first: impl Fn(i64, i64) -> bool) -> F::Bits {
    let chosen = match (operand::<F>(a, mods), operand::<F>(b, mods)) {
        (Some(x), Some(y)) => {
            if first(order::<F>(x), order::<F>(y)) {
                x
            } else {
                y
            }
        }
        (Some(x), None) | (None, Some(x)) if !mods.nan => x,
        _ => return F::narrow(F::NAN),
    };
    let sign = if mods.signs == Signs::Xored { (F::widen(a) ^ F::widen(b)) & F::SIGN } else { 0 };
    F::narrow(chosen | sign)
}

/// The operand after `.ftz` and `.abs`, or `None` for NaN.
fn operand<F: Ieee>(a: F::Bits, mods: MinMax) -> Option<u64> {
    let kept = if mods.signs == Signs::Kept { u64::MAX } else { !F::SIGN };
    match unpack::<F>(a, mods.ftz).class {
        Class::Nan => None,
        Class::Zero => Some(F::widen(a) & F::SIGN & kept),
        _ => Some(F::widen(a) & kept),
    }
}

/// A key that orders bit patterns as their values, `-0` just below `+0`.
fn order<F: Ieee>(bits: u64) -> i64 {
    let magnitude = (bits & !F::SIGN) as i64;
    if bits & F::SIGN != 0 { !magnitude } else { magnitude }
}
