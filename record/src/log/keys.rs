//! Which key signs which part of a log: rotation and revocation by tree size. Specified by `docs/spec/transparency-log.md`, *Keys*.

use serde::{Deserialize, Serialize};

use super::{Checkpoint, LogRefusal};
use crate::digest::{Digest, Tagged};
use crate::envelope::{self, Statement, predicate};
use crate::key::{PrivateKey, PublicKey};
use crate::receipt::Receipt;
use crate::{Error, canonical};

/// Most bytes of the key statements of a log.
pub const MAX_KEYS_BYTES: u64 = 1 << 20;

/// What a key statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyEvent {
    /// Names the key that may revoke.
    Recovery,
    /// The signing key hands over to its successor.
    Rotate,
    /// The signing key is lost or stolen; the recovery key names the successor.
    Revoke,
}

/// One key statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyStatement {
    /// The log's name.
    pub origin: String,
    /// Position of the statement.
    pub sequence: u64,
    /// Hash of the statement before.
    pub previous: Option<Digest>,
    /// What it does.
    pub event: KeyEvent,
    /// Entries in the log.
    pub size: u64,
    /// The key that signs the log so far, 64 hex digits.
    pub key: String,
    /// The key that signs from here on.
    pub successor: Option<String>,
    /// The key that may revoke.
    pub recovery: Option<String>,
    /// The operator's words.
    pub reason: String,
    /// The operator's clock, microseconds since 1970-01-01 UTC.
    pub time_unix_us: u64,
}

/// The keys of a log, and where each is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHistory {
    /// The first key, then the key after each statement.
    keys: Vec<PublicKey>,
    /// Size and hash of each statement.
    statements: Vec<(u64, Digest)>,
    recovery: Option<PublicKey>,
    origin: Option<String>,
    /// False for a key at hand without its history: a checkpoint may then name key statements that nobody here has seen.
    complete: bool,
}

fn statement_hash(line: &[u8]) -> Digest {
    Tagged::new("lastbit/log-key/v1").bytes(line).finish()
}

fn key_of(hex_digits: Option<&String>) -> Option<PublicKey> {
    let mut bytes = [0_u8; 32];
    hex::decode_to_slice(hex_digits?, &mut bytes).ok()?;
    let key = PublicKey::from_bytes(&bytes).ok()?;
    (hex::encode(bytes) == *hex_digits?).then_some(key)
}

impl KeyStatement {
    /// Signs it by two keys: a line without its newline.
    ///
    /// # Errors
    /// [`Error::Canonical`] for a reason that has no canonical form.
    pub fn sign(&self, by: [&PrivateKey; 2]) -> Result<Vec<u8>, Error> {
        envelope::sign_with(&Statement::new(predicate::LOG_KEY, Vec::new(), self), &by)
    }

    /// The two keys that must have signed, by its own words; the recovery key is the one named before.
    fn signers(&self, recovery: Option<&PublicKey>) -> Option<[PublicKey; 2]> {
        let (key, successor) = (key_of(Some(&self.key)), key_of(self.successor.as_ref()));
        match self.event {
            KeyEvent::Recovery => Some([key?, key_of(self.recovery.as_ref())?]),
            KeyEvent::Rotate => Some([key?, successor?]),
            KeyEvent::Revoke => Some([recovery?.clone(), successor?]),
        }
    }
}

impl KeyHistory {
    /// One key, of whose history nothing is known: everything it signed is taken to be in time.
    #[must_use]
    pub fn of_key(key: PublicKey) -> Self {
        Self { keys: vec![key], statements: Vec::new(), recovery: None, origin: None, complete: false }
    }

    /// Verifies the key statements of a log, for a reader that trusts one of its keys.
    ///
    /// # Errors
    /// [`LogRefusal::KeysMalformed`], [`LogRefusal::KeysInvalid`]; [`LogRefusal::CheckpointReSigned`] when the trusted key is none of the log's.
    pub fn verify(bytes: &[u8], trusted: &PublicKey) -> Result<Self, LogRefusal> {
        let history = Self::read(bytes)?.unwrap_or_else(|| Self { complete: true, ..Self::of_key(trusted.clone()) });
        if history.keys.contains(trusted) { Ok(history) } else { Err(LogRefusal::CheckpointReSigned) }
    }

    /// As [`KeyHistory::verify`], trusting no key: for the operator's own folder. `None` when there are no statements.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, LogRefusal> {
        let mut history: Option<Self> = None;
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        let mut line = 0;
        while let Some(text) = lines.next() {
            if lines.peek().is_none() {
                // After the last newline.
                return if text.is_empty() { Ok(history) } else { Err(LogRefusal::KeysMalformed { line }) };
            }
            let statement = Self::statement(text, line, history.as_ref())?;
            let history = history.get_or_insert_with(|| {
                let first = key_of(Some(&statement.key));
                Self {
                    keys: first.into_iter().collect(),
                    origin: Some(statement.origin.clone()),
                    complete: true,
                    ..Self::nothing()
                }
            });
            history
                .follow(&statement, text)
                .ok_or(LogRefusal::KeysInvalid { line, why: "it does not follow from those before it" })?;
            line += 1;
        }
        Ok(history)
    }

    fn nothing() -> Self {
        Self { keys: Vec::new(), statements: Vec::new(), recovery: None, origin: None, complete: false }
    }

    fn statement(text: &[u8], line: u64, before: Option<&Self>) -> Result<KeyStatement, LogRefusal> {
        let malformed = || LogRefusal::KeysMalformed { line };
        // Who must have signed is read from what is not verified yet; then the signatures are, and what they cover is read again.
        let unverified = envelope::unverified_payload(text).ok_or_else(malformed)?;
        let hint: Statement<KeyStatement> =
            canonical::read(&unverified, MAX_KEYS_BYTES as usize).map_err(|_| malformed())?;
        let recovery = before.and_then(|history| history.recovery.as_ref());
        let signers = hint.predicate.signers(recovery).ok_or_else(malformed)?;
        let unsigned = |_| LogRefusal::KeysInvalid { line, why: "it lacks one of its two signatures" };
        let verified = envelope::verify_all(text, &signers.each_ref()).map_err(unsigned)?;
        let statement = verified.statement::<KeyStatement>(predicate::LOG_KEY).map_err(|_| malformed())?;
        if statement.subject.is_empty() { Ok(statement.predicate) } else { Err(malformed()) }
    }

    /// Adds a statement whose signatures verified, if it follows.
    fn follow(&mut self, statement: &KeyStatement, text: &[u8]) -> Option<()> {
        let (last_size, previous) = match self.statements.last() {
            Some((size, hash)) => (*size, Some(*hash)),
            None => (0, None),
        };
        let follows = statement.sequence == self.statements.len() as u64
            && statement.previous == previous
            && statement.size >= last_size
            && key_of(Some(&statement.key)).as_ref() == self.keys.last()
            && Some(&statement.origin) == self.origin.as_ref();
        let successor = key_of(statement.successor.as_ref());
        let shape = match statement.event {
            KeyEvent::Recovery => {
                self.recovery.is_none() && statement.successor.is_none() && statement.recovery.is_some()
            }
            KeyEvent::Rotate | KeyEvent::Revoke => {
                // A key that was retired never comes back: validity is one range.
                let new = successor.as_ref().is_some_and(|key| !self.keys.contains(key));
                new && statement.recovery.is_none()
            }
        };
        if !follows || !shape {
            return None;
        }
        if statement.event == KeyEvent::Recovery {
            self.recovery = key_of(statement.recovery.as_ref());
        }
        self.keys.push(successor.or_else(|| self.keys.last().cloned())?);
        self.statements.push((statement.size, statement_hash(text)));
        Some(())
    }

    /// The key that signs now.
    #[must_use]
    pub fn current(&self) -> &PublicKey {
        // There is always the first.
        &self.keys[self.keys.len() - 1]
    }

    /// The key that signs the entry at this index.
    #[must_use]
    pub fn at(&self, index: u64) -> &PublicKey {
        &self.keys[self.statements.partition_point(|(size, _)| *size <= index)]
    }

    /// Every key, first to last; a statement that changes none repeats it.
    #[must_use]
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// The key that may revoke.
    #[must_use]
    pub fn recovery(&self) -> Option<&PublicKey> {
        self.recovery.as_ref()
    }

    /// Hash of the last statement, as a checkpoint names it.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.statements.last().map(|(_, hash)| *hash)
    }

    /// Number of statements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    /// True without any statement: one key signed everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Verifies a checkpoint: signed by one of the keys, naming the statements up to which that key was valid, within that key's range.
    ///
    /// # Errors
    /// As [`Checkpoint::verify`]; [`LogRefusal::KeysContradict`], [`LogRefusal::KeyRetired`].
    pub fn checkpoint(&self, bytes: &[u8]) -> Result<Checkpoint, LogRefusal> {
        let mut tried: Vec<&PublicKey> = Vec::new();
        for key in self.keys.iter().rev() {
            if tried.contains(&key) {
                continue;
            }
            tried.push(key);
            match Checkpoint::verify(bytes, key) {
                Ok(checkpoint) => return self.admits(&checkpoint, key).map(|()| checkpoint),
                Err(LogRefusal::CheckpointReSigned) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Err(LogRefusal::CheckpointReSigned)
    }

    fn admits(&self, checkpoint: &Checkpoint, key: &PublicKey) -> Result<(), LogRefusal> {
        if !self.complete {
            return Ok(());
        }
        let size = checkpoint.size;
        let known = match &checkpoint.keys {
            None => Some(0),
            Some(named) => self.statements.iter().position(|(_, hash)| hash == named).map(|at| at + 1),
        };
        let named = known.filter(|_| self.origin.as_ref().is_none_or(|origin| *origin == checkpoint.origin));
        let Some(named) = named.filter(|named| self.keys[*named] == *key) else {
            return Err(LogRefusal::KeysContradict { size });
        };
        let from = named.checked_sub(1).map_or(0, |at| self.statements[at].0);
        if size < from {
            return Err(LogRefusal::KeysContradict { size });
        }
        match self.statements.get(named) {
            Some((until, _)) if size > *until => Err(LogRefusal::KeyRetired { index: *until, by: key.id() }),
            _ => Ok(()),
        }
    }

    /// Verifies a receipt by the key that was valid at its place in the log.
    ///
    /// # Errors
    /// As [`Receipt::verify`]; [`Error::Log`] with [`LogRefusal::KeyRetired`] for one signed by another key of the log.
    pub fn receipt(&self, bytes: &[u8], origin: &str) -> Result<Receipt, Error> {
        let mut refused = Error::NoteUnsigned { name: origin.to_owned() };
        for key in self.keys.iter().rev() {
            match Receipt::verify(bytes, origin, key) {
                Ok(receipt) if self.at(receipt.log.index) == key => return Ok(receipt),
                Ok(receipt) => {
                    return Err(LogRefusal::KeyRetired { index: receipt.log.index, by: key.id() }.into());
                }
                Err(Error::NoteUnsigned { .. }) => {}
                Err(other) => refused = other,
            }
        }
        Err(refused)
    }

    /// The refusal of an entry that verifies under none of the keys valid there: by a key of this log beyond its range, or as it was.
    pub(super) fn judge(&self, refusal: LogRefusal) -> LogRefusal {
        match refusal {
            LogRefusal::ReSigned { index, by } if self.keys.iter().any(|key| key.id() == by) => {
                LogRefusal::KeyRetired { index, by }
            }
            other => other,
        }
    }
}
