//! Where verbs get their model, keys and devices from.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use engine::Model;

/// The model of a folder, or the one inside this binary.
pub fn model(folder: Option<&Path>) -> anyhow::Result<Model> {
    match folder {
        Some(folder) => Model::load(folder).with_context(|| format!("loading the model in {}", folder.display())),
        None => Ok(engine::model::embedded()?),
    }
}

/// The wall clock, in microseconds since 1970: for records only, never for verdicts.
pub fn now_unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
