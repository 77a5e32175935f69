//! Receipts: what a client takes away from one request. Specified by `docs/spec/receipt.md`.
//!
//! A receipt is a C2SP signed note whose text is one line of canonical JSON; it fits in [`MAX_RECEIPT_BYTES`].

use serde::{Deserialize, Serialize};

use crate::commit::EvidenceLevel;
use crate::digest::Digest;
use crate::inference::{ChainSpan, Record};
use crate::key::{PrivateKey, PublicKey};
use crate::{Error, canonical, note};

/// What the `type` member of a receipt says.
pub const RECEIPT_TYPE: &str = "inference-receipt/v1";

/// Most bytes a receipt may have, signature included.
pub const MAX_RECEIPT_BYTES: usize = 1024;

/// A promise about one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// [`RECEIPT_TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// Index of the request in the record.
    pub request: u32,
    /// The client's nonce, echoed; `null` when it sent none.
    pub nonce: Option<String>,
    /// Digest of the prompt ids.
    pub prompt: Digest,
    /// Digest of the output ids.
    pub output: Digest,
    /// Model identity.
    pub model: Digest,
    /// Stack identity.
    pub stack: Digest,
    /// Decoding digest.
    pub decode: Digest,
    /// Determinism that is promised.
    pub level: Level,
    /// Digest of the calibration that margin-gated decoding ran under; `null` when it was not used.
    pub margin: Option<Digest>,
    /// Chain values around the record.
    pub chain: ChainSpan,
    /// Where the record stands.
    pub log: Place,
    /// When the receipt was issued, wall-clock microseconds since 1970-01-01 UTC.
    pub issued_unix_us: u64,
}

/// Determinism levels, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Token ids.
    T,
    /// Logit bits.
    L,
    /// K and V bits.
    S,
    /// All intermediate tensors.
    A,
}

impl From<EvidenceLevel> for Level {
    /// The most that a record whose leaves have this level can promise.
    fn from(level: EvidenceLevel) -> Self {
        match level {
            EvidenceLevel::S => Self::S,
            EvidenceLevel::A => Self::A,
        }
    }
}

/// A place in a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The log's name.
    pub origin: String,
    /// Index of the entry.
    pub index: u64,
}

/// Why a receipt and a record do not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiptRefusal {
    /// The record has no request with that index.
    #[error("the record has no such request")]
    NoSuchRequest,
    /// A fact differs.
    #[error("the receipt's {0} is not the record's")]
    Differs(&'static str),
}

impl Receipt {
    /// The receipt of one request of a record.
    ///
    /// # Errors
    /// [`Error::Receipt`] when there is no request with this index; [`Error::Canonical`].
    pub fn of(record: &Record, request: u32, level: Level, issued_unix_us: u64) -> Result<Self, Error> {
        let found = record.requests.get(request as usize).ok_or(ReceiptRefusal::NoSuchRequest)?;
        Ok(Self {
            kind: RECEIPT_TYPE.to_owned(),
            request,
            nonce: found.nonce.clone(),
            prompt: found.prompt_digest(),
            output: found.output_digest(),
            model: record.model.digest()?,
            stack: record.stack.digest()?,
            decode: found.decode.digest()?,
            level,
            margin: record.stack.gate.as_ref().and_then(|g| g.calibration),
            chain: record.chain,
            log: Place { origin: record.link.origin.clone(), index: record.link.sequence },
            issued_unix_us,
        })
    }

    /// Signs the receipt with the log's key.
    ///
    /// # Errors
    /// [`Error::ReceiptTooLarge`]; [`Error::Canonical`]; [`Error::Note`] when the origin cannot be a key name.
    pub fn sign(&self, key: &PrivateKey) -> Result<Vec<u8>, Error> {
        let mut text = String::from_utf8_lossy(&canonical::to_bytes(self)?).into_owned();
        text.push('\n');
        let bytes = note::sign(&text, &self.log.origin, key)?;
        if bytes.len() > MAX_RECEIPT_BYTES {
            return Err(Error::ReceiptTooLarge { len: bytes.len() });
        }
        Ok(bytes)
    }

    /// Verifies the signature under the key name `origin`, then reads the receipt.
    ///
    /// # Errors
    /// [`Error::ReceiptTooLarge`], [`Error::NoteUnsigned`], [`Error::NoteSignature`], [`Error::Note`], then
    /// [`Error::UnknownType`], [`Error::Canonical`], [`Error::Receipt`] when it names another log than the one that signed.
    pub fn verify(bytes: &[u8], origin: &str, key: &PublicKey) -> Result<Self, Error> {
        if bytes.len() > MAX_RECEIPT_BYTES {
            return Err(Error::ReceiptTooLarge { len: bytes.len() });
        }
        let text = note::verify(bytes, origin, key)?;
        let json = text.strip_suffix('\n').unwrap_or(&text).as_bytes();
        let receipt: Self = canonical::read_versioned(json, MAX_RECEIPT_BYTES, &[("type", RECEIPT_TYPE)])?;
        if receipt.log.origin != origin {
            return Err(ReceiptRefusal::Differs("log origin").into());
        }
        Ok(receipt)
    }

    /// Checks every fact of the receipt against the record it names. The level may be lower than that of the record's leaves: a promise is kept
    /// by more, never by less.
    ///
    /// # Errors
    /// [`Error::Receipt`] with the first fact that differs; [`Error::Canonical`].
    pub fn check(&self, record: &Record) -> Result<(), Error> {
        let expected = Self::of(record, self.request, self.level, self.issued_unix_us)?;
        let facts: [(&'static str, bool); 11] = [
            ("log origin", self.log.origin == expected.log.origin),
            ("log index", self.log.index == expected.log.index),
            ("nonce", self.nonce == expected.nonce),
            ("prompt", self.prompt == expected.prompt),
            ("output", self.output == expected.output),
            ("model", self.model == expected.model),
            ("stack", self.stack == expected.stack),
            ("decoding", self.decode == expected.decode),
            ("margin policy", self.margin == expected.margin),
            ("level", self.level <= record.evidence.into()),
            ("chain", self.chain == expected.chain),
        ];
        match facts.iter().find(|(_, same)| !same) {
            Some((fact, _)) => Err(ReceiptRefusal::Differs(fact).into()),
            None => Ok(()),
        }
    }
}
