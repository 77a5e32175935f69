//! Matrix instructions: what they are, what each generation computes, and the paths that compute it.
//!
//! - [`Instruction`]: family, shape, element types.
//! - [`TFdpa::dot`]: the integer reference, one output element.
//! - [`layout`]: which lane and register hold which matrix element.
//! - [`WarpMma`] and [`warp_mma`]: one warp-level instruction on registers; the SIMD paths are bit-compared with the reference.
//!
//! Source: `gpu-arithmetic` sections 2 and 3, `fast-exact-mma`, PTX ISA 9.7.14 (fragment layouts).

mod fast;
mod fp8_through_f16;
mod instruction;
pub mod layout;
mod specials;
mod tfdpa;
mod warp;

pub use fp8_through_f16::Fp8ThroughF16;
pub use instruction::{Family, Instruction, M8N8K4, M16N8K4, M16N8K8, M16N8K16, M16N8K32, Shape, Types};
pub use tfdpa::{Conversion, TFdpa, ZeroPolicy};
pub use warp::{WarpMma, warp_mma};

use crate::scalar::{self, Mods};

/// What one output element of an instruction computes, all switches resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Truncated fused dot-product-add.
    TFdpa(TFdpa),
    /// FP8 operands, two f16 steps, C last.
    Fp8ThroughF16(Fp8ThroughF16),
    /// f64: `d = fma(a[k], b[k], d)` for k ascending, to nearest even (`gpu-arithmetic` 2.7).
    FmaChain,
}

impl Operation {
    /// `c + sum a[k] b[k]` of one instruction, by the reference; bit patterns in the low bits of 64-bit words.
    ///
    /// # Panics
    /// If `a` and `b` differ in length.
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        assert_eq!(a.len(), b.len(), "A and B have one length, K");
        let words = |elements: &[u64]| -> Vec<u32> { elements.iter().map(|&e| e as u32).collect() };
        match self {
            Self::TFdpa(params) => u64::from(params.dot(&words(a), &words(b), c as u32)),
            Self::Fp8ThroughF16(params) => u64::from(params.dot(&words(a), &words(b), c as u32)),
            Self::FmaChain => a.iter().zip(b).fold(c, |d, (&a, &b)| scalar::fma::<scalar::F64>(a, b, d, Mods::RN)),
        }
    }

    /// Whether only *that* a result is NaN is modelled, not its payload.
    #[must_use]
    pub fn nan_is_a_class(&self) -> bool {
        matches!(self, Self::FmaChain)
    }
}
