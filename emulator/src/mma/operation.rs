//! What one output element of an instruction computes, all switches resolved.

use super::{
    ExactFdpa, FmaChain, Fp8ThroughF16, FtzAddMul, GroupScaledTFdpa, IntegerDot, ScaledTFdpa, Scales, TFdpa, TrFdpa,
};

/// The arithmetic of one output element: the instruction's rule with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Truncated fused dot-product-add.
    TFdpa(TFdpa),
    /// The same with one pair of power-of-two scales a block.
    ScaledTFdpa(ScaledTFdpa),
    /// Groups of FP4 products, each scaled.
    GroupScaledTFdpa(GroupScaledTFdpa),
    /// FP8 operands, two f16 steps, C last.
    Fp8ThroughF16(Fp8ThroughF16),
    /// Fused multiply-adds in ascending k.
    FmaChain(FmaChain),
    /// Exact sum, one rounding.
    ExactFdpa(ExactFdpa),
    /// f32 products and sums that flush.
    FtzAddMul(FtzAddMul),
    /// Truncated products, rounded down beside C.
    TrFdpa(TrFdpa),
    /// Exact integers.
    Integer(IntegerDot),
}

impl Operation {
    /// `c + sum a[k] b[k]` of one instruction, by the reference; bit patterns in the low bits of 64-bit words.
    ///
    /// # Panics
    /// If `a` and `b` differ in length, or the operation is block-scaled ([`Operation::scale_block`]): that needs
    /// [`Operation::dot_scaled`].
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        assert_eq!(a.len(), b.len(), "A and B have one length, K");
        let words = |elements: &[u64]| -> Vec<u32> { elements.iter().map(|&e| e as u32).collect() };
        match self {
            Self::TFdpa(params) => u64::from(params.dot(&words(a), &words(b), c as u32)),
            Self::Fp8ThroughF16(params) => u64::from(params.dot(&words(a), &words(b), c as u32)),
            Self::FmaChain(params) => params.dot(a, b, c),
            Self::ExactFdpa(params) => params.dot(a, b, c),
            Self::FtzAddMul(params) => params.dot(a, b, c),
            Self::TrFdpa(params) => params.dot(a, b, c),
            Self::Integer(params) => params.dot(a, b, c),
            Self::ScaledTFdpa(_) | Self::GroupScaledTFdpa(_) => panic!("a block-scaled operation needs its scales"),
        }
    }

    /// The same with block scales, which operations that have none must not be given.
    ///
    /// # Panics
    /// If `a` and `b` differ in length, or there is not one scale of each a block of [`Operation::scale_block`] elements.
    #[must_use]
    pub fn dot_scaled(&self, a: &[u64], b: &[u64], c: u64, scales: Scales<'_>) -> u64 {
        match self {
            Self::ScaledTFdpa(params) => params.dot(a, b, c, scales),
            Self::GroupScaledTFdpa(params) => params.dot(a, b, c, scales),
            _ => {
                assert!(scales.a.is_empty() && scales.b.is_empty(), "the operation has no block scales");
                self.dot(a, b, c)
            }
        }
    }

    /// Elements that share a block scale; `None` for an operation without.
    #[must_use]
    pub fn scale_block(&self) -> Option<usize> {
        match self {
            Self::ScaledTFdpa(params) => Some(params.max_terms),
            Self::GroupScaledTFdpa(params) => Some(params.block),
            _ => None,
        }
    }
}
