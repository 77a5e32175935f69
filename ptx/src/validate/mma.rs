//! The matrix instructions of the subset and the registers of their fragments.

use super::Defect;
use crate::ast::{MmaShape, Type};

/// A matrix instruction: how many registers each fragment has, and of which type.
///
/// Source: PTX ISA 7.0, "Matrix fragments for mma".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmaForm {
    /// m, n, k.
    pub shape: MmaShape,
    /// Element type of A and B; E4M3 stands for E5M2 too, a signed integer for the unsigned.
    pub input: Type,
    /// Element type of C and D.
    pub accumulator: Type,
    /// Registers of fragment A, each `.b32`.
    pub a: usize,
    /// Registers of fragment B, each `.b32`.
    pub b: usize,
    /// Registers of C and of D: `.f32`, `.s32`, or `.b32` with two f16 each.
    pub cd: usize,
}

const fn form(k: u32, input: Type, accumulator: Type, a: usize, b: usize) -> MmaForm {
    MmaForm {
        shape: MmaShape { m: 16, n: 8, k },
        input,
        accumulator,
        a,
        b,
        cd: match accumulator {
            Type::F16 => 2,
            _ => 4,
        },
    }
}

/// One name for the types that instructions mix freely.
const fn class(ty: Type) -> Type {
    match ty {
        Type::E5m2 => Type::E4m3,
        Type::U8 => Type::S8,
        Type::U4 => Type::S4,
        other => other,
    }
}

impl MmaForm {
    /// Every form of the subset.
    pub const ALL: &'static [MmaForm] = &[
        form(16, Type::Bf16, Type::F32, 4, 2),
        form(8, Type::Bf16, Type::F32, 2, 1),
        form(16, Type::F16, Type::F32, 4, 2),
        form(8, Type::F16, Type::F32, 2, 1),
        form(16, Type::F16, Type::F16, 4, 2),
        form(8, Type::F16, Type::F16, 2, 1),
        form(8, Type::Tf32, Type::F32, 4, 2),
        form(4, Type::Tf32, Type::F32, 2, 1),
        form(32, Type::E4m3, Type::F32, 4, 2),
        form(16, Type::E4m3, Type::F32, 2, 1),
        form(32, Type::E4m3, Type::F16, 4, 2),
        form(16, Type::E4m3, Type::F16, 2, 1),
        form(32, Type::S8, Type::S32, 4, 2),
        form(16, Type::S8, Type::S32, 2, 1),
        form(64, Type::S4, Type::S32, 4, 2),
        form(32, Type::S4, Type::S32, 2, 1),
    ];

    /// The form of an instruction with these types.
    ///
    /// # Errors
    /// [`Defect::MmaForm`] when there is none.
    pub fn of(shape: MmaShape, d: Type, a: Type, b: Type, c: Type) -> Result<MmaForm, Defect> {
        Self::ALL
            .iter()
            .copied()
            .find(|f| f.shape == shape && f.accumulator == d && d == c && f.input == class(a) && f.input == class(b))
            .ok_or(Defect::MmaForm { shape, d, a, b, c })
    }

    /// Type of the registers of C and D.
    #[must_use]
    pub fn accumulator_register(&self) -> Type {
        match self.accumulator {
            Type::F16 => Type::B32,
            other => other,
        }
    }
}
