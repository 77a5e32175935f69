//! GGUF files: a header of typed metadata, then tensors.
//!
//! [`Gguf::parse`] checks everything that a length, a count or an offset could break; [`Gguf::config`], [`Gguf::weights`] and
//! [`tokenizer_json`] give the rest of the engine what it would otherwise read from a Hugging Face folder. Source: the format's
//! specification (versions 2 and 3, little-endian). Versions, types and keys that are not understood are refused, never skipped.

mod blocks;
mod config;
mod names;
mod read;
mod tokenizer;
mod value;

pub use blocks::BlockType;
pub use names::Weight;
pub use read::{Gguf, Tensor};
pub(crate) use tokenizer::token_text;
pub use tokenizer::{chat_template, tokenizer_json};
pub use value::Value;
