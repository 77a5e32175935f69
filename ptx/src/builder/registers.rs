//! Typed handles of virtual registers, and what may stand where such a register is read.

use crate::ast::{Operand, Reg, Type};

/// A typed register handle.
pub trait Register: Copy {
    /// Declared type of the register, and the type of moves, loads and stores of it.
    const TYPE: Type;
    /// Wraps an index of the kernel's register table.
    fn from_reg(reg: Reg) -> Self;
    /// The index in the kernel's register table.
    fn reg(self) -> Reg;
}

/// Registers that can be loaded and stored.
pub trait Storable: Register {}

/// Registers of 32 bits, which a shuffle can carry.
pub trait Word: Storable {}

/// What may be read where a register of type `R` is expected: the register or an immediate.
pub trait Source<R: Register> {
    /// The operand as it stands in the instruction.
    fn operand(self) -> Operand;
}

macro_rules! register {
    ($(#[$doc:meta])* $name:ident = $ty:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(Reg);

        impl Register for $name {
            const TYPE: Type = Type::$ty;
            fn from_reg(reg: Reg) -> Self {
                Self(reg)
            }
            fn reg(self) -> Reg {
                self.0
            }
        }

        impl Source<$name> for $name {
            fn operand(self) -> Operand {
                Operand::Reg(self.0)
            }
        }
    };
}

register!(
    /// A predicate.
    P = Pred
);
register!(
    /// 16 bits: an integer, or a bf16 or f16 in storage form.
    R16 = B16
);
register!(
    /// 32 bits: a signed or unsigned integer, or two packed 16-bit values.
    R32 = B32
);
register!(
    /// 64 bits: an integer or a global address.
    R64 = B64
);
register!(
    /// An f32.
    F32 = F32
);

impl Storable for R16 {}
impl Storable for R32 {}
impl Storable for R64 {}
impl Storable for F32 {}
impl Word for R32 {}
impl Word for F32 {}

macro_rules! immediate {
    ($($from:ty => $($reg:ty),+;)+) => {$($(
        impl Source<$reg> for $from {
            fn operand(self) -> Operand {
                Operand::Int(i64::from(self))
            }
        }
    )+)+};
}

immediate! {
    u16 => R16, R32, R64;
    i32 => R32, R64;
    u32 => R32, R64;
    i64 => R64;
}

impl Source<R16> for i32 {
    /// # Panics
    /// When the value fits neither an `i16` nor a `u16`.
    fn operand(self) -> Operand {
        assert!((i32::from(i16::MIN)..=i32::from(u16::MAX)).contains(&self), "immediate {self} does not fit 16 bits");
        Operand::Int(i64::from(self))
    }
}

impl Source<R32> for usize {
    /// # Panics
    /// When the value does not fit a `u32`.
    fn operand(self) -> Operand {
        match u32::try_from(self) {
            Ok(v) => Operand::Int(i64::from(v)),
            Err(_) => panic!("immediate {self} does not fit 32 bits"),
        }
    }
}

impl Source<R64> for u64 {
    fn operand(self) -> Operand {
        Operand::Int(self.cast_signed())
    }
}

impl Source<R64> for usize {
    fn operand(self) -> Operand {
        Operand::Int((self as u64).cast_signed())
    }
}

impl Source<F32> for f32 {
    fn operand(self) -> Operand {
        Operand::F32(self.to_bits())
    }
}
