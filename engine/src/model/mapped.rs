//! Memory-mapped weight files: the one place outside the emulator and the device where `unsafe` is allowed.
//!
//! Weights can be larger than memory and are read once, so they are not copied before they are converted. The bytes of a mapped
//! file change when somebody writes to it, so [`super::ModelFiles`] hashes them before they are used and again afterwards.
#![allow(unsafe_code)]

use std::io;
use std::ops::Deref;
use std::path::Path;

use super::files::MAX_WEIGHTS;

/// The bytes of a file, read-only.
#[derive(Debug)]
pub(super) struct Mapped {
    map: memmap2::Mmap,
}

impl Mapped {
    /// Maps a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = record::file::open(path, MAX_WEIGHTS)?;
        // SAFETY: the mapping is read-only and private, and the file stays open for the call. What remains is that another process may
        // write to the file or cut it while it is mapped. Written bytes only ever reach code for which every bit pattern is valid
        // (integers, and text that is validated and then copied), so that they are wrong values and not undefined ones in practice; the second hash
        // finds them and the model is refused. A cut file stops the process with SIGBUS: there is no verdict then, never a wrong one.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self { map })
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
