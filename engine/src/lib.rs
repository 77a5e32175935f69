//! A deterministic inference engine whose kernels are PTX.
//!
//! The engine allocates buffers, launches kernels and reads results on a [`device`]; what it launches is the text that
//! [`kernels`] builds, so an emulated and a real GPU run the same bytes.

pub mod config;
pub mod error;
pub mod kernels;
pub mod kv;
pub mod model;
pub mod policy;
pub mod sampler;
pub mod tokenizer;
pub mod weights;

pub use error::{Error, Result};
