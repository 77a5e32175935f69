//! Signatures that others made over a model's files: OpenSSF Model Signing 1.0. Specified by `docs/spec/model-signing.md`.
//!
//! Read, never written: verified under a key that the reader brings, offline. Keyless signatures need trust roots and a time, and are refused by name.

use std::collections::BTreeMap;

use p256::ecdsa::signature::Verifier as _;
use p256::pkcs8::DecodePublicKey as _;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::digest::Digest;
use crate::envelope::{PAYLOAD_TYPE, STATEMENT_TYPE};
use crate::inference::FileDigest;
use crate::key::PublicKey;

/// The predicate type of a signature over a model.
pub const PREDICATE_TYPE: &str = "https://model_signing/signature/v1.0";

/// Most bytes of a signature file; one lists every file of a model.
pub const MAX_SIGNATURE_BYTES: usize = 1 << 24;

/// Why a signature over a model is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelSignatureRefusal {
    /// Neither a Sigstore bundle with a DSSE envelope nor an envelope.
    #[error("not-a-bundle: neither a Sigstore bundle with an envelope in it nor a bare envelope")]
    NotABundle,
    /// Made by a short-lived certificate.
    #[error("certificate: the signature is keyless; bring one that was made with a key")]
    Certificate,
    /// The key is of a kind that is not read here.
    #[error("key: not an ECDSA P-256 or Ed25519 public key")]
    Key,
    /// No signature by this key over these bytes.
    #[error("signature: it does not verify under this key")]
    Signature,
    /// The signed bytes are another kind of statement.
    #[error("statement: what is signed is no model signature of version 1.0")]
    Statement,
    /// The files were hashed in a way that is not read here.
    #[error("serialization: the model's files were not hashed one by one with SHA-256")]
    Serialization,
    /// A listed file has no proper name or digest, or is listed twice or out of order.
    #[error("resource: the list of files is malformed")]
    Resource,
    /// The subject's digest is not that of the list.
    #[error("subject: the digest of the model is not that of its list of files")]
    Subject,
}

/// A key that signs models.
#[derive(Debug, Clone)]
pub enum ModelKey {
    /// ECDSA on P-256 with SHA-256.
    P256(Box<p256::ecdsa::VerifyingKey>),
    /// Ed25519.
    Ed25519(PublicKey),
}

/// A model as its signer lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedModel {
    /// The signer's name for it.
    pub name: String,
    /// SHA-256 over the files' digests.
    pub digest: Digest,
    /// Plain SHA-256 of each file, by path.
    pub files: BTreeMap<String, Digest>,
}

/// What a record's files are to a signed model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// Each one is listed, with the same digest.
    All,
    /// This one is listed with another digest.
    Differs(String),
    /// This one is not listed.
    Unknown(String),
}

impl ModelKey {
    /// Reads a SubjectPublicKeyInfo PEM.
    ///
    /// # Errors
    /// [`ModelSignatureRefusal::Key`].
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        if let Ok(key) = PublicKey::from_pem(pem) {
            return Ok(Self::Ed25519(key));
        }
        let key = p256::ecdsa::VerifyingKey::from_public_key_pem(pem).map_err(|_| ModelSignatureRefusal::Key)?;
        Ok(Self::P256(Box::new(key)))
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(key) => key.verifies(message, signature),
            Self::P256(key) => p256::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
        }
    }
}

impl dsse::Verifier for ModelKey {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.verifies(message, signature)
    }
}

#[derive(Deserialize)]
struct SignedStatement {
    #[serde(rename = "_type")]
    kind: String,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    subject: Vec<SignedSubject>,
    predicate: Predicate,
}

#[derive(Deserialize)]
struct SignedSubject {
    #[serde(default)]
    name: String,
    digest: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Predicate {
    serialization: Serialization,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Serialization {
    method: String,
    hash_type: String,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    algorithm: String,
    digest: String,
}

impl SignedModel {
    /// Verifies a signature file under `key`, then reads what it signs.
    ///
    /// # Errors
    /// [`Error::ModelSignature`].
    pub fn verify(bytes: &[u8], key: &ModelKey) -> Result<Self, Error> {
        use ModelSignatureRefusal as Refusal;
        let envelope = envelope(bytes)?;
        let verified = dsse::verify(&envelope, &[key], 1).map_err(|_| Refusal::Signature)?;
        let statement: SignedStatement = serde_json::from_slice(&verified.payload).map_err(|_| Refusal::Statement)?;
        let known = verified.payload_type == PAYLOAD_TYPE
            && statement.kind == STATEMENT_TYPE
            && statement.predicate_type == PREDICATE_TYPE;
        let (true, [subject]) = (known, statement.subject.as_slice()) else { return Err(Refusal::Statement.into()) };
        let predicate = &statement.predicate;
        if predicate.serialization.method != "files" || predicate.serialization.hash_type != "sha256" {
            return Err(Refusal::Serialization.into());
        }
        let mut files = BTreeMap::new();
        let mut all = Sha256::new();
        let mut last: Option<String> = None;
        for resource in &predicate.resources {
            let digest =
                digest_of(&resource.digest).filter(|_| resource.algorithm == "sha256" && is_path(&resource.name));
            // In the order in which Python sorts paths: part by part.
            let parts = |name: &str| name.split('/').map(str::to_owned).collect::<Vec<_>>();
            let ascending = last.as_ref().is_none_or(|last| parts(last) < parts(&resource.name));
            let digest = digest.filter(|_| ascending).ok_or(Refusal::Resource)?;
            all.update(digest.as_bytes());
            last = Some(resource.name.clone());
            files.insert(resource.name.clone(), digest);
        }
        let whole = Digest::from_bytes(all.finalize().into());
        let stated = subject.digest.get("sha256").and_then(|text| digest_of(text));
        if files.is_empty() || stated != Some(whole) {
            return Err(Refusal::Subject.into());
        }
        Ok(Self { name: subject.name.clone(), digest: whole, files })
    }

    /// Are these files, as a record lists what its engine read, files of this model?
    #[must_use]
    pub fn lists(&self, files: &[FileDigest]) -> Listed {
        for file in files {
            match self.files.get(&file.path) {
                Some(digest) if *digest == file.sha256 => {}
                Some(_) => return Listed::Differs(file.path.clone()),
                None => return Listed::Unknown(file.path.clone()),
            }
        }
        Listed::All
    }
}

/// The envelope of a bundle, or the bare one.
fn envelope(bytes: &[u8]) -> Result<dsse::Envelope, ModelSignatureRefusal> {
    use ModelSignatureRefusal as Refusal;
    if bytes.len() > MAX_SIGNATURE_BYTES {
        return Err(Refusal::NotABundle);
    }
    let outer: Value = serde_json::from_slice(bytes).map_err(|_| Refusal::NotABundle)?;
    let Some(media) = outer.get("mediaType") else {
        return serde_json::from_value(outer).map_err(|_| Refusal::NotABundle);
    };
    let bundle = media.as_str().is_some_and(|media| media.starts_with("application/vnd.dev.sigstore.bundle"));
    let material = outer.get("verificationMaterial").filter(|_| bundle).ok_or(Refusal::NotABundle)?;
    if material.get("certificate").is_some() || material.get("x509CertificateChain").is_some() {
        return Err(Refusal::Certificate);
    }
    let envelope = outer.get("dsseEnvelope").cloned().ok_or(Refusal::NotABundle)?;
    serde_json::from_value(envelope).map_err(|_| Refusal::NotABundle)
}

fn digest_of(text: &str) -> Option<Digest> {
    format!("sha256:{text}").parse().ok()
}

/// Relative, with `/`, nothing that leaves its folder.
fn is_path(name: &str) -> bool {
    !name.contains(['\\', '\0']) && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
