//! Matrix products of any size on packed operands, bit for bit.
//!
//! - [`Gemm`]: the tensor core of a profile. Every output is the chain of the instruction's blocks in ascending K, as a kernel that keeps its
//!   accumulators in registers computes it.
//! - [`Chain`]: one IEEE fused multiply-add an element in ascending K, on any machine and in any tiling the same bits.
//! - [`Weights`] and [`Rows`]: B and A, packed once.
//!
//! Source: `fast-exact-mma` (sections 2 to 7, 10 and 11), `gpu-arithmetic` 3.2, 3.3 and 3.6. Deliberately missing: f64 and block-scaled
//! types, which [`crate::mma`] computes by reference.
//!
//! # How the tensor core is computed
//! Lanes are columns. With `E` the alignment exponent of an output and `h = F - E`, a product costs four instructions:
//!
//! ```text
//! p = a * b               f32 product, exact where it matters
//! q = bits(p) + (h << 23) p * 2^h, by integer addition to the exponent field
//! t = truncate(q)         float to i32 toward zero: the truncated term
//! sum += t                exact in i32
//! ```
//!
//! and the result is `sum` converted to f32 toward zero, times `2^-h`. Inside the window `-100 <= E <= F` no host rounding decides a bit
//! (`fast-exact-mma`, lemmas 1 to 4). `E` is the maximum of exponent sums in bytes (many rows) or 16-bit words (few rows), which misstate
//! products with a zero, subnormal or clipped operand. `Spec::clamp` says when a clamp makes that harmless without looking; otherwise each
//! block is compared with the window, and what lies outside is computed again in f64 (`mend`), a row of sixteen outputs at a time. A
//! zero operand takes part in no alignment that the window admits, so both zero policies give the same bits there, and no exponent floor
//! reaches it.
//!
//! f16 accumulators are held as f32, exactly. Their sum becomes an f32 rounded to odd and that an f16 to nearest even; their
//! exponent floor lies inside the window and is applied. Partial sums ([`Gemm::promoted`], and FP8 where it is issued as two f16 steps)
//! start from zero and are added by IEEE additions.
//!
//! # Fused multiply-add
//! `fma` of IEEE 754, to nearest even, *is* the definition of [`Chain`], not an approximation of something else: one rounding, the same on every
//! host that has the instruction. Where there is none it is computed exactly in f64 with rounding to odd, and every level is compared
//! with the integer code of [`crate::scalar::fma`].

#![allow(clippy::needless_range_loop)] // Index loops of constant length read like the lanes they are, and always unroll.

mod chain;
mod decode;
mod element;
mod error;
mod exact;
mod mend;
mod rows;
mod spec;
#[cfg(test)]
mod tests;
mod tile;
mod weights;

pub use chain::{Chain, ChainRows};
pub use element::Element;
pub use exact::{At, Gemm, Piece, Product, Workspace};
pub use rows::Rows;
pub use weights::Weights;
