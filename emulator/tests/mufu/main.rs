//! The special function unit against published checksums, histograms and golden values; its coefficients against a fresh
//! fit; its warp paths against its references.

mod approx;
mod checksums;
mod data;
mod every;
mod fit;
mod golden;
mod lanes;
mod probe;
mod sine;
mod text;
