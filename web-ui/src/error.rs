//! What can go wrong, and how it is said to whoever asked.

use axum::http::StatusCode;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such thing in the store.
    #[error("not found: {0}")]
    NotFound(String),
    /// The request cannot be carried out as it is. The caller's mistake.
    #[error("{0}")]
    Bad(String),
    /// What was sent is larger than is taken here.
    #[error("{0}")]
    TooLarge(String),
    /// Whoever asks may not.
    #[error("{0}")]
    Forbidden(String),
    /// Nobody is signed in.
    #[error("sign in first")]
    Unknown,
    /// Too many requests.
    #[error("too many requests; wait {0} seconds")]
    Slower(u64),
    /// Stored bytes are not those that were taken in. Nothing of them is shown.
    #[error("refused: {0}")]
    Altered(String),
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] rusqlite::Error),
    /// Reading or writing a file failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A bug here.
    #[error("an error of this program: {0}")]
    Bug(String),
}

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The status it is answered with.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::Slower(_) => StatusCode::TOO_MANY_REQUESTS,
            // The stored bytes conflict with the digest that names them.
            Self::Altered(_) => StatusCode::CONFLICT,
            Self::Store(_) | Self::Io(_) | Self::Bug(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What a stranger is told: nothing of paths and databases.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Store(_) | Self::Io(_) => "the store failed; the service's log says how".to_owned(),
            other => other.to_string(),
        }
    }
}

pub(crate) fn missing(what: impl Into<String>) -> Error {
    Error::NotFound(what.into())
}
