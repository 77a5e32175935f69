//! Folders that are looked at again and again: whatever appears in them is taken in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Files, Limits, Receipt, take};
use crate::error::Result;
use crate::store::Store;

/// Deepest folder that is looked into: `FOLDER/demo/logs/NAME/records/FILE` and one to spare.
const DEPTH: usize = 7;

/// Size and time of every file when it was last taken in.
type Seen = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// Takes in what a folder holds, now and every few seconds, until the process ends.
pub(crate) async fn watch(store: Arc<Store>, folder: PathBuf, limits: Limits) {
    let mut seen = Seen::new();
    loop {
        let (store, folder, before) = (store.clone(), folder.clone(), std::mem::take(&mut seen));
        let looked = tokio::task::spawn_blocking(move || look(&store, &folder, before, &limits)).await;
        seen = match looked {
            Ok(seen) => seen,
            Err(error) => {
                tracing::error!(%error, "looking at a watched folder failed");
                Seen::new()
            }
        };
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

fn look(store: &Store, folder: &Path, seen: Seen, limits: &Limits) -> Seen {
    let mut now = Seen::new();
    list(folder, 0, limits, &mut now);
    if now == seen {
        return now;
    }
    match read(folder, &now, limits)
        .and_then(|files| take(store, &files, &format!("watched folder {}", folder.display())))
    {
        Ok(receipt) => note(store, folder, &receipt),
        Err(error) => tracing::error!(folder = %folder.display(), %error, "a watched folder could not be taken in"),
    }
    now
}

fn note(store: &Store, folder: &Path, receipt: &Receipt) {
    let words = receipt.words();
    tracing::info!(folder = %folder.display(), %words, "looked at");
    if receipt.count("taken") + receipt.count("refused") + receipt.count("held") > 0
        && let Err(error) = store.note("service", "", "watched folder", &folder.display().to_string(), &words)
    {
        tracing::error!(%error, "the trail cannot be written");
    }
}

fn list(folder: &Path, depth: usize, limits: &Limits, out: &mut Seen) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // Of the entry itself: links are not followed out of the folder.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth < DEPTH {
            list(&entry.path(), depth + 1, limits, out);
        } else if kind.is_file()
            && out.len() < limits.files
            && let Ok(data) = entry.metadata()
        {
            out.insert(entry.path(), (data.len(), data.modified().ok()));
        }
    }
}

fn read(folder: &Path, seen: &Seen, limits: &Limits) -> Result<Files> {
    let (mut files, mut left) = (Files::new(), limits.unpacked);
    for path in seen.keys() {
        let Some(name) = path.strip_prefix(folder).ok().and_then(|p| p.to_str()) else { continue };
        let Ok(name) = super::archive::plain_path(&name.replace(std::path::MAIN_SEPARATOR, "/")) else { continue };
        // Half-written pages and reports of people are none of our business.
        if name.ends_with(".html") || name.contains("/.") {
            continue;
        }
        match record::file::read(path, left) {
            Ok(bytes) => {
                left -= bytes.len() as u64;
                files.insert(name, bytes);
            }
            Err(error) => tracing::warn!(path = %path.display(), %error, "left out"),
        }
    }
    Ok(files)
}
