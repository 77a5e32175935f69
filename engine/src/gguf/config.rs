//! A model's configuration in GGUF metadata.
//!
//! Keys of the model itself (`llama.*`, `qwen2.*`, `qwen3.*`) are used, inert under a stated condition, or refused, as those of a
//! `config.json` are. Keys about the file (`general.*`, `quantize.*`) and the tokenizer (`tokenizer.*`) decide no number.

use serde_json::json;

use super::BlockType;
use super::read::Gguf;
use super::value::{Value, bad};
use crate::config::{
    Architecture, Config, MAX_LAYERS, MAX_POSITIONS, MAX_VOCAB, MAX_WIDTH, Recommended, RopeScaling, unsupported,
};
use crate::error::{Error, Result};

/// Frequency divisors of the rotary embedding: how these files state Llama 3.1's scaling.
pub(super) const ROPE_DIVISORS: &str = "rope_freqs.weight";
/// The head's own matrix; absent when it is the embedding.
pub(super) const OUTPUT: &str = "output.weight";

impl<'a> Gguf<'a> {
    /// The configuration.
    ///
    /// # Errors
    /// [`Error::UnknownConfigKey`], [`Error::MissingConfigKey`], [`Error::UnsupportedConfig`], [`Error::WeightFile`].
    pub fn config(&self) -> Result<Config> {
        let architecture = self.architecture()?;
        let prefix = architecture.model_type();
        self.check_keys(prefix)?;
        let key = |name: &str| format!("{prefix}.{name}");
        let q_heads = self.count(&key("attention.head_count"), MAX_WIDTH)?;
        let hidden = self.count(&key("embedding_length"), MAX_WIDTH)?;
        let head_dim = match self.optional_count(&key("attention.key_length"), MAX_WIDTH)? {
            Some(width) => width,
            None if hidden.is_multiple_of(q_heads) => hidden / q_heads,
            None => return Err(Error::MissingConfigKey { key: key("attention.key_length") }),
        };
        for same in ["attention.value_length", "rope.dimension_count"] {
            let stated = self.optional_count(&key(same), MAX_WIDTH)?;
            if stated.is_some_and(|n| n != head_dim) {
                return Err(unsupported(&key(same), &json!(stated), "must be the width of a head"));
            }
        }
        let vocab_size = self.vocab_size(&key("vocab_size"))?;
        let theta = match self.metadata.get(key("rope.freq_base").as_str()) {
            Some(Value::Float(theta)) => *theta,
            Some(other) => return Err(unsupported(&key("rope.freq_base"), &shown(other), "a float")),
            // What the files of Llama 1 and 2 leave out.
            None if architecture == Architecture::Llama => 10_000.0,
            None => return Err(Error::MissingConfigKey { key: key("rope.freq_base") }),
        };
        let eps_key = key("attention.layer_norm_rms_epsilon");
        let rms_eps = match self.metadata.get(eps_key.as_str()) {
            Some(Value::Float(eps)) => *eps as f32,
            Some(other) => return Err(unsupported(&eps_key, &shown(other), "a float")),
            None => return Err(Error::MissingConfigKey { key: eps_key }),
        };
        let config = Config {
            architecture,
            vocab_size,
            hidden,
            ffn: self.count(&key("feed_forward_length"), MAX_WIDTH)?,
            layers: self.count(&key("block_count"), MAX_LAYERS)?,
            q_heads,
            kv_heads: self.optional_count(&key("attention.head_count_kv"), MAX_WIDTH)?.unwrap_or(q_heads),
            head_dim,
            max_positions: self.count(&key("context_length"), MAX_POSITIONS)?,
            rope_theta: theta,
            rope_scaling: self.rope_scaling(head_dim)?,
            rms_eps,
            tied: !self.tensors.contains_key(OUTPUT),
            bos: self.token("tokenizer.ggml.bos_token_id", vocab_size)?,
            eos: self.eos(vocab_size)?,
            recommended: Recommended::default(),
        };
        config.check()?;
        Ok(config)
    }

    /// The family; files of Mistral models call themselves llama.
    fn architecture(&self) -> Result<Architecture> {
        let why = "read from GGUF are llama, qwen2 and qwen3";
        let stated = self.text("general.architecture")?;
        let found = Architecture::ALL.into_iter().find(|a| a.model_type() == stated && *a != Architecture::Mistral);
        found.ok_or_else(|| unsupported("general.architecture", &json!(stated), why))
    }

    fn check_keys(&self, prefix: &str) -> Result<()> {
        const USED: &[&str] = &[
            "context_length",
            "embedding_length",
            "block_count",
            "feed_forward_length",
            "attention.head_count",
            "attention.head_count_kv",
            "attention.key_length",
            "attention.value_length",
            "attention.layer_norm_rms_epsilon",
            "rope.freq_base",
            "rope.dimension_count",
            "vocab_size",
        ];
        for (key, value) in &self.metadata {
            let own = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'));
            let known = match own {
                Some(own) if USED.contains(&own) => true,
                Some("expert_count" | "expert_used_count" | "attention.sliding_window") => value == &Value::Uint(0),
                Some("rope.scaling.type") => value == &Value::Text("none"),
                Some(_) => false,
                None => match *key {
                    "general.type" => value == &Value::Text("model"),
                    "split.count" => matches!(value, Value::Uint(0 | 1)),
                    "split.no" => value == &Value::Uint(0),
                    key => ["general.", "tokenizer.", "quantize.", "split."].iter().any(|p| key.starts_with(p)),
                },
            };
            if !known {
                let value = shown(value);
                return Err(Error::UnknownConfigKey { key: (*key).to_owned(), value: crate::config::shown(&value) });
            }
        }
        Ok(())
    }

    fn vocab_size(&self, key: &str) -> Result<u32> {
        let table = self.tensors.get("token_embd.weight");
        let table = table.ok_or_else(|| Error::MissingTensor { name: "token_embd.weight".into() })?;
        let rows = table.shape[0];
        let stated = self.optional_count(key, MAX_VOCAB)?;
        match u32::try_from(rows) {
            Ok(rows) if rows >= 1 && u64::from(rows) <= MAX_VOCAB && stated.is_none_or(|n| n == rows) => Ok(rows),
            _ => Err(unsupported(key, &json!(stated), "must be the rows of the embedding table, and of sane size")),
        }
    }

    fn rope_scaling(&self, head_dim: u32) -> Result<RopeScaling> {
        let Some(tensor) = self.tensors.get(ROPE_DIVISORS) else { return Ok(RopeScaling::None) };
        let expected = vec![head_dim as usize / 2];
        if tensor.shape != expected {
            let (name, found) = (ROPE_DIVISORS.into(), tensor.shape.clone());
            return Err(Error::TensorShape { name, found, expected });
        }
        if tensor.block != BlockType::F32 {
            return Err(Error::TensorType { name: ROPE_DIVISORS.into(), dtype: tensor.block.name().into() });
        }
        let mut divisors = Vec::new();
        tensor.data.chunks_exact(4).for_each(|number| BlockType::F32.decode(number, &mut divisors));
        match divisors.iter().position(|d| !(d.is_finite() && *d > 0.0)) {
            None => Ok(RopeScaling::Divisors(divisors)),
            Some(index) => {
                let (name, bits) = (ROPE_DIVISORS.into(), divisors[index].to_bits());
                Err(Error::TensorValue { name, index, bits })
            }
        }
    }

    /// Ids that end a sequence: the end of a text, and of a turn where that is another one.
    fn eos(&self, vocab: u32) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"] {
            ids.extend(self.token(key, vocab)?.filter(|id| !ids.contains(id)));
        }
        Ok(ids)
    }

    /// A token id, when stated.
    pub(super) fn token(&self, key: &str, vocab: u32) -> Result<Option<u32>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Uint(id)) if *id < u64::from(vocab) => Ok(Some(*id as u32)),
            Some(other) => Err(unsupported(key, &shown(other), "an id within the vocabulary")),
        }
    }

    /// Text that must be there.
    pub(super) fn text(&self, key: &str) -> Result<&'a str> {
        match self.metadata.get(key) {
            Some(Value::Text(text)) => Ok(text),
            Some(_) => Err(bad(format!("`{key}` is not text"))),
            None => Err(Error::MissingConfigKey { key: key.into() }),
        }
    }

    fn count(&self, key: &str, max: u64) -> Result<u32> {
        self.optional_count(key, max)?.ok_or_else(|| Error::MissingConfigKey { key: key.into() })
    }

    fn optional_count(&self, key: &str, max: u64) -> Result<Option<u32>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Uint(n)) if *n >= 1 && *n <= max => Ok(Some(*n as u32)),
            Some(other) => Err(unsupported(key, &shown(other), "a positive integer of sane size")),
        }
    }
}

/// For error messages.
fn shown(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Uint(n) => json!(n),
        Value::Int(n) => json!(n),
        Value::Float(x) => json!(x),
        Value::Bool(b) => json!(b),
        Value::Text(text) => json!(text),
        Value::Array(list) => json!(format!("an array of {}", list.len())),
    }
}
