//! What is kept: signed bytes by digest, an index over them, and the service's own records of people and deeds.
//!
//! The index says what to look for; what is shown in detail is read from the bytes again, whose digest is computed each time. Bytes that are not
//! those that were taken in are refused ([`Error::Altered`]).

mod index;
mod list;
mod people;

pub(crate) use index::{EntryRow, LogFile, LogRow, Part};
pub(crate) use list::{ClaimCount, Filter, FingerprintRow, Hit, KeyRow, Page, PartRow, ROWS, RecordRow, RunRow, Tally};
pub use people::Role;
pub(crate) use people::{Deed, User};

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use record::Digest;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;

use crate::error::{Error, Result, missing};

/// The store in a folder.
pub struct Store {
    root: PathBuf,
    db: Mutex<Connection>,
}

/// Largest stored file that is read into memory.
pub(crate) const MAX_BLOB: u64 = 1 << 30;

/// What is known of stored bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BlobRow {
    pub digest: String,
    pub size: u64,
    pub kind: String,
    pub name: String,
    pub state: String,
    pub note: String,
    pub added_us: u64,
}

impl Store {
    /// Opens the store in a folder, making it if there is none.
    ///
    /// # Errors
    /// The system's; [`Error::Store`] for a database that is none.
    pub fn open(root: &Path) -> Result<Self> {
        std::fs::create_dir_all(root.join("blobs"))?;
        #[cfg(unix)]
        {
            // Password hashes and sessions are in it.
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o700))?;
        }
        let db = Connection::open(root.join("index.sqlite"))?;
        db.execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF;",
        )?;
        db.execute_batch(include_str!("schema.sql"))?;
        Ok(Self { root: root.to_owned(), db: Mutex::new(db) })
    }

    pub(crate) fn db(&self) -> MutexGuard<'_, Connection> {
        // A panic in a query leaves the connection usable: SQLite rolls its transaction back.
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.to_hex();
        self.root.join("blobs").join(&hex[..2]).join(&hex)
    }

    /// Keeps bytes. Whenever this is interrupted, the file is there as a whole or not at all.
    pub(crate) fn keep(&self, bytes: &[u8], kind: &str, name: &str, state: &str, note: &str) -> Result<Digest> {
        let digest = Digest::of_file(bytes);
        let path = self.blob_path(&digest);
        let folder = path.parent().unwrap_or(&self.root);
        std::fs::create_dir_all(folder)?;
        // What is there already is replaced unless it is right: handing something in again mends a store.
        if !std::fs::read(&path).is_ok_and(|old| old == bytes) {
            let mut file = tempfile::Builder::new().prefix(".part-").tempfile_in(folder)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|e| e.error)?;
        }
        self.db().execute(
            "INSERT INTO blobs VALUES(?1,?2,?3,?4,?5,?6,?7)
             ON CONFLICT(digest) DO UPDATE SET kind=excluded.kind, state=excluded.state, note=excluded.note",
            params![digest.to_hex(), bytes.len() as i64, kind, name, state, note, now_us() as i64],
        )?;
        Ok(digest)
    }

    /// The bytes with a digest, which is computed again.
    pub(crate) fn bytes(&self, digest: &Digest) -> Result<Vec<u8>> {
        let bytes = match record::file::read(&self.blob_path(digest), MAX_BLOB) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(missing(digest.to_string())),
            Err(e) => return Err(e.into()),
        };
        let found = Digest::of_file(&bytes);
        if found != *digest {
            return Err(Error::Altered(format!(
                "the stored bytes of {digest} now have the digest {found}: somebody changed them after they were taken in. \
                 Nothing of them is shown; hand the original in again"
            )));
        }
        Ok(bytes)
    }

    pub(crate) fn blob(&self, digest: &Digest) -> Result<Option<BlobRow>> {
        let row = self.db().query_row("SELECT * FROM blobs WHERE digest=?1", [digest.to_hex()], blob_row).optional()?;
        Ok(row)
    }

    /// Stored files in a state: `held` ones wait for a key.
    pub(crate) fn blobs_in(&self, state: &str) -> Result<Vec<BlobRow>> {
        let db = self.db();
        let mut query = db.prepare("SELECT * FROM blobs WHERE state=?1 ORDER BY added_us DESC LIMIT 1000")?;
        Ok(query.query_map([state], blob_row)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.root
    }
}

fn blob_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<BlobRow> {
    Ok(BlobRow {
        digest: row.get("digest")?,
        size: row.get("size")?,
        kind: row.get("kind")?,
        name: row.get("name")?,
        state: row.get("state")?,
        note: row.get("note")?,
        added_us: row.get("added_us")?,
    })
}

/// The wall clock, in microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
