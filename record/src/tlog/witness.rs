//! A witness: it cosigns a checkpoint only if it continues the last one that it cosigned of that log (`c2sp.org/tlog-witness`).
//!
//! The logic and its state; whoever listens for requests calls [`Witness::add_checkpoint`], one at a time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{AddCheckpoint, WitnessKey, cosign};
use crate::digest::Digest;
use crate::key::{PrivateKey, PublicKey};
use crate::log::{Checkpoint, LogRefusal, MAX_CHECKPOINT_BYTES};
use crate::{Error, durable, file, merkle};

/// Why a checkpoint is not cosigned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessRefusal {
    /// Not a request, or an old size beyond the new one. The sender's mistake.
    #[error("not an add-checkpoint request: {0}")]
    Malformed(String),
    /// The witness does not know this log. The sender's or the witness's configuration.
    #[error("this witness does not know the log {0:?}")]
    UnknownLog(String),
    /// No key that the witness knows for this log has signed the checkpoint.
    #[error("the checkpoint is not signed by the key that this witness knows for the log")]
    NotSigned,
    /// The request starts from another size than the last one cosigned. Ask again from this size.
    #[error("the last checkpoint cosigned has {size} entries")]
    Conflict {
        /// Size last cosigned.
        size: u64,
    },
    /// The checkpoint does not continue what was cosigned: the log keeps two histories, or the proof is wrong.
    #[error("the checkpoint does not continue the one of {size} entries that was cosigned")]
    Inconsistent {
        /// Size last cosigned.
        size: u64,
    },
    /// The witness's own state cannot be read or written: it cosigns nothing.
    #[error("the state of this witness: {0}")]
    State(#[from] Error),
}

impl WitnessRefusal {
    /// The HTTP status that answers the request.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::NotSigned => 403,
            Self::UnknownLog(_) => 404,
            Self::Conflict { .. } => 409,
            Self::Inconsistent { .. } => 422,
            Self::State(_) => 500,
        }
    }
}

/// A witness with its state. Holds the folder's lock until dropped.
pub struct Witness {
    identity: WitnessKey,
    key: PrivateKey,
    logs: BTreeMap<String, Vec<PublicKey>>,
    folder: PathBuf,
    _lock: File,
}

impl Witness {
    /// Opens the folder of a witness, or makes it, for logs known by name and key.
    ///
    /// # Errors
    /// [`Error::WitnessKey`] for a name that is none; [`Error::Locked`] when another witness has the folder; [`Error::Io`].
    pub fn open(
        folder: &Path,
        name: &str,
        key: PrivateKey,
        logs: impl IntoIterator<Item = (String, PublicKey)>,
    ) -> Result<Self, Error> {
        let identity = WitnessKey::new(name, key.public())?;
        let state = folder.join("state");
        fs::create_dir_all(&state).map_err(Error::io(&state))?;
        let path = folder.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(Error::io(&path))?;
        if lock.try_lock().is_err() {
            return Err(Error::Locked { path });
        }
        let mut known: BTreeMap<String, Vec<PublicKey>> = BTreeMap::new();
        for (origin, key) in logs {
            known.entry(origin).or_default().push(key);
        }
        Ok(Self { identity, key, logs: known, folder: folder.to_owned(), _lock: lock })
    }

    /// Its name and key, for those who rely on it.
    #[must_use]
    pub fn identity(&self) -> &WitnessKey {
        &self.identity
    }

    /// Judges a request. The cosignature line is returned once the new state is on disk.
    ///
    /// # Errors
    /// [`WitnessRefusal`]; nothing has changed then.
    pub fn add_checkpoint(&mut self, body: &[u8], now_unix_s: u64) -> Result<Vec<u8>, WitnessRefusal> {
        let request = AddCheckpoint::from_bytes(body).map_err(|error| WitnessRefusal::Malformed(error.to_string()))?;
        let malformed = || WitnessRefusal::Malformed("the checkpoint is malformed".to_owned());
        let origin = request.origin().ok_or_else(malformed)?.to_owned();
        let keys = self.logs.get(&origin).ok_or_else(|| WitnessRefusal::UnknownLog(origin.clone()))?;
        let new = signed_by_one(&request, keys)?;
        if request.old > new.size {
            return Err(WitnessRefusal::Malformed("the old size is larger than the new one".to_owned()));
        }
        let (size, root) = self.last(&origin, keys)?;
        if request.old != size || (new.size == size && new.root != root) {
            return Err(WitnessRefusal::Conflict { size });
        }
        merkle::check_consistency(&request.proof, (size, &root), (new.size, &new.root))
            .map_err(|_| WitnessRefusal::Inconsistent { size })?;
        let line = cosign(&request.checkpoint, &self.identity, &self.key, now_unix_s)?;
        let path = self.state_path(&origin);
        durable::replace(&path, &request.checkpoint).map_err(Error::io(&path))?;
        Ok(line)
    }

    /// Size and root last cosigned; those of the empty tree if none was.
    fn last(&self, origin: &str, keys: &[PublicKey]) -> Result<(u64, Digest), Error> {
        let path = self.state_path(origin);
        let bytes = match file::read(&path, MAX_CHECKPOINT_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, merkle::root(&[])?)),
            Err(error) => return Err(Error::io(&path)(error)),
        };
        // The state is the witness's own. It is verified all the same: a damaged file must not make it forget.
        let mut refused = LogRefusal::CheckpointReSigned;
        for key in keys {
            match Checkpoint::verify(&bytes, key) {
                Ok(known) => return Ok((known.size, known.root)),
                Err(refusal) => refused = refusal,
            }
        }
        Err(refused.into())
    }

    fn state_path(&self, origin: &str) -> PathBuf {
        self.folder.join("state").join(Digest::of_file(origin.as_bytes()).to_hex())
    }
}

fn signed_by_one(request: &AddCheckpoint, keys: &[PublicKey]) -> Result<Checkpoint, WitnessRefusal> {
    for key in keys {
        match request.checkpoint(key) {
            Ok(checkpoint) => return Ok(checkpoint),
            Err(LogRefusal::CheckpointMalformed) => {
                return Err(WitnessRefusal::Malformed("the checkpoint is malformed".to_owned()));
            }
            Err(_) => {}
        }
    }
    Err(WitnessRefusal::NotSigned)
}
