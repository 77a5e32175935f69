//! DSSE envelopes around in-toto statements. Specified by `docs/spec/envelope.md`.
//!
//! [`verify`] checks the signature over the bytes received and only then parses those same bytes; nothing is ever
//! serialised again to check a signature.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::inference::Record;
use crate::key::{PrivateKey, PublicKey};
use crate::{Error, canonical};

/// The payload type of every envelope written here.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// The type of every statement written here.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// Predicate types. They are names, not addresses: nothing is served there and nothing here fetches them.
pub mod predicate {
    /// Header of one log entry (`docs/spec/local-log.md`).
    pub const LOG_ENTRY: &str = "https://lastbit.dev/inference-log-entry/v1";
    /// A whole replay record (`docs/spec/inference-record.md`).
    pub const RECORD: &str = "https://lastbit.dev/inference-record/v1";
    /// A change of a log's keys (`docs/spec/transparency-log.md`).
    pub const LOG_KEY: &str = "https://lastbit.dev/log-key/v1";
    /// Threshold of a margin gate (`docs/spec/calibration.md`).
    pub const CALIBRATION: &str = "https://lastbit.dev/calibration/v1";
    /// Result of an audit (`docs/spec/audit-result.md`).
    pub const AUDIT_RESULT: &str = "https://lastbit.dev/audit-result/v1";
}

/// Most bytes an envelope may have.
pub const MAX_ENVELOPE_BYTES: usize = 1 << 28;

/// An in-toto Statement v1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement<P> {
    /// [`STATEMENT_TYPE`].
    #[serde(rename = "_type")]
    pub kind: String,
    /// What the statement is about.
    pub subject: Vec<Subject>,
    /// What kind of statement it is, see [`predicate`].
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    /// The statement itself.
    pub predicate: P,
}

/// One thing a statement is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Name within the statement.
    pub name: String,
    /// Hex digests by algorithm. `sha256` is the plain SHA-256 of a file, as in-toto means it; tagged digests have their own names.
    pub digest: BTreeMap<String, String>,
}

impl Subject {
    /// A subject with one digest.
    #[must_use]
    pub fn new(name: impl Into<String>, algorithm: &str, digest: &Digest) -> Self {
        Self { name: name.into(), digest: BTreeMap::from([(algorithm.to_owned(), digest.to_hex())]) }
    }
}

impl<P> Statement<P> {
    /// A statement of this type.
    #[must_use]
    pub fn new(predicate_type: &str, subject: Vec<Subject>, predicate: P) -> Self {
        Self { kind: STATEMENT_TYPE.to_owned(), subject, predicate_type: predicate_type.to_owned(), predicate }
    }
}

impl Record {
    /// The record as an in-toto statement, for tools that want record and signature in one file.
    ///
    /// # Errors
    /// [`Error::Canonical`].
    pub fn statement(&self) -> Result<Statement<&Self>, Error> {
        let subject = vec![
            Subject::new("record", "lastbit-record-v1", &self.digest()?),
            Subject::new("outputs", "lastbit-outputs-v1", &self.outputs_digest()),
        ];
        Ok(Statement::new(predicate::RECORD, subject, self))
    }
}

struct DsseSigner<'a>(&'a PrivateKey);

impl dsse::Signer for DsseSigner<'_> {
    fn sign(&self, message: &[u8]) -> dsse::Result<Vec<u8>> {
        Ok(self.0.sign(message).to_vec())
    }

    fn key_id(&self) -> Option<String> {
        Some(self.0.public().id().to_string())
    }
}

struct DsseVerifier<'a>(&'a PublicKey);

impl dsse::Verifier for DsseVerifier<'_> {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verifies(message, signature)
    }

    fn key_id(&self) -> Option<String> {
        Some(self.0.id().to_string())
    }

    fn key_identity(&self) -> Option<Vec<u8>> {
        Some(self.0.as_bytes().to_vec())
    }
}

/// Signs a statement: the canonical bytes of the envelope.
///
/// # Errors
/// [`Error::Canonical`] when the statement has no canonical form; [`Error::Envelope`].
pub fn sign<P: Serialize>(statement: &Statement<P>, key: &PrivateKey) -> Result<Vec<u8>, Error> {
    sign_with(statement, &[key])
}

/// As [`sign`], with one signature a key.
///
/// # Errors
/// As [`sign`].
pub fn sign_with<P: Serialize>(statement: &Statement<P>, keys: &[&PrivateKey]) -> Result<Vec<u8>, Error> {
    let payload = canonical::to_bytes(statement)?;
    let signers: Vec<DsseSigner<'_>> = keys.iter().map(|key| DsseSigner(key)).collect();
    let signers: Vec<&dyn dsse::Signer> = signers.iter().map(|signer| signer as &dyn dsse::Signer).collect();
    let envelope = dsse::sign_with(PAYLOAD_TYPE, &payload, &signers).map_err(Error::Envelope)?;
    Ok(canonical::to_bytes(&envelope)?)
}

/// Bytes that a trusted key has signed, and the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Exactly the bytes the signature covers.
    pub payload: Vec<u8>,
    /// Id of the key that verified.
    pub key_id: Digest,
}

impl Verified {
    /// Parses the verified bytes as a statement of type `predicate_type`.
    ///
    /// # Errors
    /// [`Error::UnknownType`] for another statement or predicate type, [`Error::Canonical`] for bytes that are not
    /// canonical or not of this shape.
    pub fn statement<P>(&self, predicate_type: &'static str) -> Result<Statement<P>, Error>
    where
        P: Serialize + serde::de::DeserializeOwned,
    {
        let members = [("_type", STATEMENT_TYPE), ("predicateType", predicate_type)];
        canonical::read_versioned(&self.payload, MAX_ENVELOPE_BYTES, &members)
    }
}

/// Verifies an envelope against one of `keys`. Key ids in it are hints without authority: absent, empty and wrong ones change nothing.
///
/// # Errors
/// [`Error::Envelope`]: not an envelope, or no signature by a trusted key; [`Error::UnknownType`]: a payload type other
/// than [`PAYLOAD_TYPE`].
pub fn verify(bytes: &[u8], keys: &[&PublicKey]) -> Result<Verified, Error> {
    if bytes.len() > MAX_ENVELOPE_BYTES {
        return Err(Error::Canonical(canonical::Refusal::TooLarge { len: bytes.len(), max: MAX_ENVELOPE_BYTES }));
    }
    let envelope = dsse::Envelope::from_json(bytes).map_err(Error::Envelope)?;
    let mut mismatched_keys = Vec::new();
    for key in keys {
        match dsse::verify(&envelope, &[&DsseVerifier(key)], 1) {
            Ok(verified) if verified.payload_type != PAYLOAD_TYPE => {
                return Err(Error::UnknownType { found: verified.payload_type, expected: PAYLOAD_TYPE });
            }
            Ok(verified) => return Ok(Verified { payload: verified.payload, key_id: key.id() }),
            Err(dsse::Error::NoValidSignature { mismatched_keys: named, .. }) => mismatched_keys.extend(named),
            Err(other) => return Err(Error::Envelope(other)),
        }
    }
    Err(Error::Envelope(dsse::Error::NoValidSignature {
        entries: envelope.signatures.len(),
        keys: keys.len(),
        mismatched_keys,
    }))
}

/// Verifies an envelope that *all* of `keys`, which differ, must have signed, and that has one spelling: canonical JSON, as many signatures as keys.
///
/// # Errors
/// As [`verify`]; [`Error::Canonical`] for another spelling.
pub fn verify_all(bytes: &[u8], keys: &[&PublicKey]) -> Result<Verified, Error> {
    let envelope: dsse::Envelope = canonical::read(bytes, MAX_ENVELOPE_BYTES)?;
    let verifiers: Vec<DsseVerifier<'_>> = keys.iter().map(|key| DsseVerifier(key)).collect();
    let verifiers: Vec<&dyn dsse::Verifier> =
        verifiers.iter().map(|verifier| verifier as &dyn dsse::Verifier).collect();
    let verified = dsse::verify(&envelope, &verifiers, keys.len()).map_err(Error::Envelope)?;
    if verified.payload_type != PAYLOAD_TYPE {
        return Err(Error::UnknownType { found: verified.payload_type, expected: PAYLOAD_TYPE });
    }
    if envelope.signatures.len() != keys.len() {
        return Err(Error::Envelope(dsse::Error::MalformedEnvelope("more signatures than keys".to_owned())));
    }
    Ok(Verified { payload: verified.payload, key_id: keys[0].id() })
}

/// What an envelope says before anybody has verified it: only to find out who must have signed it.
pub(crate) fn unverified_payload(bytes: &[u8]) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let envelope: dsse::Envelope = canonical::read(bytes, MAX_ENVELOPE_BYTES).ok()?;
    base64::engine::general_purpose::STANDARD.decode(envelope.payload).ok()
}
