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

fn to_nearest_or_zero(round: Option<Round>) -> bool {
    matches!(round, Some(Round::Rn | Round::Rz))
}

fn absent(on: bool, modifier: &'static str) -> Result<(), Defect> {
    if on { Err(Defect::Modifier { opcode: OPCODE, modifier }) } else { Ok(()) }
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

/// A `cvt`, of one operand.
pub(super) struct Form {
    pub round: Option<Round>,
    pub ftz: bool,
    pub sat: bool,
    pub satfinite: bool,
    pub relu: bool,
    pub to: Type,
    pub from: Type,
}

/// Checks `cvt[.rnd][.ftz][.sat][.satfinite][.relu].to.from`.
pub(super) fn check(form: Form) -> Result<(), Defect> {
    let Form { round, ftz, sat, satfinite, relu, to, from } = form;
    match (to, from) {
        _ if to.is_narrow_pair() || from.is_narrow_pair() => {
            modifiers(ftz, sat)?;
            return pair(form);
        }
        (Type::F16 | Type::Bf16, Type::F32) if satfinite || relu => {
            modifiers(ftz, sat)?;
            return rounding(round, ".rn or .rz", to_nearest_or_zero);
        }
        (Type::Tf32, Type::F32) => {
            modifiers(ftz, sat)?;
            rounding(round, ".rna, .rn or .rz", |r| r == Some(Round::Rna) || to_nearest_or_zero(r))?;
            return absent(relu && round == Some(Round::Rna), ".relu");
        }
        _ => {}
    }
    absent(satfinite, ".satfinite")?;
    absent(relu, ".relu")?;
    plain(round, ftz, sat, to, from)
}

/// Between a pair of narrow floats, or of scales, and a pair of 16-bit floats.
fn pair(form: Form) -> Result<(), Defect> {
    use Type::{Bf16x2, F16x2, Ue8m0x2};
    let Form { round, satfinite, relu, to, from, .. } = form;
    match (to, from) {
        (Ue8m0x2, Bf16x2) => {
            absent(relu, ".relu")?;
            rounding(round, ".rz or .rp", |r| matches!(r, Some(Round::Rz | Round::Rp)))
        }
        (Bf16x2, Ue8m0x2) => {
            absent(relu, ".relu")?;
            absent(satfinite, ".satfinite")?;
            rounding(round, ".rn", |r| r == Some(Round::Rn))
        }
        (F16x2 | Bf16x2, _) if from.is_float() && from != Ue8m0x2 => {
            absent(satfinite, ".satfinite")?;
            rounding(round, ".rn", |r| r == Some(Round::Rn))
        }
        (_, F16x2 | Bf16x2) if to != Ue8m0x2 => saturating(round, satfinite),
        _ => Err(Defect::Conversion { to, from }),
    }
}

/// To floats of 8 bits and fewer there is one form only.
fn saturating(round: Option<Round>, satfinite: bool) -> Result<(), Defect> {
    rounding(round, ".rn.satfinite", |r| r == Some(Round::Rn) && satfinite)
}

/// Checks `cvt.rnd[.satfinite][.relu].to.f32` of two operands.
pub(super) fn check_pack(round: Round, satfinite: bool, relu: bool, to: Type, random: bool) -> Result<(), Defect> {
    let stochastic = round == Round::Rs;
    if stochastic != random {
        return Err(Defect::Rounding {
            opcode: OPCODE,
            round: Some(round),
            allowed: ".rs with random bits, else another",
        });
    }
    match to {
        Type::F16x2 | Type::Bf16x2 => rounding(Some(round), ".rn, .rz or .rs", |r| to_nearest_or_zero(r) || stochastic),
        Type::Ue8m0x2 => {
            absent(relu, ".relu")?;
            rounding(Some(round), ".rz or .rp", |r| matches!(r, Some(Round::Rz | Round::Rp)))
        }
        _ if to.is_narrow_pair() => saturating(Some(round), satfinite),
        _ => {
            let allowed = ".f16x2, .bf16x2, and pairs of narrow floats and of scales";
            Err(Defect::InstructionType { opcode: OPCODE, ty: to, allowed })
        }
    }
}

/// Of plain numbers.
fn plain(round: Option<Round>, ftz: bool, sat: bool, to: Type, from: Type) -> Result<(), Defect> {
    use Type::{Bf16, F16, F32, F64};
    let f32_involved = to == F32 || from == F32;
    match (to, from) {
        _ if to.is_integer() && from.is_integer() => {
            rounding(round, "none between integers", |r| r.is_none())?;
            modifiers(ftz, sat && holds_all(to, from))
        }
        (_, F16 | Bf16 | F32 | F64) if to.is_integer() => {
            rounding(round, INTEGRAL, integral)?;
            // Out-of-range values saturate in any case, so `.sat` is not in the subset.
            modifiers(ftz && from != F32, sat)
        }
        (F16 | F32 | F64, _) if from.is_integer() => {
            rounding(round, IEEE, ieee)?;
            modifiers(ftz, sat)
        }
        (Bf16, _) if from.is_integer() => {
            rounding(round, IEEE, ieee)?;
            modifiers(ftz, sat)
        }
        (F32, Bf16) => {
            rounding(round, "none: the conversion is exact", |r| r.is_none())?;
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
            rounding(round, ".rn or .rz", to_nearest_or_zero)?;
            modifiers(ftz, sat)
        }
        _ => Err(Defect::Conversion { to, from }),
    }
}
