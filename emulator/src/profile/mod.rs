//! Hardware profiles: a GPU generation is a row of data.
//!
//! A [`Profile`] states, for one generation, which matrix instructions there are and what each computes ([`MmaRow`]: operand types,
//! products per step, fraction bits kept, final conversion), with the confidence of every row and the switches for what the sources
//! disagree about. Nothing in this crate branches on a generation's name.
//!
//! Adding a generation is adding a row to `profile/table.rs` and a vector file to the tests.
//!
//! Source: `gpu-arithmetic` section 3 and its sources (MMA-Sim; Khattak and Mikaitis; Hawkeye; mmaemu). Deliberately missing, so
//! refused by name: sparse instructions, `tcgen05` variants, Blackwell Ultra and Thor, which no public model covers.

mod describe;
mod table;

pub use crate::mma::{Conversion, ZeroPolicy};

use crate::Error;
use crate::format::Elem;
use crate::mma::{Family, Fp8ThroughF16, Instruction, Operation, Shape, TFdpa, Types};

/// How well a rule is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confidence {
    /// `HW`: it reproduces recorded outputs of real hardware.
    Hardware,
    /// `XM`: it rests on MMA-Sim, whose authors report a million random tests an instruction against hardware.
    Simulator,
    /// `?`: open; the sources disagree or are silent.
    Open,
}

impl Confidence {
    /// The mark of the specification: `HW`, `XM` or `?`.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Hardware => "HW",
            Self::Simulator => "XM",
            Self::Open => "?",
        }
    }
}

/// Element types of A and B that a row covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// A and B of one type, any of these.
    Same(&'static [Elem]),
    /// A and B each any of these.
    Mixed(&'static [Elem]),
}

impl Operands {
    fn contain(self, a: Elem, b: Elem) -> bool {
        match self {
            Self::Same(types) => a == b && types.contains(&a),
            Self::Mixed(types) => types.contains(&a) && types.contains(&b),
        }
    }
}

/// Shapes that a row covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shapes {
    /// Exactly these.
    Listed(&'static [Shape]),
    /// Any m and n with one of these k (`wgmma`, `tcgen05`).
    AnyWithK(&'static [u32]),
}

impl Shapes {
    fn contain(self, shape: Shape) -> bool {
        match self {
            Self::Listed(shapes) => shapes.contains(&shape),
            Self::AnyWithK(ks) => ks.contains(&shape.k),
        }
    }
}

/// What a matrix unit does with one output element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusedOp {
    /// Truncated fused dot-product-add.
    TFdpa {
        /// Products of one step (`L_max`).
        max_terms: usize,
        /// Fraction bits kept (`F`).
        fraction: i32,
        /// Final conversion.
        conversion: Conversion,
    },
    /// FP8 widened to f16, two f16 steps of this size, C added last.
    Fp8ThroughF16 {
        /// Products of one step.
        max_terms: usize,
        /// Fraction bits kept.
        fraction: i32,
    },
    /// A chain of f64 fused multiply-adds, k ascending.
    FmaChain,
}

/// Matrix instructions that share their arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct MmaRow {
    /// The mnemonic.
    pub family: Family,
    /// Shapes.
    pub shapes: Shapes,
    /// Element types of A and B.
    pub operands: Operands,
    /// Element types C may have.
    pub c: &'static [Elem],
    /// Element type of D.
    pub d: Elem,
    /// The arithmetic.
    pub op: FusedOp,
    /// How well it is established.
    pub confidence: Confidence,
    /// On what data.
    pub source: &'static str,
}

impl MmaRow {
    fn covers_types(&self, family: Family, types: Types) -> bool {
        self.family == family
            && self.operands.contain(types.a, types.b)
            && self.c.contains(&types.c)
            && self.d == types.d
    }
}

/// Exponent floors of the alignment under [`ZeroPolicy::Exclude`] (`gpu-arithmetic` 3.4), by result; `None` is no floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExponentFloors {
    /// f32 results, and all results of 8-bit and smaller operands.
    pub f32_result: Option<i32>,
    /// f16 results of f16 operands.
    pub f16_result: Option<i32>,
}

/// One GPU generation.
#[derive(Clone, Debug)]
pub struct Profile {
    /// `sm_90`.
    pub name: &'static str,
    /// Compute capability times ten: 90.
    pub sm: u32,
    /// `Hopper`.
    pub architecture: &'static str,
    /// Matrix instructions.
    pub mma: &'static [MmaRow],
    /// Switch: how zero terms take part in the alignment.
    pub zero_policy: ZeroPolicy,
    /// Switch: exponent floors.
    pub floors: ExponentFloors,
}

impl Profile {
    /// Every profile, oldest first.
    #[must_use]
    pub fn all() -> &'static [Self] {
        table::PROFILES
    }

    /// The profile called `name`, for example `sm_90`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|p| p.name == name)
    }

    /// This profile with another zero policy.
    #[must_use]
    pub fn with_zero_policy(&self, zero_policy: ZeroPolicy) -> Self {
        Self { zero_policy, ..self.clone() }
    }

    /// This profile with other exponent floors.
    #[must_use]
    pub fn with_floors(&self, floors: ExponentFloors) -> Self {
        Self { floors, ..self.clone() }
    }

    /// What `instruction` computes on this generation.
    ///
    /// # Errors
    /// [`Error::UnsupportedMma`] if the generation has no such instruction or nobody has modelled it.
    pub fn mma(&self, instruction: &Instruction) -> Result<Operation, Error> {
        self.row(instruction).map(|row| self.resolve(row, instruction.types))
    }

    /// The row of `instruction`.
    ///
    /// # Errors
    /// As [`Profile::mma`].
    pub fn row(&self, instruction: &Instruction) -> Result<&'static MmaRow, Error> {
        self.mma
            .iter()
            .find(|row| {
                row.covers_types(instruction.family, instruction.types) && row.shapes.contain(instruction.shape)
            })
            .ok_or_else(|| Error::UnsupportedMma { profile: self.name, instruction: instruction.to_string() })
    }

    /// The arithmetic of these element types, whatever the shape: for recorded dot products of any K.
    #[must_use]
    pub fn dot(&self, family: Family, types: Types) -> Option<Operation> {
        let row = self.mma.iter().find(|row| row.covers_types(family, types))?;
        Some(self.resolve(row, types))
    }

    fn resolve(&self, row: &MmaRow, types: Types) -> Operation {
        let zeros = self.zero_policy;
        let floor = |half_operands: bool| match types.d {
            Elem::F16 if half_operands => self.floors.f16_result,
            _ => self.floors.f32_result,
        };
        match row.op {
            FusedOp::TFdpa { max_terms, fraction, conversion } => {
                let Types { a, b, c, .. } = types;
                let floor = floor(a == Elem::F16);
                Operation::TFdpa(TFdpa { a, b, c, max_terms, fraction, conversion, zeros, floor })
            }
            FusedOp::Fp8ThroughF16 { max_terms, fraction } => {
                Operation::Fp8ThroughF16(Fp8ThroughF16::new(types, max_terms, fraction, zeros, floor(true)))
            }
            FusedOp::FmaChain => Operation::FmaChain,
        }
    }
}

#[cfg(test)]
mod tests;
