//! Signing and opening result documents.

use super::{AuditResult, SCHEMA};
use crate::error::Error;
use record::Digest;
use record::envelope::{self, Statement, Subject, predicate};
use record::key::{PrivateKey, PublicKey};

/// Predicate type of the statement that carries a result.
pub const PREDICATE_TYPE: &str = predicate::AUDIT_RESULT;

/// A result and the signed bytes that say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedResult {
    /// The result.
    pub result: AuditResult,
    /// The envelope, as written to a file.
    pub bytes: Vec<u8>,
    /// Identifier of the key that signed.
    pub signer: Digest,
    /// That key.
    pub key: PublicKey,
    /// File name to show beside the digest.
    pub file: Option<String>,
    digest: Digest,
}

impl SignedResult {
    /// Signs a result: an in-toto statement about the audited records, in a DSSE envelope, canonical.
    ///
    /// # Errors
    /// [`Error::Record`] when the result has no canonical form: text that is not NFC.
    pub fn sign(result: AuditResult, key: &PrivateKey) -> Result<Self, Error> {
        let mut subjects = Vec::new();
        for record in &result.records {
            for (seq, digest) in (record.seq..).zip([&record.digest].into_iter().chain(&record.further)) {
                let digest: Digest = digest.parse()?;
                subjects.push(Subject::new(format!("record {seq}"), "lastbit-record-v1", &digest));
            }
        }
        let bytes = envelope::sign(&Statement::new(PREDICATE_TYPE, subjects, &result), key)?;
        let digest = Digest::of_file(&bytes);
        Ok(Self { result, bytes, signer: key.public().id(), key: key.public(), file: None, digest })
    }

    /// Verifies the signature over the bytes, then reads the result from exactly those bytes.
    ///
    /// # Errors
    /// [`Error::Record`] when no trusted key signed or the bytes are not a canonical statement; [`Error::Result`] for another version.
    pub fn open(bytes: &[u8], trusted: &[&PublicKey]) -> Result<Self, Error> {
        let verified = envelope::verify(bytes, trusted)?;
        let statement = verified.statement::<AuditResult>(PREDICATE_TYPE)?;
        let result = statement.predicate;
        if result.schema != SCHEMA {
            return Err(Error::Result { reason: format!("schema {:?}, this version reads {SCHEMA:?}", result.schema) });
        }
        let signer = verified.key_id;
        let key = trusted.iter().find(|key| key.id() == signer);
        let key =
            (*key.ok_or_else(|| Error::Result { reason: "signed by a key that was not given".to_owned() })?).clone();
        Ok(Self { result, bytes: bytes.to_vec(), signer, key, file: None, digest: Digest::of_file(bytes) })
    }

    /// Names the file that the bytes are stored in, for the report.
    #[must_use]
    pub fn named(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Plain SHA-256 of the file.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }
}
