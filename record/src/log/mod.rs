//! The append-only local log. Specified by `docs/spec/local-log.md`.
//!
//! ```text
//! <dir>/checkpoint             signed note: origin, size, root, chain
//! <dir>/entries                one signed envelope a line
//! <dir>/keys                   key statements, once there are any
//! <dir>/records/<hex>.replay   records, by digest
//! <dir>/evidence/<hex>.evidence
//! <dir>/receipts/<index>-<request>.receipt
//! <dir>/torn/                  half-written tails that were moved aside
//! <dir>/lock                   held by the one writer
//! ```
//!
//! Two lives of an entry: *acknowledged* once the checkpoint that covers it is on disk, and only then may anyone be told
//! of it; *complete* when it is whole but the checkpoint does not cover it yet. [`Log::open`] adopts complete entries and moves half
//! ones aside; [`verify()`] changes nothing.

mod checkpoint;
mod entry;
mod keys;
mod refusal;
mod source;
mod verify;
mod writer;

pub use checkpoint::Checkpoint;
pub use entry::{EntryHeader, MAX_ENTRY_BYTES, read as read_entry};
pub use keys::{KeyEvent, KeyHistory, KeyStatement, MAX_KEYS_BYTES};
pub use refusal::LogRefusal;
pub use source::{Directory, MAX_CHECKPOINT_BYTES, Memory, Source};
pub use verify::{Expect, Header, VerifiedEntry, VerifiedLog, verify, verify_entries};
pub use writer::{Ack, Log, Next, Recovery};

/// Most bytes of a log's name.
pub const MAX_ORIGIN_BYTES: usize = 32;
