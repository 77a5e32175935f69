//! Matrix instructions: what they are, what each generation computes, and the paths that compute it.
//!
//! - [`Instruction`]: family, shape, element types.
//! - [`TFdpa::dot`]: the integer reference, one output element.
//! - [`layout`]: which lane and register hold which matrix element.
//! - [`WarpMma`] and [`warp_mma`]: one warp-level instruction on registers; the SIMD paths are bit-compared with the reference.
//!
//! Source: `gpu-arithmetic` sections 2 and 3, `fast-exact-mma`, PTX ISA 9.7.14 (fragment layouts).

mod fast;
mod instruction;
pub mod layout;
mod specials;
mod tfdpa;
mod warp;

pub use instruction::{Family, Instruction, M8N8K4, M16N8K4, M16N8K8, M16N8K16, Shape, Types};
pub use tfdpa::{Conversion, TFdpa, ZeroPolicy};
pub use warp::{WarpMma, warp_mma};

/// What one output element of an instruction computes, all switches resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Truncated fused dot-product-add.
    TFdpa(TFdpa),
}

impl Operation {
    /// `c + sum a[k] b[k]` of one instruction, by the reference; bit patterns in the low bits of 64-bit words.
    ///
    /// # Panics
    /// If `a` and `b` differ in length.
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        let words = |elements: &[u64]| -> Vec<u32> { elements.iter().map(|&e| e as u32).collect() };
        match self {
            Self::TFdpa(params) => u64::from(params.dot(&words(a), &words(b), c as u32)),
        }
    }
}
