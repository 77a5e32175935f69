//! Which header an instruction needs: those of the subset that are younger than PTX 7.0 on sm_80.
//!
//! Source: the "PTX ISA notes" and "target ISA notes" of each instruction in the PTX ISA. Of instructions that arrived on one target first,
//! the pair that serves the oldest target. That some of sm_100 exist on its architecture-specific targets (`sm_100a`) only is not checked.

use crate::ast::{Approx, Op, Round, Type};

/// A PTX version and a target.
pub(super) type Header = ((u32, u32), u32);

/// What every header of the subset allows.
pub(super) const BASE: Header = ((7, 0), 80);
const HALVES: Header = ((7, 8), 90);
const FP8: Header = ((8, 1), 89);
const FP8_MMA: Header = ((8, 4), 89);
const BLACKWELL: Header = ((8, 6), 100);
const STOCHASTIC: Header = ((8, 7), 100);

/// The least header `op` needs.
pub(super) fn needs(op: &Op) -> Header {
    match op {
        Op::Mixed { .. } => BLACKWELL,
        Op::Float { ty: Type::F32x2, .. } | Op::Fma { ty: Type::F32x2, .. } => BLACKWELL,
        Op::Float { xorsign: true, .. } => ((7, 2), 86),
        Op::Float { ty: Type::Bf16 | Type::Bf16x2, op, .. } if !op.selects() => HALVES,
        Op::Setp { ty: Type::Bf16, .. } => HALVES,
        Op::CvtPack { round: Round::Rs, .. } => STOCHASTIC,
        Op::CvtPack { to, satfinite, .. } => pair(*to).max(if *satfinite { FP8 } else { BASE }),
        Op::Cvt { to: Type::Tf32, round, satfinite, .. } => match (round, satfinite) {
            (Some(Round::Rna), false) => BASE,
            (Some(Round::Rna), true) => FP8,
            _ => HALVES,
        },
        Op::Cvt { to, from, satfinite, .. } => {
            let halves = if *from == Type::Bf16 || (*to == Type::Bf16 && *from != Type::F32) { HALVES } else { BASE };
            let finite = if *satfinite { FP8 } else { BASE };
            pair(*to).max(pair(*from)).max(halves).max(finite)
        }
        Op::Mma { aty: Type::E4m3 | Type::E5m2, .. } => FP8_MMA,
        _ => BASE,
    }
}

/// The oldest target that `op` exists on, of PTX 7.0: what Turing and Ampere brought needs them.
pub(super) fn oldest(op: &Op) -> u32 {
    let ampere = |ty: Type| matches!(ty, Type::Bf16 | Type::Bf16x2 | Type::Tf32);
    let young = match op {
        Op::CpAsync { .. } | Op::CpAsyncCommit | Op::CpAsyncWait { .. } | Op::Mma { .. } | Op::CvtPack { .. } => true,
        Op::Cvt { to, from, relu, satfinite, .. } => ampere(*to) || ampere(*from) || *relu || *satfinite,
        Op::Float { ty, op, nan, xorsign, .. } => {
            ampere(*ty) || *nan || *xorsign || op.selects() && matches!(ty, Type::F16 | Type::F16x2)
        }
        Op::Fma { ty, relu, .. } => ampere(*ty) || *relu,
        Op::FloatUnary { ty, .. } | Op::Setp { ty, .. } => ampere(*ty),
        Op::Approx { ty, .. } if ampere(*ty) => true,
        Op::Approx { f, ty, .. } if *f == Approx::Tanh || *ty != Type::F32 && *ty != Type::F64 => return 75,
        Op::LdMatrix { .. } => return 75,
        _ => false,
    };
    if young { 80 } else { 70 }
}

/// What conversions of a pair need.
fn pair(ty: Type) -> Header {
    match ty {
        Type::E4m3x2 | Type::E5m2x2 => FP8,
        _ if ty.is_narrow_pair() => BLACKWELL,
        _ => BASE,
    }
}
