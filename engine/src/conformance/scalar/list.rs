//! Which instructions are probed.

use ptx::ast::{Cmp, FloatOp, FloatUnary, Op, Operand, Reg, Round, Type};

use super::{Probe, Tested, probe};

const IEEE: [Round; 4] = [Round::Rn, Round::Rz, Round::Rm, Round::Rp];
const INTEGRAL: [Round; 4] = [Round::Rni, Round::Rzi, Round::Rmi, Round::Rpi];
const ORDERED: [Cmp; 14] = [
    Cmp::Eq,
    Cmp::Ne,
    Cmp::Lt,
    Cmp::Le,
    Cmp::Gt,
    Cmp::Ge,
    Cmp::Equ,
    Cmp::Neu,
    Cmp::Ltu,
    Cmp::Leu,
    Cmp::Gtu,
    Cmp::Geu,
    Cmp::Num,
    Cmp::Nan,
];
const INTEGERS: [Type; 6] = [Type::U16, Type::S16, Type::U32, Type::S32, Type::U64, Type::S64];

/// Every probe, arithmetic first.
pub(super) fn all() -> Vec<Probe> {
    let mut out = Vec::new();
    for (ty, flushes) in [(Type::F32, &[false, true][..]), (Type::F64, &[false])] {
        for &ftz in flushes {
            arithmetic(&mut out, ty, ftz);
            comparisons(&mut out, ty, ftz);
        }
    }
    formats(&mut out);
    integers(&mut out);
    out
}

fn push(out: &mut Vec<Probe>, inputs: &[Type], output: Type, op: &dyn Fn(Reg, &[Operand]) -> Op) {
    out.push(probe(inputs, output, &Tested::Op(op)));
}

fn arithmetic(out: &mut Vec<Probe>, ty: Type, ftz: bool) {
    let saturations: &[bool] = if ty == Type::F32 { &[false, true] } else { &[false] };
    for round in IEEE.map(Some) {
        for &sat in saturations {
            for op in [FloatOp::Add, FloatOp::Sub, FloatOp::Mul] {
                push(out, &[ty; 2], ty, &|d, s| Op::Float {
                    op,
                    ty,
                    round,
                    ftz,
                    sat,
                    nan: false,
                    xorsign: false,
                    d,
                    a: s[0],
                    b: s[1],
                });
            }
            push(out, &[ty; 3], ty, &|d, s| Op::Fma { ty, round, ftz, sat, relu: false, d, a: s[0], b: s[1], c: s[2] });
        }
        let (op, sat, nan) = (FloatOp::Div, false, false);
        push(out, &[ty; 2], ty, &|d, s| Op::Float {
            op,
            ty,
            round,
            ftz,
            sat,
            nan,
            xorsign: false,
            d,
            a: s[0],
            b: s[1],
        });
        for op in [FloatUnary::Rcp, FloatUnary::Sqrt] {
            push(out, &[ty], ty, &|d, s| Op::FloatUnary { op, ty, round, ftz, d, a: s[0] });
        }
    }
    for op in [FloatUnary::Neg, FloatUnary::Abs] {
        push(out, &[ty], ty, &|d, s| Op::FloatUnary { op, ty, round: None, ftz, d, a: s[0] });
    }
    for op in [FloatOp::Min, FloatOp::Max] {
        for &nan in saturations {
            let (round, sat) = (None, false);
            push(out, &[ty; 2], ty, &|d, s| Op::Float {
                op,
                ty,
                round,
                ftz,
                sat,
                nan,
                xorsign: false,
                d,
                a: s[0],
                b: s[1],
            });
        }
    }
}

fn comparisons(out: &mut Vec<Probe>, ty: Type, ftz: bool) {
    for cmp in ORDERED {
        let op = move |d, s: &[Operand]| Op::Setp { cmp, ty, ftz, d, a: s[0], b: s[1] };
        out.push(probe(&[ty; 2], Type::U32, &Tested::Predicate(&op)));
    }
}

fn cvt(out: &mut Vec<Probe>, (to, from): (Type, Type), round: Option<Round>, ftz: bool, sat: bool) {
    push(out, &[from], to, &|d, s| Op::Cvt { round, ftz, sat, satfinite: false, relu: false, to, from, d, a: s[0] });
}

/// Among floating-point formats.
fn formats(out: &mut Vec<Probe>) {
    use Type::{Bf16, Bf16x2, F16, F16x2, F32, F64, Tf32};
    for round in IEEE.map(Some) {
        for (to, from) in [(F16, F32), (F16, F64), (F32, F64)] {
            for ftz in if F32 == to || F32 == from { &[false, true][..] } else { &[false] } {
                cvt(out, (to, from), round, *ftz, false);
            }
        }
    }
    for ftz in [false, true] {
        cvt(out, (F32, F16), None, ftz, false);
        cvt(out, (F32, F16), None, ftz, true);
        cvt(out, (F64, F32), None, ftz, false);
    }
    cvt(out, (F64, F16), None, false, false);
    for round in INTEGRAL.map(Some) {
        cvt(out, (F32, F32), round, false, false);
        cvt(out, (F32, F32), round, true, false);
        cvt(out, (F64, F64), round, false, false);
        cvt(out, (F16, F16), round, false, false);
    }
    cvt(out, (Bf16, F32), Some(Round::Rn), false, false);
    cvt(out, (Bf16, F32), Some(Round::Rz), false, false);
    cvt(out, (Tf32, F32), Some(Round::Rna), false, false);
    for to in [F16x2, Bf16x2] {
        for round in [Round::Rn, Round::Rz] {
            push(out, &[F32; 2], to, &|d, s| Op::CvtPack {
                round,
                satfinite: false,
                relu: false,
                to,
                d,
                hi: s[0],
                lo: s[1],
                random: None,
            });
        }
    }
}

/// To and from integers.
fn integers(out: &mut Vec<Probe>) {
    for int in INTEGERS {
        for float in [Type::F16, Type::F32, Type::F64] {
            for round in INTEGRAL.map(Some) {
                cvt(out, (int, float), round, false, false);
                if float == Type::F32 {
                    cvt(out, (int, float), round, true, false);
                }
            }
            for round in IEEE.map(Some) {
                cvt(out, (float, int), round, false, false);
            }
        }
    }
}
