//! From a row of the table and the positions of the switches to the operation of an instruction.

use super::{Fp8Order, FusedOp, MmaRow, NanPayload, Profile, SwitchName, Underflow};
use crate::Error;
use crate::format::Elem;
use crate::mma::{
    Conversion, ExactFdpa, Family, FmaChain, Fp8Split, Fp8ThroughF16, FtzAddMul, GroupScaledTFdpa, Instruction,
    IntegerDot, Modifier, Operation, ScaledTFdpa, TFdpa, TrFdpa, Types,
};

impl Profile {
    /// What `instruction` computes on this generation.
    ///
    /// # Errors
    /// [`Error::UnsupportedMma`] if the generation has no such instruction, nobody has modelled it, or a switch refuses it.
    pub fn mma(&self, instruction: &Instruction) -> Result<Operation, Error> {
        let row = self.row(instruction)?;
        self.resolve(row, instruction.types, instruction.modifier).ok_or_else(|| self.unsupported(instruction))
    }

    /// The row of `instruction`.
    ///
    /// # Errors
    /// [`Error::UnsupportedMma`] if there is none.
    pub fn row(&self, instruction: &Instruction) -> Result<&'static MmaRow, Error> {
        self.mma.iter().find(|row| row.covers(instruction)).ok_or_else(|| self.unsupported(instruction))
    }

    fn unsupported(&self, instruction: &Instruction) -> Error {
        Error::UnsupportedMma { profile: self.name, instruction: instruction.to_string() }
    }

    /// The arithmetic of these element types without modifier, whatever the shape: for recorded dot products of any K.
    #[must_use]
    pub fn dot(&self, family: Family, types: Types) -> Option<Operation> {
        self.resolve(self.row_of_types(family, types)?, types, Modifier::None)
    }

    /// The row that [`Profile::dot`] follows.
    #[must_use]
    pub fn row_of_types(&self, family: Family, types: Types) -> Option<&'static MmaRow> {
        let plain = |row: &&MmaRow| row.covers_types(family, types) && row.modifiers.contains(&Modifier::None);
        self.mma.iter().find(plain)
    }

    /// Whether only *that* a result is NaN is claimed for the instructions of `row`, not its bits.
    #[must_use]
    pub fn nan_is_a_class(&self, row: &MmaRow) -> bool {
        row.switches().contains(&SwitchName::NanPayload) && self.switches.nan_payload.value == NanPayload::Class
    }

    /// `None` if a switch refuses the instruction.
    fn resolve(&self, row: &MmaRow, types: Types, modifier: Modifier) -> Option<Operation> {
        let switches = &self.switches;
        let zeros = switches.zero_policy.value;
        let floor = switches.floor(row.floor_switch(types.a));
        let Types { a, b, c, d } = types;
        let by_switch = |conversion| match (conversion, switches.underflow.value) {
            (Conversion::Rne16, Underflow::Signed) => Conversion::Rne16Signed,
            (conversion, _) => conversion,
        };
        Some(match row.op {
            FusedOp::TFdpa { max_terms, fraction, conversion } => {
                let conversion = by_switch(conversion);
                Operation::TFdpa(TFdpa { a, b, c, max_terms, fraction, conversion, zeros, floor })
            }
            FusedOp::ScaledTFdpa { max_terms, fraction } => {
                Operation::ScaledTFdpa(ScaledTFdpa { a, b, max_terms, fraction, zeros, floor })
            }
            FusedOp::GroupScaledTFdpa { group, max_terms, fraction } => {
                let Modifier::BlockScale { block, scale } = modifier else {
                    unreachable!("rows of scaled groups list only block scales");
                };
                let block = block as usize;
                Operation::GroupScaledTFdpa(GroupScaledTFdpa { scale, block, group, max_terms, fraction, zeros, floor })
            }
            FusedOp::Fp8ThroughF16 { max_terms, fraction, order } => {
                let split = match order {
                    Fp8Order::Pairs => Fp8Split::Pairs,
                    Fp8Order::Switch => switches.fp8_k16.value?,
                };
                let conversion = by_switch(if d == Elem::F16 { Conversion::Rne16 } else { Conversion::Rz32 });
                let step = TFdpa { a: Elem::F16, b: Elem::F16, c: d, max_terms, fraction, conversion, zeros, floor };
                Operation::Fp8ThroughF16(Fp8ThroughF16 { types, step, split })
            }
            FusedOp::FmaChain => Operation::FmaChain(FmaChain { elem: d }),
            FusedOp::ExactFdpa { max_terms } => {
                Operation::ExactFdpa(ExactFdpa { ab: a, max_terms, zero_sum: switches.zero_sum.value })
            }
            FusedOp::FtzAddMul { group } => Operation::FtzAddMul(FtzAddMul { ab: a, group }),
            FusedOp::TrFdpa { max_terms, fraction, sum_fraction, interleaved } => {
                Operation::TrFdpa(TrFdpa { a, b, max_terms, fraction, sum_fraction, interleaved, zeros, floor })
            }
            FusedOp::Integer(multiply) => {
                let clamp = (modifier == Modifier::Satfinite).then_some(switches.clamp.value);
                Operation::Integer(IntegerDot { a, b, multiply, clamp })
            }
        })
    }
}
