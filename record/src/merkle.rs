//! RFC 6962 Merkle trees over digests, through `tlog_tiles`; nothing about the tree is written here.
//!
//! The data of leaf `i` is given as bytes; the tree hashes it with RFC 6962's leaf tag. For a step the data are the
//! 32 bytes of the row's leaf digest, for the log they are the bytes of the entry.

use tlog_tiles::tlog;
use tlog_tiles::{Hash, HashReader};

use crate::Error;
use crate::digest::Digest;

/// Most leaves a proof may speak of: what lies beyond is no log, and the arithmetic of the tree library ends at 2^63.
pub const MAX_SIZE: u64 = 1 << 62;

/// A growing tree, all of whose node hashes are kept in memory (about 64 bytes a leaf).
#[derive(Default, Clone)]
pub struct Tree {
    stored: Vec<Hash>,
    size: u64,
}

impl HashReader for Tree {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog::Error> {
        let read = |index: &u64| usize::try_from(*index).ok().and_then(|index| self.stored.get(index).copied());
        indexes.iter().map(|index| read(index).ok_or(tlog::Error::IndexesNotInTree)).collect()
    }
}

impl Tree {
    /// Appends a leaf with this data.
    ///
    /// # Errors
    /// [`Error::Merkle`] only if the tree library contradicts itself.
    pub fn push(&mut self, data: &[u8]) -> Result<(), Error> {
        self.push_hash(leaf_hash(data))
    }

    /// Appends the leaf with this RFC 6962 hash.
    ///
    /// # Errors
    /// As [`Tree::push`].
    pub fn push_hash(&mut self, leaf: Digest) -> Result<(), Error> {
        let hashes =
            tlog::stored_hashes_for_record_hash(self.size, Hash(*leaf.as_bytes()), self).map_err(Error::Merkle)?;
        self.stored.extend(hashes);
        self.size += 1;
        Ok(())
    }

    /// Number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Root of the first `size` leaves.
    ///
    /// # Errors
    /// [`Error::Merkle`] when the tree has fewer leaves.
    pub fn root_at(&self, size: u64) -> Result<Digest, Error> {
        if size > self.size {
            return Err(Error::Merkle(tlog::Error::IndexesNotInTree));
        }
        tlog::tree_hash(size, self).map(|hash| Digest::from_bytes(hash.0)).map_err(Error::Merkle)
    }

    /// Root of all leaves.
    ///
    /// # Errors
    /// As [`Tree::root_at`].
    pub fn root(&self) -> Result<Digest, Error> {
        self.root_at(self.size)
    }

    /// The audit path of leaf `index` in the tree of all leaves, lowest sibling first.
    ///
    /// # Errors
    /// [`Error::Merkle`] when there is no such leaf.
    pub fn prove(&self, index: u64) -> Result<Vec<Digest>, Error> {
        self.prove_at(self.size, index)
    }

    /// The audit path of leaf `index` in the tree of the first `size` leaves, lowest sibling first.
    ///
    /// # Errors
    /// [`Error::Merkle`] when there is no such leaf, or there are fewer leaves.
    pub fn prove_at(&self, size: u64, index: u64) -> Result<Vec<Digest>, Error> {
        if size > self.size || index >= size {
            return Err(Error::Merkle(tlog::Error::IndexesNotInTree));
        }
        tlog::prove_record(size, index, self).map(digests).map_err(Error::Merkle)
    }

    /// The consistency proof from the first `old` leaves to the first `new`; empty when `old` is 0 or `new`.
    ///
    /// # Errors
    /// [`Error::Merkle`] unless `old <= new <=` the number of leaves.
    pub fn consistency(&self, old: u64, new: u64) -> Result<Vec<Digest>, Error> {
        if old > new || new > self.size {
            return Err(Error::Merkle(tlog::Error::IndexesNotInTree));
        }
        if old == 0 {
            return Ok(Vec::new());
        }
        tlog::prove_tree(new, old, self).map(digests).map_err(Error::Merkle)
    }

    /// The hash of leaf `index`, if there is one.
    #[must_use]
    pub fn leaf(&self, index: u64) -> Option<Digest> {
        let stored = usize::try_from(tlog::stored_hash_index(0, index)).ok()?;
        let hash = if index < self.size { self.stored.get(stored) } else { None };
        hash.map(|hash| Digest::from_bytes(hash.0))
    }
}

fn digests(proof: Vec<Hash>) -> Vec<Digest> {
    proof.iter().map(|hash| Digest::from_bytes(hash.0)).collect()
}

/// RFC 6962 hash of a leaf with this data.
#[must_use]
pub fn leaf_hash(data: &[u8]) -> Digest {
    Digest::from_bytes(tlog::record_hash(data).0)
}

/// Root over 32-byte leaves.
///
/// # Errors
/// As [`Tree::push`].
pub fn root(leaves: &[Digest]) -> Result<Digest, Error> {
    tree(leaves)?.root()
}

/// The tree over 32-byte leaves.
///
/// # Errors
/// As [`Tree::push`].
pub fn tree(leaves: &[Digest]) -> Result<Tree, Error> {
    let mut tree = Tree::default();
    for leaf in leaves {
        tree.push(leaf.as_bytes())?;
    }
    Ok(tree)
}

/// Checks that leaf `index` of a tree of `size` leaves with root `root` has this data.
///
/// # Errors
/// [`Error::Merkle`] when the path does not lead to the root.
pub fn check(path: &[Digest], size: u64, root: &Digest, index: u64, data: &[u8]) -> Result<(), Error> {
    if size > MAX_SIZE {
        return Err(Error::Merkle(tlog::Error::InvalidProof));
    }
    let path = path.iter().map(|digest| Hash(*digest.as_bytes())).collect();
    tlog::check_record(&path, size, Hash(*root.as_bytes()), index, tlog::record_hash(data)).map_err(Error::Merkle)
}

/// Checks that a tree of `new` leaves with root `new_root` continues one of `old` leaves with root `old_root`. Any tree continues the empty one,
/// whose proof is empty, as is that of a tree and itself.
///
/// # Errors
/// [`Error::Merkle`] when the proof does not show that.
pub fn check_consistency(
    proof: &[Digest],
    (old, old_root): (u64, &Digest),
    (new, new_root): (u64, &Digest),
) -> Result<(), Error> {
    let refuse = || Error::Merkle(tlog::Error::InvalidProof);
    if old == 0 || old == new {
        let same = if old == new { old_root == new_root } else { *old_root == root(&[])? };
        return if proof.is_empty() && same { Ok(()) } else { Err(refuse()) };
    }
    if old > new || new > MAX_SIZE {
        return Err(refuse());
    }
    let proof = proof.iter().map(|digest| Hash(*digest.as_bytes())).collect();
    tlog::check_tree(&proof, new, Hash(*new_root.as_bytes()), old, Hash(*old_root.as_bytes())).map_err(Error::Merkle)
}
