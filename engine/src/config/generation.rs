//! Sampling that a model's makers recommend in `generation_config.json`.

use serde_json::{Map, Value};

use super::json::{number, unsupported};
use crate::error::Result;

/// The file's name.
pub(super) const FILE: &str = "generation_config.json";

/// What `generation_config.json` recommends. Served only when a request asks for it by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recommended {
    /// Sample rather than take the largest logit.
    pub sample: bool,
    /// Temperature.
    pub temperature: Option<f32>,
    /// Keep so many largest logits.
    pub top_k: Option<u32>,
    /// Keep the most likely tokens up to this probability.
    pub top_p: Option<f32>,
    /// Keep tokens of at least this part of the largest probability.
    pub min_p: Option<f32>,
    /// Penalty on tokens of prompt and output.
    pub repetition_penalty: Option<f32>,
    /// Recommendations that the sampler here does not compute (`typical_p = 0.9`): whoever asks for the recommended sampling
    /// is refused while this is not empty.
    pub not_computed: Vec<String>,
}

/// Keys that say nothing about sampling, or are read elsewhere.
const OTHER: &[&str] = &[
    "_from_model_config",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "transformers_version",
    "max_length",
    "max_new_tokens",
    "use_cache",
    "output_attentions",
    "output_hidden_states",
    "return_dict_in_generate",
    "trust_remote_code",
];

impl Recommended {
    /// Reads it.
    pub(super) fn read(map: &Map<String, Value>) -> Result<Self> {
        let mut found = Self::default();
        for (key, value) in map {
            if value.is_null() || OTHER.contains(&key.as_str()) {
                continue;
            }
            match key.as_str() {
                "do_sample" => {
                    found.sample = value.as_bool().ok_or_else(|| unsupported(key, value, "true or false"))?;
                }
                "temperature" => found.temperature = Some(number(map, key)? as f32),
                "top_p" => found.top_p = Some(number(map, key)? as f32),
                "top_k" => {
                    let k = value.as_u64().and_then(|k| u32::try_from(k).ok());
                    found.top_k = Some(k.ok_or_else(|| unsupported(key, value, "a number of tokens"))?);
                }
                "min_p" => found.min_p = Some(number(map, key)? as f32),
                "repetition_penalty" => found.repetition_penalty = Some(number(map, key)? as f32),
                _ => found.not_computed.push(format!("{key} = {value}")),
            }
        }
        // Zero, and one, keep all.
        found.top_k = found.top_k.filter(|k| *k > 0);
        found.top_p = found.top_p.filter(|p| *p < 1.0);
        found.min_p = found.min_p.filter(|p| *p > 0.0);
        found.repetition_penalty = found.repetition_penalty.filter(|p| *p != 1.0);
        Ok(found)
    }
}
