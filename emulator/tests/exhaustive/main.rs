//! Exhaustive suites: every pair of 8-, 6- and 4-bit operands through every rule that takes them, every pattern decoded and encoded.
//!
//! The expected answers come from a model written for this test alone: values from `rustc_apfloat` or from the spacing of the format,
//! sums in 128-bit integers, the final rounding by `rustc_apfloat` in quadruple precision.

mod codes;
mod integers;
mod model;
mod products;
mod scales;
