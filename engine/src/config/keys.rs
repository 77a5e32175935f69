//! Which keys of a `config.json` are used, and which are inert under which condition.

use serde_json::{Map, Value};

use super::Architecture;
use super::json::{present, shown, unsupported};
use crate::error::{Error, Result};

/// A key that has no influence on the numbers computed here, and the condition under which that is true.
pub struct InertKey {
    /// The key.
    pub key: &'static str,
    /// Why it may be ignored.
    pub reason: &'static str,
    accepts: fn(&Value, &Map<String, Value>) -> bool,
}

const fn inert(key: &'static str, reason: &'static str, accepts: fn(&Value, &Map<String, Value>) -> bool) -> InertKey {
    InertKey { key, reason, accepts }
}

type File = Map<String, Value>;

fn anything(_: &Value, _: &File) -> bool {
    true
}
fn null(v: &Value, _: &File) -> bool {
    v.is_null()
}
fn off(v: &Value, _: &File) -> bool {
    v.is_null() || v == &Value::Bool(false)
}
fn zero(v: &Value, _: &File) -> bool {
    v.is_null() || v.as_f64() == Some(0.0)
}
fn one(v: &Value, _: &File) -> bool {
    v.as_u64() == Some(1)
}
fn silu(v: &Value, _: &File) -> bool {
    v.as_str() == Some("silu")
}
/// A window that no position can look beyond.
fn wide_window(v: &Value, file: &File) -> bool {
    let positions = file.get("max_position_embeddings").and_then(Value::as_u64);
    v.is_null() || v.as_u64().zip(positions).is_some_and(|(window, positions)| window >= positions)
}
/// A window that another key switches off.
fn unused_window(v: &Value, file: &File) -> bool {
    v.is_null() || present(file, "use_sliding_window").is_none_or(|used| used == &Value::Bool(false))
}
fn full_attention(v: &Value, _: &File) -> bool {
    v.is_null() || v.as_array().is_some_and(|l| l.iter().all(|t| t.as_str() == Some("full_attention")))
}

/// Keys of every family that are accepted without being used.
const COMMON: &[InertKey] = &[
    inert("_name_or_path", "a label", anything),
    inert("architectures", "checked before anything else", anything),
    inert("model_type", "checked before anything else", anything),
    inert("transformers_version", "which version wrote the file", anything),
    inert("torch_dtype", "each tensor in the weight file states its own format", anything),
    inert("dtype", "each tensor in the weight file states its own format", anything),
    inert("use_cache", "this engine always caches K and V", anything),
    inert("initializer_range", "used before training only", anything),
    inert("pad_token_id", "batches here are ragged, nothing is padded", anything),
    inert("output_attentions", "what transformers returns, not what it computes", anything),
    inert("output_hidden_states", "what transformers returns, not what it computes", anything),
    inert("return_dict", "what transformers returns, not what it computes", anything),
    inert("transformers.js_config", "settings of another runtime", anything),
    inert("attention_dropout", "only 0: no dropout", zero),
    inert("hidden_act", "only silu", silu),
    inert("quantization_config", "only null: weights are stored as floats", null),
    inert("layer_types", "only full_attention in every layer", full_attention),
];

const LLAMA: &[InertKey] = &[
    inert("is_llama_config", "a label", anything),
    inert("pretraining_tp", "only 1: no split matrix products", one),
    inert("attention_bias", "only false: no bias tensors", off),
    inert("mlp_bias", "only false: no bias tensors", off),
    inert("rope_interleaved", "only false: half-split pairs", off),
    inert("sliding_window", "only null: attention over the whole prefix", null),
];

const MISTRAL: &[InertKey] = &[
    inert("attention_bias", "only false: no bias tensors", off),
    inert(
        "sliding_window",
        "only null, or at least max_position_embeddings: attention over the whole prefix",
        wide_window,
    ),
];

const QWEN2: &[InertKey] = &[
    inert("use_sliding_window", "only false: attention over the whole prefix", off),
    inert("sliding_window", "only while use_sliding_window is false", unused_window),
    inert("max_window_layers", "only while use_sliding_window is false", unused_window),
    inert("use_mrope", "only false: one rotary embedding for text", off),
];

const QWEN3: &[InertKey] = &[
    inert("attention_bias", "only false: no bias tensors", off),
    inert("use_sliding_window", "only false: attention over the whole prefix", off),
    inert("sliding_window", "only while use_sliding_window is false", unused_window),
    inert("max_window_layers", "only while use_sliding_window is false", unused_window),
];

/// Keys that are accepted without being used.
pub fn inert_keys(architecture: Architecture) -> impl Iterator<Item = &'static InertKey> {
    let own = match architecture {
        Architecture::Llama => LLAMA,
        Architecture::Mistral => MISTRAL,
        Architecture::Qwen2 => QWEN2,
        Architecture::Qwen3 => QWEN3,
    };
    COMMON.iter().chain(own)
}

/// Keys read by [`Config::parse`](super::Config::parse).
const USED: &[&str] = &[
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "rms_norm_eps",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
];

/// Refuses the first key whose influence is not known, or that asks for what is not computed.
pub(super) fn check(architecture: Architecture, map: &Map<String, Value>) -> Result<()> {
    for (key, value) in map {
        if USED.contains(&key.as_str()) {
            continue;
        }
        match inert_keys(architecture).find(|k| k.key == key) {
            Some(k) if (k.accepts)(value, map) => {}
            Some(k) => return Err(unsupported(key, value, k.reason)),
            None if value.is_null() => {}
            None => return Err(Error::UnknownConfigKey { key: key.clone(), value: shown(value) }),
        }
    }
    Ok(())
}
