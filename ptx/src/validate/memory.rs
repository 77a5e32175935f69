//! Loads, stores, copies and atomics.

use super::Defect;
use super::operand::Check;
use crate::ast::{Addr, AtomOp, Kernel, Op, Operand, Space, Type};

fn movable(ty: Type) -> bool {
    ty.is_bits() || ty.is_integer() || matches!(ty, Type::F32 | Type::F64)
}

/// Bytes of an access of `count` elements.
fn width(opcode: &'static str, ty: Type, count: usize) -> Result<u32, Defect> {
    if !movable(ty) {
        return Err(Defect::InstructionType {
            opcode,
            ty,
            allowed: "bits and integers of 8 to 64 bits, .f32 and .f64",
        });
    }
    let bytes = ty.bytes() * count as u32;
    if !matches!(count, 1 | 2 | 4) || bytes > 16 {
        return Err(Defect::VectorWidth { opcode, count, ty });
    }
    Ok(bytes)
}

/// Checks `ld`, `st`, `cvta`, `cp.async`, `atom` and `ldmatrix`; anything else passes.
pub(super) fn check(kernel: &Kernel, op: &Op) -> Result<(), Defect> {
    let k = Check(kernel);
    match op {
        Op::Ld { space, nc, ty, d, addr } => {
            let bytes = width("ld", *ty, d.len())?;
            if *nc && *space != Space::Global {
                return Err(Defect::Modifier { opcode: "ld", modifier: ".nc" });
            }
            for reg in d {
                k.wide_reg("d", *reg, *ty)?;
            }
            k.distinct(d)?;
            k.addr(*space, *addr, bytes)
        }
        Op::St { space, ty, addr, a } => {
            let bytes = width("st", *ty, a.len())?;
            if *space == Space::Param {
                return Err(Defect::Space { opcode: "st", space: *space });
            }
            for value in a {
                k.wide_source("a", *value, *ty)?;
            }
            k.addr(*space, *addr, bytes)
        }
        Op::LdMatrix { d, addr, .. } => {
            if !matches!(d.len(), 1 | 2 | 4) {
                return Err(Defect::VectorWidth { opcode: "ldmatrix", count: d.len(), ty: Type::B16 });
            }
            for reg in d {
                k.reg("d", *reg, Type::B32)?;
            }
            k.distinct(d)?;
            k.addr(Space::Shared, *addr, 16)
        }
        Op::Cvta { space, d, a } => {
            if *space == Space::Param {
                return Err(Defect::Space { opcode: "cvta.to", space: *space });
            }
            k.reg("d", *d, Type::U64)?;
            k.source("a", *a, Type::U64)
        }
        Op::CpAsync { cg, bytes, dst, src, src_size } => {
            if !matches!((*cg, *bytes), (_, 16) | (false, 4 | 8)) {
                return Err(Defect::CopySize { bytes: *bytes, cg: *cg });
            }
            k.addr(Space::Shared, *dst, *bytes)?;
            k.addr(Space::Global, *src, *bytes)?;
            match src_size {
                None => Ok(()),
                Some(Operand::Int(n)) if !(0..=i64::from(*bytes)).contains(n) => {
                    Err(Defect::ImmediateRange { operand: "src_size", value: *n, ty: Type::U32 })
                }
                Some(size) => k.source("src_size", *size, Type::U32),
            }
        }
        Op::Atom { space, op, ty, d, addr, a, b } => {
            atom_type(*op, *ty)?;
            if (*op == AtomOp::Cas) != b.is_some() {
                return Err(Defect::AtomOperands);
            }
            k.reg("d", *d, *ty)?;
            k.source("a", *a, *ty)?;
            if let Some(b) = b {
                k.source("b", *b, *ty)?;
            }
            atom_addr(k, *space, *addr, *ty)
        }
        _ => Ok(()),
    }
}

fn atom_type(op: AtomOp, ty: Type) -> Result<(), Defect> {
    let (fits, allowed) = match op {
        AtomOp::Add => (matches!(ty, Type::U32 | Type::S32 | Type::U64), ".u32, .s32 or .u64"),
        AtomOp::Min | AtomOp::Max => {
            (matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64), ".u32, .s32, .u64 or .s64")
        }
        AtomOp::And | AtomOp::Or | AtomOp::Xor | AtomOp::Exch | AtomOp::Cas => {
            (matches!(ty, Type::B32 | Type::B64), ".b32 or .b64")
        }
    };
    if fits {
        return Ok(());
    }
    Err(Defect::InstructionType { opcode: "atom", ty, allowed })
}

fn atom_addr(k: Check<'_>, space: Space, addr: Addr, ty: Type) -> Result<(), Defect> {
    if space == Space::Param {
        return Err(Defect::Space { opcode: "atom", space });
    }
    k.addr(space, addr, ty.bytes())
}
