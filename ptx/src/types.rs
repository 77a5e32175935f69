//! Sizes of types, and which registers an instruction type accepts.

use crate::ast::Type;

impl Type {
    /// Width in bits; a predicate counts as one.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Type::Pred => 1,
            Type::S4 | Type::U4 => 4,
            Type::B8 | Type::U8 | Type::S8 | Type::E4m3 | Type::E5m2 | Type::E2m1x2 => 8,
            Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::Bf16 => 16,
            Type::E4m3x2 | Type::E5m2x2 | Type::E3m2x2 | Type::E2m3x2 | Type::Ue8m0x2 => 16,
            Type::B32 | Type::U32 | Type::S32 | Type::F16x2 | Type::Bf16x2 | Type::Tf32 | Type::F32 => 32,
            Type::B64 | Type::U64 | Type::S64 | Type::F32x2 | Type::F64 => 64,
        }
    }

    /// Size in memory in bytes. Predicates and 4-bit elements have none and give zero.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.bits() / 8
    }

    /// Signed integers.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }

    /// Signed and unsigned integers.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self, Type::U8 | Type::U16 | Type::U32 | Type::U64) || self.is_signed()
    }

    /// Untyped bits.
    #[must_use]
    pub const fn is_bits(self) -> bool {
        matches!(self, Type::B8 | Type::B16 | Type::B32 | Type::B64)
    }

    /// Floating point, packed or not.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::Tf32 | Type::F32 | Type::F32x2 | Type::F64
        ) || self.is_narrow_pair()
            || matches!(self, Type::E4m3 | Type::E5m2)
    }

    /// Pairs of floats of 8 bits and fewer, or of scales.
    #[must_use]
    pub const fn is_narrow_pair(self) -> bool {
        matches!(self, Type::E4m3x2 | Type::E5m2x2 | Type::E3m2x2 | Type::E2m3x2 | Type::E2m1x2 | Type::Ue8m0x2)
    }

    /// 16-bit floats, alone or in pairs.
    #[must_use]
    pub const fn is_half(self) -> bool {
        matches!(self, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2)
    }

    /// Whether a register may be declared with this type.
    #[must_use]
    pub const fn is_register(self) -> bool {
        matches!(
            self,
            Type::Pred
                | Type::B8
                | Type::B16
                | Type::B32
                | Type::B64
                | Type::U16
                | Type::U32
                | Type::U64
                | Type::S16
                | Type::S32
                | Type::S64
                | Type::F32
                | Type::F64
        )
    }

    /// Whether an operand of this instruction type may be a register declared `register`: the same
    /// size, and equal, or either untyped, or both integers (PTX ISA, operand type checking).
    #[must_use]
    pub fn accepts(self, register: Type) -> bool {
        if self == Type::Pred || register == Type::Pred {
            return self == register;
        }
        self.bits() == register.bits()
            && (self == register
                || self.is_bits()
                || register.is_bits()
                || (self.is_integer() && register.is_integer()))
    }
}
