//! The model families.

use serde_json::{Map, Value, json};

use super::json::unsupported;
use crate::error::{Error, Result};

/// A model family: what its layers have beyond RMSNorm, rotary attention with grouped heads, and a SiLU-gated feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// Llama 1 to 3: nothing more.
    Llama,
    /// Mistral: the same, without its sliding window.
    Mistral,
    /// Qwen2 and 2.5: biases on the q, k and v projections.
    Qwen2,
    /// Qwen3: an RMSNorm on every q and k head, before the rotary embedding.
    Qwen3,
}

impl Architecture {
    /// All families.
    pub const ALL: [Architecture; 4] = [Self::Llama, Self::Mistral, Self::Qwen2, Self::Qwen3];

    /// `model_type` of a `config.json`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// Class name in `architectures` of a `config.json`; the name in records.
    pub fn class(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Mistral => "MistralForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    /// True when q, k and v have biases.
    pub fn qkv_bias(self) -> bool {
        self == Self::Qwen2
    }

    /// True when q and k heads are normalised.
    pub fn qk_norm(self) -> bool {
        self == Self::Qwen3
    }

    /// The family that a `config.json` states, in both of its places.
    pub(super) fn of(map: &Map<String, Value>) -> Result<Self> {
        let why = "implemented are llama, mistral, qwen2 and qwen3, each as its ...ForCausalLM";
        let missing = |key: &str| Error::MissingConfigKey { key: key.into() };
        let stated = map.get("model_type").ok_or_else(|| missing("model_type"))?;
        let found = Self::ALL.into_iter().find(|a| stated.as_str() == Some(a.model_type()));
        let found = found.ok_or_else(|| unsupported("model_type", stated, why))?;
        match map.get("architectures") {
            Some(v) if v == &json!([found.class()]) => Ok(found),
            Some(v) => Err(unsupported("architectures", v, why)),
            None => Err(missing("architectures")),
        }
    }
}
