//! RFC 6962 Merkle trees over digests, through `tlog_tiles`; nothing about the tree is written here.
//!
//! The data of leaf `i` is given as bytes; the tree hashes it with RFC 6962's leaf tag. For a step the data are the
//! 32 bytes of the row's leaf digest, for the log they are the bytes of the entry.

use tlog_tiles::tlog;
use tlog_tiles::{Hash, HashReader};

use crate::Error;
use crate::digest::Digest;

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
        let hashes = tlog::stored_hashes(self.size, data, self).map_err(Error::Merkle)?;
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
        let proof = tlog::prove_record(self.size, index, self).map_err(Error::Merkle)?;
        Ok(proof.iter().map(|hash| Digest::from_bytes(hash.0)).collect())
    }
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
    let path = path.iter().map(|digest| Hash(*digest.as_bytes())).collect();
    tlog::check_record(&path, size, Hash(*root.as_bytes()), index, tlog::record_hash(data)).map_err(Error::Merkle)
}
