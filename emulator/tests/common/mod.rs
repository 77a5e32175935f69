//! The committed matrix vectors.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// (File name, text) of every file, by name.
pub fn simulated() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mma");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "xz"));
    files.sort();
    let read = |path: &PathBuf| {
        let file = std::fs::File::open(path).unwrap();
        let mut text = String::new();
        lzma_rust2::XzReader::new(BufReader::new(file), false).read_to_string(&mut text).unwrap();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), text)
    };
    files.iter().map(read).collect()
}
