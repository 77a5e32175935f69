//! What was run, and how text became token ids.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::scalar::{F32Bits, Fact};

/// The model: any change here is a different model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// A name for people. It identifies nothing: the digests do.
    pub name: String,
    /// Architecture as the engine implements it, for example `LlamaForCausalLM`.
    pub architecture: String,
    /// Every file the engine read, in the order in which it read them.
    pub files: Vec<FileDigest>,
    /// Plain SHA-256 of the configuration file.
    pub config: Digest,
    /// Element type of the stored weights, for example `f32`.
    pub dtype_stored: String,
    /// Element type in which weights enter the arithmetic, for example `bf16`; a conversion is round to nearest even.
    pub dtype_computed: String,
    /// Quantisation scheme; `null` when there is none.
    pub quantisation: Fact<Option<String>>,
    /// Adapters in merge order.
    pub adapters: Fact<Vec<Adapter>>,
}

/// One model file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDigest {
    /// Path relative to the model directory, with `/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Plain SHA-256 of the bytes, so that any tool can check it.
    pub sha256: Digest,
}

/// A low-rank adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Plain SHA-256 of the adapter file.
    pub sha256: Digest,
    /// Scale applied, as f32 bits.
    pub scale: F32Bits,
}

/// How text became token ids. Replay starts at the ids; these facts make the step before it checkable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// Plain SHA-256 of the tokenizer file; `null` when requests came as ids and no tokenizer was loaded.
    pub tokenizer: Fact<Option<Digest>>,
    /// Plain SHA-256 of the chat template's UTF-8 text; `null` when none was applied.
    pub chat_template: Fact<Option<Digest>>,
    /// Special token ids that the engine added to every prompt (they are included in the prompt ids).
    pub added_special: Fact<Vec<u32>>,
}
