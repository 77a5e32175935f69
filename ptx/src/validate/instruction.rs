//! Each instruction: its types, roundings, modifiers and operands.

use super::operand::Check;
use super::{Defect, MmaForm, convert, memory};
use crate::ast::{
    Approx, Cmp, FloatOp, FloatUnary, Inst, IntOp, IntUnary, Kernel, MixedOp, Op, Operand, Reg, Round, Type, VoteMode,
};

/// Integers of 16, 32 and 64 bits.
fn wide_int(ty: Type) -> bool {
    ty.is_integer() && ty.bits() >= 16
}

fn bits(ty: Type) -> bool {
    ty.is_bits() && ty.bits() >= 16
}

fn real(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::F64)
}

/// f16, alone or in pairs: the halves that flush and saturate.
fn f16(ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::F16x2)
}

/// Types that flush.
fn flushes(ty: Type) -> bool {
    f16(ty) || matches!(ty, Type::F32 | Type::F32x2)
}

/// `.rn`, `.rz`, `.rm`, `.rp` of f32 and f64, `.rn` of 16-bit floats, or none where that is allowed.
fn arithmetic(opcode: &'static str, ty: Type, round: Option<Round>, optional: bool) -> Result<(), Defect> {
    if ty.is_half() && !matches!(round, Some(Round::Rn)) && !(optional && round.is_none()) {
        return Err(Defect::Rounding { opcode, round, allowed: ".rn" });
    }
    ieee(opcode, round, optional)
}

fn require(fits: bool, opcode: &'static str, ty: Type, allowed: &'static str) -> Result<(), Defect> {
    if fits {
        return Ok(());
    }
    Err(Defect::InstructionType { opcode, ty, allowed })
}

fn no_modifier(on: bool, opcode: &'static str, modifier: &'static str) -> Result<(), Defect> {
    if on {
        return Err(Defect::Modifier { opcode, modifier });
    }
    Ok(())
}

/// `.rn`, `.rz`, `.rm`, `.rp`, or none where that is allowed.
fn ieee(opcode: &'static str, round: Option<Round>, optional: bool) -> Result<(), Defect> {
    match round {
        Some(Round::Rn | Round::Rz | Round::Rm | Round::Rp) => Ok(()),
        None if optional => Ok(()),
        _ => Err(Defect::Rounding { opcode, round, allowed: ".rn, .rz, .rm or .rp" }),
    }
}

fn no_rounding(opcode: &'static str, round: Option<Round>) -> Result<(), Defect> {
    match round {
        None => Ok(()),
        Some(_) => Err(Defect::Rounding { opcode, round, allowed: "none" }),
    }
}

/// Checks one instruction and its guard.
pub(super) fn check(kernel: &Kernel, inst: &Inst) -> Result<(), Defect> {
    let k = Check(kernel);
    if let Some(guard) = inst.guard {
        k.reg("guard", guard.reg, Type::Pred)?;
    }
    let opcode = inst.op.mnemonic();
    match &inst.op {
        Op::Mov { ty, d, a } => mov(k, *ty, *d, *a),
        Op::Pack { ty, d, a } => {
            let part = part_type(opcode, *ty, a.len())?;
            k.reg("d", *d, *ty)?;
            a.iter().try_for_each(|x| k.source("a", *x, part))
        }
        Op::Unpack { ty, d, a } => {
            let part = part_type(opcode, *ty, d.len())?;
            k.distinct(d)?;
            d.iter().try_for_each(|x| k.reg("d", *x, part))?;
            k.source("a", *a, *ty)
        }
        Op::Int { op, ty, d, a, b } => int(k, *op, *ty, *d, [*a, *b]),
        Op::Mad { wide, ty, d, a, b, c } => {
            let fits = wide_int(*ty) && !(*wide && ty.bits() == 64);
            require(fits, opcode, *ty, "integers (.wide: up to 32 bits)")?;
            let result = if *wide { double(*ty) } else { *ty };
            k.reg("d", *d, result)?;
            k.source("a", *a, *ty)?;
            k.source("b", *b, *ty)?;
            k.source("c", *c, result)
        }
        Op::IntUnary { op, ty, d, a } => int_unary(k, *op, *ty, *d, *a),
        Op::Float { op, ty, round, ftz, sat, nan, xorsign, d, a, b } => {
            let (selects, narrow) = (op.selects(), ty.is_half());
            let saturates = matches!(op, FloatOp::Add | FloatOp::Sub | FloatOp::Mul);
            let fits = real(*ty) || narrow && *op != FloatOp::Div || *ty == Type::F32x2 && saturates;
            require(fits, opcode, *ty, ".f32, .f64, and for some operations .f16, .bf16 and pairs")?;
            match op {
                FloatOp::Add | FloatOp::Sub | FloatOp::Mul => arithmetic(opcode, *ty, *round, true)?,
                FloatOp::Div => ieee(opcode, *round, false)?,
                FloatOp::Min | FloatOp::Max => no_rounding(opcode, *round)?,
            }
            no_modifier(*ftz && !flushes(*ty), opcode, ".ftz")?;
            no_modifier(*sat && !(saturates && (*ty == Type::F32 || f16(*ty))), opcode, ".sat")?;
            no_modifier(*nan && !(selects && (*ty == Type::F32 || narrow)), opcode, ".NaN")?;
            no_modifier(*xorsign && !(selects && (*ty == Type::F32 || narrow)), opcode, ".xorsign.abs")?;
            same(k, *ty, *d, &[*a, *b])
        }
        Op::Fma { ty, round, ftz, sat, relu, d, a, b, c } => {
            let fits = real(*ty) || ty.is_half() || *ty == Type::F32x2;
            require(fits, opcode, *ty, ".f32, .f64, .f16, .bf16 and pairs")?;
            arithmetic(opcode, *ty, *round, false)?;
            no_modifier(*ftz && !flushes(*ty), opcode, ".ftz")?;
            no_modifier(*sat && !(*ty == Type::F32 || f16(*ty)), opcode, ".sat")?;
            no_modifier(*relu && (!ty.is_half() || *sat), opcode, ".relu")?;
            same(k, *ty, *d, &[*a, *b, *c])
        }
        Op::Mixed { op, from, round, sat: _, d, a, b, c } => {
            require(matches!(from, Type::F16 | Type::Bf16), opcode, *from, ".f16 or .bf16 beside .f32")?;
            ieee(opcode, *round, *op != MixedOp::Fma)?;
            if b.is_some() != (*op == MixedOp::Fma) {
                return Err(Defect::Operands { opcode });
            }
            k.reg("d", *d, Type::F32)?;
            k.source("a", *a, *from)?;
            b.iter().try_for_each(|b| k.source("b", *b, *from))?;
            k.source("c", *c, Type::F32)
        }
        Op::FloatUnary { op, ty, round, ftz, d, a } => {
            let exact = matches!(op, FloatUnary::Neg | FloatUnary::Abs);
            let fits = real(*ty) || ty.is_half() && exact;
            require(fits, opcode, *ty, ".f32, .f64 (neg and abs: .f16, .bf16 and pairs too)")?;
            if exact {
                no_rounding(opcode, *round)?
            } else {
                ieee(opcode, *round, false)?
            }
            no_modifier(*ftz && !flushes(*ty), opcode, ".ftz")?;
            same(k, *ty, *d, &[*a])
        }
        Op::Approx { f, ty, ftz, d, a } => {
            require(*ty == Type::F32, opcode, *ty, ".f32")?;
            no_modifier(*ftz && *f == Approx::Tanh, opcode, ".ftz")?;
            same(k, *ty, *d, &[*a])
        }
        Op::Setp { cmp, ty, ftz, d, a, b } => {
            let equality = matches!(cmp, Cmp::Eq | Cmp::Ne);
            let ordered = equality || matches!(cmp, Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge);
            let halves = matches!(ty, Type::F16 | Type::Bf16);
            let fits = real(*ty) || halves || (wide_int(*ty) && ordered) || (bits(*ty) && equality);
            if !fits {
                return Err(Defect::Comparison { cmp: *cmp, ty: *ty });
            }
            no_modifier(*ftz && !flushes(*ty), opcode, ".ftz")?;
            k.reg("d", *d, Type::Pred)?;
            k.source("a", *a, *ty)?;
            k.source("b", *b, *ty)
        }
        Op::Selp { ty, d, a, b, p } => {
            let fits = wide_int(*ty) || bits(*ty) || real(*ty);
            require(fits, opcode, *ty, "16 to 64 bits")?;
            same(k, *ty, *d, &[*a, *b])?;
            k.reg("p", *p, Type::Pred)
        }
        Op::Cvt { round, ftz, sat, satfinite, relu, to, from, d, a } => {
            let (round, ftz, sat, satfinite, relu) = (*round, *ftz, *sat, *satfinite, *relu);
            convert::check(convert::Form { round, ftz, sat, satfinite, relu, to: *to, from: *from })?;
            match to.bits() {
                8 if to.is_integer() => k.wide_reg("d", *d, *to)?,
                _ => k.reg("d", *d, *to)?,
            }
            match from.bits() {
                8 if from.is_integer() => k.wide_source("a", *a, *from),
                _ => k.source("a", *a, *from),
            }
        }
        Op::CvtPack { round, satfinite, relu, to, d, hi, lo, random } => {
            convert::check_pack(*round, *satfinite, *relu, *to, random.is_some())?;
            k.reg("d", *d, *to)?;
            k.source("hi", *hi, Type::F32)?;
            k.source("lo", *lo, Type::F32)?;
            random.iter().try_for_each(|random| k.source("random", *random, Type::B32))
        }
        Op::Prmt { d, a, b, sel } => same(k, Type::B32, *d, &[*a, *b, *sel]),
        Op::Bfe { ty, d, a, pos, len } => {
            let fits = ty.is_integer() && ty.bits() >= 32;
            require(fits, opcode, *ty, "integers of 32 or 64 bits")?;
            same(k, *ty, *d, &[*a])?;
            k.source("pos", *pos, Type::U32)?;
            k.source("len", *len, Type::U32)
        }
        Op::Shfl { d, p, a, b, c, mask, .. } => {
            same(k, Type::B32, *d, &[*a])?;
            if let Some(p) = p {
                k.reg("p", *p, Type::Pred)?;
            }
            k.source("b", *b, Type::U32)?;
            k.source("c", *c, Type::U32)?;
            k.source("mask", *mask, Type::U32)
        }
        Op::Vote { mode, d, p, mask, .. } => {
            let result = match mode {
                VoteMode::Ballot => Type::B32,
                VoteMode::All | VoteMode::Any | VoteMode::Uni => Type::Pred,
            };
            k.reg("d", *d, result)?;
            k.reg("p", *p, Type::Pred)?;
            k.source("mask", *mask, Type::U32)
        }
        Op::BarSync { id } if *id > 15 => Err(Defect::Barrier { id: *id }),
        Op::WarpSync { mask } => k.source("mask", *mask, Type::U32),
        Op::Mma { shape, dty, aty, bty, cty, d, a, b, c } => {
            let form = MmaForm::of(*shape, *dty, *aty, *bty, *cty)?;
            k.distinct(d)?;
            let acc = form.accumulator_register();
            for (fragment, regs, needs, ty) in [
                ("d", d, form.cd, acc),
                ("a", a, form.a, Type::B32),
                ("b", b, form.b, Type::B32),
                ("c", c, form.cd, acc),
            ] {
                if regs.len() != needs {
                    return Err(Defect::Fragment { fragment, shape: *shape, got: regs.len(), needs });
                }
                regs.iter().try_for_each(|r| k.reg(fragment, *r, ty))?;
            }
            Ok(())
        }
        Op::Ld { .. }
        | Op::St { .. }
        | Op::LdMatrix { .. }
        | Op::Cvta { .. }
        | Op::CpAsync { .. }
        | Op::Atom { .. } => memory::check(kernel, &inst.op),
        // Branch targets are checked with the labels.
        Op::Bra { .. } | Op::Ret | Op::Exit | Op::BarSync { .. } | Op::CpAsyncCommit | Op::CpAsyncWait { .. } => Ok(()),
    }
}

/// Destination and sources of one type.
fn same(k: Check<'_>, ty: Type, d: Reg, sources: &[Operand]) -> Result<(), Defect> {
    k.reg("d", d, ty)?;
    for (name, source) in ["a", "b", "c"].into_iter().zip(sources) {
        k.source(name, *source, ty)?;
    }
    Ok(())
}

fn mov(k: Check<'_>, ty: Type, d: Reg, a: Operand) -> Result<(), Defect> {
    let fits = ty == Type::Pred || wide_int(ty) || bits(ty) || real(ty);
    require(fits, "mov", ty, ".pred and types of 16 to 64 bits")?;
    k.reg("d", d, ty)?;
    match a {
        Operand::Special(_) if matches!(ty, Type::U32 | Type::B32) => Ok(()),
        Operand::Shared(index) if matches!(ty, Type::U32 | Type::B32 | Type::U64 | Type::B64) => {
            if index as usize >= k.0.shared.len() {
                return Err(Defect::NoSuch { what: "shared array", index });
            }
            Ok(())
        }
        _ => k.source("a", a, ty),
    }
}

/// Type of the parts that `mov` packs into or unpacks from `ty`.
fn part_type(opcode: &'static str, ty: Type, count: usize) -> Result<Type, Defect> {
    match (ty, count) {
        (Type::B32, 2) | (Type::B64, 4) => Ok(Type::B16),
        (Type::B16, 2) | (Type::B32, 4) => Ok(Type::B8),
        (Type::B64, 2) => Ok(Type::B32),
        _ => Err(Defect::VectorWidth { opcode, count, ty }),
    }
}

/// The integer type of twice the width.
fn double(ty: Type) -> Type {
    match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        _ => Type::S64,
    }
}

fn int(k: Check<'_>, op: IntOp, ty: Type, d: Reg, [a, b]: [Operand; 2]) -> Result<(), Defect> {
    let opcode = op.name();
    match op {
        IntOp::Add | IntOp::Sub | IntOp::MulLo | IntOp::MulHi | IntOp::Div | IntOp::Rem | IntOp::Min | IntOp::Max => {
            require(wide_int(ty), opcode, ty, "integers of 16 to 64 bits")?;
            same(k, ty, d, &[a, b])
        }
        IntOp::MulWide => {
            let fits = wide_int(ty) && ty.bits() < 64;
            require(fits, opcode, ty, "integers of 16 or 32 bits")?;
            k.reg("d", d, double(ty))?;
            k.source("a", a, ty)?;
            k.source("b", b, ty)
        }
        IntOp::And | IntOp::Or | IntOp::Xor => {
            let fits = bits(ty) || ty == Type::Pred;
            require(fits, opcode, ty, ".pred, .b16, .b32 or .b64")?;
            same(k, ty, d, &[a, b])
        }
        IntOp::Shl | IntOp::Shr => {
            let fits = bits(ty) || (op == IntOp::Shr && wide_int(ty));
            let allowed = "bits of 16 to 64 (shr: integers too)";
            require(fits, opcode, ty, allowed)?;
            same(k, ty, d, &[a])?;
            k.source("b", b, Type::U32)
        }
    }
}

fn int_unary(k: Check<'_>, op: IntUnary, ty: Type, d: Reg, a: Operand) -> Result<(), Defect> {
    let opcode = op.name();
    let (fits, allowed) = match op {
        IntUnary::Not => (bits(ty) || ty == Type::Pred, ".pred, .b16, .b32 or .b64"),
        IntUnary::Neg | IntUnary::Abs => (ty.is_signed() && ty.bits() >= 16, "signed integers of 16 to 64 bits"),
        IntUnary::Popc | IntUnary::Clz | IntUnary::Brev => (bits(ty) && ty.bits() >= 32, ".b32 or .b64"),
    };
    require(fits, opcode, ty, allowed)?;
    match op {
        // A count has 32 bits whatever is counted.
        IntUnary::Popc | IntUnary::Clz => {
            k.reg("d", d, Type::U32)?;
            k.source("a", a, ty)
        }
        _ => same(k, ty, d, &[a]),
    }
}
