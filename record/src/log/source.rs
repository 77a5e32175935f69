//! Where a log is read from: a directory, or memory (bundles, tests).

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::container::HEADER_BYTES;
use crate::digest::Digest;
use crate::file;
use crate::inference::MAX_RECORD_BYTES;

/// Most bytes a checkpoint may have: room for many witness signatures.
pub const MAX_CHECKPOINT_BYTES: u64 = 1 << 16;

/// Most bytes a record file may have.
const MAX_RECORD_FILE: u64 = (MAX_RECORD_BYTES + HEADER_BYTES) as u64;

/// Most bytes of entries that [`Memory::load`] holds. A directory's are read line by line and have no limit as a whole.
const MAX_LOADED_ENTRIES: u64 = 1 << 32;

/// The parts of a log. Nothing in it is trusted.
pub trait Source {
    /// The bytes of the checkpoint.
    ///
    /// # Errors
    /// The system's, naming the file.
    fn checkpoint(&self) -> io::Result<Vec<u8>>;

    /// The lines of entries.
    ///
    /// # Errors
    /// The system's.
    fn entries(&self) -> io::Result<Box<dyn BufRead + '_>>;

    /// The bytes of the record file with this digest, if there is one.
    ///
    /// # Errors
    /// The system's.
    fn record(&self, digest: &Digest) -> io::Result<Option<Vec<u8>>>;
}

/// A log directory, read only.
#[derive(Debug, Clone)]
pub struct Directory(PathBuf);

impl Directory {
    /// The log in this directory. Nothing is read yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of the checkpoint.
    #[must_use]
    pub fn checkpoint_path(&self) -> PathBuf {
        self.0.join("checkpoint")
    }

    /// Path of the entries.
    #[must_use]
    pub fn entries_path(&self) -> PathBuf {
        self.0.join("entries")
    }

    /// Path of the mark of the session that began last.
    #[must_use]
    pub fn session_path(&self) -> PathBuf {
        self.0.join("session")
    }

    /// Path of a record.
    #[must_use]
    pub fn record_path(&self, digest: &Digest) -> PathBuf {
        self.0.join("records").join(format!("{}.replay", digest.to_hex()))
    }

    /// Path of a record's evidence.
    #[must_use]
    pub fn evidence_path(&self, record: &Digest) -> PathBuf {
        self.0.join("evidence").join(format!("{}.evidence", record.to_hex()))
    }

    /// Path of the receipt of a request: index of the entry and position in the record.
    #[must_use]
    pub fn receipt_path(&self, index: u64, request: u32) -> PathBuf {
        self.0.join("receipts").join(format!("{index}-{request}.receipt"))
    }
}

impl Source for Directory {
    fn checkpoint(&self) -> io::Result<Vec<u8>> {
        named(&self.checkpoint_path(), MAX_CHECKPOINT_BYTES)
    }

    fn entries(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let path = self.entries_path();
        Ok(Box::new(BufReader::new(file::open(&path, u64::MAX).map_err(file::name(&path))?)))
    }

    fn record(&self, digest: &Digest) -> io::Result<Option<Vec<u8>>> {
        match named(&self.record_path(digest), MAX_RECORD_FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }
}

/// Reads a file of at most `max` bytes; errors name it.
fn named(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    file::read(path, max).map_err(file::name(path))
}

/// A log in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The checkpoint.
    pub checkpoint: Vec<u8>,
    /// The lines of entries.
    pub entries: Vec<u8>,
    /// Record files by digest.
    pub records: BTreeMap<Digest, Vec<u8>>,
}

impl Memory {
    /// Copies a whole log directory into memory, checking nothing.
    ///
    /// # Errors
    /// The system's; `InvalidData` for a `.replay` file not named after a digest.
    pub fn load(directory: &Directory) -> io::Result<Self> {
        let mut records = BTreeMap::new();
        for entry in std::fs::read_dir(directory.path().join("records"))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "replay") {
                continue;
            }
            let digest = path.file_stem().and_then(|stem| format!("sha256:{}", stem.to_str()?).parse().ok());
            let digest: Digest = digest.ok_or(io::ErrorKind::InvalidData)?;
            records.insert(digest, named(&path, MAX_RECORD_FILE)?);
        }
        let entries = named(&directory.entries_path(), MAX_LOADED_ENTRIES)?;
        Ok(Self { checkpoint: directory.checkpoint()?, entries, records })
    }
}

impl Source for Memory {
    fn checkpoint(&self) -> io::Result<Vec<u8>> {
        Ok(self.checkpoint.clone())
    }

    fn entries(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(self.entries.as_slice()))
    }

    fn record(&self, digest: &Digest) -> io::Result<Option<Vec<u8>>> {
        Ok(self.records.get(digest).cloned())
    }
}
