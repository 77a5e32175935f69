//! The models folder: where `model pull` puts models and `--model NAME` finds them.

use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;

/// `$LASTBIT_MODELS`, else `lastbit/models` in the user's data folder.
pub fn folder() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("LASTBIT_MODELS")
        .or_else(|| set("XDG_DATA_HOME").map(|data| data.join("lastbit/models")))
        .or_else(|| set("HOME").map(|home| home.join(".local/share/lastbit/models")))
        .context("there is no home folder to keep models in; set LASTBIT_MODELS")
}

/// The folder of a model that was pulled under this name.
pub fn named(name: &Path) -> Option<PathBuf> {
    let mut parts = name.components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    let place = folder().ok()?.join(name);
    (plain && place.is_dir()).then_some(place)
}
