//! One place that knows which registers an operation writes and which it reads, so that the
//! builder, the validator, the lint and the interpreter cannot disagree.

use crate::ast::{Addr, Base, Inst, Op, Operand, Reg};

/// How an instruction touches a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The register receives a result.
    Write,
    /// The register is read, as an operand, an address or a guard.
    Read,
}

/// Walks the register slots of an operation, in textual order.
macro_rules! walk {
    ($op:expr, $f:expr, $iter:ident) => {{
        let f = $f;
        macro_rules! w {
            ($r:expr) => {
                f(Access::Write, $r)
            };
        }
        macro_rules! r {
            ($r:expr) => {
                f(Access::Read, $r)
            };
        }
        macro_rules! o {
            ($o:expr) => {
                if let Operand::Reg(reg) = $o {
                    r!(reg)
                }
            };
        }
        macro_rules! addr {
            ($a:expr) => {
                if let Addr { base: Base::Reg(reg), .. } = $a {
                    r!(reg)
                }
            };
        }
        match $op {
            Op::Mov { d, a, .. }
            | Op::IntUnary { d, a, .. }
            | Op::FloatUnary { d, a, .. }
            | Op::Approx { d, a, .. }
            | Op::Cvt { d, a, .. }
            | Op::Cvta { d, a, .. } => {
                w!(d);
                o!(a);
            }
            Op::Pack { d, a, .. } => {
                w!(d);
                a.$iter().for_each(|x| o!(x));
            }
            Op::Unpack { d, a, .. } => {
                d.$iter().for_each(|x| w!(x));
                o!(a);
            }
            Op::Ld { d, addr, .. } | Op::LdMatrix { d, addr, .. } => {
                d.$iter().for_each(|x| w!(x));
                addr!(addr);
            }
            Op::St { addr, a, .. } => {
                addr!(addr);
                a.$iter().for_each(|x| o!(x));
            }
            Op::Int { d, a, b, .. } | Op::Float { d, a, b, .. } | Op::Setp { d, a, b, .. } => {
                w!(d);
                o!(a);
                o!(b);
            }
            Op::Mad { d, a, b, c, .. } | Op::Fma { d, a, b, c, .. } => {
                w!(d);
                o!(a);
                o!(b);
                o!(c);
            }
            Op::Mixed { d, a, b, c, .. } => {
                w!(d);
                o!(a);
                b.$iter().for_each(|x| o!(x));
                o!(c);
            }
            Op::Selp { d, a, b, p, .. } => {
                w!(d);
                o!(a);
                o!(b);
                r!(p);
            }
            Op::CvtPack { d, hi, lo, random, .. } => {
                w!(d);
                o!(hi);
                o!(lo);
                random.$iter().for_each(|x| o!(x));
            }
            Op::Prmt { d, a, b, sel } => {
                w!(d);
                o!(a);
                o!(b);
                o!(sel);
            }
            Op::Bfe { d, a, pos, len, .. } => {
                w!(d);
                o!(a);
                o!(pos);
                o!(len);
            }
            Op::Shfl { d, p, a, b, c, mask, .. } => {
                w!(d);
                p.$iter().for_each(|x| w!(x));
                o!(a);
                o!(b);
                o!(c);
                o!(mask);
            }
            Op::Vote { d, p, mask, .. } => {
                w!(d);
                r!(p);
                o!(mask);
            }
            Op::WarpSync { mask } => o!(mask),
            Op::Mma { d, a, b, c, .. } => {
                d.$iter().for_each(|x| w!(x));
                a.$iter().for_each(|x| r!(x));
                b.$iter().for_each(|x| r!(x));
                c.$iter().for_each(|x| r!(x));
            }
            Op::CpAsync { dst, src, src_size, .. } => {
                addr!(dst);
                addr!(src);
                src_size.$iter().for_each(|x| o!(x));
            }
            Op::Atom { d, addr, a, b, .. } => {
                w!(d);
                addr!(addr);
                o!(a);
                b.$iter().for_each(|x| o!(x));
            }
            Op::Bra { .. } | Op::Ret | Op::Exit | Op::BarSync { .. } | Op::CpAsyncCommit | Op::CpAsyncWait { .. } => {}
        }
    }};
}

impl Op {
    /// Calls `f` for every register slot, in textual order.
    pub fn for_each_reg(&self, f: &mut impl FnMut(Access, Reg)) {
        let mut f = |access, reg: &Reg| f(access, *reg);
        walk!(self, &mut f, iter);
    }

    /// Calls `f` for every register slot, in textual order, to rewrite it.
    pub fn for_each_reg_mut(&mut self, f: &mut impl FnMut(&mut Reg)) {
        let mut f = |_, reg: &mut Reg| f(reg);
        walk!(self, &mut f, iter_mut);
    }
}

impl Inst {
    /// Calls `f` for the guard (a read) and every register slot of the operation.
    pub fn for_each_reg(&self, f: &mut impl FnMut(Access, Reg)) {
        if let Some(guard) = self.guard {
            f(Access::Read, guard.reg);
        }
        self.op.for_each_reg(f);
    }

    /// Calls `f` for the guard and every register slot of the operation, to rewrite it.
    pub fn for_each_reg_mut(&mut self, f: &mut impl FnMut(&mut Reg)) {
        if let Some(guard) = &mut self.guard {
            f(&mut guard.reg);
        }
        self.op.for_each_reg_mut(f);
    }
}
