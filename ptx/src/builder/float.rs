//! f32 arithmetic, each operation with its rounding, and the special functions the profiles model.

use super::{F32, KernelBuilder, Register, Source};
use crate::ast::{Approx, FloatOp, FloatUnary, Op, Round, Type};

macro_rules! binary {
    ($($name:ident, $into:ident: $op:ident $round:expr, $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("`", $text, "`.")]
                pub fn $name(&mut self, a: impl Source<F32>, b: impl Source<F32>) -> F32 {
                    let d = self.fresh();
                    self.$into(d, a, b);
                    d
                }

                #[doc = concat!("`", $text, "` into `d`.")]
                pub fn $into(&mut self, d: F32, a: impl Source<F32>, b: impl Source<F32>) {
                    self.emit(Op::Float {
                        op: FloatOp::$op,
                        ty: Type::F32,
                        round: $round,
                        ftz: false,
                        sat: false,
                        nan: false,
                        xorsign: false,
                        d: d.reg(),
                        a: a.operand(),
                        b: b.operand(),
                    });
                }
            )+
        }
    };
}

binary! {
    add_rn, add_rn_into: Add Some(Round::Rn), "add.rn.f32";
    sub_rn, sub_rn_into: Sub Some(Round::Rn), "sub.rn.f32";
    mul_rn, mul_rn_into: Mul Some(Round::Rn), "mul.rn.f32";
    div_rn, div_rn_into: Div Some(Round::Rn), "div.rn.f32";
    add_rz, add_rz_into: Add Some(Round::Rz), "add.rz.f32";
    mul_rz, mul_rz_into: Mul Some(Round::Rz), "mul.rz.f32";
    min_f32, min_f32_into: Min None, "min.f32";
    max_f32, max_f32_into: Max None, "max.f32";
}

impl KernelBuilder {
    /// `fma.rn.f32`: `a * b + c`, rounded once.
    pub fn fma_rn(&mut self, a: impl Source<F32>, b: impl Source<F32>, c: impl Source<F32>) -> F32 {
        let d = self.fresh();
        self.fma_rn_into(d, a, b, c);
        d
    }

    /// `fma.rn.f32` into `d`.
    pub fn fma_rn_into(&mut self, d: F32, a: impl Source<F32>, b: impl Source<F32>, c: impl Source<F32>) {
        self.emit(Op::Fma {
            ty: Type::F32,
            round: Some(Round::Rn),
            ftz: false,
            sat: false,
            relu: false,
            d: d.reg(),
            a: a.operand(),
            b: b.operand(),
            c: c.operand(),
        });
    }
}

macro_rules! unary {
    ($($name:ident: $op:ident $round:expr, $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("`", $text, "`.")]
                pub fn $name(&mut self, a: impl Source<F32>) -> F32 {
                    let d: F32 = self.fresh();
                    self.emit(Op::FloatUnary {
                        op: FloatUnary::$op,
                        ty: Type::F32,
                        round: $round,
                        ftz: false,
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
    neg_f32: Neg None, "neg.f32";
    abs_f32: Abs None, "abs.f32";
    rcp_rn: Rcp Some(Round::Rn), "rcp.rn.f32";
    sqrt_rn: Sqrt Some(Round::Rn), "sqrt.rn.f32";
}

macro_rules! approx {
    ($($name:ident, $into:ident: $f:ident, $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("`", $text, "`.")]
                pub fn $name(&mut self, a: impl Source<F32>) -> F32 {
                    let d = self.fresh();
                    self.$into(d, a);
                    d
                }

                #[doc = concat!("`", $text, "` into `d`.")]
                pub fn $into(&mut self, d: F32, a: impl Source<F32>) {
                    self.emit(Op::Approx {
                        f: Approx::$f,
                        ty: Type::F32,
                        ftz: true,
                        d: d.reg(),
                        a: a.operand(),
                    });
                }
            )+
        }
    };
}

approx! {
    rcp_approx_ftz, rcp_approx_ftz_into: Rcp, "rcp.approx.ftz.f32";
    rsqrt_approx_ftz, rsqrt_approx_ftz_into: Rsqrt, "rsqrt.approx.ftz.f32";
    ex2_approx_ftz, ex2_approx_ftz_into: Ex2, "ex2.approx.ftz.f32";
    lg2_approx_ftz, lg2_approx_ftz_into: Lg2, "lg2.approx.ftz.f32";
}
