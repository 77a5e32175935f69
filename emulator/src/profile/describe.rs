//! A profile in words: one description that text, JSON and documents are made from.

use super::{Fp8Order, FusedOp, MmaRow, Operands, Profile, Shapes, SwitchDescription, SwitchName, ZeroPolicy};
use crate::mma::{Conversion, Family, Modifier, Multiply, Shape};
use serde::Serialize;
use std::fmt::Write;

/// A generation in words. Serialises to stable JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProfileDescription {
    /// `sm_90`, `gfx942`.
    pub name: &'static str,
    /// `NVIDIA`, `AMD`.
    pub vendor: &'static str,
    /// `Hopper`.
    pub architecture: &'static str,
    /// Matrix instructions, a row a rule.
    pub instructions: Vec<RowDescription>,
    /// The switches that some row, or the special function unit, reads.
    pub switches: Vec<SwitchDescription>,
    /// What is refused because nobody has modelled it.
    pub unmodelled: Vec<UnmodelledDescription>,
}

/// Matrix instructions that share their arithmetic, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowDescription {
    /// The mnemonic.
    pub family: &'static str,
    /// Shapes; `k32` where m and n are free.
    pub shapes: Vec<String>,
    /// Element types of A and B.
    pub operands: Vec<&'static str>,
    /// Whether A and B may differ.
    pub mixed: bool,
    /// Element types of C.
    pub c: Vec<&'static str>,
    /// Element type of D.
    pub d: &'static str,
    /// Modifiers, of which an instruction has one; empty text for none.
    pub modifiers: Vec<String>,
    /// The rule.
    pub rule: String,
    /// `HW`, `XM`, `ISA` or `?`.
    pub confidence: &'static str,
    /// On what data.
    pub source: &'static str,
    /// `canonical`: NaN bits are claimed; `class`: only that a result is NaN; `none`: there is no NaN.
    pub nan: &'static str,
    /// Names of the switches it reads.
    pub switches: Vec<&'static str>,
}

/// What is not modelled, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnmodelledDescription {
    /// The instructions.
    pub what: &'static str,
    /// What is missing.
    pub why: &'static str,
}

impl Profile {
    /// The profile as data to print.
    #[must_use]
    pub fn description(&self) -> ProfileDescription {
        let mut read: Vec<SwitchName> = self.mma.iter().flat_map(MmaRow::switches).collect();
        // The special function unit: of whatever runs PTX.
        if self.sm != 0 {
            read.extend(SwitchName::APPROX);
        }
        ProfileDescription {
            name: self.name,
            vendor: self.vendor.name(),
            architecture: self.architecture,
            instructions: self.mma.iter().map(|row| self.describe_row(row)).collect(),
            switches: SwitchName::ALL
                .into_iter()
                .filter(|name| read.contains(name) && !self.is_idle(*name))
                .map(|name| self.switches.describe(name))
                .collect(),
            unmodelled: self.unmodelled.iter().map(|u| UnmodelledDescription { what: u.what, why: u.why }).collect(),
        }
    }

    /// Exponent floors do nothing while zeros take part.
    fn is_idle(&self, name: SwitchName) -> bool {
        use SwitchName::{F16Floor, F32Floor, NarrowF16Floor, NarrowF32Floor};
        self.switches.zero_policy.value == ZeroPolicy::SentinelMinus126
            && matches!(name, F32Floor | F16Floor | NarrowF32Floor | NarrowF16Floor)
    }

    fn describe_row(&self, row: &MmaRow) -> RowDescription {
        let (types, mixed) = match row.operands {
            Operands::Same(types) => (types, false),
            Operands::Mixed(types) => (types, true),
        };
        let shape = |s: &Shape| match row.family {
            Family::Mfma => format!("{}x{}x{}", s.m, s.n, s.k),
            _ => s.to_string(),
        };
        RowDescription {
            family: row.family.name(),
            shapes: match row.shapes {
                Shapes::Listed(shapes) => shapes.iter().map(shape).collect(),
                Shapes::AnyWithK(ks) => ks.iter().map(|k| format!("k{k}")).collect(),
            },
            operands: types.iter().map(|t| t.name()).collect(),
            mixed,
            c: row.c.iter().map(|t| t.name()).collect(),
            d: row.d.name(),
            modifiers: row.modifiers.iter().map(|m| modifier(*m)).collect(),
            rule: rule(row.op),
            confidence: row.confidence.mark(),
            source: row.source,
            nan: match (row.d.is_integer(), self.nan_is_a_class(row)) {
                (true, _) => "none",
                (false, true) => "class",
                (false, false) => "canonical",
            },
            switches: row.switches().into_iter().map(SwitchName::name).collect(),
        }
    }

    /// The profile in words, a line a rule, each with its confidence mark and source. For people; not a stable format.
    #[must_use]
    pub fn describe(&self) -> String {
        let d = self.description();
        let mut out = format!("{} ({} {})\n", d.name, d.vendor, d.architecture);
        for s in &d.switches {
            let _ = writeln!(out, "  [{}] {} = {}: {}; {}", s.confidence, s.name, s.value, s.meaning, s.source);
        }
        for row in &d.instructions {
            let types = row.operands.join(if row.mixed { "x" } else { "|" });
            let modifiers = row.modifiers.iter().filter(|m| !m.is_empty()).cloned().collect::<Vec<_>>().join("|");
            let gap = if modifiers.is_empty() { "" } else { " " };
            let _ = writeln!(
                out,
                "  [{}] {} {}{gap}{modifiers}: {types} -> {}, {}; {}",
                row.confidence,
                row.family,
                row.shapes.join(" "),
                row.d,
                row.rule,
                row.source
            );
        }
        for u in &d.unmodelled {
            let _ = writeln!(out, "  refused: {}; {}", u.what, u.why);
        }
        out
    }
}

fn modifier(modifier: Modifier) -> String {
    match modifier {
        Modifier::None => String::new(),
        Modifier::BlockScale { block, scale } => format!("block{block}.{scale}"),
        Modifier::Satfinite => "satfinite".to_owned(),
        Modifier::XorPopc => "xor.popc".to_owned(),
        Modifier::AndPopc => "and.popc".to_owned(),
        Modifier::OneK => "1k".to_owned(),
    }
}

fn rule(op: FusedOp) -> String {
    match op {
        FusedOp::TFdpa { max_terms, fraction, conversion } => {
            let conversion = match conversion {
                Conversion::Rz32 => "f32 toward zero",
                Conversion::RzE8m13 => "f32 of 13 fraction bits toward zero",
                Conversion::Rne16 | Conversion::Rne16Signed => "f16 to nearest even",
            };
            format!("T-FDPA: {max_terms} products a step, {fraction} fraction bits, {conversion}")
        }
        FusedOp::ScaledTFdpa { max_terms, fraction } => {
            format!("ST-FDPA: {max_terms} scaled products a step, {fraction} fraction bits, f32 toward zero")
        }
        FusedOp::GroupScaledTFdpa { group, max_terms, fraction } => format!(
            "GST-FDPA: {max_terms} products a step in exact groups of {group}, scaled, {fraction} fraction bits, f32 toward zero"
        ),
        FusedOp::Fp8ThroughF16 { max_terms, fraction, order } => {
            let order = match order {
                Fp8Order::Pairs => "pairs in turn",
                Fp8Order::Switch => "shared out by a switch",
            };
            format!(
                "widened to f16, {order}: two T-FDPA steps of at most {max_terms} products and {fraction} fraction bits, C added last"
            )
        }
        FusedOp::FmaChain => "fused multiply-adds in ascending k".to_owned(),
        FusedOp::ExactFdpa { max_terms } => {
            format!("E-FDPA: {max_terms} products a step, exact, one rounding to f32 to nearest even")
        }
        FusedOp::FtzAddMul { group } => {
            format!("FTZ-AddMul: f32 products and sums in groups of {group}, to nearest even, subnormals flushed")
        }
        FusedOp::TrFdpa { max_terms, fraction, sum_fraction, interleaved } => {
            let name = if interleaved { "GTR-FDPA: even and odd of" } else { "TR-FDPA:" };
            format!(
                "{name} {max_terms} products a step, {fraction} fraction bits, {sum_fraction} beside C rounded down, f32 to nearest even"
            )
        }
        FusedOp::Integer(Multiply::Product) => "exact; wraps modulo 2^32, or clamps with .satfinite".to_owned(),
        FusedOp::Integer(Multiply::Xor) => "count of bits that differ, exact; wraps modulo 2^32".to_owned(),
        FusedOp::Integer(Multiply::And) => "count of bits both set, exact; wraps modulo 2^32".to_owned(),
    }
}
