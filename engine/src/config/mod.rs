//! What a model computes: its architecture, dimensions and constants.
//!
//! Read from a `config.json` (here) or from GGUF metadata ([`crate::gguf`]). Source of the former: the configuration classes of
//! transformers, both generations of key names: up to 4.x (`rope_theta`, `rope_scaling`, `torch_dtype` at the top level) and 5.x
//! (`rope_parameters`, `dtype`). Every key is either *used*, or *inert* under a stated condition, or refused: a key that is silently
//! dropped becomes a wrong verdict.

mod architecture;
mod generation;
mod json;
mod keys;
mod rope;

pub use architecture::Architecture;
pub use generation::Recommended;
pub use keys::{InertKey, inert_keys};
pub use rope::{Llama3Scaling, RopeScaling};

pub(crate) use self::json::{shown, unsupported};

use self::json::{count, flag, number, object, present, token_ids};
use crate::error::{Error, Result};

/// Architecture, dimensions and constants of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The family: which operations a layer has.
    pub architecture: Architecture,
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
    /// How the rotary frequencies are stretched.
    pub rope_scaling: RopeScaling,
    /// Epsilon of RMSNorm, as the f32 that the kernels add.
    pub rms_eps: f32,
    /// The LM head is the embedding table.
    pub tied: bool,
    /// Beginning-of-sequence id, when stated.
    pub bos: Option<u32>,
    /// Ids that end a sequence; may be empty.
    pub eos: Vec<u32>,
    /// Sampling that the model's makers recommend; decides nothing by itself.
    pub recommended: Recommended,
}

/// Limits that keep every size of a model within 32-bit arithmetic and a corrupt file from asking for absurd memory.
pub(crate) const MAX_WIDTH: u64 = 1 << 17;
pub(crate) const MAX_VOCAB: u64 = 1 << 20;
pub(crate) const MAX_LAYERS: u64 = 1 << 10;
pub(crate) const MAX_POSITIONS: u64 = 1 << 22;
const MAX_HEAD_DIM: u32 = 256;
/// The base of Llama 1 and 2, whose files say nothing of it: then the key did not exist yet.
const LLAMA_THETA: f64 = 10_000.0;

impl Config {
    /// Reads a `config.json`.
    ///
    /// Three keys have a default, as in transformers, where these are definitions rather than guesses: `head_dim` is
    /// `hidden_size / num_attention_heads` (not for Qwen3), `num_key_value_heads` is `num_attention_heads`, and the rotary base of a
    /// Llama model is 10000. Nothing else has one.
    ///
    /// # Errors
    /// [`Error::Json`], [`Error::UnknownConfigKey`], [`Error::MissingConfigKey`], [`Error::UnsupportedConfig`].
    pub fn parse(text: &[u8]) -> Result<Config> {
        let map = object("config.json", text)?;
        let architecture = Architecture::of(&map)?;
        keys::check(architecture, &map)?;
        let hidden = count(&map, "hidden_size", MAX_WIDTH)?;
        let q_heads = count(&map, "num_attention_heads", MAX_WIDTH)?;
        let kv_heads = match present(&map, "num_key_value_heads") {
            Some(_) => count(&map, "num_key_value_heads", MAX_WIDTH)?,
            None => q_heads,
        };
        let head_dim = match present(&map, "head_dim") {
            Some(_) => count(&map, "head_dim", MAX_WIDTH)?,
            None if architecture == Architecture::Qwen3 => {
                return Err(Error::MissingConfigKey { key: "head_dim".into() });
            }
            None if hidden.is_multiple_of(q_heads) => hidden / q_heads,
            None => return Err(unsupported("num_attention_heads", &q_heads.into(), "must divide hidden_size")),
        };
        let (theta, rope_scaling) = rope::parse(&map)?;
        let theta = match (theta, architecture) {
            (Some(theta), _) => theta,
            (None, Architecture::Llama) => LLAMA_THETA,
            (None, _) => return Err(Error::MissingConfigKey { key: "rope_theta".into() }),
        };
        let config = Config {
            architecture,
            vocab_size: count(&map, "vocab_size", MAX_VOCAB)?,
            hidden,
            ffn: count(&map, "intermediate_size", MAX_WIDTH)?,
            layers: count(&map, "num_hidden_layers", MAX_LAYERS)?,
            q_heads,
            kv_heads,
            head_dim,
            max_positions: count(&map, "max_position_embeddings", MAX_POSITIONS)?,
            rope_theta: theta,
            rope_scaling,
            rms_eps: number(&map, "rms_norm_eps")? as f32,
            tied: flag(&map, "tie_word_embeddings")?,
            bos: token_ids(&map, "bos_token_id")?.first().copied(),
            eos: token_ids(&map, "eos_token_id")?,
            recommended: Recommended::default(),
        };
        config.check()?;
        Ok(config)
    }

    /// What must hold between the numbers of a configuration, wherever they came from.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.q_heads.is_multiple_of(self.kv_heads) {
            return Err(unsupported("num_key_value_heads", &self.kv_heads.into(), "must divide num_attention_heads"));
        }
        if !self.head_dim.is_multiple_of(8) || self.head_dim > MAX_HEAD_DIM {
            return Err(unsupported("head_dim", &self.head_dim.into(), "a multiple of 8 and at most 256"));
        }
        if u64::from(self.q_heads) * u64::from(self.head_dim) > MAX_WIDTH {
            return Err(unsupported("num_attention_heads", &self.q_heads.into(), "all heads together are too wide"));
        }
        if !(self.rms_eps > 0.0 && self.rms_eps < 1.0) {
            return Err(unsupported("rms_norm_eps", &self.rms_eps.into(), "between 0 and 1"));
        }
        if !(self.rope_theta.is_finite() && self.rope_theta >= 1.0) {
            return Err(unsupported("rope_theta", &self.rope_theta.into(), "finite and at least 1"));
        }
        Ok(())
    }

    /// Takes from a `generation_config.json` the end-of-sequence ids, when it states any (transformers' rule), and the sampling that it
    /// recommends.
    ///
    /// # Errors
    /// [`Error::Json`] and [`Error::UnsupportedConfig`].
    pub fn apply_generation_config(&mut self, text: &[u8]) -> Result<()> {
        let map = object(generation::FILE, text)?;
        let eos = token_ids(&map, "eos_token_id")?;
        if !eos.is_empty() {
            self.eos = eos;
        }
        self.recommended = Recommended::read(&map)?;
        Ok(())
    }

    /// Number of weights, the tied head counted once.
    pub fn parameters(&self) -> u64 {
        let (h, f) = (u64::from(self.hidden), u64::from(self.ffn));
        let (q, kv, d) = (u64::from(self.q_heads), u64::from(self.kv_heads), u64::from(self.head_dim));
        let table = u64::from(self.vocab_size) * h;
        let bias = if self.architecture.qkv_bias() { (q + 2 * kv) * d } else { 0 };
        let head_norms = if self.architecture.qk_norm() { 2 * d } else { 0 };
        let layer = (2 * q + 2 * kv) * d * h + 3 * f * h + 2 * h + bias + head_norms;
        u64::from(self.layers) * layer + h + if self.tied { table } else { 2 * table }
    }
}

#[cfg(test)]
mod tests;
