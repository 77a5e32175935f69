//! The crate's error: what happened, who caused it, what the caller can do.

use std::path::{Path, PathBuf};

use thiserror::Error as ThisError;

use crate::canonical::Refusal;
use crate::container::ContainerRefusal;
use crate::digest::Digest;
use crate::evidence::EvidenceRefusal;
use crate::inference::RecordRefusal;
use crate::log::{LogRefusal, MAX_ENTRY_BYTES, MAX_ORIGIN_BYTES};
use crate::model_signing::ModelSignatureRefusal;
use crate::receipt::{MAX_RECEIPT_BYTES, ReceiptRefusal};
use crate::tensor::DType;
use crate::tlog::PublishRefusal;

/// Everything that can go wrong while writing or reading one artefact.
///
/// Refusals of a whole log have their own type, [`LogRefusal`], because their reasons are findings.
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
    /// Bytes are not one of our files.
    #[error(transparent)]
    Container(#[from] ContainerRefusal),
    /// Evidence is damaged or does not open the record's leaves.
    #[error(transparent)]
    Evidence(#[from] EvidenceRefusal),
    /// A receipt and a record do not agree.
    #[error(transparent)]
    Receipt(#[from] ReceiptRefusal),
    /// A receipt would exceed its limit. Shorten the request id (the caller's) or refuse the receipt (the sender's).
    #[error("a receipt of {len} bytes; at most {MAX_RECEIPT_BYTES} are allowed")]
    ReceiptTooLarge {
        /// Length of the receipt.
        len: usize,
    },
    /// An envelope is malformed, or no trusted key has signed it.
    #[error("envelope: {0}")]
    Envelope(#[source] dsse::Error),
    /// Bytes are not a signed note.
    #[error("note: {0}")]
    Note(#[source] signed_note::NoteError),
    /// A note is signed, but not by the trusted key.
    #[error("the note is not signed by the trusted key of {name:?}")]
    NoteUnsigned {
        /// Key name.
        name: String,
    },
    /// A note has been altered.
    #[error("the note's signature by {name:?} does not verify")]
    NoteSignature {
        /// Key name.
        name: String,
    },
    /// A key file or key bytes are not an Ed25519 key, or a weak one.
    #[error("not an Ed25519 key, or a weak one")]
    KeySyntax,
    /// A private key file can be read by others. Run `chmod 600` on it, and consider the key exposed.
    #[error("{path} is readable by others (mode {mode:o}); a private key must not be")]
    KeyReadableByOthers {
        /// The key file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The system has no randomness to give.
    #[error("no randomness from the operating system: {0}")]
    Randomness(#[source] getrandom::Error),
    /// A witness's key is not of the form `name+id+base64`, or not one for cosignatures.
    #[error("not the key of a witness: name, plus, id, plus, and the base64 of byte 4 and an Ed25519 key")]
    WitnessKey,
    /// A proof file or a request to a witness is malformed.
    #[error("line {line} of the proof is malformed")]
    ProofSyntax {
        /// The line, from 1; 0 for a file that is too long or no text.
        line: usize,
    },
    /// A published folder is not the log's.
    #[error(transparent)]
    Publish(#[from] PublishRefusal),
    /// Whether two checkpoints agree cannot be told without the tree of the larger one. The caller has to bring it.
    #[error("without the entries of the larger log it cannot be told whether it continues the smaller")]
    Undecided,
    /// Two checkpoints that one log can have are no proof of misbehaviour.
    #[error("these two checkpoints do not contradict each other")]
    NoMisbehaviour,
    /// A signature over a model is not accepted.
    #[error(transparent)]
    ModelSignature(#[from] ModelSignatureRefusal),
    /// A log is opened by a key that does not sign it any more, or not yet.
    #[error("this key does not sign the log; the one that does has the id {current}")]
    NotTheLogsKey {
        /// Id of the key that signs.
        current: Digest,
    },
    /// A key statement that this log cannot have: no recovery key, a second one, or a successor that signed before.
    #[error("{0}")]
    KeyStatement(&'static str),
    /// A log's name is empty, too long, or has white space, control characters or a plus.
    #[error("a log is named by at most {MAX_ORIGIN_BYTES} bytes without white space or plus")]
    Origin,
    /// There is no log to open. Create one explicitly with `Log::init`.
    #[error("{path} is not a log; create one explicitly first")]
    NoLog {
        /// The directory.
        path: PathBuf,
    },
    /// A log would be created over existing files.
    #[error("{path} is not empty; a log is created only in a new or empty directory")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Another writer has the log.
    #[error("{path} is held by another writer")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A record does not continue this log: its link or chain is not what `Log::next` gave. The caller's mistake.
    #[error("the record does not continue this log")]
    WrongLink,
    /// An entry does not fit. The caller's mistake: entries have constant size but for the log's name.
    #[error("an entry of {len} bytes; at most {MAX_ENTRY_BYTES} are allowed")]
    EntryTooLarge {
        /// Length of the entry.
        len: usize,
    },
    /// An earlier append failed half-way. Open the log again: that finds out what is on disk.
    #[error("an earlier append failed; open the log again")]
    Broken,
    /// The log does not verify.
    #[error(transparent)]
    Log(#[from] LogRefusal),
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// What was being read or written.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl Error {
    /// Does an envelope name a trusted key as its signer, although that key's signature does not fit? Then it was altered, or someone
    /// else signed in that name. Otherwise no trusted key has to do with it: the reader may have brought the wrong one.
    #[must_use]
    pub fn contradicts_trusted_key(&self) -> bool {
        matches!(self, Self::Envelope(dsse::Error::NoValidSignature { mismatched_keys, .. }) if !mismatched_keys.is_empty())
    }

    /// Names the path in a system error.
    pub(crate) fn io(path: &Path) -> impl Fn(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }
}
