//! Floating-point instructions: which function of `crate::scalar`, `crate::mufu` or `crate::mma` each one is.

use ptx::ast::{Approx, Cmp, FloatOp, FloatUnary, Op, Reg, Round, Type};

use super::{Decoder, Refusal, Result};
use crate::exec::inst::{Cvt, FloatMods, Inst, Mma, Slot};
use crate::format::Elem;
use crate::mma::{Shape, Types, WarpMma};
use crate::mufu::Function;
use crate::scalar::{Compare, Int, Mods, Rounding};
use crate::simd::Level;

impl Decoder<'_> {
    pub(super) fn float(&mut self, op: &Op) -> Result<Inst> {
        Ok(match op {
            Op::Float { op, ty, round, ftz, sat, nan, d, a, b } => {
                let min_max = matches!(op, FloatOp::Min | FloatOp::Max);
                let rounding = if min_max { Rounding::NearestEven } else { written(*round)? };
                let mods = FloatMods { mods: Mods { rounding, ftz: *ftz, sat: *sat }, nan: *nan };
                let (d, [a, b]) = (self.reg(*d)?, self.sources([*a, *b], *ty)?);
                match ty {
                    Type::F32 if plain(mods.mods) && !*nan && *op != FloatOp::Div => {
                        Inst::F32 { op: *op, ftz: *ftz, d, a, b }
                    }
                    Type::F32 => Inst::F32Slow { op: *op, mods, d, a, b },
                    Type::F64 => Inst::F64 { op: *op, mods, d, a, b },
                    _ => return Err(Refusal::Unsupported("arithmetic on this floating-point type")),
                }
            }
            Op::Fma { ty, round, ftz, sat, d, a, b, c } => {
                let mods = Mods { rounding: written(*round)?, ftz: *ftz, sat: *sat };
                let (d, [a, b, c]) = (self.reg(*d)?, self.sources([*a, *b, *c], *ty)?);
                match ty {
                    Type::F32 if plain(mods) => Inst::Fma32 { ftz: *ftz, d, a, b, c },
                    Type::F32 => Inst::Fma32Slow { mods, d, a, b, c },
                    Type::F64 => Inst::Fma64 { mods, d, a, b, c },
                    _ => return Err(Refusal::Unsupported("arithmetic on this floating-point type")),
                }
            }
            Op::FloatUnary { op, ty, round, ftz, d, a } => {
                let exact = matches!(op, FloatUnary::Neg | FloatUnary::Abs);
                let rounding = if exact { Rounding::NearestEven } else { written(*round)? };
                let mods = Mods { rounding, ftz: *ftz, sat: false };
                let (d, a) = (self.reg(*d)?, self.source(*a, *ty)?);
                match ty {
                    Type::F32 => Inst::F32Unary { op: *op, mods, d, a },
                    Type::F64 => Inst::F64Unary { op: *op, mods, d, a },
                    _ => return Err(Refusal::Unsupported("arithmetic on this floating-point type")),
                }
            }
            Op::Setp { cmp, ty, ftz, d, a, b } => {
                let (d, [a, b], cmp) = (self.reg(*d)?, self.sources([*a, *b], *ty)?, compare(*cmp));
                match ty {
                    Type::F32 => Inst::SetpF32 { cmp, ftz: *ftz, d, a, b },
                    Type::F64 => Inst::SetpF64 { cmp, d, a, b },
                    _ => return Err(Refusal::Unsupported("a comparison of this floating-point type")),
                }
            }
            Op::CvtPack { round, to, d, hi, lo } => {
                let (d, [hi, lo]) = (self.reg(*d)?, self.sources([*hi, *lo], Type::F32)?);
                match (to, written(Some(*round))?) {
                    (Type::Bf16x2, Rounding::NearestEven) => Inst::PackBf16 { d, hi, lo },
                    (_, rounding) => {
                        let mods = Mods::RN.with_rounding(rounding);
                        Inst::Pack16Slow { bf16: *to == Type::Bf16x2, mods, d, hi, lo }
                    }
                }
            }
            Op::Cvt { round, ftz, sat, to, from, d, a } => {
                let cvt = conversion(*round, *to, *from)?;
                let rounding = match round {
                    None => Rounding::NearestEven,
                    round => written(*round)?,
                };
                let mods = Mods { rounding, ftz: *ftz, sat: *sat };
                Inst::CvtFloat { cvt, mods, d: self.any(*d)?, a: self.any_source(*a, *from)? }
            }
            Op::Approx { f, ftz, d, a, .. } => {
                let function = mufu(*f);
                function.model().map_err(Refusal::Model)?;
                Inst::Mufu { function, ftz: *ftz, d: self.reg(*d)?, a: self.source(*a, Type::F32)? }
            }
            Op::Mma { shape, dty, aty, bty, cty, d, a, b, c } => {
                let shape = Shape { m: shape.m, n: shape.n, k: shape.k };
                let types = Types { d: elem(*dty)?, a: elem(*aty)?, b: elem(*bty)?, c: elem(*cty)? };
                self.mma(shape, types, [d, a, b, c])?
            }
            _ => return Err(Refusal::Operand),
        })
    }

    fn mma(&mut self, shape: Shape, types: Types, [d, a, b, c]: [&[Reg]; 4]) -> Result<Inst> {
        // The level matters for speed only and is chosen at the launch.
        let warp = WarpMma::new(self.profile, shape, types, Level::Portable).map_err(Refusal::Model)?;
        warp.check_registers(a.len(), b.len(), c.len(), d.len()).map_err(Refusal::Model)?;
        let fragment = |regs: &[Reg]| -> Result<[Slot; 4]> {
            let mut slots = [0; 4];
            if regs.len() > slots.len() {
                return Err(Refusal::Operand);
            }
            for (slot, &reg) in slots.iter_mut().zip(regs) {
                *slot = self.reg(reg)?;
            }
            Ok(slots)
        };
        let mma = Mma {
            shape,
            types,
            counts: [d.len(), a.len(), b.len(), c.len()].map(|n| n as u8),
            d: fragment(d)?,
            a: fragment(a)?,
            b: fragment(b)?,
            c: fragment(c)?,
        };
        self.mmas.push(mma);
        Ok(Inst::Mma { index: self.mmas.len() as u32 - 1 })
    }
}

/// Modifiers that the vector forms of `crate::scalar::lanes` have.
fn plain(mods: Mods) -> bool {
    mods.rounding == Rounding::NearestEven && !mods.sat
}

/// A rounding that must be there: without one the compiler may contract, and the bits are its choice.
fn written(round: Option<Round>) -> Result<Rounding> {
    match round {
        Some(Round::Rn | Round::Rni) => Ok(Rounding::NearestEven),
        Some(Round::Rz | Round::Rzi) => Ok(Rounding::TowardZero),
        Some(Round::Rm | Round::Rmi) => Ok(Rounding::Down),
        Some(Round::Rp | Round::Rpi) => Ok(Rounding::Up),
        Some(Round::Rna) => Ok(Rounding::NearestAway),
        None => Err(Refusal::Unsupported("arithmetic without a rounding, which the compiler may contract,")),
    }
}

fn conversion(round: Option<Round>, to: Type, from: Type) -> Result<Cvt> {
    let integral = matches!(round, Some(Round::Rni | Round::Rzi | Round::Rmi | Round::Rpi));
    let int = |ty: Type| Int { bits: ty.bits(), signed: ty.is_signed() };
    Ok(match (to, from) {
        (Type::F32, Type::F32) if integral => Cvt::Integral32,
        (Type::F64, Type::F64) if integral => Cvt::Integral64,
        (Type::F16, Type::F16) if integral => Cvt::Integral16,
        (Type::F32, Type::F32) => Cvt::F32ToF32,
        (Type::F32, Type::F16) => Cvt::F16ToF32,
        (Type::F64, Type::F16) => Cvt::F16ToF64,
        (Type::F64, Type::F32) => Cvt::F32ToF64,
        (Type::F16, Type::F32) => Cvt::F32ToF16,
        (Type::F16, Type::F64) => Cvt::F64ToF16,
        (Type::F32, Type::F64) => Cvt::F64ToF32,
        (Type::Bf16, Type::F32) => Cvt::F32ToBf16,
        (Type::Tf32, Type::F32) => Cvt::F32ToTf32,
        (to, Type::F16) if to.is_integer() => Cvt::F16ToInt(int(to)),
        (to, Type::F32) if to.is_integer() => Cvt::F32ToInt(int(to)),
        (to, Type::F64) if to.is_integer() => Cvt::F64ToInt(int(to)),
        (Type::F16, from) if from.is_integer() => Cvt::IntToF16(int(from)),
        (Type::F32, from) if from.is_integer() => Cvt::IntToF32(int(from)),
        (Type::F64, from) if from.is_integer() => Cvt::IntToF64(int(from)),
        _ => return Err(Refusal::Unsupported("this conversion")),
    })
}

fn mufu(f: Approx) -> Function {
    match f {
        Approx::Rcp => Function::Rcp,
        Approx::Rsqrt => Function::Rsq,
        Approx::Ex2 => Function::Ex2,
        Approx::Lg2 => Function::Lg2,
        Approx::Sin => Function::Sin,
        Approx::Cos => Function::Cos,
        Approx::Tanh => Function::Tanh,
        Approx::Sqrt => Function::Sqrt,
    }
}

fn compare(cmp: Cmp) -> Compare {
    match cmp {
        Cmp::Eq => Compare::Eq,
        Cmp::Ne => Compare::Ne,
        Cmp::Lt => Compare::Lt,
        Cmp::Le => Compare::Le,
        Cmp::Gt => Compare::Gt,
        Cmp::Ge => Compare::Ge,
        Cmp::Equ => Compare::Equ,
        Cmp::Neu => Compare::Neu,
        Cmp::Ltu => Compare::Ltu,
        Cmp::Leu => Compare::Leu,
        Cmp::Gtu => Compare::Gtu,
        Cmp::Geu => Compare::Geu,
        Cmp::Num => Compare::Num,
        Cmp::Nan => Compare::Nan,
    }
}

fn elem(ty: Type) -> Result<Elem> {
    match ty {
        Type::F16 => Ok(Elem::F16),
        Type::Bf16 => Ok(Elem::Bf16),
        Type::Tf32 => Ok(Elem::Tf32),
        Type::F32 => Ok(Elem::F32),
        _ => Err(Refusal::Unsupported("a matrix instruction of these types")),
    }
}
