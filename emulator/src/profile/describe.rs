//! A profile in words, for `lastbit` to print.

use super::{Confidence, FusedOp, MmaRow, Operands, Profile, Shapes};
use crate::mma::ZeroPolicy;
use std::fmt::Write;

impl Profile {
    /// The profile in words, a line a rule, each with its confidence mark and source. For people; not a stable format.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut out = format!("{} ({})\n", self.name, self.architecture);
        let policy = match self.zero_policy {
            ZeroPolicy::Exclude => "zero terms are left out of the alignment",
            ZeroPolicy::SentinelMinus126 => "a zero operand aligns with exponent -126 (MMA-Sim)",
        };
        let _ = writeln!(out, "  [{}] {policy}; three independent projects exclude zeros", Confidence::Open.mark());
        if self.zero_policy == ZeroPolicy::Exclude {
            let floor = |e: Option<i32>| e.map_or_else(|| "none".to_owned(), |e| e.to_string());
            let _ = writeln!(
                out,
                "  [{}] exponent floor: {} for f32 results, {} for f16 results; Khattak and Mikaitis, Hawkeye",
                Confidence::Open.mark(),
                floor(self.floors.f32_result),
                floor(self.floors.f16_result),
            );
        }
        for row in self.mma {
            let _ = writeln!(out, "  [{}] {}; {}", row.confidence.mark(), row.describe(), row.source);
        }
        out
    }
}

impl MmaRow {
    fn describe(&self) -> String {
        let shapes = match self.shapes {
            Shapes::Listed(shapes) => shapes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Shapes::AnyWithK(ks) => ks.iter().map(|k| format!("k{k}")).collect::<Vec<_>>().join(" "),
        };
        let (types, mix) = match self.operands {
            Operands::Same(types) => (types, "|"),
            Operands::Mixed(types) => (types, "x"),
        };
        let types = types.iter().map(ToString::to_string).collect::<Vec<_>>().join(mix);
        let what = match self.op {
            FusedOp::TFdpa { max_terms, fraction, conversion } => {
                format!("T-FDPA, at most {max_terms} products a step, {fraction} fraction bits, {conversion:?}")
            }
            FusedOp::Fp8ThroughF16 { max_terms, fraction } => {
                format!(
                    "widened to f16, two T-FDPA steps of {max_terms} products and {fraction} fraction bits, C added last"
                )
            }
            FusedOp::FmaChain => "fused multiply-adds in ascending k".to_owned(),
        };
        format!("{} {shapes}: {types} -> {}, {what}", self.family.name(), self.d)
    }
}
