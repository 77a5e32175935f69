//! Checkpoints: C2SP tlog-checkpoint in a signed note, with the chain value as an extension line.

use tlog_tiles::tlog::Hash;

use super::{LogRefusal, MAX_ORIGIN_BYTES};
use crate::digest::Digest;
use crate::key::{PrivateKey, PublicKey};
use crate::{Error, note};

/// A signed statement that a log has this many entries with this root, and that its chain stands here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's name.
    pub origin: String,
    /// Number of entries covered.
    pub size: u64,
    /// RFC 6962 root over the entries' bytes.
    pub root: Digest,
    /// Chain value after the last entry covered.
    pub chain: Digest,
    /// Hash of the last key statement; none as long as one key has signed everything.
    pub keys: Option<Digest>,
}

const CHAIN_LINE: &str = "chain ";
const KEYS_LINE: &str = "keys ";

impl Checkpoint {
    /// Signs it.
    ///
    /// # Errors
    /// [`Error::Origin`] when the log's name cannot be one.
    pub fn sign(&self, key: &PrivateKey) -> Result<Vec<u8>, Error> {
        if !note::is_name(&self.origin, MAX_ORIGIN_BYTES) {
            return Err(Error::Origin);
        }
        let keys = self.keys.map_or(String::new(), |keys| format!("{KEYS_LINE}{keys}\n"));
        let extension = format!("{CHAIN_LINE}{}\n{keys}", self.chain);
        let head = tlog_tiles::Checkpoint::new(&self.origin, self.size, Hash(*self.root.as_bytes()), &extension)
            .map_err(|_| Error::Origin)?;
        note::sign(&String::from_utf8_lossy(&head.to_bytes()), &self.origin, key)
    }

    /// Verifies the signature, then reads the text. The key's name must be the log's.
    ///
    /// # Errors
    /// [`LogRefusal::CheckpointMalformed`], [`LogRefusal::CheckpointAltered`], [`LogRefusal::CheckpointReSigned`].
    pub fn verify(bytes: &[u8], key: &PublicKey) -> Result<Self, LogRefusal> {
        // The key's name is the log's, which is the first line: read as a hint, then covered by the signature.
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let origin = std::str::from_utf8(first).map_err(|_| LogRefusal::CheckpointMalformed)?;
        if !note::is_name(origin, MAX_ORIGIN_BYTES) {
            return Err(LogRefusal::CheckpointMalformed);
        }
        let text = note::verify(bytes, origin, key).map_err(|error| match error {
            Error::NoteSignature { .. } => LogRefusal::CheckpointAltered,
            Error::NoteUnsigned { .. } => LogRefusal::CheckpointReSigned,
            _ => LogRefusal::CheckpointMalformed,
        })?;
        Self::parse(&text).ok_or(LogRefusal::CheckpointMalformed)
    }

    fn parse(text: &str) -> Option<Self> {
        let head = tlog_tiles::Checkpoint::from_bytes(text.as_bytes()).ok()?;
        let mut extension = head.extension().split_inclusive('\n');
        let chain = extension.next()?.strip_prefix(CHAIN_LINE)?.strip_suffix('\n')?;
        let keys = match extension.next() {
            Some(line) => Some(line.strip_prefix(KEYS_LINE)?.strip_suffix('\n')?.parse().ok()?),
            None => None,
        };
        if extension.next().is_some() {
            return None;
        }
        let parsed = Self {
            origin: head.origin().to_owned(),
            size: head.size(),
            root: Digest::from_bytes(head.hash().0),
            chain: chain.parse().ok()?,
            keys,
        };
        // One checkpoint, one spelling: `+7` and `007` are sizes to a lenient integer parser.
        (head.to_bytes() == text.as_bytes()).then_some(parsed)
    }
}
