//! Operands: slots of register files, addresses, fragments, and what a memory instruction moves.

use crate::mma::{Shape, Types};

/// Index into one of the register files.
pub(in crate::exec) type Slot = u16;

/// The predicate slot that is always true; `Decoded::guard` of an unguarded instruction.
pub(in crate::exec) const TRUE: Slot = 0;
/// The predicate slot that is always false.
pub(in crate::exec) const FALSE: Slot = 1;

/// An integer type as a way to extend its bits to a wider slot. 64-bit types are their own extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Ext {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    Whole,
}

impl Ext {
    pub fn signed(self) -> bool {
        matches!(self, Ext::S8 | Ext::S16 | Ext::S32)
    }
}

/// A register of either file, with its declared width.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) enum Any {
    B16(Slot),
    B32(Slot),
    B64(Slot),
}

/// A shared-memory address.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct SharedAddr {
    pub base: Any,
    pub offset: u32,
}

/// A global-memory address.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct GlobalAddr {
    pub base: Slot,
    pub offset: i64,
}

/// What a memory instruction moves per lane.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Moved {
    /// Bytes of one element: 1, 2, 4 or 8.
    pub element: u8,
    /// Elements: 1, 2 or 4.
    pub count: u8,
    /// Sign-extend elements into wider registers.
    pub signed: bool,
    /// Whole words and 32-bit registers, as almost always: moved without a detour.
    pub plain: bool,
    /// First of `count` entries in the program's register lists.
    pub list: u32,
}

/// Where a load or store goes.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) enum Place {
    Global(GlobalAddr),
    Shared(SharedAddr),
}

/// A matrix instruction and its fragments.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Mma {
    pub shape: Shape,
    pub types: Types,
    /// Registers of D, A, B and C; the rest of the arrays is unused.
    pub counts: [u8; 4],
    pub d: [Slot; 4],
    pub a: [Slot; 4],
    pub b: [Slot; 4],
    pub c: [Slot; 4],
}
