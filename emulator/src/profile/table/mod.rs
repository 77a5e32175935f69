//! The table of generations (`gpu-arithmetic` 3.1, 3.4, 4 and 9). Everything that differs between GPUs is here.

mod amd;
mod nvidia;
mod switches;

use super::{Confidence, FusedOp, MmaRow, Operands, Profile, Shapes, Switches, Unmodelled, Vendor};
use crate::format::Elem;
use crate::mma::{Conversion, Family, Modifier};

/// A rule's confidence and source.
type Mark = (Confidence, &'static str);

const XM: Mark = (Confidence::Simulator, "MMA-Sim c785138");

/// A row of T-FDPA; other rules replace its `op`.
const fn row(
    family: Family,
    shapes: Shapes,
    operands: Operands,
    d: Elem,
    (max_terms, fraction): (usize, i32),
    (confidence, source): Mark,
) -> MmaRow {
    let conversion = match d {
        Elem::F16 => Conversion::Rne16,
        _ => Conversion::Rz32,
    };
    let c: &[Elem] = match d {
        Elem::F16 => &[Elem::F16],
        Elem::F64 => &[Elem::F64],
        Elem::S32 => &[Elem::S32],
        _ => &[Elem::F32],
    };
    MmaRow {
        family,
        shapes,
        operands,
        c,
        d,
        modifiers: &[Modifier::None],
        op: FusedOp::TFdpa { max_terms, fraction, conversion },
        confidence,
        source,
    }
}

/// A chain of fused multiply-adds of one type.
const fn chain(family: Family, shapes: Shapes, elem: &'static [Elem], mark: Mark) -> MmaRow {
    let row = row(family, shapes, Operands::Same(elem), elem[0], (1, 0), mark);
    MmaRow { op: FusedOp::FmaChain, ..row }
}

pub(super) static PROFILES: &[Profile] = &{
    let [a, b, c, d, e, f, g, h] = nvidia::PROFILES;
    let [i, j, k] = amd::PROFILES;
    [a, b, c, d, e, f, g, h, i, j, k]
};
