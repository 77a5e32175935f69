//! What can stop a run. What an endpoint does wrong does not: that is a [`Fault`](crate::client::Fault), recorded as evidence.

use std::path::PathBuf;

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller gave no usable address.
    #[error("{url:?} is no endpoint: {why}; give the base, for example https://host/v1")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The caller named a variable that holds no usable key. The key itself is never part of an error.
    #[error("the environment variable {variable} {why}")]
    Key {
        /// Its name.
        variable: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A key may not travel in the open.
    #[error("the key would go to {host} unencrypted; use https, or leave the key out")]
    Unencrypted {
        /// The endpoint's host.
        host: String,
    },
    /// The run would cost more than the caller allows.
    #[error("{what} needs {need}, and {left} is left of the budget")]
    Budget {
        /// Which limit: requests, tokens or money.
        what: &'static str,
        /// What the next request would take.
        need: String,
        /// What is left.
        left: String,
    },
    /// The endpoint does not answer at all, so there is nothing to say about it.
    #[error("the endpoint does not answer: {0}")]
    Endpoint(String),
    /// A trace that is not what it should be.
    #[error("{trace}: line {line}: {why}")]
    Trace {
        /// File or name.
        trace: String,
        /// Line, from 1; 0 for the whole file.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Traces that cannot be compared.
    #[error("{0}")]
    Unlike(String),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The HTTP client could not be made, or the listening socket failed.
    #[error("network: {0}")]
    Network(String),
    /// A report has no canonical form or cannot be drawn; that would be a bug here.
    #[error("report: {0}")]
    Report(String),
    /// Signing or digests.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// What this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names the file an error of the system is about.
pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| Error::File { path: path.to_owned(), source }
}
