//! Verification of a whole log against a trusted key, and of what was seen of it before.

use std::io::{BufRead, Read};

use super::entry::{self, Signed, Subjects};
use super::{Checkpoint, EntryHeader, KeyHistory, LogRefusal, MAX_ENTRY_BYTES, Source};
use crate::digest::Digest;
use crate::inference::{ChainSpan, Record};
use crate::key::PublicKey;
use crate::merkle::Tree;
use crate::receipt::Receipt;
use crate::{Error, commit, replay};

/// What the caller knows about the log from elsewhere. Each piece makes another attack visible.
#[derive(Debug, Clone, Default)]
pub struct Expect<'a> {
    /// The log's name; without it any log of the trusted key is accepted.
    pub origin: Option<&'a str>,
    /// A checkpoint seen before (already verified); without it, or a receipt, a rollback cannot be seen.
    pub checkpoint: Option<&'a Checkpoint>,
    /// Receipts (already verified) that the log must honour.
    pub receipts: &'a [Receipt],
}

/// An entry that has been verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedEntry {
    /// The signed header.
    pub header: Header,
    /// Hash of the entry.
    pub hash: Digest,
    subjects: Subjects,
}

/// The header of a verified entry, without what all entries of a log share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Index of the entry.
    pub sequence: u64,
    /// Digest of the record.
    pub record: Digest,
    /// Chain values around the record.
    pub chain: ChainSpan,
    /// When it was appended, as the operator's clock said.
    pub time_unix_us: u64,
    /// Id of the key that signed it.
    pub key_id: Digest,
}

/// A log that has been verified, records included.
pub struct VerifiedLog<'a> {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The checkpoint's bytes, cosignatures and all.
    pub note: Vec<u8>,
    /// The keys of the log.
    pub keys: KeyHistory,
    /// The entries, in order.
    pub entries: Vec<VerifiedEntry>,
    tree: Tree,
    source: &'a dyn Source,
}

impl VerifiedLog<'_> {
    /// Complete entries beyond the checkpoint: signed and in order, but never acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        (self.entries.len() as u64).saturating_sub(self.checkpoint.size)
    }

    /// The tree of all entries, those beyond the checkpoint included.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Reads the lines of the entries once more, without newlines; `each` is given index and line of every complete one.
    ///
    /// # Errors
    /// [`Error::Log`] when they cannot be read; what `each` returns.
    pub fn each_line(&self, mut each: impl FnMut(u64, &[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let (mut lines, mut index) = (lines(self.source)?, 0);
        while let Line::Complete(line) = lines.next(index)? {
            each(index, &line)?;
            index += 1;
        }
        Ok(())
    }

    /// Reads the record of an entry, checking it again (the source may have changed since).
    ///
    /// # Errors
    /// As [`verify`], for this record; [`LogRefusal::NoSuchEntry`].
    pub fn record(&self, index: u64) -> Result<Record, LogRefusal> {
        let place = usize::try_from(index).ok();
        let entry = place.and_then(|place| self.entries.get(place)).ok_or(LogRefusal::NoSuchEntry { index })?;
        let before = place.and_then(|place| self.entries.get(place.checked_sub(1)?));
        entry.load_record(self.source, &self.checkpoint.origin, before)
    }

    /// Reads the record of an entry as [`VerifiedLog::record`] does, but does not ask whether it is consistent with itself: for an audit,
    /// which says of each claim what is wrong with it.
    ///
    /// # Errors
    /// As [`VerifiedLog::record`], without [`LogRefusal::RecordInconsistent`].
    pub fn stored(&self, index: u64) -> Result<Record, LogRefusal> {
        let place = usize::try_from(index).ok();
        let entry = place.and_then(|place| self.entries.get(place)).ok_or(LogRefusal::NoSuchEntry { index })?;
        let before = place.and_then(|place| self.entries.get(place.checked_sub(1)?));
        let stored = entry.read_record(self.source)?;
        entry.agrees(&stored, &self.checkpoint.origin, before)?;
        Ok(stored.record)
    }
}

/// Verifies a log: checkpoint, every entry, every record, and everything the caller expects. Changes nothing.
///
/// # Errors
/// The first [`LogRefusal`]. Order: checkpoint, entries from the first, their number and root, expectations, records from the first.
pub fn verify<'a>(
    source: &'a dyn Source,
    trusted: &PublicKey,
    expect: &Expect<'_>,
) -> Result<VerifiedLog<'a>, LogRefusal> {
    let log = verify_entries(source, trusted, expect)?;
    for index in 0..log.entries.len() as u64 {
        let record = log.record(index)?;
        for receipt in expect.receipts.iter().filter(|receipt| receipt.log.index == index) {
            receipt
                .check(&record)
                .map_err(|source| LogRefusal::ContradictsReceipt { index, source: Box::new(source) })?;
        }
    }
    Ok(log)
}

/// Verifies all of a log but its records: checkpoint, every entry, and the expected sizes and roots. Each record can then be read, and
/// refused, on its own.
///
/// # Errors
/// As [`verify`], without the refusals that are about records.
pub fn verify_entries<'a>(
    source: &'a dyn Source,
    trusted: &PublicKey,
    expect: &Expect<'_>,
) -> Result<VerifiedLog<'a>, LogRefusal> {
    // Checkpoint first: entries that a living writer appends after this read are merely unacknowledged.
    let bytes = source.checkpoint().map_err(|source| LogRefusal::Unreadable { what: "checkpoint", source })?;
    let keys = source.keys().map_err(|source| LogRefusal::Unreadable { what: "list of key statements", source })?;
    let keys = KeyHistory::verify(&keys, trusted)?;
    let checkpoint = keys.checkpoint(&bytes)?;
    if let Some(expected) = expect.origin.filter(|expected| *expected != checkpoint.origin) {
        return Err(LogRefusal::WrongOrigin { expected: expected.to_owned(), found: checkpoint.origin });
    }
    let mut walker = Walker::new(&checkpoint.origin, &keys);
    let mut lines = lines(source)?;
    let torn = loop {
        match lines.next(walker.index)? {
            Line::Complete(line) => walker.step(&line).map_err(|refusal| name_order(refusal, source, &keys))?,
            Line::Torn(bytes) => break bytes,
        }
    };
    let entries = walker.index;
    if entries < checkpoint.size {
        return Err(LogRefusal::Truncated { entries, size: checkpoint.size });
    }
    if torn > 0 {
        return Err(LogRefusal::TornTail { bytes: torn });
    }
    walker.check(&checkpoint)?;
    check_pins(&walker, expect)?;
    let Walker { entries, tree, .. } = walker;
    Ok(VerifiedLog { checkpoint, note: bytes, keys, entries, tree, source })
}

fn check_pins(walker: &Walker<'_>, expect: &Expect<'_>) -> Result<(), LogRefusal> {
    // Another log's checkpoint says nothing about this one.
    if let Some(pin) = expect.checkpoint.filter(|pin| pin.origin != walker.origin) {
        return Err(LogRefusal::WrongOrigin { expected: pin.origin.clone(), found: walker.origin.clone() });
    }
    let size = walker.index;
    let receipts = expect.receipts.iter().map(|receipt| receipt.log.index.saturating_add(1));
    let seen = expect.checkpoint.iter().map(|checkpoint| checkpoint.size).chain(receipts).max();
    if let Some(pinned) = seen.filter(|pinned| *pinned > size) {
        return Err(LogRefusal::RolledBack { size, pinned });
    }
    if let Some(pin) = expect.checkpoint
        && walker.tree.root_at(pin.size).ok() != Some(pin.root)
    {
        return Err(LogRefusal::ContradictsPin { pinned: pin.size });
    }
    Ok(())
}

/// Follows a log entry by entry: signature, place, links. The writer's recovery uses it too.
pub(super) struct Walker<'a> {
    pub(super) origin: String,
    keys: &'a KeyHistory,
    /// Index of the next entry.
    pub(super) index: u64,
    /// Chain value after the last entry.
    pub(super) chain: Digest,
    pub(super) tree: Tree,
    pub(super) entries: Vec<VerifiedEntry>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(origin: &str, keys: &'a KeyHistory) -> Self {
        Self {
            origin: origin.to_owned(),
            keys,
            index: 0,
            chain: commit::genesis(origin),
            tree: Tree::default(),
            entries: Vec::new(),
        }
    }

    /// Verifies the next line and its place.
    pub(super) fn verify(&self, line: &[u8]) -> Result<VerifiedEntry, LogRefusal> {
        let index = self.index;
        let signed = entry::verify(index, line, self.keys.at(index)).map_err(|refusal| self.keys.judge(refusal))?;
        let Signed { header, subjects } = signed;
        if header.origin != self.origin {
            return Err(LogRefusal::Spliced { index, found: header.origin });
        }
        if header.sequence != index {
            return Err(LogRefusal::Reordered { index, found: header.sequence });
        }
        if header.previous != self.entries.last().map(|entry| entry.hash) {
            return Err(LogRefusal::Forked { index });
        }
        if header.chain.before != self.chain {
            return Err(LogRefusal::ChainGap { index });
        }
        Ok(VerifiedEntry::new(&header, entry::entry_hash(line), subjects))
    }

    /// Moves past a line that [`Walker::verify`] has accepted.
    pub(super) fn accept(&mut self, line: &[u8], entry: VerifiedEntry) -> Result<(), LogRefusal> {
        self.tree.push(line).map_err(|_| LogRefusal::EntryMalformed { index: self.index })?;
        self.chain = entry.header.chain.after;
        self.index += 1;
        self.entries.push(entry);
        Ok(())
    }

    fn step(&mut self, line: &[u8]) -> Result<(), LogRefusal> {
        let entry = self.verify(line)?;
        self.accept(line, entry)
    }

    /// Checks that the entries walked are those the checkpoint covers, which may be fewer.
    pub(super) fn check(&self, checkpoint: &Checkpoint) -> Result<(), LogRefusal> {
        let size = checkpoint.size;
        let chain = match usize::try_from(size).ok().and_then(|size| size.checked_sub(1)) {
            None => commit::genesis(&self.origin),
            Some(last) => match self.entries.get(last) {
                None => return Err(LogRefusal::Truncated { entries: self.index, size }),
                Some(entry) => entry.header.chain.after,
            },
        };
        if self.tree.root_at(size).ok() != Some(checkpoint.root) || chain != checkpoint.chain {
            return Err(LogRefusal::CheckpointContradicts { size });
        }
        Ok(())
    }
}

/// An out-of-place entry: is the one that belongs here elsewhere, or gone? Reads on to find out.
fn name_order(refusal: LogRefusal, source: &dyn Source, keys: &KeyHistory) -> LogRefusal {
    let LogRefusal::Reordered { index, found } = refusal else {
        return refusal;
    };
    let (mut wanted, mut at) = (false, 0);
    let Ok(mut lines) = lines(source) else {
        return refusal;
    };
    while let Ok(Line::Complete(line)) = lines.next(at) {
        let signed = keys.keys().iter().find_map(|key| entry::verify(at, &line, key).ok());
        let sequence = signed.map(|signed| signed.header.sequence);
        wanted |= at > index && sequence == Some(index);
        at += 1;
    }
    match (wanted, found < index) {
        (true, false) => refusal,
        (_, true) => LogRefusal::Repeated { index, found },
        (false, false) => LogRefusal::Missing { index, found },
    }
}

impl VerifiedEntry {
    /// The entry the writer has just signed.
    pub(super) fn new(header: &EntryHeader, hash: Digest, subjects: Subjects) -> Self {
        let EntryHeader { sequence, record, chain, time_unix_us, key_id, .. } = *header;
        Self { header: Header { sequence, record, chain, time_unix_us, key_id }, hash, subjects }
    }

    /// Reads the record that the header names and checks it against file digest, header and itself; `before` is the previous entry.
    pub(super) fn load_record(
        &self,
        source: &dyn Source,
        origin: &str,
        before: Option<&Self>,
    ) -> Result<Record, LogRefusal> {
        let stored = self.read_record(source)?;
        let index = self.header.sequence;
        stored.record.check().map_err(|source| LogRefusal::RecordInconsistent { index, source })?;
        self.agrees(&stored, origin, before)?;
        Ok(stored.record)
    }

    /// Reads the file that the header names: the signed bytes, and a record.
    fn read_record(&self, source: &dyn Source) -> Result<Stored, LogRefusal> {
        let header = &self.header;
        let index = header.sequence;
        let file = source
            .record(&header.record)
            .map_err(|source| LogRefusal::Unreadable { what: "a record", source })?
            .ok_or(LogRefusal::RecordMissing { index, record: header.record })?;
        // The plain file digest is signed: any change of the file stops here, before a byte of it is parsed.
        let signed = match &self.subjects {
            Subjects::Written { file, .. } => Some(file.to_hex()),
            Subjects::Other(other) => other.iter().find_map(|subject| subject.digest.get("sha256").cloned()),
        };
        if signed != Some(Digest::of_file(&file).to_hex()) {
            return Err(LogRefusal::RecordAltered { index });
        }
        let malformed = |source| LogRefusal::RecordMalformed { index, source: Box::new(source) };
        let (record, digest) = replay::read(&file).map_err(malformed)?;
        Ok(Stored { record, digest, file })
    }

    /// Compares a record with the entry that names it; `before` is the previous entry.
    fn agrees(&self, stored: &Stored, origin: &str, before: Option<&Self>) -> Result<(), LogRefusal> {
        let (header, Stored { record, digest, file }) = (&self.header, stored);
        let link = &record.link;
        let facts = [
            ("record digest", *digest == header.record),
            ("log origin", link.origin == origin),
            ("sequence", link.sequence == header.sequence),
            ("previous record", link.previous == before.map(|entry| entry.header.record)),
            ("key id", link.key_id == header.key_id),
            ("chain", record.chain == header.chain),
            ("subjects", Subjects::from(entry::subjects(record, digest, file)) == self.subjects),
        ];
        match facts.iter().find(|(_, same)| !same) {
            Some((fact, _)) => Err(LogRefusal::RecordDisagrees { index: header.sequence, fact }),
            None => Ok(()),
        }
    }
}

/// A record file whose bytes are those that an entry names.
struct Stored {
    record: Record,
    digest: Digest,
    file: Vec<u8>,
}

/// Lines of a source, each with a bounded length.
pub(super) struct Lines<'a>(Box<dyn BufRead + 'a>);

/// The next line.
pub(super) enum Line {
    /// Ended by a newline, which is not included.
    Complete(Vec<u8>),
    /// What follows the last newline; 0 bytes at the end of a whole log.
    Torn(u64),
}

pub(super) fn lines(source: &dyn Source) -> Result<Lines<'_>, LogRefusal> {
    source.entries().map(Lines).map_err(|source| LogRefusal::Unreadable { what: "list of entries", source })
}

impl Lines<'_> {
    pub(super) fn next(&mut self, index: u64) -> Result<Line, LogRefusal> {
        let mut line = Vec::new();
        let limit = MAX_ENTRY_BYTES as u64 + 1;
        let read = self.0.by_ref().take(limit).read_until(b'\n', &mut line);
        read.map_err(|source| LogRefusal::Unreadable { what: "list of entries", source })?;
        if line.pop_if(|byte| *byte == b'\n').is_some() {
            return Ok(Line::Complete(line));
        }
        if line.len() as u64 == limit {
            return Err(LogRefusal::EntryMalformed { index });
        }
        Ok(Line::Torn(line.len() as u64))
    }
}
