//! GPU floating-point arithmetic, bit for bit, and the execution of PTX with it.

pub mod scalar;
pub mod simd;
