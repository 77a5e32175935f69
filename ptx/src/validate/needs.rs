//! Which header an instruction needs: those of the subset that are younger than PTX 7.0 on sm_80.
//!
//! Source: the "PTX ISA notes" and "target ISA notes" of each instruction in the PTX ISA. Of instructions that arrived on one target first,
//! the pair that serves the oldest target. That some of sm_100 exist on its architecture-specific targets (`sm_100a`) only is not checked.

use crate::ast::{Op, Round, Type};

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

/// What conversions of a pair need.
fn pair(ty: Type) -> Header {
    match ty {
        Type::E4m3x2 | Type::E5m2x2 => FP8,
        _ if ty.is_narrow_pair() => BLACKWELL,
        _ => BASE,
    }
}
