//! Walks of a GEMM along K: how the products of one output element are grouped into matrix instructions, where partial
//! sums begin, and how they are joined.
//!
//! Tiles along M and N, stages and swizzles do not change a bit (`specs/kernel-recipes.md` 5.1); the walk does. It is data
//! ([`Walk`]); the inner step is a profile's matrix instruction by reference ([`crate::mma::Operation`]).
//!
//! Source: `specs/kernel-recipes.md` 5.2, `specs/gpu-arithmetic.md` 3.2. Deliberately missing: split-K by float atomics,
//! which has no order.

mod plan;

pub use plan::{Combine, Output, Piece, Walk};
