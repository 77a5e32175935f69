//! `redux.sync`: one value from the lanes of a warp.
//!
//! Integer forms are exact and minima and maxima are associative, so no order enters.

use super::{F32, MinMax, Signs, max_with, min_with};

/// An integer operation of `redux.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduxOp {
    /// Wraps modulo 2^32.
    Add,
    And,
    Or,
    Xor,
    MinU32,
    MaxU32,
    MinS32,
    MaxS32,
}

/// The members' values combined; `None` if `mask` names no lane.
#[must_use]
pub fn redux(op: ReduxOp, values: &[u32; 32], mask: u32) -> Option<u32> {
    let signed = |f: fn(i32, i32) -> i32, a: u32, b: u32| f(a as i32, b as i32) as u32;
    members(values, mask).reduce(|a, b| match op {
        ReduxOp::Add => a.wrapping_add(b),
        ReduxOp::And => a & b,
        ReduxOp::Or => a | b,
        ReduxOp::Xor => a ^ b,
        ReduxOp::MinU32 => a.min(b),
        ReduxOp::MaxU32 => a.max(b),
        ReduxOp::MinS32 => signed(i32::min, a, b),
        ReduxOp::MaxS32 => signed(i32::max, a, b),
    })
}

/// `redux.sync.{min,max}[.abs][.NaN].f32` (sm_100a); `None` if `mask` names no lane.
///
/// # Bits
/// NaN is ignored, and all NaN give the canonical NaN; with `nan` one is enough. `+0 > -0`. With `abs` magnitudes are
/// compared and one is the result.
#[must_use]
pub fn redux_f32(largest: bool, abs: bool, nan: bool, values: &[u32; 32], mask: u32) -> Option<u32> {
    let signs = if abs { Signs::Ignored } else { Signs::Kept };
    let mods = MinMax { nan, ftz: false, signs };
    let combine = if largest { max_with::<F32> } else { min_with::<F32> };
    // A lone member meets itself, so that NaN and `.abs` are treated there too.
    members(values, mask).map(|a| combine(a, a, mods)).reduce(|a, b| combine(a, b, mods))
}

fn members(values: &[u32; 32], mask: u32) -> impl Iterator<Item = u32> {
    values.iter().enumerate().filter(move |(lane, _)| mask >> lane & 1 == 1).map(|(_, &value)| value)
}
