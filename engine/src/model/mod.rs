//! A model: configuration, weights, tokenizer, and the digests of the files they came from.

mod embedded;
mod files;
mod mapped;

use std::borrow::Cow;
use std::path::Path;

pub use embedded::{EMBEDDED_NAME, embedded, embedded_files};
pub use files::{FileDigest, ModelFiles};

use crate::chat::ChatTemplate;
use crate::config::Config;
use crate::error::Result;
use crate::gguf;
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
    /// Messages to text, when the model is one to chat with.
    pub chat: Option<ChatTemplate>,
    /// The file that holds the configuration.
    pub config_file: String,
    /// The file that holds the tokenizer.
    pub tokenizer_file: String,
    /// Digests of the files, by name: the identity of the model.
    pub manifest: Vec<FileDigest>,
}

impl Model {
    /// Loads a Hugging Face model folder, or a GGUF file (also as the only one of a folder).
    ///
    /// # Errors
    /// See [`Model::from_files`], and files that cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let name = path.file_name().map_or_else(|| "model".into(), |n| n.to_string_lossy().into_owned());
        Self::from_files(&name, &ModelFiles::read(path)?)
    }

    /// Builds a model from its files.
    ///
    /// # Errors
    /// A configuration, tokenizer or tensor that is missing, damaged or not supported: nothing is guessed.
    pub fn from_files(name: &str, files: &ModelFiles) -> Result<Self> {
        let manifest = files.manifest();
        let gguf = files.gguf()?;
        let mut config = match &gguf {
            Some(gguf) => gguf.config()?,
            None => Config::parse(files.required("config.json")?)?,
        };
        if let Some(text) = files.optional("generation_config.json") {
            config.apply_generation_config(text)?;
        }
        let own = files.gguf_name();
        let (tokenizer_file, json) = match (files.optional(TOKENIZER), &gguf, own) {
            (None, Some(gguf), Some(file)) => (file, Cow::Owned(gguf::tokenizer_json(gguf, &config)?)),
            _ => (TOKENIZER, Cow::Borrowed(files.required(TOKENIZER)?)),
        };
        let tokenizer = Tokenizer::new(&json, files.optional("tokenizer_config.json"), &config)?;
        let chat = ChatTemplate::of_files(files, &config)?;
        let weights = Weights::load(&config, files)?;
        files.unchanged(&manifest)?;
        let (config_file, tokenizer_file) = (own.unwrap_or("config.json").to_owned(), tokenizer_file.to_owned());
        Ok(Self { name: name.into(), config, weights, tokenizer, chat, config_file, tokenizer_file, manifest })
    }
}

/// The tokenizer of a Hugging Face folder, or beside a GGUF file.
const TOKENIZER: &str = "tokenizer.json";
