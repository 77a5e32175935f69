//! Taking in what somebody hands over: signatures first, contents second.
//!
//! A signed file whose key is not trusted here is *held*: its bytes are kept and nothing of them is read. Keys that come with a bundle are only
//! proposed, since whoever made the bundle chose them. A file that a trusted key is said to have signed and did not is refused and not kept.

mod archive;
mod log;
mod watch;

pub(crate) use archive::{Limits, plain_path as plain, unpack};
pub(crate) use log::key_history;
pub(crate) use watch::watch;

use std::collections::BTreeMap;

use fingerprint::report::{PREDICATE_TYPE as FINGERPRINT, Report, SCHEMA as FINGERPRINT_SCHEMA};
use record::envelope::{self, Statement};
use record::{Digest, PublicKey};
use serde::Serialize;
use verifier::result::{PREDICATE_TYPE as AUDIT, SignedResult};

use crate::error::{Error, Result};
use crate::store::Store;

/// Files by their path within what was handed over.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// What became of everything that was handed over.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Receipt {
    pub items: Vec<Item>,
}

/// What became of one thing.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Item {
    pub path: String,
    /// `audit result`, `fingerprint report`, `log`, `key`, `file`.
    pub kind: &'static str,
    /// `taken`, `known`, `held`, `refused`, `ignored`.
    pub outcome: &'static str,
    pub detail: String,
    pub href: Option<String>,
}

impl Receipt {
    pub(crate) fn count(&self, outcome: &str) -> usize {
        self.items.iter().filter(|i| i.outcome == outcome).count()
    }

    /// In one line, for the trail.
    pub(crate) fn words(&self) -> String {
        let parts = ["taken", "known", "held", "refused", "ignored"].map(|o| (self.count(o), o));
        let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, o)| format!("{n} {o}")).collect();
        if parts.is_empty() { "nothing in it".to_owned() } else { parts.join(", ") }
    }

    fn add(
        &mut self,
        path: &str,
        kind: &'static str,
        outcome: &'static str,
        detail: impl Into<String>,
        href: Option<String>,
    ) {
        self.items.push(Item { path: path.to_owned(), kind, outcome, detail: detail.into(), href });
    }
}

/// The keys that are trusted here.
pub(crate) fn trusted(store: &Store) -> Result<Vec<PublicKey>> {
    let keys = store.keys()?.into_iter().filter(|k| k.trust == "trusted");
    Ok(keys.filter_map(|k| PublicKey::from_bytes(&hex::decode(k.public).ok()?.try_into().ok()?).ok()).collect())
}

/// Takes files in. `source` says where from, for keys that come along.
///
/// # Errors
/// Those of the store. What is wrong with a file is in the receipt.
pub(crate) fn take(store: &Store, files: &Files, source: &str) -> Result<Receipt> {
    let mut receipt = Receipt::default();
    let logs = log::folders(files);
    let in_log = |path: &str| logs.iter().any(|folder| log::prefix_of(folder, path).is_some());
    for (path, bytes) in files.iter().filter(|(path, _)| path.ends_with(".pub")) {
        take_key(store, path, bytes, source, &mut receipt)?;
    }
    let keys = trusted(store)?;
    for folder in &logs {
        log::take(store, folder, files, &keys, &mut receipt)?;
    }
    for (path, bytes) in files {
        if path.ends_with(".pub") || in_log(path) {
            continue;
        }
        if path.ends_with(".json") {
            take_signed(store, path, bytes, &keys, &mut receipt)?;
        } else {
            receipt.add(path, "file", "ignored", "neither signed JSON, nor a public key, nor part of a log", None);
        }
    }
    Ok(receipt)
}

fn take_key(store: &Store, path: &str, bytes: &[u8], source: &str, receipt: &mut Receipt) -> Result<()> {
    let key = std::str::from_utf8(bytes).ok().and_then(|pem| PublicKey::from_pem(pem).ok());
    match key {
        None => receipt.add(path, "key", "refused", "not an Ed25519 public key in PEM form", None),
        Some(key) => {
            let href = Some(format!("/keys#key-{}", key.id().to_hex()));
            let new = store.add_key(&key, name_of(path).trim_end_matches(".pub"), "proposed", source)?;
            let (outcome, detail) =
                if new { ("taken", "proposed; an administrator decides whether it is trusted") } else { ("known", "") };
            receipt.add(path, "key", outcome, detail, href);
        }
    }
    Ok(())
}

/// A signed JSON file. Nothing of its payload is read before a trusted key's signature over it verifies.
fn take_signed(store: &Store, path: &str, bytes: &[u8], keys: &[PublicKey], receipt: &mut Receipt) -> Result<()> {
    let trusted: Vec<&PublicKey> = keys.iter().collect();
    let verified = match envelope::verify(bytes, &trusted) {
        Ok(verified) => verified,
        Err(e) if e.contradicts_trusted_key() => {
            receipt.add(
                path,
                "file",
                "refused",
                format!("altered: it names a trusted key, whose signature does not verify ({e})"),
                None,
            );
            return Ok(());
        }
        Err(record::Error::Envelope(_)) if looks_signed(bytes) => {
            let digest = store.keep(bytes, "signed", path, "held", "no key that is trusted here signed it")?;
            let detail = "no key that is trusted here signed it; it is kept, and read once its key is trusted";
            receipt.add(path, "file", "held", detail, Some(format!("/keys#held-{}", digest.to_hex())));
            return Ok(());
        }
        Err(e) => {
            receipt.add(path, "file", "ignored", format!("not a signed document: {e}"), None);
            return Ok(());
        }
    };
    if let Ok(signed) = SignedResult::open(bytes, &trusted) {
        let known = is_known(store, signed.digest())?;
        let digest = store.keep(bytes, "audit-result", path, "verified", "")?;
        if !known {
            store.index_run(&signed.named(name_of(path)))?;
        }
        let href = Some(format!("/runs/{}", digest.to_hex()));
        receipt.add(path, "audit result", if known { "known" } else { "taken" }, "", href);
        return Ok(());
    }
    let report: Result<Statement<Report>, _> = verified.statement(FINGERPRINT);
    match report {
        Ok(statement) if statement.predicate.schema == FINGERPRINT_SCHEMA => {
            let known = is_known(store, &Digest::of_file(bytes))?;
            let digest = store.keep(bytes, "fingerprint-report", path, "verified", "")?;
            store.index_fingerprint(&digest, &statement.predicate, &verified.key_id)?;
            let href = Some(format!("/fingerprints/{}", digest.to_hex()));
            receipt.add(path, "fingerprint report", if known { "known" } else { "taken" }, "", href);
        }
        _ => {
            let detail = format!(
                "signed by a trusted key, but neither {AUDIT} nor {FINGERPRINT} of a version that is read here"
            );
            receipt.add(path, "file", "ignored", detail, None);
        }
    }
    Ok(())
}

fn is_known(store: &Store, digest: &Digest) -> Result<bool> {
    Ok(store.blob(digest)?.is_some_and(|b| b.state == "verified") && store.bytes(digest).is_ok())
}

/// Has it the outside of an envelope? Only to tell "held" from "something else".
fn looks_signed(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Outside {
        #[serde(rename = "payloadType")]
        payload_type: String,
        signatures: Vec<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Outside>(bytes)
        .is_ok_and(|o| o.payload_type == envelope::PAYLOAD_TYPE && !o.signatures.is_empty())
}

/// Reads again what was held, after a key became trusted.
///
/// # Errors
/// Those of the store.
pub(crate) fn reconsider(store: &Store) -> Result<Receipt> {
    let mut receipt = Receipt::default();
    let keys = trusted(store)?;
    for blob in store.blobs_in("held")? {
        match blob.digest_of().and_then(|digest| store.bytes(&digest)) {
            Ok(bytes) => take_signed(store, &blob.name, &bytes, &keys, &mut receipt)?,
            Err(e) => receipt.add(&blob.name, "file", "refused", e.words(), None),
        }
    }
    for held in store.logs()?.into_iter().filter(|l| l.state == "held") {
        let mut files = Files::new();
        for file in store.log_files(&held.id)? {
            let digest: Digest =
                format!("sha256:{}", file.digest).parse().map_err(|_| Error::Bug("a digest in the index".into()))?;
            files.insert(format!("{}/{}", held.name, file.path), store.bytes(&digest)?);
        }
        log::take(store, &held.name, &files, &keys, &mut receipt)?;
    }
    Ok(receipt)
}

impl crate::store::BlobRow {
    fn digest_of(&self) -> Result<Digest> {
        format!("sha256:{}", self.digest).parse().map_err(|_| Error::Bug("a digest in the index".into()))
    }
}

pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
