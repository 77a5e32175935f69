//! `config.json` of a Hugging Face checkpoint, Llama architecture.
//!
//! Source: transformers `LlamaConfig`, both generations of key names: up to 4.x (`rope_theta`, `rope_scaling`, `torch_dtype` at the top
//! level) and 5.x (`rope_parameters`, `dtype`). Every key is either *used*, or *inert* under a stated condition, or refused:
//! a key that is silently dropped becomes a wrong verdict. Missing on purpose: other architectures, rope scaling, biases.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Dimensions and constants of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Vocabulary size.
    pub vocab_size: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Width of the feed-forward layer.
    pub ffn: u32,
    /// Number of layers.
    pub layers: u32,
    /// Query heads.
    pub q_heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Positions the model was made for.
    pub max_positions: u32,
    /// Base of the rotary embedding.
    pub rope_theta: f64,
    /// Epsilon of RMSNorm, as the f32 that the kernels add.
    pub rms_eps: f32,
    /// The LM head is the embedding table.
    pub tied: bool,
    /// Beginning-of-sequence id, when stated.
    pub bos: Option<u32>,
    /// Ids that end a sequence; may be empty.
    pub eos: Vec<u32>,
}

/// A key that has no influence on the numbers computed here, and the condition under which that is true.
pub struct InertKey {
    /// The key.
    pub key: &'static str,
    /// Why it may be ignored.
    pub reason: &'static str,
    accepts: fn(&Value) -> bool,
}

const fn inert(key: &'static str, reason: &'static str, accepts: fn(&Value) -> bool) -> InertKey {
    InertKey { key, reason, accepts }
}

fn anything(_: &Value) -> bool {
    true
}
fn null(v: &Value) -> bool {
    v.is_null()
}
fn false_or_null(v: &Value) -> bool {
    v.is_null() || v == &Value::Bool(false)
}
fn zero(v: &Value) -> bool {
    v.is_null() || v.as_f64() == Some(0.0)
}
fn one(v: &Value) -> bool {
    v.as_u64() == Some(1)
}
fn silu(v: &Value) -> bool {
    v.as_str() == Some("silu")
}

/// Keys that are accepted without being used.
pub const INERT_KEYS: &[InertKey] = &[
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
    inert("is_llama_config", "a label", anything),
    inert("transformers.js_config", "settings of another runtime", anything),
    inert("attention_dropout", "only 0: no dropout", zero),
    inert("pretraining_tp", "only 1: no split matrix products", one),
    inert("attention_bias", "only false: no bias tensors", false_or_null),
    inert("mlp_bias", "only false: no bias tensors", false_or_null),
    inert("rope_interleaved", "only false: half-split pairs", false_or_null),
    inert("hidden_act", "only silu", silu),
    inert("quantization_config", "only null: weights are stored as floats", null),
    inert("sliding_window", "only null: attention over the whole prefix", null),
];

/// Keys read by [`Config::parse`].
const USED_KEYS: &[&str] = &[
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

/// Limits that keep every size of a model within 32-bit arithmetic and a corrupt file from asking for absurd memory.
const MAX_WIDTH: u64 = 1 << 17;
const MAX_VOCAB: u64 = 1 << 20;
const MAX_LAYERS: u64 = 1 << 10;
const MAX_POSITIONS: u64 = 1 << 22;
const MAX_HEAD_DIM: u32 = 256;

impl Config {
    /// Reads a `config.json`.
    ///
    /// `head_dim` defaults to `hidden_size / num_attention_heads` and `num_key_value_heads` to `num_attention_heads`, as in
    /// transformers, where these are definitions rather than guesses. Nothing else has a default.
    ///
    /// # Errors
    /// [`Error::Json`], [`Error::UnknownConfigKey`], [`Error::MissingConfigKey`], [`Error::UnsupportedConfig`].
    pub fn parse(text: &[u8]) -> Result<Config> {
        let map = object("config.json", text)?;
        check_architecture(&map)?;
        check_keys(&map)?;
        let hidden = count(&map, "hidden_size", MAX_WIDTH)?;
        let q_heads = count(&map, "num_attention_heads", MAX_WIDTH)?;
        let kv_heads = match present(&map, "num_key_value_heads") {
            Some(_) => count(&map, "num_key_value_heads", MAX_WIDTH)?,
            None => q_heads,
        };
        let head_dim = match present(&map, "head_dim") {
            Some(_) => count(&map, "head_dim", MAX_WIDTH)?,
            None if hidden.is_multiple_of(q_heads) => hidden / q_heads,
            None => return Err(unsupported("num_attention_heads", &q_heads.into(), "must divide hidden_size")),
        };
        if !q_heads.is_multiple_of(kv_heads) {
            return Err(unsupported("num_key_value_heads", &kv_heads.into(), "must divide num_attention_heads"));
        }
        if !head_dim.is_multiple_of(8) || head_dim > MAX_HEAD_DIM {
            return Err(unsupported("head_dim", &head_dim.into(), "a multiple of 8 and at most 256"));
        }
        let rms_eps = number(&map, "rms_norm_eps")?;
        if !(rms_eps > 0.0 && rms_eps < 1.0) {
            return Err(unsupported("rms_norm_eps", &map["rms_norm_eps"], "between 0 and 1"));
        }
        Ok(Config {
            vocab_size: count(&map, "vocab_size", MAX_VOCAB)?,
            hidden,
            ffn: count(&map, "intermediate_size", MAX_WIDTH)?,
            layers: count(&map, "num_hidden_layers", MAX_LAYERS)?,
            q_heads,
            kv_heads,
            head_dim,
            max_positions: count(&map, "max_position_embeddings", MAX_POSITIONS)?,
            rope_theta: rope_theta(&map)?,
            rms_eps: rms_eps as f32,
            tied: flag(&map, "tie_word_embeddings")?,
            bos: token_ids(&map, "bos_token_id")?.first().copied(),
            eos: token_ids(&map, "eos_token_id")?,
        })
    }

    /// Replaces the end-of-sequence ids by those of a `generation_config.json`, when it states any (transformers' rule).
    ///
    /// # Errors
    /// [`Error::Json`] and [`Error::UnsupportedConfig`].
    pub fn apply_generation_config(&mut self, text: &[u8]) -> Result<()> {
        let map = object("generation_config.json", text)?;
        let eos = token_ids(&map, "eos_token_id")?;
        if !eos.is_empty() {
            self.eos = eos;
        }
        Ok(())
    }

    /// Number of weights, the tied head counted once.
    pub fn parameters(&self) -> u64 {
        let (h, f) = (u64::from(self.hidden), u64::from(self.ffn));
        let heads = u64::from(2 * self.q_heads + 2 * self.kv_heads) * u64::from(self.head_dim);
        let table = u64::from(self.vocab_size) * h;
        let layer = heads * h + 3 * f * h + 2 * h;
        u64::from(self.layers) * layer + h + if self.tied { table } else { 2 * table }
    }
}

fn object(file: &str, text: &[u8]) -> Result<Map<String, Value>> {
    serde_json::from_slice(text).map_err(|e| Error::Json { file: file.into(), detail: e.to_string() })
}

fn check_architecture(map: &Map<String, Value>) -> Result<()> {
    let why = "only LlamaForCausalLM (model_type llama) is implemented";
    match map.get("model_type") {
        Some(v) if v.as_str() == Some("llama") => {}
        Some(v) => return Err(unsupported("model_type", v, why)),
        None => return Err(Error::MissingConfigKey { key: "model_type".into() }),
    }
    match map.get("architectures") {
        Some(v) if v == &serde_json::json!(["LlamaForCausalLM"]) => Ok(()),
        Some(v) => Err(unsupported("architectures", v, why)),
        None => Err(Error::MissingConfigKey { key: "architectures".into() }),
    }
}

fn check_keys(map: &Map<String, Value>) -> Result<()> {
    for (key, value) in map {
        if USED_KEYS.contains(&key.as_str()) {
            continue;
        }
        match INERT_KEYS.iter().find(|k| k.key == key) {
            Some(k) if (k.accepts)(value) => {}
            Some(k) => return Err(unsupported(key, value, k.reason)),
            None if value.is_null() => {}
            None => return Err(Error::UnknownConfigKey { key: key.clone(), value: shown(value) }),
        }
    }
    Ok(())
}

/// The base of the rotary embedding, wherever this generation of the file keeps it.
fn rope_theta(map: &Map<String, Value>) -> Result<f64> {
    if let Some(v) = present(map, "rope_scaling") {
        let scaling = v.as_object().ok_or_else(|| unsupported("rope_scaling", v, "null or an object"))?;
        check_rope("rope_scaling", scaling)?;
    }
    let mut theta = None;
    if let Some(v) = present(map, "rope_parameters") {
        let rope = v.as_object().ok_or_else(|| unsupported("rope_parameters", v, "an object"))?;
        check_rope("rope_parameters", rope)?;
        if present(rope, "rope_theta").is_some() {
            theta = Some(number(rope, "rope_theta")?);
        }
    }
    if present(map, "rope_theta").is_some() {
        let top = number(map, "rope_theta")?;
        if theta.is_some_and(|t| t != top) {
            return Err(unsupported("rope_theta", &map["rope_theta"], "rope_parameters states another value"));
        }
        theta = Some(top);
    }
    let theta = theta.ok_or_else(|| Error::MissingConfigKey { key: "rope_theta".into() })?;
    if !(theta.is_finite() && theta >= 1.0) {
        return Err(unsupported("rope_theta", &theta.into(), "finite and at least 1"));
    }
    Ok(theta)
}

/// Only the plain rotary embedding exists here: `{rope_type: default}` and the base.
fn check_rope(at: &str, rope: &Map<String, Value>) -> Result<()> {
    for (key, value) in rope {
        let path = format!("{at}.{key}");
        match key.as_str() {
            "rope_theta" => {}
            "rope_type" | "type" if value.as_str() == Some("default") => {}
            "rope_type" | "type" => {
                return Err(unsupported(&path, value, "only the default rotary embedding, without scaling"));
            }
            _ if value.is_null() => {}
            _ => return Err(Error::UnknownConfigKey { key: path, value: shown(value) }),
        }
    }
    Ok(())
}

fn present<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|v| !v.is_null())
}

fn required<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a Value> {
    present(map, key).ok_or_else(|| Error::MissingConfigKey { key: key.into() })
}

fn count(map: &Map<String, Value>, key: &str, max: u64) -> Result<u32> {
    let value = required(map, key)?;
    match value.as_u64() {
        Some(n) if n >= 1 && n <= max => Ok(n as u32),
        _ => Err(unsupported(key, value, "a positive integer of sane size")),
    }
}

fn number(map: &Map<String, Value>, key: &str) -> Result<f64> {
    let value = required(map, key)?;
    value.as_f64().ok_or_else(|| unsupported(key, value, "a number"))
}

fn flag(map: &Map<String, Value>, key: &str) -> Result<bool> {
    let value = required(map, key)?;
    value.as_bool().ok_or_else(|| unsupported(key, value, "true or false"))
}

/// One id or a list of ids.
fn token_ids(map: &Map<String, Value>, key: &str) -> Result<Vec<u32>> {
    let Some(value) = present(map, key) else { return Ok(Vec::new()) };
    let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    let ids = match value {
        Value::Array(list) => list.iter().map(one).collect(),
        v => one(v).map(|id| vec![id]),
    };
    ids.ok_or_else(|| unsupported(key, value, "a token id or a list of them"))
}

fn unsupported(key: &str, value: &Value, why: &'static str) -> Error {
    Error::UnsupportedConfig { key: key.into(), value: shown(value), why }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":172,
        "num_hidden_layers":5,"num_attention_heads":8,"num_key_value_heads":4,"max_position_embeddings":512,"rope_theta":10000.0,
        "rms_norm_eps":1e-05,"vocab_size":512,"hidden_act":"silu","tie_word_embeddings":true,"bos_token_id":1,"eos_token_id":2,
        "torch_dtype":"float32","pretraining_tp":1,"attention_dropout":0.0,"rope_scaling":null}"#;

    fn with(edit: impl FnOnce(&mut Map<String, Value>)) -> Result<Config> {
        let mut map: Map<String, Value> = serde_json::from_str(OLD).unwrap();
        edit(&mut map);
        Config::parse(&serde_json::to_vec(&map).unwrap())
    }

    #[test]
    fn both_generations_of_keys_give_the_same_config() {
        let old = Config::parse(OLD.as_bytes()).unwrap();
        assert_eq!((old.head_dim, old.kv_heads, old.rms_eps.to_bits()), (8, 4, 0x3727_c5ac));
        let new = with(|m| {
            m.remove("rope_theta");
            m.remove("rope_scaling");
            m.remove("torch_dtype");
            m.insert("dtype".into(), "float32".into());
            m.insert("rope_parameters".into(), serde_json::json!({"rope_theta": 10000.0, "rope_type": "default"}));
            m.insert("eos_token_id".into(), serde_json::json!([2]));
        });
        assert_eq!(new.unwrap(), old);
    }

    #[test]
    fn every_unknown_or_unsupported_key_is_refused_by_name() {
        let cases: &[(&str, Value)] = &[
            ("logit_scale", 0.5.into()),
            ("use_qk_norm", true.into()),
            ("rope_scaling", serde_json::json!({"type": "linear", "factor": 2.0})),
            (
                "rope_parameters",
                serde_json::json!({"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}),
            ),
            ("rope_parameters", serde_json::json!({"rope_theta": 500000.0})),
            ("pretraining_tp", 2.into()),
            ("attention_dropout", 0.1.into()),
            ("attention_bias", true.into()),
            ("hidden_act", "gelu".into()),
            ("model_type", "mistral".into()),
            ("num_key_value_heads", 3.into()),
            ("head_dim", 7.into()),
            ("vocab_size", 0.into()),
            ("hidden_size", (1u64 << 40).into()),
            ("rms_norm_eps", "1e-5".into()),
        ];
        for (key, value) in cases {
            let error = with(|m| {
                m.insert((*key).into(), value.clone());
            })
            .expect_err(key);
            let text = error.to_string();
            assert!(text.contains(key) || text.contains("rope_theta"), "{key}: {text}");
        }
        for key in ["rope_theta", "rms_norm_eps", "tie_word_embeddings", "vocab_size"] {
            let error = with(|m| {
                m.remove(key);
            });
            assert!(matches!(error, Err(Error::MissingConfigKey { key: k }) if k == key));
        }
    }

    #[test]
    fn null_keys_and_malformed_files() {
        assert!(with(|m| drop(m.insert("some_future_key".into(), Value::Null))).is_ok());
        assert!(matches!(Config::parse(b"[1]"), Err(Error::Json { .. })));
        assert!(matches!(Config::parse(b"\xff"), Err(Error::Json { .. })));
    }

    #[test]
    fn generation_config_states_the_stop_ids() {
        let mut config = Config::parse(OLD.as_bytes()).unwrap();
        config.apply_generation_config(br#"{"eos_token_id":[2,7]}"#).unwrap();
        assert_eq!(config.eos, [2, 7]);
        config.apply_generation_config(b"{}").unwrap();
        assert_eq!(config.eos, [2, 7]);
    }
}
