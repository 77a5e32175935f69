//! Parts of a long run, kept in a folder so that it can go on after an interruption.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::source;

/// A folder of parts, or nothing to keep them in.
pub struct Work(Option<PathBuf>);

/// Most bytes of a part.
const MAX_PART: u64 = 1 << 30;

impl Work {
    /// The folder, for the run that `what` describes.
    ///
    /// # Errors
    /// A folder that holds the parts of another run.
    pub fn open(folder: Option<&PathBuf>, what: &str) -> anyhow::Result<Self> {
        let Some(folder) = folder else { return Ok(Self(None)) };
        std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        let path = folder.join("run.txt");
        if path.exists() {
            if source::text(&path, MAX_PART)? != what {
                bail!("{} holds parts of another run (see run.txt in it); give another --work", folder.display());
            }
        } else {
            source::write_new(&path, what.as_bytes())?;
        }
        Ok(Self(Some(folder.clone())))
    }

    /// A part, if it was finished before.
    pub fn get(&self, name: &str) -> anyhow::Result<Option<String>> {
        let Some(path) = self.0.as_ref().map(|f| f.join(name)).filter(|p| p.exists()) else { return Ok(None) };
        source::text(&path, MAX_PART).map(Some)
    }

    /// Keeps a part; whenever this is interrupted, it is there whole or not at all.
    pub fn put(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let Some(folder) = &self.0 else { return Ok(()) };
        source::write_new(&folder.join(name), text.as_bytes()).map(drop)
    }
}
