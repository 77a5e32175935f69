//! A model: configuration, weights, tokenizer, and the digests of the files they came from.

mod embedded;
mod files;

use std::path::Path;

pub use embedded::{EMBEDDED_NAME, embedded, embedded_files};
pub use files::{FileDigest, ModelFiles};

use crate::config::Config;
use crate::error::Result;
use crate::tokenizer::Tokenizer;
use crate::weights::Weights;

/// A loaded model.
#[derive(Clone)]
pub struct Model {
    /// Name of its folder; a label.
    pub name: String,
    /// Dimensions.
    pub config: Config,
    /// bf16 weights.
    pub weights: Weights,
    /// Text to ids and back.
    pub tokenizer: Tokenizer,
    /// Digests of the files, by name: the identity of the model.
    pub manifest: Vec<FileDigest>,
}

impl Model {
    /// Loads a Hugging Face model folder.
    ///
    /// # Errors
    /// See [`Model::from_files`], and files that cannot be read.
    pub fn load(folder: &Path) -> Result<Self> {
        let name = folder.file_name().map_or_else(|| "model".into(), |n| n.to_string_lossy().into_owned());
        Self::from_files(&name, &ModelFiles::read(folder)?)
    }

    /// Builds a model from the bytes of its files.
    ///
    /// # Errors
    /// A configuration, tokenizer or tensor that is missing, damaged or not supported: nothing is guessed.
    pub fn from_files(name: &str, files: &ModelFiles) -> Result<Self> {
        let mut config = Config::parse(files.required("config.json")?)?;
        if let Some(text) = files.optional("generation_config.json") {
            config.apply_generation_config(text)?;
        }
        let tokenizer =
            Tokenizer::new(files.required("tokenizer.json")?, files.optional("tokenizer_config.json"), &config)?;
        let weights = Weights::load(&config, files)?;
        Ok(Self { name: name.into(), config, weights, tokenizer, manifest: files.manifest() })
    }
}
