//! Proof that a log shows different people different histories: two checkpoints that one key signed and no single log can have.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::log::{Checkpoint, KeyHistory};
use crate::merkle::{self, Tree};
use crate::{Error, canonical};

/// What the `type` member says.
const TYPE: &str = "misbehaviour/v1";

/// Most bytes of a proof of misbehaviour.
pub const MAX_MISBEHAVIOUR_BYTES: usize = 1 << 18;

/// Two checkpoints that contradict each other, with what shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Misbehaviour {
    #[serde(rename = "type")]
    kind: String,
    /// The log.
    pub origin: String,
    /// The smaller checkpoint as received, or either one of two of the same size.
    pub first: String,
    /// The other.
    pub second: String,
    /// Root that the second checkpoint's tree has at the size of the first; `null` when both have one size.
    pub root: Option<Digest>,
    /// Consistency proof from that root to the second checkpoint.
    pub proof: Vec<Digest>,
}

/// A checkpoint that has been verified, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// What it says.
    pub checkpoint: Checkpoint,
    /// The signed note.
    pub note: Vec<u8>,
}

impl Reading {
    /// Verifies the bytes of a checkpoint.
    ///
    /// # Errors
    /// As [`KeyHistory::checkpoint`].
    pub fn new(note: Vec<u8>, keys: &KeyHistory) -> Result<Self, Error> {
        Ok(Self { checkpoint: keys.checkpoint(&note)?, note })
    }
}

/// Can both be checkpoints of one log? `tree` is the tree of the larger one, if it is at hand. Absent: nothing speaks against it;
/// [`Error::Undecided`] without that tree.
///
/// # Errors
/// [`Error::Origin`] for checkpoints of two logs; [`Error::Undecided`]; [`Error::Note`] for a checkpoint that is not text.
pub fn compare(one: &Reading, other: &Reading, tree: Option<&Tree>) -> Result<Option<Misbehaviour>, Error> {
    let (first, second) = if one.checkpoint.size <= other.checkpoint.size { (one, other) } else { (other, one) };
    let (small, large) = (&first.checkpoint, &second.checkpoint);
    if small.origin != large.origin {
        return Err(Error::Origin);
    }
    let shown = |root, proof| -> Result<Option<Misbehaviour>, Error> {
        let text = |reading: &Reading| String::from_utf8(reading.note.clone());
        let malformed = |_| Error::Note(signed_note::NoteError::MalformedNote);
        let (first, second) = (text(first).map_err(malformed)?, text(second).map_err(malformed)?);
        Ok(Some(Misbehaviour { kind: TYPE.to_owned(), origin: small.origin.clone(), first, second, root, proof }))
    };
    if small.size == large.size {
        // Key statements change no entry: the same tree may be signed before and after one.
        let same = small.root == large.root && small.chain == large.chain;
        return if same { Ok(None) } else { shown(None, Vec::new()) };
    }
    let tree = tree.filter(|tree| tree.root_at(large.size).ok() == Some(large.root)).ok_or(Error::Undecided)?;
    let root = tree.root_at(small.size)?;
    if root == small.root {
        return Ok(None);
    }
    shown(Some(root), tree.consistency(small.size, large.size)?)
}

impl Misbehaviour {
    /// The bytes of the file.
    ///
    /// # Errors
    /// [`Error::Canonical`] for a checkpoint whose text has no canonical form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        Ok(canonical::to_bytes(self)?)
    }

    /// Reads a file and checks that it shows misbehaviour of the log whose keys these are.
    ///
    /// # Errors
    /// [`Error::Canonical`], [`Error::UnknownType`]; [`Error::Log`] for a checkpoint that the keys did not sign; [`Error::NoMisbehaviour`]
    /// when one log can have both checkpoints.
    pub fn verify(bytes: &[u8], keys: &KeyHistory) -> Result<Self, Error> {
        let read: Self = canonical::read_versioned(bytes, MAX_MISBEHAVIOUR_BYTES, &[("type", TYPE)])?;
        let small = keys.checkpoint(read.first.as_bytes())?;
        let large = keys.checkpoint(read.second.as_bytes())?;
        let contradict = if small.origin != read.origin || large.origin != read.origin {
            false
        } else {
            match &read.root {
                None => {
                    let differ = small.root != large.root || small.chain != large.chain;
                    small.size == large.size && differ && read.proof.is_empty()
                }
                Some(root) => {
                    let (from, to) = ((small.size, root), (large.size, &large.root));
                    let proved = || merkle::check_consistency(&read.proof, from, to).is_ok();
                    0 < small.size && small.size < large.size && *root != small.root && proved()
                }
            }
        };
        if contradict { Ok(read) } else { Err(Error::NoMisbehaviour) }
    }

    /// The kind, in words.
    #[must_use]
    pub fn words(&self) -> &'static str {
        if self.root.is_none() {
            "split view: one size, two trees"
        } else {
            "rewritten history: the larger tree does not continue the smaller"
        }
    }
}
