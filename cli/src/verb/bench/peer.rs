//! What another engine makes of the same file, for scale.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::models;

/// What a peer's program prints: one JSON object on standard output.
#[derive(Debug, Deserialize, Serialize)]
pub struct Peer {
    /// Which engine.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// As counted for this engine.
    pub tokens_per_s: f64,
}

/// Runs `program WHAT --model FILE.gguf --tokens N --context N --batch N --threads N`.
pub fn measure(program: &Path, what: &str, model: Option<&Path>, numbers: [(&str, u32); 4]) -> anyhow::Result<Peer> {
    let model = gguf(model)?;
    let mut command = Command::new(program);
    command.arg(what).arg("--model").arg(model).stdin(Stdio::null()).stderr(Stdio::inherit());
    for (name, number) in numbers {
        command.arg(name).arg(number.to_string());
    }
    let output = command.output().with_context(|| format!("starting {}", program.display()))?;
    if !output.status.success() {
        bail!("{} ended with {}", program.display(), output.status);
    }
    let peer: Peer = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} did not print `engine`, `version` and `tokens_per_s`", program.display()))?;
    if !(peer.tokens_per_s.is_finite() && peer.tokens_per_s > 0.0) {
        bail!("{} says {} tokens a second", program.display(), peer.tokens_per_s);
    }
    Ok(peer)
}

/// The one GGUF file of a model.
fn gguf(model: Option<&Path>) -> anyhow::Result<PathBuf> {
    let Some(place) = model else { bail!("a peer needs a GGUF file: give --model") };
    let place = models::named(place).filter(|_| !place.exists()).unwrap_or_else(|| place.to_owned());
    if !place.is_dir() {
        return Ok(place);
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&place)
        .and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect())
        .with_context(|| format!("listing {}", place.display()))?;
    files.retain(|file| file.extension().is_some_and(|e| e == "gguf"));
    match files.pop() {
        Some(file) if files.is_empty() => Ok(file),
        _ => bail!("a peer needs one GGUF file; {} has {}", place.display(), files.len()),
    }
}
