//! Matrix instructions: what they are, what each generation computes, and the paths that compute it.
//!
//! - [`Instruction`]: family, shape, element types, modifier.
//! - [`Operation::dot`]: the integer reference, one output element; one file a rule ([`TFdpa`], [`ScaledTFdpa`], [`TrFdpa`], ...).
//! - [`layout`]: which lane and register hold which matrix element.
//! - [`WarpMma`] and [`warp_mma`]: one warp-level instruction on registers; the SIMD paths are bit-compared with the reference.
//!
//! Source: `gpu-arithmetic` sections 2 to 4, `fast-exact-mma`, PTX ISA 9.7.14 (fragment layouts).

mod aligned;
mod block_scaled;
pub(crate) mod convert;
mod exact_fdpa;
mod exact_sum;
mod fast;
mod fma_chain;
mod fp8_through_f16;
mod ftz_add_mul;
mod instruction;
mod integer;
pub mod layout;
mod operation;
mod specials;
mod tfdpa;
mod tr_fdpa;
mod warp;

pub use block_scaled::{GroupScaledTFdpa, ScaledTFdpa, Scales};
pub use exact_fdpa::{ExactFdpa, ZeroSum};
pub use fma_chain::FmaChain;
pub use fp8_through_f16::{Fp8Split, Fp8ThroughF16};
pub use ftz_add_mul::FtzAddMul;
pub use instruction::{
    Family, Instruction, M8N8K4, M16N8K4, M16N8K8, M16N8K16, M16N8K32, M16N8K64, Modifier, Shape, Types,
};
pub use integer::{ClampStep, IntegerDot, Multiply};
pub use operation::Operation;
pub use tfdpa::{Conversion, TFdpa, ZeroPolicy};
pub use tr_fdpa::TrFdpa;
pub use warp::{WarpMma, warp_mma};
