//! GPU floating-point arithmetic, bit for bit, and the execution of PTX with it.

pub mod simd;
