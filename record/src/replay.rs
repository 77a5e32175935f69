//! `*.replay` files: a record with the common file header. Specified by `docs/spec/replay-file.md`.

use crate::inference::Record;
use crate::{Error, container};

/// The bytes of a `.replay` file.
///
/// # Errors
/// [`Error::Canonical`].
pub fn to_file(record: &Record) -> Result<Vec<u8>, Error> {
    Ok(container::wrap(container::REPLAY, &record.to_bytes()?))
}

/// Reads a `.replay` file. The record has the right shape, and nothing more: see [`Record::check`].
///
/// # Errors
/// [`Error::Container`], [`Error::UnknownType`], [`Error::Canonical`].
pub fn from_file(file: &[u8]) -> Result<Record, Error> {
    Record::from_bytes(container::unwrap(container::REPLAY, file)?)
}
