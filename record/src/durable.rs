//! The few file operations that survive a crash: replace a file whole, and know that it is on disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Makes a directory's entries (names created, renamed, removed in it) durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    // Directories can be opened and synced on Unix only; elsewhere renames are as durable as the system makes them.
    #[cfg(unix)]
    File::open(dir)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}

/// Writes `path` so that a reader, or a crash at any moment, sees the old file or the new one and nothing between.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let tmp = path.with_extension("tmp");
    // What a crash left under this name goes; and nothing that someone put there is written through.
    match fs::remove_file(&tmp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::create_new(&tmp)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&tmp, path)?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}
