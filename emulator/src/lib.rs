//! GPU floating-point arithmetic, bit for bit, and the execution of PTX with it.
//!
//! Every function works on bit patterns; no host rounding decides a result bit. A GPU generation is a row of data
//! ([`profile::Profile`]): which matrix instructions it has, what each computes, how well that is established, and the switches for
//! what the sources disagree about.

pub mod conformance;
mod error;
pub mod exec;
pub mod format;
pub mod mma;
pub mod mufu;
pub mod profile;
pub mod round;
pub mod scalar;
pub mod simd;

pub use error::Error;
