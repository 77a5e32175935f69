//! FP8 `mma.sync` where there is no FP8 unit behind it: Hopper (sm_90) and datacentre Blackwell (sm_100).
//!
//! The compiler widens the operands to f16 and issues two f16 tensor-core steps that start from zero; C is added last, by an ordinary
//! IEEE addition. Source: `gpu-arithmetic` 3.6; the order of the two steps is the only one of three tried that fits 30,000 recorded f16
//! outputs of H100, H200 and B200. MMA-Sim has no such rule.

use super::Types;
use super::tfdpa::TFdpa;
use crate::format::{Elem, narrow_f32, widen_to_f32};
use crate::round::{Overflow, Rounding};
use crate::scalar::{self, Mods};

/// Which products each of the two f16 steps takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fp8Split {
    /// Pairs in turn: the first step takes the products with `k mod 4` in {0, 1}, the second the others.
    Pairs,
    /// The first step takes the first half of K, the second the rest.
    Halves,
}

/// Parameters of an FP8 instruction that is issued as two f16 steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fp8ThroughF16 {
    /// Element types of the instruction.
    pub types: Types,
    /// The f16 step, whose C and result have the type of D.
    pub step: TFdpa,
    /// Which products each step takes.
    pub split: Fp8Split,
}

impl Fp8ThroughF16 {
    /// `c + sum a[k] b[k]` of one instruction.
    ///
    /// # Panics
    /// If `a` and `b` differ in length.
    ///
    /// **Bits.** Equal to 40,000 recorded outputs of m16n8k32. NaN results are canonical.
    #[must_use]
    pub fn dot(&self, a: &[u32], b: &[u32], c: u32) -> u32 {
        let group = |elements: &[u32], from: Elem, second: bool| -> Vec<u32> {
            let in_second = |k: usize| match self.split {
                Fp8Split::Pairs => k % 4 >= 2,
                Fp8Split::Halves => 2 * k >= elements.len(),
            };
            let chosen = elements.iter().enumerate().filter(|(k, _)| in_second(*k) == second);
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
