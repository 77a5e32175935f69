//! What there is to say, as data. The interface's pages and its JSON are both made of these functions and of nothing else.

mod judged;
mod logs;
mod rest;
mod runs;

pub(crate) use judged::{Record, record};
pub(crate) use logs::{Entry, Log, entry, line, log, proof};
pub(crate) use rest::{
    Comparison, Fingerprint, Inventory, Keys, Search, Trail, compare, fingerprint, inventory, keys, search, trail,
};
pub(crate) use runs::{Overview, Run, overview, run};

use std::sync::Arc;

use record::{Digest, PublicKey};
use verifier::result::SignedResult;

use crate::App;
use crate::error::{Error, Result, missing};

/// A digest as addresses and people write it.
pub(crate) fn digest(text: &str) -> Result<Digest> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    format!("sha256:{hex}").parse().map_err(|_| missing(format!("{hex:.80} (a digest has 64 lower-case hex digits)")))
}

/// Every key that was ever trusted here: what one of them signed can still be read, and is marked if the trust is gone.
fn known_keys(app: &App) -> Result<Vec<PublicKey>> {
    let keys = app.store.keys()?.into_iter().filter(|k| k.trust != "proposed");
    Ok(keys.filter_map(|k| public(&k.public)).collect())
}

/// A key from its 32 bytes in hex.
pub(crate) fn public(text: &str) -> Option<PublicKey> {
    PublicKey::from_bytes(&hex::decode(text).ok()?.try_into().ok()?).ok()
}

/// How far the key with this id is trusted now.
pub(crate) fn trust(app: &App, id: &str) -> Result<String> {
    Ok(app.store.keys()?.into_iter().find(|k| k.id == id).map_or_else(|| "unknown".to_owned(), |k| k.trust))
}

/// A signed result from the stored bytes, whose digest is computed again each time. Its signature is verified before it is parsed; what was parsed
/// is kept for the same bytes.
pub(crate) fn opened(app: &App, digest: &Digest) -> Result<Arc<SignedResult>> {
    let row =
        app.store.blob(digest)?.filter(|b| b.state == "verified").ok_or_else(|| missing(format!("audit {digest}")))?;
    let bytes = app.store.bytes(digest)?;
    if let Some(hit) = app.cache.get(digest) {
        return Ok(hit);
    }
    let keys = known_keys(app)?;
    let signed = SignedResult::open(&bytes, &keys.iter().collect::<Vec<_>>())
        .map_err(|e| Error::Altered(format!("the stored signed result no longer verifies: {e}")))?;
    let signed = Arc::new(signed.named(crate::ingest::name_of(&row.name)));
    app.cache.put(*digest, signed.clone());
    Ok(signed)
}
