//! Evidence and receipts that lie beside a log in its directory (`docs/spec/local-log.md`).

use crate::error::Error;
use record::Digest;
use record::log::Directory;
use std::io;
use std::path::Path;

/// Most bytes of an evidence file that are read: four times the largest record.
pub const MAX_EVIDENCE: u64 = 1 << 30;

/// The evidence file of a record, if it is there.
///
/// # Errors
/// [`Error::Io`] for one that is there and cannot be read, is no regular file, or is too large.
pub fn evidence(directory: &Directory, record: &Digest) -> Result<Option<Vec<u8>>, Error> {
    read(&directory.evidence_path(record), MAX_EVIDENCE)
}

/// Every receipt in the directory, by file name.
///
/// # Errors
/// [`Error::Io`].
pub fn receipts(directory: &Directory) -> Result<Vec<Vec<u8>>, Error> {
    let folder = directory.path().join("receipts");
    let failed = |source| Error::Io { path: folder.clone(), source };
    let entries = match std::fs::read_dir(&folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == "receipt") {
            paths.push(path);
        }
    }
    paths.sort();
    let max = record::receipt::MAX_RECEIPT_BYTES as u64;
    let files = paths.iter().map(|path| read(path, max));
    Ok(files.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn read(path: &Path, max: u64) -> Result<Option<Vec<u8>>, Error> {
    match record::file::read(path, max) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some).map_err(|source| Error::Io { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_files_are_no_error_and_large_ones_are() {
        let dir = tempfile::tempdir().unwrap();
        let log = Directory::new(dir.path());
        assert!(receipts(&log).unwrap().is_empty());
        assert!(evidence(&log, &Digest::of_file(b"x")).unwrap().is_none());
        std::fs::create_dir(dir.path().join("receipts")).unwrap();
        std::fs::write(dir.path().join("receipts/1-0.receipt"), b"two").unwrap();
        std::fs::write(dir.path().join("receipts/0-0.receipt"), b"one").unwrap();
        std::fs::write(dir.path().join("receipts/notes.txt"), b"no").unwrap();
        assert_eq!(receipts(&log).unwrap(), [b"one".to_vec(), b"two".to_vec()]);
        std::fs::write(dir.path().join("receipts/2-0.receipt"), vec![0; 5000]).unwrap();
        assert!(receipts(&log).unwrap_err().to_string().contains("2-0.receipt"));
    }
}
