//! The one writer of a log: explicit creation, crash-safe appends, recovery.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::entry::{self, EntryHeader};
use super::verify::{Line, VerifiedEntry, Walker, lines};
use super::{Checkpoint, Directory, LogRefusal, MAX_CHECKPOINT_BYTES, MAX_ORIGIN_BYTES, durable};
use crate::commit;
use crate::digest::Digest;
use crate::evidence::Evidence;
use crate::inference::{Link, Record};
use crate::key::PrivateKey;
use crate::merkle::Tree;
use crate::receipt::{Level, Receipt};
use crate::{Error, file, note, replay};

/// A log that is open for writing. Holds the directory's lock until dropped.
pub struct Log {
    directory: Directory,
    key: PrivateKey,
    origin: String,
    tree: Tree,
    chain: Digest,
    last: Option<VerifiedEntry>,
    entries: File,
    length: u64,
    /// Set when an append failed half-way: what is on disk is only known again after reopening.
    broken: bool,
    _lock: File,
}

/// What the next record must link to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// The record's `link`.
    pub link: Link,
    /// The record's `chain.before`.
    pub chain: Digest,
}

/// Proof that an entry and its record are on disk and covered by the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Index of the entry.
    pub index: u64,
    /// Hash of the entry.
    pub entry: Digest,
    /// Digest of the record.
    pub record: Digest,
}

/// What opening a log found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Entries in the log now.
    pub size: u64,
    /// Complete entries that the checkpoint did not cover yet; it does now.
    pub adopted: u64,
    /// Bytes of a half-written entry that were moved aside, and where to.
    pub torn: Option<(u64, PathBuf)>,
}

impl Log {
    /// Creates an empty log. The directory must not exist, or be empty: a log is never created by accident.
    ///
    /// # Errors
    /// [`Error::Origin`] for a name that is empty, too long, or has white space or a plus; [`Error::NotEmpty`]; [`Error::Io`].
    pub fn init(dir: &Path, origin: &str, key: &PrivateKey) -> Result<(), Error> {
        if !note::is_name(origin, MAX_ORIGIN_BYTES) {
            return Err(Error::Origin);
        }
        let occupied = |path: &Path| match fs::read_dir(path) {
            Ok(mut entries) => Ok(entries.next().is_some()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(path)(error)),
        };
        // Built beside its place and moved there whole, so that a crash leaves no half a log.
        let mut name = dir.file_name().unwrap_or_default().to_owned();
        name.push(".init");
        let building = Directory::new(dir.with_file_name(name));
        let root = building.path();
        for path in [dir, root] {
            if occupied(path)? {
                return Err(Error::NotEmpty { path: path.to_owned() });
            }
        }
        let build = || -> io::Result<()> {
            for sub in ["records", "evidence", "receipts", "torn"] {
                fs::create_dir_all(root.join(sub))?;
            }
            File::create(root.join("lock"))?.sync_all()?;
            File::create(building.entries_path())?.sync_all()
        };
        build().map_err(Error::io(root))?;
        let (root_hash, chain) = (Tree::default().root()?, commit::genesis(origin));
        let empty = Checkpoint { origin: origin.to_owned(), size: 0, root: root_hash, chain };
        durable::replace(&building.checkpoint_path(), &empty.sign(key)?).map_err(Error::io(root))?;
        let parent = match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::rename(root, dir).and_then(|()| durable::sync_dir(parent)).map_err(Error::io(dir))
    }

    /// Opens a log for writing: takes the lock, verifies every entry, adopts complete ones that the checkpoint does not cover yet, moves a
    /// half-written tail aside. No acknowledged entry is ever dropped: if one does not verify, opening fails.
    ///
    /// # Errors
    /// [`Error::NoLog`] when there is no log here, [`Error::Locked`] when another writer has it, [`Error::Log`] when what is
    /// there does not verify under this key, [`Error::Io`].
    pub fn open(dir: &Path, key: PrivateKey) -> Result<(Self, Recovery), Error> {
        let directory = Directory::new(dir);
        if !directory.checkpoint_path().is_file() {
            return Err(Error::NoLog { path: dir.to_owned() });
        }
        let lock = lock(&dir.join("lock"))?;
        let trusted = key.public();
        let path = directory.checkpoint_path();
        let bytes = file::read(&path, MAX_CHECKPOINT_BYTES).map_err(Error::io(&path))?;
        let checkpoint = Checkpoint::verify(&bytes, &trusted)?;
        let mut walker = Walker::new(&checkpoint.origin, &trusted);
        let length = walk(&mut walker, &directory, checkpoint.size)?;
        walker.check(&checkpoint)?;

        let path = directory.entries_path();
        let entries = OpenOptions::new().append(true).open(&path).map_err(Error::io(&path))?;
        let torn = set_aside(&directory, &entries, length)?;
        let log = Self {
            tree: walker.tree,
            chain: walker.chain,
            last: walker.entries.into_iter().next_back(),
            origin: checkpoint.origin,
            entries,
            length,
            directory,
            key,
            broken: false,
            _lock: lock,
        };
        let adopted = log.tree.size() - checkpoint.size;
        if adopted > 0 {
            // They may be in the page cache only: on disk first, then covered.
            log.entries.sync_all().map_err(Error::io(&path))?;
            log.write_checkpoint()?;
        }
        let recovery = Recovery { size: log.tree.size(), adopted, torn };
        Ok((log, recovery))
    }

    /// The log's name.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Number of entries.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What the next record must state as its link and as its chain value before.
    #[must_use]
    pub fn next(&self) -> Next {
        let link = Link {
            origin: self.origin.clone(),
            sequence: self.tree.size(),
            previous: self.last.as_ref().map(|entry| entry.header.record),
            key_id: self.key.public().id(),
        };
        Next { link, chain: self.chain }
    }

    /// Notes that a session begins, and returns what its requests' ids begin with: the sequence of its first record, followed by `.N` if `N` sessions
    /// began there before and left no record. No other session of the log has the same.
    ///
    /// # Errors
    /// [`Error::Io`], also for a mark that is none.
    pub fn begin_session(&mut self) -> Result<String, Error> {
        let path = self.directory.session_path();
        let at = self.tree.size();
        let before = match file::read(&path, 64) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(Error::io(&path)(error)),
            Ok(bytes) => {
                let mark = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().split_once(' '));
                let numbers = mark.and_then(|(at, n)| Some((at.parse::<u64>().ok()?, n.parse::<u64>().ok()?)));
                let none = || io::Error::new(io::ErrorKind::InvalidData, "two numbers are expected here");
                let (marked, sessions) = numbers.ok_or_else(none).map_err(Error::io(&path))?;
                if marked == at { sessions } else { 0 }
            }
        };
        let mark = format!("{at} {}\n", before.saturating_add(1));
        durable::replace(&path, mark.as_bytes()).map_err(Error::io(&path))?;
        Ok(if before == 0 { format!("{at}-") } else { format!("{at}.{before}-") })
    }

    /// Appends a record. When this returns, record, entry and checkpoint are on disk: only then may anyone be told.
    ///
    /// # Errors
    /// [`Error::Record`] when it contradicts itself, [`Error::WrongLink`] when it does not continue this log (both: nothing was written);
    /// [`Error::Io`], after which this writer refuses to go on ([`Error::Broken`]) and the log must be opened anew.
    pub fn append(&mut self, record: &Record, time_unix_us: u64) -> Result<Ack, Error> {
        if self.broken {
            return Err(Error::Broken);
        }
        record.check()?;
        let next = self.next();
        if record.link != next.link || record.chain.before != next.chain {
            return Err(Error::WrongLink);
        }
        let file = replay::to_file(record)?;
        let digest = record.digest()?;
        let header = EntryHeader {
            origin: self.origin.clone(),
            sequence: next.link.sequence,
            previous: self.last.as_ref().map(|entry| entry.hash),
            record: digest,
            chain: record.chain,
            time_unix_us,
            key_id: next.link.key_id,
            public_key: hex::encode(self.key.public().as_bytes()),
        };
        let subject = entry::subjects(record, &digest, &file);
        let line = entry::sign(header.clone(), subject.clone(), &self.key)?;

        // From here on a failure leaves a state that only a fresh look at the disk can name.
        self.broken = true;
        let path = self.directory.record_path(&digest);
        durable::replace(&path, &file).map_err(Error::io(&path))?;
        self.write_line(&line)?;
        self.tree.push(&line)?;
        self.chain = record.chain.after;
        let hash = entry::entry_hash(&line);
        self.last = Some(VerifiedEntry::new(header, hash, subject));
        self.write_checkpoint()?;
        self.broken = false;
        Ok(Ack { index: next.link.sequence, entry: hash, record: digest })
    }

    /// Stores evidence under its record's digest. Evidence is not signed: it opens leaves that are.
    ///
    /// # Errors
    /// [`Error::Canonical`], [`Error::Io`].
    pub fn put_evidence(&self, evidence: &Evidence) -> Result<PathBuf, Error> {
        let path = self.directory.evidence_path(&evidence.record);
        durable::replace(&path, &evidence.to_file()?).map_err(Error::io(&path))?;
        Ok(path)
    }

    /// Signs and stores one receipt a request of an acknowledged record; returns the bytes to hand out, in request order.
    ///
    /// # Errors
    /// [`Error::WrongLink`] when the record is not one this log has acknowledged; [`Error::ReceiptTooLarge`],
    /// [`Error::Canonical`], [`Error::Io`].
    pub fn issue_receipts(
        &self,
        ack: &Ack,
        record: &Record,
        level: Level,
        issued_unix_us: u64,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let all: Vec<u32> = (0..).zip(&record.requests).map(|(request, _)| request).collect();
        self.issue_receipts_for(ack, record, &all, level, issued_unix_us)
    }

    /// As [`Log::issue_receipts`], for the requests with these indices only: those that go on in a later record get theirs there.
    ///
    /// # Errors
    /// Those, and [`Error::Receipt`] for an index that the record does not have.
    pub fn issue_receipts_for(
        &self,
        ack: &Ack,
        record: &Record,
        requests: &[u32],
        level: Level,
        issued_unix_us: u64,
    ) -> Result<Vec<Vec<u8>>, Error> {
        if record.digest()? != ack.record || record.link.sequence != ack.index || ack.index >= self.size() {
            return Err(Error::WrongLink);
        }
        let issue = |request: u32| {
            let bytes = Receipt::of(record, request, level, issued_unix_us)?.sign(&self.key)?;
            let path = self.directory.receipt_path(ack.index, request);
            durable::replace(&path, &bytes).map_err(Error::io(&path))?;
            Ok(bytes)
        };
        requests.iter().map(|request| issue(*request)).collect()
    }

    fn write_line(&mut self, line: &[u8]) -> Result<(), Error> {
        let path = self.directory.entries_path();
        let mut bytes = line.to_vec();
        bytes.push(b'\n');
        self.entries.write_all(&bytes).and_then(|()| self.entries.sync_all()).map_err(Error::io(&path))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn write_checkpoint(&self) -> Result<(), Error> {
        let checkpoint = Checkpoint {
            origin: self.origin.clone(),
            size: self.tree.size(),
            root: self.tree.root()?,
            chain: self.chain,
        };
        let path = self.directory.checkpoint_path();
        durable::replace(&path, &checkpoint.sign(&self.key)?).map_err(Error::io(&path))
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    // The file was made with the log. Were it created here, a missing one would mean two locks. A pipe would make opening wait.
    file::check_regular(path).map_err(Error::io(path))?;
    let file = OpenOptions::new().write(true).open(path).map_err(Error::io(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(Error::io(path)(error)),
    }
}

/// Walks the acknowledged entries, then as many complete ones as verify with their records. Returns the length of all those.
fn walk(walker: &mut Walker<'_>, directory: &Directory, acknowledged: u64) -> Result<u64, Error> {
    let mut lines = lines(directory)?;
    let mut length = 0;
    loop {
        let covered = walker.index < acknowledged;
        let line = match lines.next(walker.index) {
            Ok(Line::Complete(line)) => line,
            Ok(Line::Torn(_)) if covered => {
                return Err(LogRefusal::Truncated { entries: walker.index, size: acknowledged }.into());
            }
            Err(refusal) if covered => return Err(refusal.into()),
            Ok(Line::Torn(_)) | Err(LogRefusal::EntryMalformed { .. }) => return Ok(length),
            Err(refusal) => return Err(refusal.into()),
        };
        let accepted = walker.verify(&line).and_then(|entry| {
            if !covered {
                entry.load_record(directory, walker.entries.last())?;
            }
            walker.accept(&line, entry)
        });
        match accepted {
            Ok(()) => length += line.len() as u64 + 1,
            Err(refusal) if covered => return Err(refusal.into()),
            // Not acknowledged and not whole: whatever follows was never promised to anyone.
            Err(_) => return Ok(length),
        }
    }
}

/// Moves what lies beyond `length` into `torn/`, then cuts the file there.
fn set_aside(directory: &Directory, entries: &File, length: u64) -> Result<Option<(u64, PathBuf)>, Error> {
    let path = directory.entries_path();
    let total = entries.metadata().map_err(Error::io(&path))?.len();
    if total <= length {
        return Ok(None);
    }
    let mut reader = File::open(&path).map_err(Error::io(&path))?;
    reader.seek(SeekFrom::Start(length)).map_err(Error::io(&path))?;
    let torn = directory.path().join("torn");
    let aside = (0_u32..).map(|n| torn.join(format!("{length}-{n}.torn"))).find(|candidate| !candidate.exists());
    let aside = aside.ok_or_else(|| Error::io(&torn)(io::ErrorKind::AlreadyExists.into()))?;
    let mut copy = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&aside)?;
        io::copy(&mut reader, &mut file)?;
        file.sync_all()?;
        durable::sync_dir(&torn)
    };
    copy().map_err(Error::io(&aside))?;
    entries.set_len(length).and_then(|()| entries.sync_all()).map_err(Error::io(&path))?;
    Ok(Some((total - length, aside)))
}
