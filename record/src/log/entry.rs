//! One entry: a compact header in a signed envelope, on a line of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::LogRefusal;
use crate::digest::{Digest, Tagged};
use crate::envelope::{self, Statement, Subject, predicate};
use crate::inference::{ChainSpan, Record};
use crate::key::{PrivateKey, PublicKey};
use crate::{Error, canonical};

/// Most bytes of an entry: tiled logs carry 16-bit entry lengths, and entries here must fit into one later.
pub const MAX_ENTRY_BYTES: usize = 65_535;

/// The predicate of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryHeader {
    /// The log's name.
    pub origin: String,
    /// Index of the entry.
    pub sequence: u64,
    /// Hash of the previous entry, `H("lastbit/entry/v1" || 0 || its line without newline)`; `null` for the first.
    pub previous: Option<Digest>,
    /// Digest of the record.
    pub record: Digest,
    /// Chain values around the record.
    pub chain: ChainSpan,
    /// When the entry was appended, wall-clock microseconds since 1970-01-01 UTC, as the operator's clock said.
    pub time_unix_us: u64,
    /// Id of the signing key.
    pub key_id: Digest,
    /// The signing key, 64 hex digits. Trusted by nobody: it lets a reader say *who* re-signed an entry.
    pub public_key: String,
}

/// Hash of an entry: `H("lastbit/entry/v1" || 0 || line without its newline)`.
pub(super) fn entry_hash(line: &[u8]) -> Digest {
    Tagged::new("lastbit/entry/v1").bytes(line).finish()
}

/// What the entry of this record, stored in this file, is about.
pub(super) fn subjects(record: &Record, digest: &Digest, file: &[u8]) -> Vec<Subject> {
    vec![
        Subject::new("record", "lastbit-record-v1", digest),
        Subject::new("file", "sha256", &Digest::of_file(file)),
        Subject::new("outputs", "lastbit-outputs-v1", &record.outputs_digest()),
    ]
}

/// Signs an entry: the line without its newline.
pub(super) fn sign(header: EntryHeader, subject: Vec<Subject>, key: &PrivateKey) -> Result<Vec<u8>, Error> {
    let line = envelope::sign(&Statement::new(predicate::LOG_ENTRY, subject, header), key)?;
    if line.len() > MAX_ENTRY_BYTES {
        return Err(Error::EntryTooLarge { len: line.len() });
    }
    Ok(line)
}

/// An entry whose signature has been verified; its place in the log has not.
pub(super) struct Signed {
    pub(super) header: EntryHeader,
    pub(super) subject: Vec<Subject>,
}

/// Verifies the signature of the line, then parses the signed bytes.
pub(super) fn verify(index: u64, line: &[u8], trusted: &PublicKey) -> Result<Signed, LogRefusal> {
    let outer = Line::read(line).ok_or(LogRefusal::EntryMalformed { index })?;
    let verified = envelope::verify(line, &[trusted]).map_err(|error| match error {
        Error::Envelope(dsse::Error::NoValidSignature { .. }) => match outer.named_signer() {
            Some(by) if by != trusted.id() => LogRefusal::ReSigned { index, by },
            _ => LogRefusal::Altered { index },
        },
        Error::UnknownType { found, .. } => LogRefusal::UnknownVersion { index, found },
        _ => LogRefusal::EntryMalformed { index },
    })?;
    // The key hint is not signed. It may be left out; a wrong one has been put there by someone.
    let hint = outer.signatures[0].keyid.as_deref().unwrap_or_default();
    if !hint.is_empty() && hint != trusted.id().to_string() {
        return Err(LogRefusal::Altered { index });
    }
    let statement = verified.statement::<EntryHeader>(predicate::LOG_ENTRY).map_err(|error| match error {
        Error::UnknownType { found, .. } => LogRefusal::UnknownVersion { index, found },
        _ => LogRefusal::EntryShape { index },
    })?;
    let header = statement.predicate;
    if header.key_id != trusted.id() || header.public_key != hex::encode(trusted.as_bytes()) {
        return Err(LogRefusal::EntryShape { index });
    }
    Ok(Signed { header, subject: statement.subject })
}

/// The envelope of an entry has one spelling: canonical JSON, standard base64, exactly one signature.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: [LineSignature; 1],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineSignature {
    #[serde(skip_serializing_if = "Option::is_none")]
    keyid: Option<String>,
    sig: String,
}

impl Line {
    fn read(line: &[u8]) -> Option<Self> {
        let line: Self = canonical::read(line, MAX_ENTRY_BYTES).ok()?;
        let standard = |text: &str| STANDARD.decode(text).is_ok();
        (standard(&line.payload) && standard(&line.signatures[0].sig)).then_some(line)
    }

    /// The id of the key that the header names, if that key signed this line. Only to word a refusal: the key is not trusted.
    fn named_signer(&self) -> Option<Digest> {
        let payload = STANDARD.decode(&self.payload).ok()?;
        let statement: Statement<EntryHeader> = canonical::read(&payload, MAX_ENTRY_BYTES).ok()?;
        let mut bytes = [0_u8; 32];
        hex::decode_to_slice(&statement.predicate.public_key, &mut bytes).ok()?;
        let key = PublicKey::from_bytes(&bytes).ok()?;
        let signature = STANDARD.decode(&self.signatures[0].sig).ok()?;
        key.verifies(&dsse::pae(&self.payload_type, &payload), &signature).then(|| key.id())
    }
}
