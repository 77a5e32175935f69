//! Proofs as files: inclusion (`c2sp.org/tlog-proof@v1`) and consistency (the body of an `add-checkpoint` request, `c2sp.org/tlog-witness`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::digest::Digest;
use crate::key::PublicKey;
use crate::log::{Checkpoint, KeyHistory, LogRefusal};
use crate::merkle;
use crate::{Error, receipt};

/// Most bytes a proof or a request may have.
pub const MAX_PROOF_BYTES: usize = 1 << 16;

/// Most hashes a proof may have (`c2sp.org/tlog-witness`).
const MAX_HASHES: usize = 63;

const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// That an entry is in the tree of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InclusionProof {
    /// Index of the entry.
    pub index: u64,
    /// From the leaf's sibling up to the root's child.
    pub path: Vec<Digest>,
    /// The checkpoint, signatures and all.
    pub checkpoint: Vec<u8>,
}

/// That a checkpoint continues the tree of an older size: what is sent to a witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// Size of the older tree.
    pub old: u64,
    /// Consistency proof from it to the checkpoint.
    pub proof: Vec<Digest>,
    /// The checkpoint, signatures and all.
    pub checkpoint: Vec<u8>,
}

impl InclusionProof {
    /// The bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        write(&format!("{HEADER}\nindex {}\n", self.index), &self.path, &self.checkpoint)
    }

    /// Reads the file. An `extra` line is refused: nothing of ours has one, and nothing signs it.
    ///
    /// # Errors
    /// [`Error::ProofSyntax`], naming the line.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut lines = Lines::new(bytes)?;
        lines.expect(|line| (line == HEADER).then_some(()))?;
        let index = lines.expect(|line| number(line.strip_prefix("index ")?))?;
        let (path, checkpoint) = lines.hashes()?;
        Ok(Self { index, path, checkpoint })
    }

    /// Verifies the checkpoint's signature, then that `entry` (its line, without newline) is the leaf. The checkpoint is returned.
    ///
    /// # Errors
    /// [`Error::Log`] for a checkpoint that `keys` do not accept; [`Error::Merkle`] when the path does not lead to its root.
    pub fn verify(&self, entry: &[u8], keys: &KeyHistory) -> Result<Checkpoint, Error> {
        let checkpoint = keys.checkpoint(&self.checkpoint)?;
        merkle::check(&self.path, checkpoint.size, &checkpoint.root, self.index, entry)?;
        Ok(checkpoint)
    }

    /// Verifies the proof, then that the entry is the one that `receipt` promises.
    ///
    /// # Errors
    /// As [`InclusionProof::verify`]; [`Error::Log`] for an entry that is none of this log; [`Error::Receipt`] with the fact that differs.
    pub fn verify_receipt(
        &self,
        entry: &[u8],
        receipt: &receipt::Receipt,
        keys: &KeyHistory,
    ) -> Result<Checkpoint, Error> {
        let checkpoint = self.verify(entry, keys)?;
        let header = crate::log::read_entry(self.index, entry, keys)?;
        let facts = [
            ("log origin", receipt.log.origin == checkpoint.origin && header.origin == checkpoint.origin),
            ("log index", receipt.log.index == self.index && header.sequence == self.index),
            ("chain", receipt.chain == header.chain),
        ];
        match facts.iter().find(|(_, same)| !same) {
            Some((fact, _)) => Err(receipt::ReceiptRefusal::Differs(fact).into()),
            None => Ok(checkpoint),
        }
    }
}

impl AddCheckpoint {
    /// The bytes of the request.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        write(&format!("old {}\n", self.old), &self.proof, &self.checkpoint)
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`Error::ProofSyntax`], naming the line.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut lines = Lines::new(bytes)?;
        let old = lines.expect(|line| number(line.strip_prefix("old ")?))?;
        let (proof, checkpoint) = lines.hashes()?;
        Ok(Self { old, proof, checkpoint })
    }

    /// The log's name as the unverified checkpoint gives it: only to find out whose key must have signed it.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        std::str::from_utf8(self.checkpoint.split(|byte| *byte == b'\n').next()?).ok()
    }

    /// Verifies the checkpoint, then that it continues `older`.
    ///
    /// # Errors
    /// [`Error::Log`] for a checkpoint that `keys` do not accept, or of another log; [`Error::Merkle`] when the proof is for another size or does not hold.
    pub fn verify(&self, older: &Checkpoint, keys: &KeyHistory) -> Result<Checkpoint, Error> {
        let newer = keys.checkpoint(&self.checkpoint)?;
        if newer.origin != older.origin {
            let (expected, found) = (older.origin.clone(), newer.origin);
            return Err(LogRefusal::WrongOrigin { expected, found }.into());
        }
        if self.old != older.size {
            return Err(Error::Merkle(tlog_tiles::tlog::Error::InvalidProof));
        }
        merkle::check_consistency(&self.proof, (older.size, &older.root), (newer.size, &newer.root))?;
        Ok(newer)
    }

    /// As [`AddCheckpoint::verify`] does for the checkpoint, for the one key that a witness knows.
    pub(super) fn checkpoint(&self, key: &PublicKey) -> Result<Checkpoint, LogRefusal> {
        Checkpoint::verify(&self.checkpoint, key)
    }
}

fn write(head: &str, hashes: &[Digest], checkpoint: &[u8]) -> Vec<u8> {
    let mut text = head.to_owned();
    for hash in hashes {
        text.push_str(&STANDARD.encode(hash.as_bytes()));
        text.push('\n');
    }
    text.push('\n');
    [text.as_bytes(), checkpoint].concat()
}

/// A decimal with one spelling.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The lines before the checkpoint.
struct Lines<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let text = if bytes.len() <= MAX_PROOF_BYTES { std::str::from_utf8(bytes).ok() } else { None };
        text.map(|rest| Self { rest, line: 1 }).ok_or(Error::ProofSyntax { line: 0 })
    }

    fn next(&mut self) -> Result<&'a str, Error> {
        let (line, rest) = self.rest.split_once('\n').ok_or(Error::ProofSyntax { line: self.line })?;
        (self.rest, self.line) = (rest, self.line + 1);
        Ok(line)
    }

    fn expect<T>(&mut self, read: impl Fn(&'a str) -> Option<T>) -> Result<T, Error> {
        let at = self.line;
        read(self.next()?).ok_or(Error::ProofSyntax { line: at })
    }

    /// Hashes up to the empty line, and what follows it.
    fn hashes(mut self) -> Result<(Vec<Digest>, Vec<u8>), Error> {
        let mut hashes = Vec::new();
        loop {
            let (at, line) = (self.line, self.next()?);
            if line.is_empty() {
                return Ok((hashes, self.rest.as_bytes().to_vec()));
            }
            let bytes = STANDARD.decode(line).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
            let bytes = bytes.filter(|_| hashes.len() < MAX_HASHES).ok_or(Error::ProofSyntax { line: at })?;
            hashes.push(Digest::from_bytes(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_one_spelling() {
        let proof = InclusionProof {
            index: 7,
            path: vec![Digest::of_file(b"a"), Digest::of_file(b"b")],
            checkpoint: b"c\n".to_vec(),
        };
        let bytes = proof.to_bytes();
        assert_eq!(InclusionProof::from_bytes(&bytes).unwrap(), proof);
        let text = String::from_utf8(bytes).unwrap();
        for (bad, line) in [
            (text.replace("@v1", "@v2"), 1),
            (text.replace("index 7", "index 07"), 2),
            (text.replace("index 7", "index +7"), 2),
            (text.replace("index 7", "extra AAAA\nindex 7"), 2),
            (text.replacen('=', "", 1), 3),
            (text.replace("\n\n", "\n"), 5),
            (format!("{HEADER}\nindex 0\n"), 3),
        ] {
            let refused = InclusionProof::from_bytes(bad.as_bytes());
            assert!(matches!(refused, Err(Error::ProofSyntax { line: at }) if at == line), "{bad}: {refused:?}");
        }
        let many = AddCheckpoint { old: 1, proof: vec![Digest::of_file(b""); 64], checkpoint: Vec::new() };
        assert!(matches!(AddCheckpoint::from_bytes(&many.to_bytes()), Err(Error::ProofSyntax { line: 65 })));
        let most = AddCheckpoint { old: 1, proof: vec![Digest::of_file(b""); 63], checkpoint: Vec::new() };
        assert_eq!(AddCheckpoint::from_bytes(&most.to_bytes()).unwrap(), most);
    }
}
