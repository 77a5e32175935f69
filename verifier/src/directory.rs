//! Evidence and receipts that lie beside a log in its directory (`docs/spec/local-log.md`).

use crate::error::Error;
use crate::log::{Holder, Presented};
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

/// Every receipt in the directory, by file name. One that cannot be read says why in its place: it is to be set aside.
///
/// # Errors
/// [`Error::Io`] when the folder is there and cannot be listed.
pub fn receipts(directory: &Directory) -> Result<Vec<Presented>, Error> {
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
    let read = |path: &Path| Presented {
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        bytes: read(path, max).map_err(|e| e.reason()).and_then(|file| file.ok_or_else(|| "it is gone".to_owned())),
        holder: Holder::Log,
    };
    Ok(paths.iter().map(|path| read(path)).collect())
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
    fn absent_files_are_no_error_and_others_say_why() {
        let dir = tempfile::tempdir().unwrap();
        let log = Directory::new(dir.path());
        assert!(receipts(&log).unwrap().is_empty());
        assert!(evidence(&log, &Digest::of_file(b"x")).unwrap().is_none());
        std::fs::create_dir(dir.path().join("receipts")).unwrap();
        std::fs::write(dir.path().join("receipts/1-0.receipt"), b"two").unwrap();
        std::fs::write(dir.path().join("receipts/0-0.receipt"), b"one").unwrap();
        std::fs::write(dir.path().join("receipts/notes.txt"), b"no").unwrap();
        let found = || receipts(&log).unwrap().into_iter().map(|r| (r.name, r.bytes)).collect::<Vec<_>>();
        let two = [("0-0.receipt".to_owned(), Ok(b"one".to_vec())), ("1-0.receipt".to_owned(), Ok(b"two".to_vec()))];
        assert_eq!(found(), two);
        std::fs::write(dir.path().join("receipts/2-0.receipt"), vec![0; 5000]).unwrap();
        std::fs::create_dir(dir.path().join("receipts/3-0.receipt")).unwrap();
        let reasons: Vec<String> = found().into_iter().filter_map(|(_, bytes)| bytes.err()).collect();
        assert_eq!(reasons, ["5000 bytes; at most 1024 are read here", "a folder, not a regular file"]);

        let record = Digest::of_file(b"x");
        std::fs::create_dir_all(log.evidence_path(&record)).unwrap();
        assert_eq!(evidence(&log, &record).unwrap_err().reason(), "a folder, not a regular file");
    }
}
