//! What a float instruction computes beside its operation: modifiers, formats, conversions.

use crate::scalar::{Int, Mods, Narrow, ScaleRounding};

/// Modifiers of a two-operand float instruction.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct FloatMods {
    pub mods: Mods,
    /// The `.NaN` form of min and max.
    pub nan: bool,
    /// Their `.xorsign.abs` form.
    pub xorsign: bool,
}

/// What follows the rounding of a conversion.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Finish {
    pub satfinite: bool,
    pub relu: bool,
}

/// Floats of 16 bits, and pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Spread {
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    F32x2,
}

/// Pairs that `cvt` makes and reads; of scales with the rounding to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Pair {
    F16,
    Bf16,
    Narrow(Narrow),
    Scale(ScaleRounding),
}

/// A conversion with a float on at least one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Cvt {
    /// To an integral value of the same format.
    Integral16,
    Integral32,
    Integral64,
    /// `.sat` or `.ftz` alone.
    F32ToF32,
    F16ToF32,
    Bf16ToF32,
    F16ToF64,
    F32ToF64,
    F32ToF16,
    F64ToF16,
    F64ToF32,
    F32ToBf16,
    F32ToTf32,
    F16ToInt(Int),
    Bf16ToInt(Int),
    F32ToInt(Int),
    F64ToInt(Int),
    IntToF16(Int),
    IntToBf16(Int),
    IntToF32(Int),
    IntToF64(Int),
}
