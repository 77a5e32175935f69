//! The interpreter's own instruction form: operands resolved to slots, types resolved to operations.
//!
//! Every source is a slot, immediates and special registers included: they live in slots of their own that are filled
//! once per block. An instruction is a few bytes; whatever is long (fragment lists) is in a table of the program.

mod modifier;
mod operand;

use ptx::ast::{AtomOp, Cmp, FloatOp, FloatUnary, IntOp, IntUnary, MixedOp, ShflMode, VoteMode};

use crate::mufu::Function;
use crate::scalar::{Compare, Mods};

pub(super) use modifier::{Cvt, Finish, FloatMods, Pair, Spread};
pub(super) use operand::{Any, Ext, FALSE, GlobalAddr, Mma, Moved, Place, SharedAddr, Slot, TRUE};

/// An instruction with its guard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoded {
    /// Predicate slot.
    pub guard: Slot,
    /// Execute where the predicate is false.
    pub negate: bool,
    pub inst: Inst,
}

/// One operation. `d` is the destination; sources follow in PTX order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inst {
    Bra {
        target: u32,
        reconverge: u32,
        uniform: bool,
    },
    Exit,
    Bar {
        id: u32,
    },
    WarpSync {
        mask: Slot,
    },

    Mov32 {
        d: Slot,
        a: Slot,
    },
    Mov64 {
        d: Slot,
        a: Slot,
    },
    MovPred {
        d: Slot,
        a: Slot,
    },
    /// `d = lo | hi << 16`.
    Pack16 {
        d: Slot,
        lo: Slot,
        hi: Slot,
    },
    /// `d = lo | hi << 32`.
    Pack32 {
        d: Slot,
        lo: Slot,
        hi: Slot,
    },
    Pack16x4 {
        d: Slot,
        a: [Slot; 4],
    },
    Unpack16 {
        lo: Slot,
        hi: Slot,
        a: Slot,
    },
    Unpack32 {
        lo: Slot,
        hi: Slot,
        a: Slot,
    },
    Unpack16x4 {
        d: [Slot; 4],
        a: Slot,
    },

    Int32 {
        op: IntOp,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Int16 {
        op: IntOp,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Int64 {
        op: IntOp,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `shl`, `shr` of 64 bits; the count has 32.
    Shift64 {
        op: IntOp,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// 16 x 16 -> 32.
    Wide16 {
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// 32 x 32 -> 64.
    Wide32 {
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Mad16 {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Mad32 {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Mad64 {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    MadWide16 {
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    MadWide32 {
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Unary32 {
        op: IntUnary,
        d: Slot,
        a: Slot,
    },
    Unary16 {
        op: IntUnary,
        d: Slot,
        a: Slot,
    },
    Unary64 {
        op: IntUnary,
        d: Slot,
        a: Slot,
    },
    /// `clz.b64` when `leading`, else `popc.b64`; the result has 32 bits.
    Count64 {
        leading: bool,
        d: Slot,
        a: Slot,
    },
    /// `and`, `or`, `xor` of predicates.
    PredOp {
        op: IntOp,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    PredNot {
        d: Slot,
        a: Slot,
    },
    Setp32 {
        cmp: Cmp,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Setp16 {
        cmp: Cmp,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Setp64 {
        cmp: Cmp,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Selp32 {
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
    },
    Selp64 {
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
    },
    /// Integer conversion: the low bits `from`, extended, cut to `to`, extended to the register.
    Cvt {
        d: Any,
        a: Any,
        from: Ext,
        to: Ext,
    },
    Prmt {
        d: Slot,
        a: Slot,
        b: Slot,
        sel: Slot,
    },
    Bfe32 {
        signed: bool,
        d: Slot,
        a: Slot,
        pos: Slot,
        len: Slot,
    },
    Bfe64 {
        signed: bool,
        d: Slot,
        a: Slot,
        pos: Slot,
        len: Slot,
    },

    /// `.rn` add, sub, mul, and min, max: the vector forms.
    F32 {
        op: FloatOp,
        ftz: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    F32Slow {
        op: FloatOp,
        mods: FloatMods,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    F64 {
        op: FloatOp,
        mods: FloatMods,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Fma32 {
        ftz: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Fma32Slow {
        mods: Mods,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Fma64 {
        mods: Mods,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    F32Unary {
        op: FloatUnary,
        mods: Mods,
        d: Slot,
        a: Slot,
    },
    F64Unary {
        op: FloatUnary,
        mods: Mods,
        d: Slot,
        a: Slot,
    },
    SetpF32 {
        cmp: Compare,
        ftz: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    SetpF64 {
        cmp: Compare,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `cvt.rn.bf16x2.f32`.
    PackBf16 {
        d: Slot,
        hi: Slot,
        lo: Slot,
    },
    CvtFloat {
        cvt: Cvt,
        mods: Mods,
        finish: Finish,
        d: Any,
        a: Any,
    },

    /// Arithmetic on 16-bit floats and pairs.
    Spread {
        op: FloatOp,
        of: Spread,
        mods: FloatMods,
        d: Any,
        a: Any,
        b: Any,
    },
    SpreadFma {
        of: Spread,
        mods: Mods,
        relu: bool,
        d: Any,
        a: Any,
        b: Any,
        c: Any,
    },
    /// `neg`, `abs`.
    SpreadUnary {
        op: FloatUnary,
        of: Spread,
        ftz: bool,
        d: Any,
        a: Any,
    },
    SetpHalf {
        bf16: bool,
        cmp: Compare,
        ftz: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// 16-bit operands, an f32 sum.
    Mixed {
        op: MixedOp,
        bf16: bool,
        mods: Mods,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Two f32 to a pair.
    CvtPair {
        to: Pair,
        mods: Mods,
        finish: Finish,
        d: Any,
        hi: Slot,
        lo: Slot,
    },
    /// A pair to a pair.
    CvtOfPair {
        to: Pair,
        from: Pair,
        finish: Finish,
        d: Any,
        a: Any,
    },
    /// Two or four bytes to a register, the first lowest.
    Pack8 {
        d: Any,
        count: u8,
        a: [Slot; 4],
    },
    Unpack8 {
        d: [Slot; 4],
        count: u8,
        a: Any,
    },
    /// `.approx[.ftz]`.
    Mufu {
        function: Function,
        ftz: bool,
        d: Slot,
        a: Slot,
    },
    /// Index into the program's matrix instructions.
    Mma {
        index: u32,
    },

    Shfl {
        mode: ShflMode,
        d: Slot,
        p: Option<Slot>,
        a: Slot,
        b: Slot,
        c: Slot,
        mask: Slot,
    },
    Vote {
        mode: VoteMode,
        negate: bool,
        d: Slot,
        p: Slot,
        mask: Slot,
    },

    LdParam {
        offset: u32,
        moved: Moved,
    },
    Ld {
        place: Place,
        moved: Moved,
    },
    St {
        place: Place,
        moved: Moved,
    },
    /// `count` 8x8 matrices into the registers at `list`.
    LdMatrix {
        trans: bool,
        count: u8,
        list: u32,
        addr: SharedAddr,
    },
    CpAsync {
        bytes: u8,
        dst: SharedAddr,
        src: GlobalAddr,
        src_size: Option<Slot>,
    },
    CpAsyncCommit,
    /// All groups but the latest `n` (`u32::MAX` never stands for a count: `None` waits for everything).
    CpAsyncWait {
        n: Option<u32>,
    },
    Atom32 {
        op: AtomOp,
        signed: bool,
        place: Place,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Atom64 {
        op: AtomOp,
        signed: bool,
        place: Place,
        d: Slot,
        a: Slot,
        b: Slot,
    },
}
