//! The arithmetic of `atom` and `red` on floats.
//!
//! The order in which threads arrive is not defined by the hardware, so it is an argument: [`accumulate`] takes the
//! operands in the order in which they were applied.

use super::{Ieee, Mods, add, max, min};

/// Where the atomic's word lies, which decides what happens to f32 subnormals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicSpace {
    /// Global memory: subnormal operands and results of `add.f32` become zero of their sign.
    Global,
    /// Shared memory: subnormals are kept.
    Shared,
}

/// Which atomic arithmetic is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// `.add`, to nearest even.
    Add,
    /// `.min` (16-bit formats, `.noftz`): a number wins over NaN, `-0 < +0`.
    Min,
    /// `.max`.
    Max,
}

/// What the word holds after one atomic with `operand`.
///
/// # Bits
/// One rounding to nearest even. Only `add.f32` in global memory flushes; the 16-bit forms are `.noftz` and f64 is IEEE.
#[must_use]
pub fn atomic<F: Ieee>(op: AtomicOp, space: AtomicSpace, word: F::Bits, operand: F::Bits) -> F::Bits {
    let is_f32 = F::FORMAT.width == 32;
    match op {
        AtomicOp::Add => {
            let mods = if is_f32 && space == AtomicSpace::Global { Mods::RN_FTZ } else { Mods::RN };
            add::<F>(word, operand, mods)
        }
        AtomicOp::Min => min::<F>(word, operand, false, false),
        AtomicOp::Max => max::<F>(word, operand, false, false),
    }
}

/// What the word holds after atomics with `operands`, in this order.
#[must_use]
pub fn accumulate<F: Ieee>(
    op: AtomicOp,
    space: AtomicSpace,
    word: F::Bits,
    operands: impl IntoIterator<Item = F::Bits>,
) -> F::Bits {
    operands.into_iter().fold(word, |word, operand| atomic::<F>(op, space, word, operand))
}
