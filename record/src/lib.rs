//! Replay records, step commitments, receipts, signatures and the append-only log: every stored or signed format.
//!
//! Each format is specified by a document under `docs/spec/`, which this code cites; an engine that is not ours can emit
//! them from those documents alone. The crate knows nothing of models, kernels or GPUs, has no clock (time is always
//! an argument) and opens no network connection.
//!
//! Three rules hold everywhere: signatures are verified over the bytes received, and only then are those bytes parsed;
//! bytes have exactly one spelling, and readers refuse any other; an unknown version or member is refused.

pub mod calibration;
pub mod canonical;
pub mod commit;
pub mod container;
pub mod digest;
mod durable;
pub mod envelope;
mod error;
pub mod evidence;
pub mod file;
pub mod inference;
pub mod key;
pub mod log;
pub mod merkle;
pub mod model_signing;
pub mod note;
pub mod receipt;
pub mod replay;
pub mod scalar;
pub mod tensor;
pub mod tlog;

pub use commit::{EvidenceLevel, RowComponents, RowEvidence, RowId};
pub use digest::Digest;
pub use error::Error;
pub use evidence::Evidence;
pub use inference::Record;
pub use key::{PrivateKey, PublicKey};
pub use log::{Log, LogRefusal};
pub use receipt::Receipt;
pub use scalar::{F32Bits, Fact, U64Text};
pub use tensor::{DType, TensorView};
