//! `*.replay` files: a record with the common file header. Specified by `docs/spec/replay-file.md`.

use crate::digest::Digest;
use crate::inference::{Record, digest_of_bytes};
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
    read(file).map(|(record, _)| record)
}

/// Reads a record and its digest, without serialising it again: the payload is the canonical form.
pub(crate) fn read(file: &[u8]) -> Result<(Record, Digest), Error> {
    let payload = container::unwrap(container::REPLAY, file)?;
    Ok((Record::from_bytes(payload)?, digest_of_bytes(payload)))
}
