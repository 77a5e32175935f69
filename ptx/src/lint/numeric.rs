//! Rules on single instructions: roundings, special functions, flushing.

use super::{LintOptions, Report, Rule};
use crate::ast::{Approx, FloatOp, Op, Operand, Special, Stmt};

/// A special function whose bits every profile models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedApprox {
    /// The function.
    pub f: Approx,
    /// With `.ftz`, or without.
    pub ftz: bool,
    /// Why it may be used.
    pub reason: &'static str,
}

/// The special functions a kernel may use. Everything else under `.approx` is refused.
pub const APPROX_ALLOWED: &[AllowedApprox] = &[
    AllowedApprox { f: Approx::Rcp, ftz: true, reason: "one MUFU.RCP, modelled by the profile's table" },
    AllowedApprox { f: Approx::Rsqrt, ftz: true, reason: "one MUFU.RSQ, modelled by the profile's table" },
    AllowedApprox { f: Approx::Ex2, ftz: true, reason: "one MUFU.EX2, modelled by the profile's table" },
    AllowedApprox { f: Approx::Lg2, ftz: true, reason: "one MUFU.LG2, modelled by the profile's table" },
];

pub(super) fn check(options: &LintOptions, report: &mut Report<'_>) {
    let kernel = report.kernel;
    for (index, stmt) in kernel.body.iter().enumerate() {
        let Stmt::Inst(inst) = stmt else { continue };
        let opcode = inst.op.mnemonic();
        match &inst.op {
            Op::Float { op: FloatOp::Add | FloatOp::Sub | FloatOp::Mul, round: None, ty, .. } => report.add(
                Rule::Rounding,
                Some(index),
                format!("`{opcode}.{ty}` without a rounding may be fused with a neighbour: write {opcode}.rn.{ty}"),
            ),
            Op::Mixed { round: None, from, .. } => report.add(
                Rule::Rounding,
                Some(index),
                format!("`{opcode}.f32.{from}` without a rounding may be fused with a neighbour: write {opcode}.rn.f32.{from}"),
            ),
            Op::Approx { f, ftz, .. }
                if !options.allow_any_approx && !APPROX_ALLOWED.iter().any(|a| a.f == *f && a.ftz == *ftz) =>
            {
                let list: Vec<String> = APPROX_ALLOWED
                    .iter()
                    .map(|a| format!("{}.approx{}", a.f, if a.ftz { ".ftz" } else { "" }))
                    .collect();
                let ftz = if *ftz { ".ftz" } else { "" };
                report.add(
                    Rule::Approx,
                    Some(index),
                    format!("no profile models the bits of {f}.approx{ftz}; use {}", list.join(", ")),
                );
            }
            Op::Float { ftz: true, .. }
            | Op::Fma { ftz: true, .. }
            | Op::FloatUnary { ftz: true, .. }
            | Op::Setp { ftz: true, .. }
            | Op::Cvt { ftz: true, .. }
                if !options.allow_ftz =>
            {
                report.add(
                    Rule::Ftz,
                    Some(index),
                    format!("`{opcode}` flushes subnormals (.ftz), which this recipe does not allow"),
                );
            }
            Op::Mov { a: Operand::Special(Special::WarpId), .. } => report.add(
                Rule::HardwareId,
                Some(index),
                "%warpid may change from run to run: derive the warp from %tid".to_owned(),
            ),
            _ => {}
        }
    }
}
