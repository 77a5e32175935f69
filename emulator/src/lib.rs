//! GPU floating-point arithmetic, bit for bit, and the execution of PTX with it.
//!
//! Every function works on bit patterns; no host rounding decides a result bit. A GPU generation is a row of data
//! ([`profile::Profile`]): which matrix instructions it has, what each computes, how well that is established, and the switches for
//! what the sources disagree about.
//!
//! # Guide
//!
//! What does an H100 make of a dot product, bit for bit?
//!
//! ```
//! use emulator::mma::Instruction;
//! use emulator::profile::Profile;
//!
//! let hopper = Profile::by_name("sm_90").unwrap();
//! let wgmma = Instruction::parse("wgmma", "m64n8k16.f32.bf16.bf16").unwrap();
//! // 2^23 - 2^23 - 0.5 - 0.25 - 0.125: the last term is below the 25 fraction bits that are kept.
//! let a = [0xc600, 0xbf00, 0xbe80, 0xbe00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
//! let b = [0x4480, 0x3f80, 0x3f80, 0x3f80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
//! assert_eq!(hopper.mma(&wgmma)?.dot(&a, &b, 0x4b00_0000), 0xbf40_0000); // -0.75
//! # Ok::<(), emulator::Error>(())
//! ```
//!
//! Block-scaled instructions take their scales beside the operands: [`mma::Operation::dot_scaled`]. What is open is a switch:
//! [`profile::Profile::with_switches`]. The reverse question, which GPU computed this, is `examples/which_gpu.rs`. How to add a
//! generation from a table row and a vector file: `docs/adding-an-architecture.md`.

pub mod conformance;
pub mod cuda_math;
mod error;
pub mod exec;
pub mod format;
pub mod gemm;
pub mod ieee;
pub mod mma;
pub mod mufu;
pub mod open;
pub mod profile;
pub mod reduce;
pub mod round;
pub mod scalar;
pub mod simd;
pub mod standing;
pub mod threads;
pub mod walk;

pub use error::Error;
