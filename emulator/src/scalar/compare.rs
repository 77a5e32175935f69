//! Comparisons of `setp` and `set`.

use super::Ieee;
use super::float::{Class, unpack};
use core::cmp::Ordering;

/// A comparison operator of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// Equal; false if an operand is NaN.
    Eq,
    /// Not equal; false if an operand is NaN.
    Ne,
    /// Less; false if an operand is NaN.
    Lt,
    /// Less or equal; false if an operand is NaN.
    Le,
    /// Greater; false if an operand is NaN.
    Gt,
    /// Greater or equal; false if an operand is NaN.
    Ge,
    /// Equal; true if an operand is NaN.
    Equ,
    /// Not equal; true if an operand is NaN.
    Neu,
    /// Less; true if an operand is NaN.
    Ltu,
    /// Less or equal; true if an operand is NaN.
    Leu,
    /// Greater; true if an operand is NaN.
    Gtu,
    /// Greater or equal; true if an operand is NaN.
    Geu,
    /// Neither operand is NaN.
    Num,
    /// An operand is NaN.
    Nan,
}

/// Whether `a` stands in the relation `op` to `b`.
///
/// # Bits
/// `-0` equals `+0`. With `ftz` subnormal operands count as zero.
#[must_use]
pub fn compare<F: Ieee>(op: Compare, a: F::Bits, b: F::Bits, ftz: bool) -> bool {
    let order = key::<F>(a, ftz).zip(key::<F>(b, ftz)).map(|(x, y)| x.cmp(&y));
    let Some(order) = order else {
        use Compare::{Equ, Geu, Gtu, Leu, Ltu, Nan, Neu};
        return matches!(op, Equ | Neu | Ltu | Leu | Gtu | Geu | Nan);
    };
    match op {
        Compare::Eq | Compare::Equ => order == Ordering::Equal,
        Compare::Ne | Compare::Neu => order != Ordering::Equal,
        Compare::Lt | Compare::Ltu => order == Ordering::Less,
        Compare::Le | Compare::Leu => order != Ordering::Greater,
        Compare::Gt | Compare::Gtu => order == Ordering::Greater,
        Compare::Ge | Compare::Geu => order != Ordering::Less,
        Compare::Num => true,
        Compare::Nan => false,
    }
}

/// A key that orders bit patterns as their values, both zeros alike; `None` for NaN.
fn key<F: Ieee>(a: F::Bits, ftz: bool) -> Option<i64> {
    let x = unpack::<F>(a, ftz);
    let magnitude = (F::widen(a) & !F::SIGN) as i64;
    match x.class {
        Class::Nan => None,
        Class::Zero => Some(0),
        _ => Some(if x.sign { -magnitude } else { magnitude }),
    }
}
