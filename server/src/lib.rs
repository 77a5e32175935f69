//! An OpenAI-compatible service on the deterministic engine: every step is on record before a client is told how its request ended.
//!
//! ```text
//! connections (tokio) ── api ── worker::Handle ──► one engine thread: Session, Journal, Log
//!        ◄── tokens, then the end with record place and receipt ──┘
//! ```
//!
//! The engine thread ([`worker`]) owns engine, session, journal and log, and shares none of them. What happens when is decided by the
//! scheduling rule alone; connections only submit, withdraw and listen. When a record cannot be written, every waiting client is told, and
//! nothing is served any more.

mod api;
pub mod config;
pub mod keys;
mod listen;
mod metrics;
mod text;
pub mod witness;
pub mod worker;

pub use config::{Config, Limits};
pub use keys::ApiKeys;
pub use listen::{Error, Render, Serving, serve};
