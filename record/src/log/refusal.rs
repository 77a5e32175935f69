//! Why a log is refused: one variant a reason, because each reason is a finding.

use std::io;

use thiserror::Error as ThisError;

use crate::Error;
use crate::digest::Digest;
use crate::inference::RecordRefusal;

/// Why a log, or one of its records, is not accepted.
///
/// Unless a variant says otherwise, someone changed what a key holder had written, or the key holder signed something
/// that contradicts itself. [`LogRefusal::code`] is the stable name of the reason.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum LogRefusal {
    /// A part of the log cannot be read. No finding: nothing was checked.
    #[error("{what} of the log cannot be read: {source}")]
    Unreadable {
        /// Which part.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The checkpoint is not a checkpoint.
    #[error("the checkpoint is malformed")]
    CheckpointMalformed,
    /// The checkpoint carries the trusted key's name and hash, but the signature does not fit its text.
    #[error("the checkpoint has been altered: its signature does not verify")]
    CheckpointAltered,
    /// The checkpoint is signed, but not by the trusted key.
    #[error("the checkpoint is not signed by the trusted key")]
    CheckpointReSigned,
    /// The log is another one than the caller asked for.
    #[error("this is the log {found:?}, {expected:?} was expected")]
    WrongOrigin {
        /// Name expected.
        expected: String,
        /// Name found.
        found: String,
    },
    /// A line is not an entry: not canonical JSON, not one signature, too long.
    #[error("entry {index} is malformed")]
    EntryMalformed {
        /// Index of the entry.
        index: u64,
    },
    /// A line of the key statements is none.
    #[error("key statement {line} is malformed")]
    KeysMalformed {
        /// Which, from 0.
        line: u64,
    },
    /// A key statement does not follow from those before it, or was not signed by both of its keys.
    #[error("key statement {line} is not valid: {why}")]
    KeysInvalid {
        /// Which, from 0.
        line: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// A checkpoint names another history of keys than the log has.
    #[error("the checkpoint of {size} entries names key statements that are not those of the log")]
    KeysContradict {
        /// Size in the checkpoint.
        size: u64,
    },
    /// A key of the log signed beyond the size up to which it was valid.
    #[error("key {by} does not sign this log at entry {index}")]
    KeyRetired {
        /// Where it was not valid.
        index: u64,
        /// Id of the key.
        by: Digest,
    },
    /// An entry's bytes are not those that the trusted key signed.
    #[error("entry {index} has been altered: its signature does not verify")]
    Altered {
        /// Index of the entry.
        index: u64,
    },
    /// An entry is validly signed by another key, which it names itself.
    #[error("entry {index} has been re-signed by key {by}, which is not trusted")]
    ReSigned {
        /// Index of the entry.
        index: u64,
        /// Id of the other key.
        by: Digest,
    },
    /// An entry has a type or version that this crate does not know.
    #[error("entry {index} is of the unknown type {found:?}")]
    UnknownVersion {
        /// Index of the entry.
        index: u64,
        /// Type found.
        found: String,
    },
    /// An entry is signed by the trusted key but does not have the shape of its type.
    #[error("entry {index} does not have the shape its type requires")]
    EntryShape {
        /// Index of the entry.
        index: u64,
    },
    /// An entry belongs to another log of the same key.
    #[error("entry {index} was spliced in from the log {found:?}")]
    Spliced {
        /// Index of the entry.
        index: u64,
        /// Name of the log it belongs to.
        found: String,
    },
    /// An entry does not follow the one before it: it comes from another history of this log.
    #[error("entry {index} does not continue entry {}: it comes from another history of this log", index.saturating_sub(1))]
    Forked {
        /// Index of the entry.
        index: u64,
    },
    /// The chain value an entry starts from is not the one its predecessor ended with.
    #[error("entry {index} starts from another chain value than its predecessor ended with")]
    ChainGap {
        /// Index of the entry.
        index: u64,
    },
    /// The entry that belongs here stands elsewhere.
    #[error("entries have been reordered: entry {found} stands where entry {index} belongs")]
    Reordered {
        /// Index where order breaks.
        index: u64,
        /// Sequence number found there.
        found: u64,
    },
    /// An entry appears a second time.
    #[error("entry {found} is repeated where entry {index} belongs")]
    Repeated {
        /// Index where order breaks.
        index: u64,
        /// Sequence number found there.
        found: u64,
    },
    /// An entry is gone from the middle.
    #[error("entry {index} is missing; entry {found} stands in its place")]
    Missing {
        /// The missing index.
        index: u64,
        /// Sequence number found there.
        found: u64,
    },
    /// The caller asked for an entry that the log does not have. No finding: the caller's mistake.
    #[error("the log has no entry {index}")]
    NoSuchEntry {
        /// Index asked for.
        index: u64,
    },
    /// The log ends before its checkpoint says it does.
    #[error("the log has been truncated: {entries} entries, the checkpoint covers {size}")]
    Truncated {
        /// Complete entries present.
        entries: u64,
        /// Size in the checkpoint.
        size: u64,
    },
    /// The checkpoint signs other entries than these.
    #[error("the checkpoint covers {size} entries, but not these")]
    CheckpointContradicts {
        /// Size in the checkpoint.
        size: u64,
    },
    /// The last line is not complete. A writer died while appending (its next start repairs that) or someone cut the file.
    #[error("the log ends in {bytes} bytes of a half-written entry; opening it for writing moves them aside")]
    TornTail {
        /// Bytes after the last complete entry.
        bytes: u64,
    },
    /// The record an entry names is not there.
    #[error("the record of entry {index}, {record}, is missing")]
    RecordMissing {
        /// Index of the entry.
        index: u64,
        /// Its record.
        record: Digest,
    },
    /// The record file's bytes are not those that the entry names.
    #[error("the record of entry {index} has been altered")]
    RecordAltered {
        /// Index of the entry.
        index: u64,
    },
    /// The record file is the signed one, but cannot be read as a record (its writer's fault, or a newer version).
    #[error("the record of entry {index} is not a record: {source}")]
    RecordMalformed {
        /// Index of the entry.
        index: u64,
        /// Why.
        source: Box<Error>,
    },
    /// The record contradicts itself, for example its chain breaks inside.
    #[error("the record of entry {index} contradicts itself: {source}")]
    RecordInconsistent {
        /// Index of the entry.
        index: u64,
        /// Why.
        source: RecordRefusal,
    },
    /// Entry and record disagree about a fact that both state.
    #[error("entry {index} and its record disagree about the {fact}")]
    RecordDisagrees {
        /// Index of the entry.
        index: u64,
        /// Which fact.
        fact: &'static str,
    },
    /// The log is shorter than something we have seen of it before.
    #[error("the log has been rolled back: it has {size} entries, {pinned} were seen before")]
    RolledBack {
        /// Entries now.
        size: u64,
        /// Entries known to have existed.
        pinned: u64,
    },
    /// The log has another history than a checkpoint seen before.
    #[error("the log's first {pinned} entries are not those of the checkpoint seen before")]
    ContradictsPin {
        /// Size of the checkpoint seen before.
        pinned: u64,
    },
    /// The log does not contain what a receipt promises.
    #[error("entry {index} is not what the receipt promises: {source}")]
    ContradictsReceipt {
        /// Index in the receipt.
        index: u64,
        /// Why.
        source: Box<Error>,
    },
}

/// Codes of the refusals that say nothing about the log's keeper. Before a checkpoint has verified under the reader's key, nothing shows that
/// key and log belong together; the others are the reader's own question, the reader's age, or what a crash leaves.
const NO_FINDING: [&str; 7] = [
    "unreadable",
    "checkpoint-malformed",
    "checkpoint-re-signed",
    "wrong-origin",
    "unknown-version",
    "no-such-entry",
    "torn-tail",
];

impl LogRefusal {
    /// Is this a finding against whoever kept or carried the log? If not, nothing can be told: the reader may have the wrong key, origin or
    /// folder, a reader of a later version may be needed, or a writer may have died.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        Self::code_is_finding(self.code())
    }

    /// [`LogRefusal::is_finding`] for the stable name of a reason. A name that is not known here counts as a finding.
    #[must_use]
    pub fn code_is_finding(code: &str) -> bool {
        !NO_FINDING.contains(&code)
    }

    /// The stable name of the reason, for reports and test vectors.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "unreadable",
            Self::CheckpointMalformed => "checkpoint-malformed",
            Self::CheckpointAltered => "checkpoint-altered",
            Self::CheckpointReSigned => "checkpoint-re-signed",
            Self::WrongOrigin { .. } => "wrong-origin",
            Self::KeysMalformed { .. } => "keys-malformed",
            Self::KeysInvalid { .. } => "keys-invalid",
            Self::KeysContradict { .. } => "keys-contradict",
            Self::KeyRetired { .. } => "key-retired",
            Self::EntryMalformed { .. } => "entry-malformed",
            Self::Altered { .. } => "altered",
            Self::ReSigned { .. } => "re-signed",
            Self::UnknownVersion { .. } => "unknown-version",
            Self::EntryShape { .. } => "entry-shape",
            Self::Spliced { .. } => "spliced",
            Self::Forked { .. } => "forked",
            Self::ChainGap { .. } => "chain-gap",
            Self::Reordered { .. } => "reordered",
            Self::Repeated { .. } => "repeated",
            Self::Missing { .. } => "missing",
            Self::NoSuchEntry { .. } => "no-such-entry",
            Self::Truncated { .. } => "truncated",
            Self::CheckpointContradicts { .. } => "checkpoint-contradicts",
            Self::TornTail { .. } => "torn-tail",
            Self::RecordMissing { .. } => "record-missing",
            Self::RecordAltered { .. } => "record-altered",
            Self::RecordMalformed { .. } => "record-malformed",
            Self::RecordInconsistent { .. } => "record-inconsistent",
            Self::RecordDisagrees { .. } => "record-disagrees",
            Self::RolledBack { .. } => "rolled-back",
            Self::ContradictsPin { .. } => "contradicts-pin",
            Self::ContradictsReceipt { .. } => "contradicts-receipt",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_contradicts_the_trusted_key_is_a_finding() {
        let findings = [
            LogRefusal::CheckpointAltered,
            LogRefusal::Altered { index: 0 },
            LogRefusal::Truncated { entries: 1, size: 2 },
            LogRefusal::RolledBack { size: 1, pinned: 2 },
        ];
        assert!(findings.iter().all(LogRefusal::is_finding));
        let none = [
            LogRefusal::Unreadable { what: "checkpoint", source: io::ErrorKind::NotFound.into() },
            LogRefusal::CheckpointMalformed,
            LogRefusal::CheckpointReSigned,
            LogRefusal::WrongOrigin { expected: "a".into(), found: "b".into() },
            LogRefusal::UnknownVersion { index: 0, found: "v9".into() },
            LogRefusal::NoSuchEntry { index: 0 },
            LogRefusal::TornTail { bytes: 1 },
        ];
        assert_eq!(none.each_ref().map(LogRefusal::code), {
            let mut codes = NO_FINDING;
            codes.sort_by_key(|code| none.iter().position(|r| r.code() == *code));
            codes
        });
        assert!(!none.iter().any(LogRefusal::is_finding));
    }
}
