//! A deterministic inference engine whose kernels are PTX.
//!
//! The engine allocates buffers, launches kernels and reads results on a [`device`]; what it launches is the text that
//! [`kernels`] builds, so an emulated and a real GPU run the same bytes.

pub mod batch;
pub mod chat;
pub mod config;
pub mod conformance;
pub mod device;
pub mod error;
pub mod fault;
pub mod gated;
pub mod gguf;
pub mod journal;
pub mod kernels;
pub mod kv;
pub mod model;
pub mod ops;
pub mod parallel;
pub mod policy;
pub mod rope;
pub mod runtime;
pub mod sampler;
pub mod scheduler;
pub mod scores;
pub mod session;
pub mod step;
pub mod tokenizer;
pub mod weights;

pub use error::{Error, Result};
pub use model::Model;
pub use policy::{Dispatch, Mode};
pub use runtime::{Build, Engine, Limits};
