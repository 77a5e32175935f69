//! What one output says about the coefficients: an interval for the interpolator's sum.

use crate::mufu::datapath::{Datapath, EX2, LG2, RCP, RSQ, SIN};
use crate::mufu::lg2::FIXED_BITS;
use crate::mufu::sine::{self, SineArgument, TOP_BIT};
use crate::mufu::{FRACTION, Function, INF, LEADING, Reduced, SIGN, ex2, lg2, rcp, rsq};

/// One output, read backwards through packing and shifting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Constraint {
    /// The operand is a special case of the datapath: the output depends on no coefficient, and is what it must be.
    None,
    /// The sum of this segment and remainder lies in `low..=high`.
    Sum { segment: usize, r: u32, low: i64, high: i64 },
    /// No coefficients give this output.
    Impossible { segment: usize },
}

/// The constants of a modelled function.
pub(super) fn datapath(function: Function) -> Option<&'static Datapath> {
    match function {
        Function::Rcp => Some(&RCP),
        Function::Rsq => Some(&RSQ),
        Function::Ex2 => Some(&EX2),
        Function::Lg2 => Some(&LG2),
        Function::Sin | Function::Cos => Some(&SIN),
        Function::Sqrt | Function::Tanh => None,
    }
}

/// What output `y` for operand `x` says.
pub(super) fn constrain(function: Function, argument: SineArgument, x: u32, y: u32) -> Constraint {
    match function {
        Function::Rcp => packed(&RCP, rcp::reduce(x), y),
        Function::Rsq => packed(&RSQ, rsq::reduce(x), y),
        Function::Ex2 => packed(&EX2, ex2::reduce(x), y),
        Function::Lg2 => logarithm(lg2::reduce(x), y),
        Function::Sin => sine(sine::reduce(x, argument, false), y),
        Function::Cos => sine(sine::reduce(x, argument, true), y),
        Function::Sqrt | Function::Tanh => Constraint::None,
    }
}

/// An operand that does not reach the interpolator: nothing to learn if the output is the one it must have.
fn special(y: u32, expected: u32) -> Constraint {
    if y == expected { Constraint::None } else { Constraint::Impossible { segment: 0 } }
}

/// Reads a packed significand in `[2^23, 2^24]`.
fn packed(path: &Datapath, reduced: Result<Reduced, u32>, y: u32) -> Constraint {
    let Reduced { sign, exponent, fraction } = match reduced {
        Ok(reduced) => reduced,
        Err(expected) => return special(y, expected),
    };
    let (segment, r) = path.split(fraction);
    let sum = |low: u32, high: u32| sum(path, segment, r, i64::from(low), i64::from(high));
    if y & SIGN != sign {
        return Constraint::Impossible { segment };
    }
    let (field, fraction) = ((y >> 23 & 0xff) as i32, y & FRACTION);
    match (exponent, field - exponent) {
        // Flushed or saturated whatever the significand is.
        (..0, _) if y & !SIGN == 0 => Constraint::None,
        (255.., _) if y & !SIGN == INF => Constraint::None,
        // Flushed unless the significand carried.
        (0, 0) if fraction == 0 => sum(LEADING, 2 * LEADING - 1),
        (1..255, 0) => sum(LEADING | fraction, LEADING | fraction),
        (0..255, 1) if fraction == 0 => sum(2 * LEADING, 2 * LEADING),
        _ => Constraint::Impossible { segment },
    }
}

/// The sums that shift to `low..=high`.
fn sum(path: &Datapath, segment: usize, r: u32, low: i64, high: i64) -> Constraint {
    Constraint::Sum { segment, r, low: low << path.shift, high: ((high + 1) << path.shift) - 1 }
}

fn logarithm(reduced: Result<(i64, u32), u32>, y: u32) -> Constraint {
    let (power, fraction) = match reduced {
        Ok(reduced) => reduced,
        Err(expected) => return special(y, expected),
    };
    let (segment, r) = LG2.split(fraction);
    match fixed(y) {
        Some((low, high)) => sum(&LG2, segment, r, low - power, high - power),
        None => Constraint::Impossible { segment },
    }
}

fn sine(reduced: Result<sine::Quadrant, u32>, y: u32) -> Constraint {
    let sine::Quadrant { sign, fraction } = match reduced {
        Ok(reduced) => reduced,
        Err(expected) => return special(y, expected),
    };
    let (segment, r) = SIN.split(fraction);
    let sums = if y & SIGN == sign { truncated(y & !SIGN, TOP_BIT as i32) } else { None };
    match sums {
        Some((low, high)) => Constraint::Sum { segment, r, low, high },
        None => Constraint::Impossible { segment },
    }
}

/// The fixed-point numbers, `one` being the bit that stands for 1, that are truncated to the magnitude `y`.
fn truncated(y: u32, one: i32) -> Option<(i64, i64)> {
    if y == 0 {
        return Some((0, 0));
    }
    let top = (y >> 23) as i32 - 127 + one;
    let significand = i64::from(y & FRACTION | LEADING);
    match top {
        0..23 if significand.trailing_zeros() as i32 >= 23 - top => {
            Some((significand >> (23 - top), significand >> (23 - top)))
        }
        23..44 => Some((significand << (top - 23), ((significand + 1) << (top - 23)) - 1)),
        _ => None,
    }
}

/// The fixed-point logarithms that are truncated to `y`.
fn fixed(y: u32) -> Option<(i64, i64)> {
    let (low, high) = truncated(y & !SIGN, FIXED_BITS as i32)?;
    Some(if y & SIGN != 0 { (!high, !low) } else { (low, high) })
}
