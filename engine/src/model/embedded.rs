//! The model that comes with the binary.
//!
//! `kjv-llama-2M`: Llama architecture, 4 layers, hidden 192, 6 heads over 2 KV heads, vocabulary 1,024, 1,771,200 parameters in
//! bf16, trained for this project on the King James text (public domain). See its folder's README.

use super::{Model, ModelFiles};
use crate::error::Result;

/// Name of the embedded model.
pub const EMBEDDED_NAME: &str = "kjv-llama-2M";

macro_rules! file {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../models/kjv-llama-2M/", $name)).to_vec())
    };
}

/// The files of the embedded model.
pub fn embedded_files() -> ModelFiles {
    ModelFiles::from_bytes([
        file!("config.json"),
        file!("generation_config.json"),
        file!("tokenizer.json"),
        file!("tokenizer_config.json"),
        file!("model.safetensors"),
    ])
}

/// The embedded model, loaded.
///
/// # Errors
/// None unless the binary is damaged.
pub fn embedded() -> Result<Model> {
    Model::from_files(EMBEDDED_NAME, &embedded_files())
}
