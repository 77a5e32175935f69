//! Mixed precision: `add.f32.{f16,bf16}`, `sub` and `fma.f32.{f16,bf16}`, narrow operands and an f32 sum (PTX 8.6, sm_100).

use super::{F32, Ieee, Mods, add, convert, fma, sub};

/// `a * b + c` with `a`, `b` of a 16-bit format and `c`, `d` f32.
///
/// # Bits
/// The product of the narrow operands is exact; one rounding to f32.
#[must_use]
pub fn fma_mixed<S: Ieee>(a: S::Bits, b: S::Bits, c: u32, mods: Mods) -> u32 {
    fma::<F32>(widened::<S>(a), widened::<S>(b), c, mods)
}

/// `a + c` with `a` of a 16-bit format.
///
/// # Bits
/// The operand widens exactly; one rounding to f32.
#[must_use]
pub fn add_mixed<S: Ieee>(a: S::Bits, c: u32, mods: Mods) -> u32 {
    add::<F32>(widened::<S>(a), c, mods)
}

/// `a - c` with `a` of a 16-bit format.
///
/// # Bits
/// As [`add_mixed`].
#[must_use]
pub fn sub_mixed<S: Ieee>(a: S::Bits, c: u32, mods: Mods) -> u32 {
    sub::<F32>(widened::<S>(a), c, mods)
}

fn widened<S: Ieee>(a: S::Bits) -> u32 {
    convert::<S, F32>(a, Mods::RN)
}
