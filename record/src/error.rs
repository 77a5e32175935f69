//! The crate's error: what happened, who caused it, what the caller can do.

use std::path::PathBuf;

use thiserror::Error as ThisError;

use crate::canonical::Refusal;
use crate::inference::RecordRefusal;
use crate::tensor::DType;

/// Everything that can go wrong while writing or reading one artefact.
///
/// Refusals of a whole log have their own type, `log::LogRefusal`, because their reasons are findings.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// Text is not `sha256:` and 64 lower-case hex digits. The writer's fault.
    #[error("a digest is written \"sha256:\" and 64 lower-case hex digits")]
    DigestSyntax,
    /// Bytes are not canonical JSON of the expected shape, or a value has no canonical form.
    #[error(transparent)]
    Canonical(#[from] Refusal),
    /// A type or version this crate does not know: never guessed, always refused.
    #[error("type {found:?} is not known here; expected {expected:?}")]
    UnknownType {
        /// Type found.
        found: String,
        /// Type expected.
        expected: &'static str,
    },
    /// A record contradicts itself.
    #[error(transparent)]
    Record(#[from] RecordRefusal),
    /// Elements do not fill the stated shape. The caller's mistake, or a damaged evidence file.
    #[error("{bytes} bytes are not a {dtype} tensor of shape {shape:?}")]
    TensorShape {
        /// Element type.
        dtype: DType,
        /// Shape.
        shape: Vec<u64>,
        /// Bytes supplied.
        bytes: usize,
    },
    /// A step was sealed with a number of leaves other than its rows. The caller's mistake.
    #[error("step {step} has {rows} rows and {leaves} leaves")]
    LeafCount {
        /// Step index.
        step: u64,
        /// Rows scheduled.
        rows: u64,
        /// Leaves supplied.
        leaves: usize,
    },
    /// A Merkle proof does not lead to the root, or an index lies outside the tree.
    #[error("Merkle tree: {0}")]
    Merkle(#[source] tlog_tiles::tlog::Error),
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// What was being read or written.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
