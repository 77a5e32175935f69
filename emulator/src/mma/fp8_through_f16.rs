//! FP8 `mma.sync` where there is no FP8 unit behind it: Hopper (sm_90) and datacentre Blackwell (sm_100).
//!
//! The compiler widens the operands to f16 and issues two f16 tensor-core steps that start from zero; C is added last, by an ordinary
//! IEEE addition. Source: `gpu-arithmetic` 3.6; the order of the two steps is the only one of three tried that fits 30,000 recorded f16
//! outputs of H100, H200 and B200. MMA-Sim has no such rule.

use super::tfdpa::{TFdpa, ZeroPolicy};
use super::{Conversion, Types};
use crate::format::{Elem, narrow_f32, widen_to_f32};
use crate::round::{Overflow, Rounding};
use crate::scalar::{self, Mods};

/// Parameters of an FP8 instruction that is issued as two f16 steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fp8ThroughF16 {
    /// Element types of the instruction.
    pub types: Types,
    /// The f16 step, whose C and result have the type of D.
    pub step: TFdpa,
}

impl Fp8ThroughF16 {
    /// The rewrite of an instruction of these types, for f16 steps of `max_terms` products and `fraction` bits.
    #[must_use]
    pub fn new(types: Types, max_terms: usize, fraction: i32, zeros: ZeroPolicy, floor: Option<i32>) -> Self {
        let conversion = if types.d == Elem::F16 { Conversion::Rne16 } else { Conversion::Rz32 };
        let step = TFdpa { a: Elem::F16, b: Elem::F16, c: types.d, max_terms, fraction, conversion, zeros, floor };
        Self { types, step }
    }

    /// `c + sum a[k] b[k]` of one instruction.
    ///
    /// # Panics
    /// If `a` and `b` differ in length.
    ///
    /// **Bits.** Equal to 40,000 recorded outputs of m16n8k32. NaN results are canonical.
    #[must_use]
    pub fn dot(&self, a: &[u32], b: &[u32], c: u32) -> u32 {
        let group = |elements: &[u32], from: Elem, second: bool| -> Vec<u32> {
            let chosen = elements.iter().enumerate().filter(|(k, _)| (k % 4 >= 2) == second);
            chosen.map(|(_, &bits)| to_f16(bits, from)).collect()
        };
        let step = |second, t| self.step.dot(&group(a, self.types.a, second), &group(b, self.types.b, second), t);
        let sum = step(true, step(false, 0));
        match self.types.d {
            Elem::F16 => u32::from(scalar::add::<scalar::F16>(sum as u16, c as u16, Mods::RN)),
            _ => scalar::add::<scalar::F32>(sum, c, Mods::RN),
        }
    }
}

/// FP8 bits as f16 bits: exact, and subnormals become normal numbers.
fn to_f16(bits: u32, from: Elem) -> u32 {
    let wide = widen_to_f32(u64::from(bits), from.format());
    narrow_f32(wide, Elem::F16.format(), Rounding::NearestEven, Overflow::ByRounding) as u32
}
