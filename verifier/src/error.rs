//! The crate's error: what stops an audit from being made, as opposed to what it finds.

use crate::replay::ReplayError;

/// Why an audit could not be made or its result not be read.
///
/// Whatever a log or a record does wrong is a verdict, not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The replay could not be made; the auditor's machine or model is at fault.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A stored format could not be written or read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A result document is not one that this version reads; the file is at fault.
    #[error("not an audit result: {reason}")]
    Result {
        /// What is wrong with it.
        reason: String,
    },
    /// A file that came with a log cannot be read; the system's reason. A file that is not there is no error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A receipt that was handed over is not a receipt of the operator under audit; whoever handed it over is at fault, and nothing is held
    /// against a record.
    #[error("receipt {name} cannot be used: {reason}")]
    Receipt {
        /// As the caller named it.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The HTML page could not be rendered: a bug of this crate.
    #[error("the report could not be rendered: {reason}")]
    Report {
        /// What the template engine said.
        reason: String,
    },
    /// A randomness beacon or audit name for challenge sampling is unusable; the caller is at fault.
    #[error("challenge sampling: {reason}")]
    Challenge {
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    /// The error without paths and without the words of one operating system: for results, which are the same wherever they are made.
    pub fn reason(&self) -> String {
        match self {
            Self::Io { source, .. } if source.raw_os_error().is_some() => source.kind().to_string(),
            Self::Io { source, .. } => source.to_string(),
            other => other.to_string(),
        }
    }
}
