//! Reading files that someone else may have made: regular files only, and never more than a stated number of bytes.
//!
//! A log folder comes from the operator who is being audited. A pipe in it would make a reader wait for ever, a link to a device would
//! feed it for ever; both are refused before a byte is read. Links to regular files are followed.
//!
//! Errors are the system's, or say what was found and what is allowed; the caller adds the path, once ([`name`] does).

use std::fs::{File, FileType, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

/// Opens a regular file of at most `max` bytes for reading.
///
/// # Errors
/// The system's; `IsADirectory` or `InvalidInput` for what is not a regular file; `FileTooLarge`.
pub fn open(path: &Path, max: u64) -> io::Result<File> {
    // Looked at before it is opened, because opening a pipe already waits; and again after, because it may have been exchanged.
    check(&std::fs::metadata(path)?, max)?;
    let file = File::open(path)?;
    check(&file.metadata()?, max)?;
    Ok(file)
}

/// The bytes of a regular file of at most `max` bytes.
///
/// # Errors
/// As [`open`]; also `FileTooLarge` for a file that grows past `max` while it is read.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = open(path, max)?;
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(too_large(bytes.len() as u64, max));
    }
    Ok(bytes)
}

/// The text of a regular file of at most `max` bytes.
///
/// # Errors
/// As [`read`]; `InvalidData` with the offset for bytes that are not UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    String::from_utf8(read(path, max)?).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("not UTF-8 text, from byte {at} on"))
    })
}

/// Puts the path before an error's words; its kind stays.
pub fn name(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Refuses what is not a regular file, without opening it.
///
/// # Errors
/// As [`open`], but for the length.
pub fn check_regular(path: &Path) -> io::Result<()> {
    check(&std::fs::metadata(path)?, u64::MAX)
}

fn check(found: &Metadata, max: u64) -> io::Result<()> {
    if found.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "a folder, not a regular file"));
    }
    if !found.is_file() {
        let what = format!("{}, not a regular file", kind(found.file_type()));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    if found.len() > max {
        return Err(too_large(found.len(), max));
    }
    Ok(())
}

fn too_large(found: u64, max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("{found} bytes; at most {max} are read here"))
}

#[cfg(unix)]
fn kind(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    if found.is_fifo() {
        "a pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn kind(_: FileType) -> &'static str {
    "something else"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_last_length_that_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        let error = read(&path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "5 bytes; at most 4 are read here");
        assert!(name(&path)(error).to_string().ends_with("f: 5 bytes; at most 4 are read here"));
    }

    #[test]
    fn text_is_utf_8() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"ab\xff").unwrap();
        let error = read_text(&path, 100).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::InvalidData, "not UTF-8 text, from byte 2 on")
        );
    }

    #[test]
    fn folders_and_missing_files_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path(), 10).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read(&dir.path().join("no"), 10).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_refused_and_links_to_files_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (link, file, good) = (dir.path().join("zero"), dir.path().join("f"), dir.path().join("good"));
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert_eq!(read(&link, 10).unwrap_err().to_string(), "a device, not a regular file");
        std::fs::write(&file, b"x").unwrap();
        std::os::unix::fs::symlink(&file, &good).unwrap();
        assert_eq!(read(&good, 10).unwrap(), b"x");
    }
}
