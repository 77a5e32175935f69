//! Archives as strangers make them: only what is plainly a file below the archive, and never more than stated.

use std::io::{Read, Seek};

use super::Files;
use crate::error::{Error, Result};

/// What an upload may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes as they arrive.
    pub upload: u64,
    /// Files of an archive.
    pub files: usize,
    /// Bytes of all files of an archive, unpacked.
    pub unpacked: u64,
    /// How many times larger than the archive its files may be together, once they exceed a mebibyte.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { upload: 256 << 20, files: 20_000, unpacked: 1 << 30, ratio: 200 }
    }
}

/// The files of a ZIP archive, in memory. `size` is that of the archive.
///
/// # Errors
/// [`Error::Bad`] for an archive that is none, or with a path that leaves it, a link, a name twice, an encrypted file; [`Error::TooLarge`].
pub(crate) fn unpack(archive: impl Read + Seek, size: u64, limits: &Limits) -> Result<Files> {
    let refuse = |e: zip::result::ZipError| Error::Bad(format!("the archive cannot be read: {e}"));
    let mut zip = zip::ZipArchive::new(archive).map_err(refuse)?;
    if zip.len() > limits.files {
        return Err(Error::TooLarge(format!(
            "the archive has {} files; at most {} are taken",
            zip.len(),
            limits.files
        )));
    }
    let allowed = limits.unpacked.min((size.saturating_mul(limits.ratio)).max(1 << 20));
    let (mut files, mut total) = (Files::new(), 0_u64);
    for i in 0..zip.len() {
        let file = zip.by_index(i).map_err(refuse)?;
        if file.is_dir() {
            continue;
        }
        let name = file.name().map_err(refuse)?.into_owned();
        // Unix file types: a link would let one name stand for another place.
        if file.unix_mode().is_some_and(|mode| !matches!(mode & 0o170_000, 0 | 0o100_000)) {
            return Err(Error::Bad(format!("{:?} is a link or a device; only plain files are taken", name)));
        }
        let path = plain_path(&name)?;
        let mut bytes = Vec::new();
        // What the archive says of lengths is not believed.
        let left = allowed - total;
        file.take(left + 1).read_to_end(&mut bytes).map_err(|e| Error::Bad(format!("{path}: {e}")))?;
        if bytes.len() as u64 > left {
            return Err(Error::TooLarge(format!(
                "the archive unpacks to more than {allowed} bytes; that is refused as a bomb"
            )));
        }
        total += bytes.len() as u64;
        if files.insert(path.clone(), bytes).is_some() {
            return Err(Error::Bad(format!("the archive has {path} twice")));
        }
    }
    Ok(files)
}

/// A path that stays below where it is put, on every system.
pub(crate) fn plain_path(name: &str) -> Result<String> {
    let bad = || Error::Bad(format!("the path {name:?} is not a plain relative one; the archive is refused"));
    let parts: Vec<&str> = name.split('/').collect();
    let plain = |part: &&str| !part.is_empty() && *part != "." && *part != ".." && !part.ends_with(['.', ' ']);
    if name.len() > 512
        || name.contains(['\\', ':', '\0'])
        || name.chars().any(char::is_control)
        || !parts.iter().all(plain)
    {
        return Err(bad());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write as _};
    use zip::write::SimpleFileOptions;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn open(bytes: Vec<u8>, limits: &Limits) -> Result<Files> {
        let size = bytes.len() as u64;
        unpack(Cursor::new(bytes), size, limits)
    }

    #[test]
    fn plain_archives_are_read() {
        let files = open(archive(&[("a/b.json", b"x"), ("c", b"")]), &Limits::default()).unwrap();
        assert_eq!(files["a/b.json"], b"x");
        assert_eq!(files.len(), 2);
    }

    #[test]
    fn paths_never_leave() {
        for name in ["../x", "/x", "a/../../x", "a\\..\\x", "C:x", "a//b", ".", "a/.", "x\0", "a/b.", "x\ny"] {
            assert!(plain_path(name).is_err(), "{name:?}");
        }
        assert!(open(archive(&[("../../etc/x", b"x")]), &Limits::default()).is_err());
        assert!(plain_path("logs/honest/records/ab.replay").is_ok());
    }

    #[test]
    fn bombs_and_crowds_are_refused() {
        let zeros = vec![0_u8; 8 << 20];
        let refused = open(archive(&[("z", &zeros)]), &Limits { ratio: 10, ..Limits::default() });
        assert!(matches!(refused, Err(Error::TooLarge(_))), "{refused:?}");
        let refused = open(archive(&[("a", b"1"), ("b", b"2")]), &Limits { files: 1, ..Limits::default() });
        assert!(matches!(refused, Err(Error::TooLarge(_))));
        assert!(matches!(open(b"PK nonsense".to_vec(), &Limits::default()), Err(Error::Bad(_))));
    }

    #[test]
    fn links_are_refused() {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.add_symlink("x", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        assert!(matches!(open(zip.finish().unwrap().into_inner(), &Limits::default()), Err(Error::Bad(_))));
    }
}
