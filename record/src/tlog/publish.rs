//! The published folder: entry bundles, tiles and the checkpoint, as `c2sp.org/tlog-tiles` lays them out.
//!
//! Any static file server can serve it. Nothing in it is trusted: [`Published::check`] derives every file from the entries again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tlog_tiles::Tile;

use crate::durable;
use crate::log::{Checkpoint, KeyHistory, MAX_CHECKPOINT_BYTES, MAX_ENTRY_BYTES, VerifiedLog};
use crate::merkle::{self, Tree};
use crate::{Error, file};

/// Tiles have `2^8` hashes.
const HEIGHT: u8 = 8;
const WIDTH: u64 = 1 << HEIGHT;

/// Most bytes of a tile.
pub const MAX_TILE_BYTES: u64 = WIDTH * 32;

/// Most bytes of an entry bundle.
pub const MAX_BUNDLE_BYTES: u64 = WIDTH * (MAX_ENTRY_BYTES as u64 + 2);

/// Why a folder is not, or cannot become, the published form of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishRefusal {
    /// What is published already is of another log or history: nothing was written.
    #[error("what is published in {path} is not a prefix of this log")]
    OtherHistory {
        /// The folder.
        path: PathBuf,
    },
    /// A file exists with other bytes than it must have.
    #[error("{path} is not what the log gives")]
    Differs {
        /// The file.
        path: PathBuf,
    },
    /// A file that the checkpoint requires is not there.
    #[error("{path} is missing")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file that does not belong there.
    #[error("{path} is not part of a published log")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The log was changed while it was read.
    #[error("the log's entries changed while they were published")]
    Changed,
}

/// Path of a tile of hashes: level, index, and width if it is partial.
#[must_use]
pub fn tile_path(level: u8, index: u64, width: u32) -> String {
    path(&Tile::new(HEIGHT, level, index, width, false))
}

/// Path of an entry bundle.
#[must_use]
pub fn bundle_path(index: u64, width: u32) -> String {
    path(&Tile::new(HEIGHT, 0, index, width, true))
}

/// The library spells the height, which C2SP fixed at 8, and calls bundles `data`.
fn path(tile: &Tile) -> String {
    let spelled = tile.path();
    let rest = spelled.strip_prefix("tile/8/").unwrap_or(&spelled);
    match rest.strip_prefix("data/") {
        Some(rest) => format!("tile/entries/{rest}"),
        None => format!("tile/{rest}"),
    }
}

/// The tile at a path. One tile has one path: no leading zeroes, no `.p/256`.
fn tile_of(path: &str) -> Option<Tile> {
    let (level, rest) = path.strip_prefix("tile/")?.split_once('/')?;
    let (index, width) = match rest.split_once(".p/") {
        Some((index, width)) => (index, width.parse().ok().filter(|width| (1..WIDTH as u32).contains(width))?),
        None => (rest, WIDTH as u32),
    };
    let digits: String = index.chars().filter(char::is_ascii_digit).collect();
    let index: u64 = digits.parse().ok()?;
    let (level, is_data) =
        if level == "entries" { (0, true) } else { (level.parse().ok().filter(|level| *level < 64)?, false) };
    let tile = Tile::new(HEIGHT, level, index, width, is_data);
    (path == self::path(&tile)).then_some(tile)
}

/// Bundles of a log of this size: index and width.
fn bundles(from: u64, size: u64) -> impl Iterator<Item = (u64, u32)> {
    (from / WIDTH..size.div_ceil(WIDTH)).map(move |index| (index, (size - index * WIDTH).min(WIDTH) as u32))
}

/// Publishes the acknowledged entries of a log into a folder, which may hold an earlier state of it. Returns how many files were written.
///
/// # Errors
/// [`Error::Publish`], before anything was written for [`PublishRefusal::OtherHistory`]; [`Error::Log`] when the published checkpoint does not verify
/// or the entries cannot be read; [`Error::Io`].
pub fn publish(log: &VerifiedLog<'_>, out: &Path) -> Result<u64, Error> {
    let (size, tree) = (log.checkpoint.size, log.tree());
    let published = Published::new(out);
    let before = match published.note() {
        Ok(note) => Some(log.keys.checkpoint(&note)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io(&published.checkpoint_path())(error)),
    };
    let old = before.as_ref().map_or(0, |before| before.size);
    if let Some(before) = &before {
        let same = before.origin == log.checkpoint.origin && old <= size && tree.root_at(old)? == before.root;
        if !same {
            return Err(PublishRefusal::OtherHistory { path: out.to_owned() }.into());
        }
    }
    let mut written = 0;
    let mut put = |path: String, bytes: &[u8]| published.put(&path, bytes).map(|new| written += u64::from(new));
    let (mut next, mut bundle) = (old / WIDTH * WIDTH, Vec::new());
    log.each_line(|index, line| {
        if index < next || index >= size {
            return Ok(());
        }
        if tree.leaf(index) != Some(merkle::leaf_hash(line)) {
            return Err(PublishRefusal::Changed.into());
        }
        bundle.extend_from_slice(&u16::try_from(line.len()).unwrap_or(u16::MAX).to_be_bytes());
        bundle.extend_from_slice(line);
        let width = index - next + 1;
        if width == WIDTH || index + 1 == size {
            put(bundle_path(next / WIDTH, width as u32), &bundle)?;
            (next, bundle) = (index + 1, Vec::new());
        }
        Ok(())
    })?;
    if next < size {
        return Err(PublishRefusal::Changed.into());
    }
    for tile in Tile::new_tiles(HEIGHT, old, size) {
        put(path(&tile), &tile.read_data(tree).map_err(Error::Merkle)?)?;
    }
    // The same checkpoint may have cosignatures there already.
    if before.as_ref() != Some(&log.checkpoint) {
        published.set_checkpoint(&log.note)?;
        written += 1;
    }
    Ok(written)
}

/// A published folder. Nothing is read yet.
#[derive(Debug, Clone)]
pub struct Published(PathBuf);

impl Published {
    /// The folder.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Path of the checkpoint.
    #[must_use]
    pub fn checkpoint_path(&self) -> PathBuf {
        self.0.join("checkpoint")
    }

    /// The bytes of the checkpoint.
    ///
    /// # Errors
    /// The system's.
    pub fn note(&self) -> io::Result<Vec<u8>> {
        file::read(&self.checkpoint_path(), MAX_CHECKPOINT_BYTES)
    }

    /// Replaces the checkpoint: with a later one, or the same with more cosignatures.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn set_checkpoint(&self, note: &[u8]) -> Result<(), Error> {
        let path = self.checkpoint_path();
        fs::create_dir_all(&self.0).and_then(|()| durable::replace(&path, note)).map_err(Error::io(&path))
    }

    /// Writes a file whose content never changes. True if it was not there.
    fn put(&self, path: &str, bytes: &[u8]) -> Result<bool, Error> {
        let path = self.0.join(path);
        match file::read(&path, MAX_BUNDLE_BYTES) {
            Ok(found) if found == bytes => return Ok(false),
            Ok(_) => return Err(PublishRefusal::Differs { path }.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&path)(error)),
        }
        let folder = path.parent().unwrap_or(&self.0);
        fs::create_dir_all(folder).and_then(|()| durable::replace(&path, bytes)).map_err(Error::io(&path))?;
        Ok(true)
    }

    fn read(&self, path: &str, max: u64) -> Result<Vec<u8>, Error> {
        let path = self.0.join(path);
        match file::read(&path, max) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(PublishRefusal::Missing { path }.into()),
            other => other.map_err(Error::io(&path)),
        }
    }

    /// The entries of a bundle, at most `width`, in order.
    fn bundle(&self, index: u64, width: u32) -> Result<Vec<Vec<u8>>, Error> {
        let path = bundle_path(index, width);
        let bytes = self.read(&path, MAX_BUNDLE_BYTES)?;
        entries(&bytes, width as usize)
            .filter(|entries| entries.len() == width as usize)
            .ok_or_else(|| PublishRefusal::Differs { path: self.0.join(path) }.into())
    }

    /// Verifies the checkpoint and derives its tree from the entry bundles.
    ///
    /// # Errors
    /// [`Error::Log`] for the checkpoint; [`Error::Publish`] when a bundle is missing or not what the checkpoint covers; [`Error::Io`].
    pub fn load(&self, keys: &KeyHistory) -> Result<(Checkpoint, Tree), Error> {
        let path = self.checkpoint_path();
        let checkpoint = keys.checkpoint(&self.note().map_err(Error::io(&path))?)?;
        let mut tree = Tree::default();
        for (index, width) in bundles(0, checkpoint.size) {
            for entry in self.bundle(index, width)? {
                tree.push(&entry)?;
            }
        }
        if tree.root()? != checkpoint.root {
            return Err(PublishRefusal::Differs { path }.into());
        }
        Ok((checkpoint, tree))
    }

    /// The entry at an index of the published log.
    ///
    /// # Errors
    /// [`Error::Publish`] when its bundle is missing or damaged; [`Error::Merkle`] when the log has no such entry.
    pub fn entry(&self, size: u64, index: u64) -> Result<Vec<u8>, Error> {
        let none = || Error::Merkle(tlog_tiles::tlog::Error::IndexesNotInTree);
        let (bundle, width) = bundles(index, size).next().filter(|_| index < size).ok_or_else(none)?;
        self.bundle(bundle, width)?.into_iter().nth((index % WIDTH) as usize).ok_or_else(none)
    }

    /// Derives every file from the entries and compares. Partial tiles of earlier sizes may be there.
    ///
    /// # Errors
    /// As [`Published::load`]; the first file that differs, is missing, or does not belong there.
    pub fn check(&self, keys: &KeyHistory) -> Result<Checkpoint, Error> {
        let (checkpoint, tree) = self.load(keys)?;
        let mut required = BTreeSet::new();
        for tile in Tile::new_tiles(HEIGHT, 0, checkpoint.size) {
            required.insert(path(&tile));
        }
        required.extend(bundles(0, checkpoint.size).map(|(index, width)| bundle_path(index, width)));
        for name in &required {
            if !self.0.join(name).is_file() {
                return Err(PublishRefusal::Missing { path: self.0.join(name) }.into());
            }
        }
        for name in self.files()? {
            self.check_file(&name, &checkpoint, &tree)?;
        }
        Ok(checkpoint)
    }

    fn check_file(&self, name: &str, checkpoint: &Checkpoint, tree: &Tree) -> Result<(), Error> {
        let foreign = || Error::from(PublishRefusal::Foreign { path: self.0.join(name) });
        if name == "checkpoint" {
            return Ok(());
        }
        let tile = tile_of(name).ok_or_else(foreign)?;
        let (index, width) = (tile.level_index(), u64::from(tile.width()));
        // Hashes that its level has at this size.
        let level = if tile.is_data() { 0 } else { u32::from(tile.level()) * u32::from(HEIGHT) };
        // Levels beyond the 64th bit hold nothing.
        let held = checkpoint.size.checked_shr(level).unwrap_or(0);
        let end = index.checked_mul(WIDTH).and_then(|start| start.checked_add(width));
        if end.is_none_or(|end| end > held) {
            return Err(foreign());
        }
        let differs = || Error::from(PublishRefusal::Differs { path: self.0.join(name) });
        if tile.is_data() {
            let entries = self.bundle(index, tile.width())?;
            let leaves = entries.iter().map(|entry| Some(merkle::leaf_hash(entry)));
            let same = leaves.zip(index * WIDTH..).all(|(leaf, at)| leaf == tree.leaf(at));
            return if same { Ok(()) } else { Err(differs()) };
        }
        let expected = tile.read_data(tree).map_err(Error::Merkle)?;
        if self.read(name, MAX_TILE_BYTES)? == expected { Ok(()) } else { Err(differs()) }
    }

    /// Every file, by its path inside, in order.
    fn files(&self) -> Result<Vec<String>, Error> {
        let (mut files, mut folders) = (Vec::new(), vec![String::new()]);
        while let Some(folder) = folders.pop() {
            let at = self.0.join(&folder);
            for entry in fs::read_dir(&at).map_err(Error::io(&at))? {
                let entry = entry.map_err(Error::io(&at))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let is_folder = entry.file_type().map_err(Error::io(&at))?.is_dir();
                (if is_folder { &mut folders } else { &mut files }).push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Splits a bundle; `None` if it is not one, or holds more than `most` entries.
fn entries(mut bytes: &[u8], most: usize) -> Option<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (entry, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        if out.len() == most {
            return None;
        }
        out.push(entry.to_vec());
        bytes = rest;
    }
    bytes.is_empty().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_specification() {
        assert_eq!(tile_path(0, 1_234_067, 256), "tile/0/x001/x234/067");
        assert_eq!(tile_path(3, 0, 17), "tile/3/000.p/17");
        assert_eq!(bundle_path(273, 112), "tile/entries/273.p/112");
        for (path, known) in [("tile/0/000", true), ("tile/entries/x001/000.p/3", true)] {
            assert_eq!(tile_of(path).is_some(), known, "{path}");
        }
        for path in
            ["tile/0/0", "tile/00/000", "tile/0/000.p/256", "tile/0/000.p/0", "tile/data/000", "x", "tile/64/000"]
        {
            assert!(tile_of(path).is_none(), "{path}");
        }
    }

    /// The example of the specification: a tree of 70,000 entries.
    #[test]
    fn a_tree_of_seventy_thousand() {
        let names: Vec<String> = Tile::new_tiles(HEIGHT, 0, 70_000).iter().map(path).collect();
        assert_eq!(names.len(), 273 + 1 + 1 + 1 + 1);
        for name in ["tile/0/272", "tile/0/273.p/112", "tile/1/000", "tile/1/001.p/17", "tile/2/000.p/1"] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
    }

    #[test]
    fn bundles_are_split_or_refused() {
        assert_eq!(entries(&[0, 1, 7, 0, 0], 2).unwrap(), [vec![7], vec![]]);
        assert!(entries(&[0, 1, 7, 0, 0], 1).is_none());
        assert!(entries(&[0, 2, 7], 9).is_none());
        assert!(entries(&[0], 9).is_none());
        assert_eq!(entries(&[], 0).unwrap().len(), 0);
    }
}
