//! The special function unit against published checksums, histograms and golden values; its coefficients against a fresh
//! fit; its warp paths against its references.

mod checksums;
mod data;
mod fit;
mod golden;
mod lanes;
mod text;
