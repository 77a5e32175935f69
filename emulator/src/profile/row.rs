//! A row of the table of generations: matrix instructions that share their arithmetic.

use super::{Confidence, SwitchName};
use crate::format::Elem;
use crate::mma::{Conversion, Family, Instruction, Modifier, Multiply, Shape, Types};

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

    /// Every pair of types, A before B.
    pub fn pairs(self) -> impl Iterator<Item = (Elem, Elem)> {
        let (types, mixed) = match self {
            Self::Same(types) => (types, false),
            Self::Mixed(types) => (types, true),
        };
        types.iter().flat_map(move |&a| types.iter().filter(move |&&b| mixed || a == b).map(move |&b| (a, b)))
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

    /// One shape for each that is listed, m64n8 where m and n are free.
    pub fn examples(self) -> Vec<Shape> {
        match self {
            Self::Listed(shapes) => shapes.to_vec(),
            Self::AnyWithK(ks) => ks.iter().map(|&k| Shape::new(64, 8, k)).collect(),
        }
    }
}

/// How FP8 products are shared out between two f16 steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fp8Order {
    /// Pairs in turn, as recorded outputs show.
    Pairs,
    /// As the switch [`SwitchName::Fp8K16`] says.
    Switch,
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
    /// The same with one pair of scales a step.
    ScaledTFdpa {
        /// Products of one step and elements of a block.
        max_terms: usize,
        /// Fraction bits kept.
        fraction: i32,
    },
    /// Groups of FP4 products, summed exactly and scaled.
    GroupScaledTFdpa {
        /// Products of one group.
        group: usize,
        /// Products of one step.
        max_terms: usize,
        /// Fraction bits kept.
        fraction: i32,
    },
    /// FP8 widened to f16, two f16 steps of this size, C added last.
    Fp8ThroughF16 {
        /// Products of one step.
        max_terms: usize,
        /// Fraction bits kept.
        fraction: i32,
        /// Which products each step takes.
        order: Fp8Order,
    },
    /// A chain of fused multiply-adds, k ascending.
    FmaChain,
    /// Exact sum, one rounding a step.
    ExactFdpa {
        /// Products of one step.
        max_terms: usize,
    },
    /// f32 multiplications and additions that flush.
    FtzAddMul {
        /// Products of one group.
        group: usize,
    },
    /// Truncated products, rounded down beside C.
    TrFdpa {
        /// Products of one step.
        max_terms: usize,
        /// Fraction bits to which products and C are cut.
        fraction: i32,
        /// Fraction bits of the sum of products beside C.
        sum_fraction: i32,
        /// Even and odd products apart.
        interleaved: bool,
    },
    /// Exact integers.
    Integer(Multiply),
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
    /// Modifiers, one of which the instruction has.
    pub modifiers: &'static [Modifier],
    /// The arithmetic.
    pub op: FusedOp,
    /// How well it is established.
    pub confidence: Confidence,
    /// On what data.
    pub source: &'static str,
}

impl MmaRow {
    /// Whether the row is about this instruction.
    #[must_use]
    pub fn covers(&self, instruction: &Instruction) -> bool {
        self.covers_types(instruction.family, instruction.types)
            && self.shapes.contain(instruction.shape)
            && self.modifiers.contains(&instruction.modifier)
    }

    pub(super) fn covers_types(&self, family: Family, types: Types) -> bool {
        self.family == family
            && self.operands.contain(types.a, types.b)
            && self.c.contains(&types.c)
            && self.d == types.d
    }

    /// The instructions of the row, with m64n8 where m and n are free.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction> + '_ {
        let shapes = self.shapes.examples().into_iter();
        shapes.flat_map(move |shape| {
            self.operands.pairs().flat_map(move |(a, b)| {
                self.c.iter().flat_map(move |&c| {
                    let types = Types { d: self.d, a, b, c };
                    self.modifiers.iter().map(move |&modifier| Instruction {
                        family: self.family,
                        shape,
                        types,
                        modifier,
                    })
                })
            })
        })
    }

    /// The exponent-floor switch that a fused sum of these operands and this result obeys (`gpu-arithmetic` 3.4).
    pub(super) fn floor_switch(&self, a: Elem) -> SwitchName {
        // FP8 issued as f16 steps is an f16 sum; CDNA3 has one switch for all its sums.
        let wide = matches!(self.op, FusedOp::Fp8ThroughF16 { .. } | FusedOp::TrFdpa { .. });
        let narrow = a.format().width <= 8 && !wide;
        match (narrow, self.d) {
            (false, Elem::F16) => SwitchName::F16Floor,
            (false, _) => SwitchName::F32Floor,
            (true, Elem::F16) => SwitchName::NarrowF16Floor,
            (true, _) => SwitchName::NarrowF32Floor,
        }
    }

    /// The switches that the row's arithmetic depends on.
    #[must_use]
    pub fn switches(&self) -> Vec<SwitchName> {
        let mut names = Vec::new();
        match self.op {
            FusedOp::TFdpa { .. }
            | FusedOp::ScaledTFdpa { .. }
            | FusedOp::GroupScaledTFdpa { .. }
            | FusedOp::Fp8ThroughF16 { .. } => {
                names.push(SwitchName::ZeroPolicy);
                for (a, _) in self.operands.pairs() {
                    names.push(self.floor_switch(a));
                }
                if self.d == Elem::F16 {
                    names.push(SwitchName::Underflow);
                }
                if matches!(self.op, FusedOp::Fp8ThroughF16 { order: Fp8Order::Switch, .. }) {
                    names.push(SwitchName::Fp8K16);
                }
            }
            FusedOp::TrFdpa { .. } => {
                names.extend([SwitchName::ZeroPolicy, self.floor_switch(Elem::F16), SwitchName::NanPayload]);
            }
            FusedOp::ExactFdpa { .. } => names.extend([SwitchName::ZeroSum, SwitchName::NanPayload]),
            FusedOp::FmaChain | FusedOp::FtzAddMul { .. } => names.push(SwitchName::NanPayload),
            FusedOp::Integer(_) => {
                if self.modifiers.contains(&Modifier::Satfinite) {
                    names.push(SwitchName::Clamp);
                }
            }
        }
        names.sort();
        names.dedup();
        names
    }
}
