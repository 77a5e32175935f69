//! Which inference engine, kernels, number format and hardware answer behind an OpenAI-compatible endpoint: with a stated error rate, and
//! "cannot tell" where it cannot be told.
//!
//! ```text
//! endpoint ◄── client (bounded, polite) ◄── session (budget, journal) ◄── stages ── probes of a seed
//!                                              │
//!                                              ▼
//!                                  trace ── features ── statistics ── report
//! ```
//!
//! Rounding is a signature, but other things move logits too. So nothing is concluded from "the text differs": an endpoint's own noise is
//! measured first, and references are compared with theirs. The crate knows nothing of models and engines; references come as traces.

pub mod api;
pub mod classify;
pub mod client;
pub mod decimal;
pub mod error;
pub mod feature;
pub mod json;
pub mod library;
pub mod probe;
pub mod replay;
pub mod report;
pub mod sampled;
pub mod session;
pub mod stage;
pub mod stats;
pub mod tier;
pub mod trace;
pub mod verdict;
pub mod watch;

pub use error::{Error, Result};
