//! Integer, bit and predicate-logic instructions.

use super::{KernelBuilder, P, R16, R32, R64, Register, Source};
use crate::ast::{IntOp, IntUnary, Op, Type};

impl KernelBuilder {
    fn int(&mut self, op: IntOp, ty: Type, d: impl Register, a: crate::ast::Operand, b: crate::ast::Operand) {
        self.emit(Op::Int { op, ty, d: d.reg(), a, b });
    }

    /// `mad.wide.u32`: `a * b + c` in 64 bits; the usual way to an address.
    pub fn mad_wide_u32(&mut self, a: impl Source<R32>, b: impl Source<R32>, c: impl Source<R64>) -> R64 {
        let d: R64 = self.fresh();
        self.mad(true, Type::U32, d, a, b, c);
        d
    }

    /// `mad.wide.s32`: `a * b + c` in 64 bits, signed.
    pub fn mad_wide_s32(&mut self, a: impl Source<R32>, b: impl Source<R32>, c: impl Source<R64>) -> R64 {
        let d: R64 = self.fresh();
        self.mad(true, Type::S32, d, a, b, c);
        d
    }

    /// `mad.lo.u32`.
    pub fn mad_lo_u32(&mut self, a: impl Source<R32>, b: impl Source<R32>, c: impl Source<R32>) -> R32 {
        let d: R32 = self.fresh();
        self.mad(false, Type::U32, d, a, b, c);
        d
    }

    /// `mad.lo.u32` into `d`.
    pub fn mad_lo_u32_into(&mut self, d: R32, a: impl Source<R32>, b: impl Source<R32>, c: impl Source<R32>) {
        self.mad(false, Type::U32, d, a, b, c);
    }

    /// `mad.lo.s32`.
    pub fn mad_lo_s32(&mut self, a: impl Source<R32>, b: impl Source<R32>, c: impl Source<R32>) -> R32 {
        let d: R32 = self.fresh();
        self.mad(false, Type::S32, d, a, b, c);
        d
    }

    /// `mad.lo.u64`.
    pub fn mad_lo_u64(&mut self, a: impl Source<R64>, b: impl Source<R64>, c: impl Source<R64>) -> R64 {
        let d: R64 = self.fresh();
        self.mad(false, Type::U64, d, a, b, c);
        d
    }

    fn mad<A: Register, C: Register>(
        &mut self,
        wide: bool,
        ty: Type,
        d: C,
        a: impl Source<A>,
        b: impl Source<A>,
        c: impl Source<C>,
    ) {
        self.emit(Op::Mad { wide, ty, d: d.reg(), a: a.operand(), b: b.operand(), c: c.operand() });
    }

    /// `not.pred`.
    pub fn not_pred(&mut self, a: P) -> P {
        let d: P = self.fresh();
        self.emit(Op::IntUnary { op: IntUnary::Not, ty: Type::Pred, d: d.reg(), a: a.operand() });
        d
    }

    /// `prmt.b32`: selects four of the eight bytes of `{b, a}` by the nibbles of `sel`.
    pub fn prmt(&mut self, a: impl Source<R32>, b: impl Source<R32>, sel: impl Source<R32>) -> R32 {
        let d: R32 = self.fresh();
        self.emit(Op::Prmt { d: d.reg(), a: a.operand(), b: b.operand(), sel: sel.operand() });
        d
    }

    /// `bfe.u32`: `len` bits of `a` from bit `pos`, zero-extended.
    pub fn bfe_u32(&mut self, a: impl Source<R32>, pos: impl Source<R32>, len: impl Source<R32>) -> R32 {
        let d: R32 = self.fresh();
        self.emit(Op::Bfe { ty: Type::U32, d: d.reg(), a: a.operand(), pos: pos.operand(), len: len.operand() });
        d
    }

    /// `bfe.s32`: `len` bits of `a` from bit `pos`, sign-extended.
    pub fn bfe_s32(&mut self, a: impl Source<R32>, pos: impl Source<R32>, len: impl Source<R32>) -> R32 {
        let d: R32 = self.fresh();
        self.emit(Op::Bfe { ty: Type::S32, d: d.reg(), a: a.operand(), pos: pos.operand(), len: len.operand() });
        d
    }
}

macro_rules! binary {
    ($($name:ident, $into:ident: $op:ident $ty:ident, $a:ty, $b:ty => $d:ty, $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("`", $text, "`.")]
                pub fn $name(&mut self, a: impl Source<$a>, b: impl Source<$b>) -> $d {
                    let d: $d = self.fresh();
                    self.int(IntOp::$op, Type::$ty, d, a.operand(), b.operand());
                    d
                }

                #[doc = concat!("`", $text, "` into `d`.")]
                pub fn $into(&mut self, d: $d, a: impl Source<$a>, b: impl Source<$b>) {
                    self.int(IntOp::$op, Type::$ty, d, a.operand(), b.operand());
                }
            )+
        }
    };
}

binary! {
    add_u32, add_u32_into: Add U32, R32, R32 => R32, "add.u32";
    add_s32, add_s32_into: Add S32, R32, R32 => R32, "add.s32";
    add_u64, add_u64_into: Add U64, R64, R64 => R64, "add.u64";
    add_s64, add_s64_into: Add S64, R64, R64 => R64, "add.s64";
    sub_u32, sub_u32_into: Sub U32, R32, R32 => R32, "sub.u32";
    sub_s32, sub_s32_into: Sub S32, R32, R32 => R32, "sub.s32";
    sub_u64, sub_u64_into: Sub U64, R64, R64 => R64, "sub.u64";
    mul_lo_u32, mul_lo_u32_into: MulLo U32, R32, R32 => R32, "mul.lo.u32";
    mul_lo_s32, mul_lo_s32_into: MulLo S32, R32, R32 => R32, "mul.lo.s32";
    mul_lo_u64, mul_lo_u64_into: MulLo U64, R64, R64 => R64, "mul.lo.u64";
    mul_hi_u32, mul_hi_u32_into: MulHi U32, R32, R32 => R32, "mul.hi.u32";
    mul_hi_s32, mul_hi_s32_into: MulHi S32, R32, R32 => R32, "mul.hi.s32";
    mul_hi_u64, mul_hi_u64_into: MulHi U64, R64, R64 => R64, "mul.hi.u64";
    mul_wide_u32, mul_wide_u32_into: MulWide U32, R32, R32 => R64, "mul.wide.u32";
    mul_wide_s32, mul_wide_s32_into: MulWide S32, R32, R32 => R64, "mul.wide.s32";
    div_u32, div_u32_into: Div U32, R32, R32 => R32, "div.u32";
    div_s32, div_s32_into: Div S32, R32, R32 => R32, "div.s32";
    div_u64, div_u64_into: Div U64, R64, R64 => R64, "div.u64";
    rem_u32, rem_u32_into: Rem U32, R32, R32 => R32, "rem.u32";
    rem_s32, rem_s32_into: Rem S32, R32, R32 => R32, "rem.s32";
    rem_u64, rem_u64_into: Rem U64, R64, R64 => R64, "rem.u64";
    min_u32, min_u32_into: Min U32, R32, R32 => R32, "min.u32";
    min_s32, min_s32_into: Min S32, R32, R32 => R32, "min.s32";
    min_u64, min_u64_into: Min U64, R64, R64 => R64, "min.u64";
    max_u32, max_u32_into: Max U32, R32, R32 => R32, "max.u32";
    max_s32, max_s32_into: Max S32, R32, R32 => R32, "max.s32";
    max_u64, max_u64_into: Max U64, R64, R64 => R64, "max.u64";
    and_b16, and_b16_into: And B16, R16, R16 => R16, "and.b16";
    and_b32, and_b32_into: And B32, R32, R32 => R32, "and.b32";
    and_b64, and_b64_into: And B64, R64, R64 => R64, "and.b64";
    and_pred, and_pred_into: And Pred, P, P => P, "and.pred";
    or_b16, or_b16_into: Or B16, R16, R16 => R16, "or.b16";
    or_b32, or_b32_into: Or B32, R32, R32 => R32, "or.b32";
    or_b64, or_b64_into: Or B64, R64, R64 => R64, "or.b64";
    or_pred, or_pred_into: Or Pred, P, P => P, "or.pred";
    xor_b16, xor_b16_into: Xor B16, R16, R16 => R16, "xor.b16";
    xor_b32, xor_b32_into: Xor B32, R32, R32 => R32, "xor.b32";
    xor_b64, xor_b64_into: Xor B64, R64, R64 => R64, "xor.b64";
    xor_pred, xor_pred_into: Xor Pred, P, P => P, "xor.pred";
    shl_b32, shl_b32_into: Shl B32, R32, R32 => R32, "shl.b32";
    shl_b64, shl_b64_into: Shl B64, R64, R32 => R64, "shl.b64";
    shr_u32, shr_u32_into: Shr U32, R32, R32 => R32, "shr.u32";
    shr_s32, shr_s32_into: Shr S32, R32, R32 => R32, "shr.s32";
    shr_u64, shr_u64_into: Shr U64, R64, R32 => R64, "shr.u64";
    shr_s64, shr_s64_into: Shr S64, R64, R32 => R64, "shr.s64";
}

macro_rules! unary {
    ($($name:ident: $op:ident $ty:ident, $a:ty => $d:ty, $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("`", $text, "`.")]
                pub fn $name(&mut self, a: impl Source<$a>) -> $d {
                    let d: $d = self.fresh();
                    self.emit(Op::IntUnary {
                        op: IntUnary::$op,
                        ty: Type::$ty,
                        d: d.reg(),
                        a: a.operand(),
                    });
                    d
                }
            )+
        }
    };
}

unary! {
    not_b16: Not B16, R16 => R16, "not.b16";
    not_b32: Not B32, R32 => R32, "not.b32";
    not_b64: Not B64, R64 => R64, "not.b64";
    neg_s32: Neg S32, R32 => R32, "neg.s32";
    abs_s32: Abs S32, R32 => R32, "abs.s32";
    popc_b32: Popc B32, R32 => R32, "popc.b32";
    clz_b32: Clz B32, R32 => R32, "clz.b32";
    brev_b32: Brev B32, R32 => R32, "brev.b32";
}
