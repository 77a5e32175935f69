//! Sums in the orders in which kernels of known libraries form them.
//!
//! A GPU sum is a tree. Which tree depends on library, version and launch shape, and another tree gives other bits. Each
//! type here is one tree as data; every addition is f32 to nearest even, subnormals kept, from `+0` where the kernel's
//! accumulators start there.
//!
//! Source: `specs/kernel-recipes.md` 6 and 7.7. Every tree is compared with a recursive evaluator in host floats, written
//! from the same section and sharing no code. Deliberately missing: sums by float atomics, which have no order.

mod block;
mod torch;
mod triton;
mod warp;

pub use block::{CubBlock, FlashInferBlock, TorchBlock, TorchWarpRow};
pub use torch::{TorchReduce, TorchShape, TorchVersion};
pub use triton::{InThread, TritonSum};
pub use warp::{Offsets, butterfly, lane_quad, shuffle_down};

use crate::profile::Confidence;
use crate::scalar::{self, F32, Mods};

/// What a thread does with an element before or while it adds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulate {
    /// `acc + x`.
    Add,
    /// `fma(x, x, acc)`: sums of squares, contracted.
    FmaSquare,
    /// `acc + x * x`, the product rounded.
    AddSquare,
}

impl Accumulate {
    /// The accumulator after one more element.
    #[must_use]
    pub fn step(self, acc: u32, x: u32) -> u32 {
        match self {
            Self::Add => add(acc, x),
            Self::FmaSquare => scalar::fma::<F32>(x, x, acc, Mods::RN),
            Self::AddSquare => add(acc, scalar::mul::<F32>(x, x, Mods::RN)),
        }
    }
}

/// f32 addition to nearest even.
pub(crate) fn add(a: u32, b: u32) -> u32 {
    scalar::add::<F32>(a, b, Mods::RN)
}

/// The fold from the left, from `+0`.
#[must_use]
pub fn sequential(values: &[u32]) -> u32 {
    values.iter().fold(0, |acc, &x| add(acc, x))
}

/// The factor of `mean`: `1 / n` rounded to f32, by which PyTorch multiplies the sum.
#[must_use]
pub fn mean_factor(n: u32) -> u32 {
    let n = scalar::from_int::<F32>(u64::from(n), scalar::Int::U32, Mods::RN);
    scalar::rcp::<F32>(n, Mods::RN)
}

/// One named order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Tree {
    Sequential,
    LaneQuad,
    TorchReduceUpTo2_9,
    TorchReduceFrom2_10,
    TorchBlock,
    TorchWarpRow,
    CubBlock,
    FlashInfer,
    Triton,
}

impl Tree {
    /// Every order.
    pub const ALL: [Self; 9] = [
        Self::Sequential,
        Self::LaneQuad,
        Self::TorchReduceUpTo2_9,
        Self::TorchReduceFrom2_10,
        Self::TorchBlock,
        Self::TorchWarpRow,
        Self::CubBlock,
        Self::FlashInfer,
        Self::Triton,
    ];

    /// The name, and where it is used.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential fold",
            Self::LaneQuad => "four lanes, (0+2)+(1+3) (FlashAttention-2 row sums)",
            Self::TorchReduceUpTo2_9 => "PyTorch reduce along the last dimension, up to 2.9",
            Self::TorchReduceFrom2_10 => "PyTorch reduce along the last dimension, from 2.10",
            Self::TorchBlock => "PyTorch softmax, block a row",
            Self::TorchWarpRow => "PyTorch softmax, warp a row",
            Self::CubBlock => "CUB BlockReduce (vLLM norms)",
            Self::FlashInfer => "FlashInfer RMSNorm",
            Self::Triton => "Triton tl.sum",
        }
    }

    /// How well the order is established, and on what.
    #[must_use]
    pub const fn evidence(self) -> (Confidence, &'static str) {
        match self {
            Self::Sequential => (Confidence::Hardware, "the order is its definition"),
            Self::LaneQuad => (Confidence::Hardware, "published FlashAttention-2 runs on A100, 0 differences"),
            Self::TorchReduceFrom2_10 => (
                Confidence::Hardware,
                "32 rows and more of 2560 elements: A100, L40S, H100, 0 differences; other shapes from source code",
            ),
            Self::TorchReduceUpTo2_9 => {
                (Confidence::Open, "from source code; a published run that may have used it differs in some sums")
            }
            Self::TorchBlock | Self::TorchWarpRow | Self::CubBlock | Self::FlashInfer => {
                (Confidence::Open, "from source code; never compared with a GPU")
            }
            Self::Triton => (
                Confidence::Open,
                "from source code and issue threads; the in-thread tree of 2026 is taken to pair neighbours",
            ),
        }
    }
}
