//! Which conversions exist, with which roundings and modifiers.

use super::Defect;
use crate::ast::{Round, Type};

const OPCODE: &str = "cvt";
const INTEGRAL: &str = ".rni, .rzi, .rmi or .rpi";
const IEEE: &str = ".rn, .rz, .rm or .rp";

fn rounding(round: Option<Round>, allowed: &'static str, fits: impl Fn(Option<Round>) -> bool) -> Result<(), Defect> {
    if fits(round) {
        return Ok(());
    }
    Err(Defect::Rounding { opcode: OPCODE, round, allowed })
}

fn integral(round: Option<Round>) -> bool {
    matches!(round, Some(Round::Rni | Round::Rzi | Round::Rmi | Round::Rpi))
}

fn ieee(round: Option<Round>) -> bool {
    matches!(round, Some(Round::Rn | Round::Rz | Round::Rm | Round::Rp))
}

fn modifiers(ftz: bool, sat: bool) -> Result<(), Defect> {
    match (ftz, sat) {
        (false, false) => Ok(()),
        (true, _) => Err(Defect::Modifier { opcode: OPCODE, modifier: ".ftz" }),
        (false, true) => Err(Defect::Modifier { opcode: OPCODE, modifier: ".sat" }),
    }
}

/// Whether every value of one integer type is a value of another, so that nothing can saturate.
fn holds_all(to: Type, from: Type) -> bool {
    match (to.is_signed(), from.is_signed()) {
        (true, false) => to.bits() > from.bits(),
        (false, true) => false,
        _ => to.bits() >= from.bits(),
    }
}

/// Checks `cvt[.rnd][.ftz][.sat].to.from`.
pub(super) fn check(round: Option<Round>, ftz: bool, sat: bool, to: Type, from: Type) -> Result<(), Defect> {
    use Type::{Bf16, F16, F32, F64, Tf32};
    let f32_involved = to == F32 || from == F32;
    match (to, from) {
        _ if to.is_integer() && from.is_integer() => {
            rounding(round, "none between integers", |r| r.is_none())?;
            modifiers(ftz, sat && holds_all(to, from))
        }
        (_, F16 | F32 | F64) if to.is_integer() => {
            rounding(round, INTEGRAL, integral)?;
            // Out-of-range values saturate in any case, so `.sat` is not in the subset.
            modifiers(ftz && from != F32, sat)
        }
        (F16 | F32 | F64, _) if from.is_integer() => {
            rounding(round, IEEE, ieee)?;
            modifiers(ftz, sat)
        }
        (F32, F32) | (F64, F64) | (F16, F16) => {
            rounding(round, INTEGRAL, |r| integral(r) || (r.is_none() && sat))?;
            modifiers(ftz && to != F32, sat && to != F32)
        }
        (F32, F16) | (F64, F16 | F32) => {
            rounding(round, "none: the conversion is exact", |r| r.is_none())?;
            modifiers(ftz && !f32_involved, sat && to != F32)
        }
        (F16, F32 | F64) | (F32, F64) => {
            rounding(round, IEEE, ieee)?;
            modifiers(ftz && !f32_involved, sat && to != F32)
        }
        (Bf16, F32) => {
            let near = |r| matches!(r, Some(Round::Rn | Round::Rz));
            rounding(round, ".rn or .rz", near)?;
            modifiers(ftz, sat)
        }
        (Tf32, F32) => {
            rounding(round, ".rna", |r| r == Some(Round::Rna))?;
            modifiers(ftz, sat)
        }
        _ => Err(Defect::Conversion { to, from }),
    }
}
