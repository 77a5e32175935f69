//! What the interpreter asks about PTX types.

use ptx::ast::Type;

use super::inst::Ext;

/// Width of a register, which decides the file it lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Pred,
    /// 8 bits occur in memory and conversions only.
    B16,
    B32,
    B64,
}

impl Width {
    pub fn of(ty: Type) -> Self {
        match ty.bits() {
            1 => Width::Pred,
            64 => Width::B64,
            32 => Width::B32,
            _ => Width::B16,
        }
    }
}

/// How the bits of an integer type extend to a wider slot.
pub(super) fn extension(ty: Type) -> Ext {
    match (ty.bits(), ty.is_signed()) {
        (8, false) => Ext::U8,
        (8, true) => Ext::S8,
        (16, false) => Ext::U16,
        (16, true) => Ext::S16,
        (32, false) => Ext::U32,
        (32, true) => Ext::S32,
        _ => Ext::Whole,
    }
}
