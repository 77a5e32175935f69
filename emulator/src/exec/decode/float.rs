//! Floating-point instructions: which function of `crate::scalar`, `crate::mufu` or `crate::mma` each one is.

use ptx::ast::{Approx, Cmp, FloatOp, FloatUnary, Op, Reg, Round, Type};

use super::{Decoder, Refusal, Result};
use crate::exec::inst::{Cvt, Finish, FloatMods, Inst, Mma, Pair, Slot, Spread};
use crate::format::Elem;
use crate::mma::{Shape, Types, WarpMma};
use crate::mufu::Function;
use crate::open::Open;
use crate::scalar::{Compare, Int, Mods, Narrow, Rounding, ScaleRounding};
use crate::simd::Level;

impl Decoder<'_> {
    pub(super) fn float(&mut self, op: &Op) -> Result<Inst> {
        Ok(match op {
            Op::Float { op, ty, round, ftz, sat, nan, xorsign, d, a, b } => {
                let rounding = if op.selects() { Rounding::NearestEven } else { written(*round)? };
                let mods = FloatMods { mods: Mods { rounding, ftz: *ftz, sat: *sat }, nan: *nan, xorsign: *xorsign };
                if let Some(of) = spread(*ty) {
                    let (a, b) = (self.any_source(*a, *ty)?, self.any_source(*b, *ty)?);
                    return Ok(Inst::Spread { op: *op, of, mods, d: self.any(*d)?, a, b });
                }
                let (d, [a, b]) = (self.reg(*d)?, self.sources([*a, *b], *ty)?);
                match ty {
                    Type::F32 if plain(mods.mods) && !*nan && !*xorsign && *op != FloatOp::Div => {
                        Inst::F32 { op: *op, ftz: *ftz, d, a, b }
                    }
                    Type::F32 => Inst::F32Slow { op: *op, mods, d, a, b },
                    Type::F64 => Inst::F64 { op: *op, mods, d, a, b },
                    _ => return Err(Refusal::Unsupported("arithmetic on this floating-point type")),
                }
            }
            Op::Fma { ty, round, ftz, sat, relu, d, a, b, c } => {
                let mods = Mods { rounding: written(*round)?, ftz: *ftz, sat: *sat };
                if let Some(of) = spread(*ty) {
                    let (a, b) = (self.any_source(*a, *ty)?, self.any_source(*b, *ty)?);
                    let (d, c) = (self.any(*d)?, self.any_source(*c, *ty)?);
                    return Ok(Inst::SpreadFma { of, mods, relu: *relu, d, a, b, c });
                }
                let (d, [a, b, c]) = (self.reg(*d)?, self.sources([*a, *b, *c], *ty)?);
                match ty {
                    Type::F32 if plain(mods) => Inst::Fma32 { ftz: *ftz, d, a, b, c },
                    Type::F32 => Inst::Fma32Slow { mods, d, a, b, c },
                    Type::F64 => Inst::Fma64 { mods, d, a, b, c },
                    _ => return Err(Refusal::Unsupported("arithmetic on this floating-point type")),
                }
            }
            Op::FloatUnary { op, ty, round, ftz, d, a } => {
                if let Some(of) = spread(*ty) {
                    let (d, a) = (self.any(*d)?, self.any_source(*a, *ty)?);
                    return Ok(Inst::SpreadUnary { op: *op, of, ftz: *ftz, d, a });
                }
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
            Op::Mixed { op, from, round, sat, d, a, b, c } => {
                let mods = Mods { rounding: written(*round)?, ftz: false, sat: *sat };
                let (d, a, c) = (self.reg(*d)?, self.source(*a, *from)?, self.source(*c, Type::F32)?);
                let b = b.map_or(Ok(a), |b| self.source(b, *from))?;
                Inst::Mixed { op: *op, bf16: *from == Type::Bf16, mods, d, a, b, c }
            }
            Op::Setp { cmp, ty, ftz, d, a, b } => {
                let (d, [a, b], cmp) = (self.reg(*d)?, self.sources([*a, *b], *ty)?, compare(*cmp));
                match ty {
                    Type::F32 => Inst::SetpF32 { cmp, ftz: *ftz, d, a, b },
                    Type::F64 => Inst::SetpF64 { cmp, d, a, b },
                    Type::F16 | Type::Bf16 => Inst::SetpHalf { bf16: *ty == Type::Bf16, cmp, ftz: *ftz, d, a, b },
                    _ => return Err(Refusal::Unsupported("a comparison of this floating-point type")),
                }
            }
            Op::CvtPack { round: Round::Rs, .. } => {
                return Err(Refusal::Model(Open::StochasticPair.unsupported()));
            }
            Op::CvtPack { round, satfinite, relu, to, d, hi, lo, random: _ } => {
                let [hi, lo] = self.sources([*hi, *lo], Type::F32)?;
                let (rounding, finish) = (written(Some(*round))?, Finish { satfinite: *satfinite, relu: *relu });
                if (*to, rounding, finish.satfinite || finish.relu) == (Type::Bf16x2, Rounding::NearestEven, false) {
                    return Ok(Inst::PackBf16 { d: self.reg(*d)?, hi, lo });
                }
                let to = pair(*to, Some(*round)).ok_or(Refusal::Operand)?;
                Inst::CvtPair { to, mods: Mods::RN.with_rounding(rounding), finish, d: self.any(*d)?, hi, lo }
            }
            Op::Cvt { round, ftz, sat, satfinite, relu, to, from, d, a } => {
                let finish = Finish { satfinite: *satfinite, relu: *relu };
                let (d, a) = (self.any(*d)?, self.any_source(*a, *from)?);
                if let (Some(to), Some(from)) = (pair(*to, *round), pair(*from, *round)) {
                    return Ok(Inst::CvtOfPair { to, from, finish, d, a });
                }
                let cvt = conversion(*round, *to, *from)?;
                let rounding = match round {
                    None => Rounding::NearestEven,
                    round => written(*round)?,
                };
                Inst::CvtFloat { cvt, mods: Mods { rounding, ftz: *ftz, sat: *sat }, finish, d, a }
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
        Some(Round::Rs) => Err(Refusal::Model(Open::StochasticPair.unsupported())),
        None => Err(Refusal::Unsupported("arithmetic without a rounding, which the compiler may contract,")),
    }
}

/// What holds several floats, or one of 16 bits.
fn spread(ty: Type) -> Option<Spread> {
    match ty {
        Type::F16 => Some(Spread::F16),
        Type::Bf16 => Some(Spread::Bf16),
        Type::F16x2 => Some(Spread::F16x2),
        Type::Bf16x2 => Some(Spread::Bf16x2),
        Type::F32x2 => Some(Spread::F32x2),
        _ => None,
    }
}

/// A pair that `cvt` knows; `round` matters to scales.
fn pair(ty: Type, round: Option<Round>) -> Option<Pair> {
    let up = round == Some(Round::Rp);
    Some(match ty {
        Type::F16x2 => Pair::F16,
        Type::Bf16x2 => Pair::Bf16,
        Type::E4m3x2 => Pair::Narrow(Narrow::E4m3),
        Type::E5m2x2 => Pair::Narrow(Narrow::E5m2),
        Type::E3m2x2 => Pair::Narrow(Narrow::E3m2),
        Type::E2m3x2 => Pair::Narrow(Narrow::E2m3),
        Type::E2m1x2 => Pair::Narrow(Narrow::E2m1),
        Type::Ue8m0x2 => Pair::Scale(if up { ScaleRounding::Up } else { ScaleRounding::TowardZero }),
        _ => return None,
    })
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
        (Type::F32, Type::Bf16) => Cvt::Bf16ToF32,
        (Type::F64, Type::F16) => Cvt::F16ToF64,
        (Type::F64, Type::F32) => Cvt::F32ToF64,
        (Type::F16, Type::F32) => Cvt::F32ToF16,
        (Type::F16, Type::F64) => Cvt::F64ToF16,
        (Type::F32, Type::F64) => Cvt::F64ToF32,
        (Type::Bf16, Type::F32) => Cvt::F32ToBf16,
        (Type::Tf32, Type::F32) => Cvt::F32ToTf32,
        (to, Type::F16) if to.is_integer() => Cvt::F16ToInt(int(to)),
        (to, Type::Bf16) if to.is_integer() => Cvt::Bf16ToInt(int(to)),
        (to, Type::F32) if to.is_integer() => Cvt::F32ToInt(int(to)),
        (to, Type::F64) if to.is_integer() => Cvt::F64ToInt(int(to)),
        (Type::F16, from) if from.is_integer() => Cvt::IntToF16(int(from)),
        (Type::Bf16, from) if from.is_integer() => Cvt::IntToBf16(int(from)),
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
        Type::E4m3 => Ok(Elem::E4m3),
        Type::E5m2 => Ok(Elem::E5m2),
        Type::S32 => Ok(Elem::S32),
        Type::S8 => Ok(Elem::S8),
        Type::U8 => Ok(Elem::U8),
        Type::S4 => Ok(Elem::S4),
        Type::U4 => Ok(Elem::U4),
        _ => Err(Refusal::Unsupported("a matrix instruction of these types")),
    }
}
