//! Tensors of a GGUF file under the names of a Hugging Face checkpoint.

use super::BlockType;
use super::config::ROPE_DIVISORS;
use super::read::Gguf;
use super::value::bad;
use crate::config::{Architecture, Config};
use crate::error::Result;

/// A weight tensor.
pub struct Weight<'a> {
    /// Name in a Hugging Face checkpoint; the file's own where it has none.
    pub name: String,
    /// Rows before columns.
    pub shape: Vec<usize>,
    /// Number format.
    pub block: BlockType,
    /// Bytes.
    pub data: &'a [u8],
    /// Rows come in heads of this many, whose two halves are interleaved: stored row `2j + h` is row `h * dim/2 + j`. Files of the llama family
    /// store q and k so, because llama.cpp turns neighbouring pairs there.
    pub interleaved: Option<u32>,
}

const OUTSIDE: &[(&str, &str)] = &[
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];

const IN_LAYER: &[(&str, &str)] = &[
    ("attn_norm.weight", "input_layernorm.weight"),
    ("attn_q.weight", "self_attn.q_proj.weight"),
    ("attn_k.weight", "self_attn.k_proj.weight"),
    ("attn_v.weight", "self_attn.v_proj.weight"),
    ("attn_q.bias", "self_attn.q_proj.bias"),
    ("attn_k.bias", "self_attn.k_proj.bias"),
    ("attn_v.bias", "self_attn.v_proj.bias"),
    ("attn_q_norm.weight", "self_attn.q_norm.weight"),
    ("attn_k_norm.weight", "self_attn.k_norm.weight"),
    ("attn_output.weight", "self_attn.o_proj.weight"),
    ("ffn_norm.weight", "post_attention_layernorm.weight"),
    ("ffn_gate.weight", "mlp.gate_proj.weight"),
    ("ffn_up.weight", "mlp.up_proj.weight"),
    ("ffn_down.weight", "mlp.down_proj.weight"),
];

impl<'a> Gguf<'a> {
    /// All weights; what the configuration has used already is left out.
    ///
    /// # Errors
    /// [`Error::WeightFile`](crate::Error::WeightFile) for rows of heads that do not divide.
    pub fn weights(&self, config: &Config) -> Result<Vec<Weight<'a>>> {
        let mut all = Vec::new();
        for (name, tensor) in self.tensors.iter().filter(|(name, _)| **name != ROPE_DIVISORS) {
            let turned = name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight");
            let interleaved = (config.architecture == Architecture::Llama && turned).then_some(config.head_dim);
            if interleaved.is_some_and(|dim| !tensor.shape[0].is_multiple_of(dim as usize)) {
                return Err(bad(format!("tensor `{name}` has {} rows, not whole heads", tensor.shape[0])));
            }
            all.push(Weight {
                name: checkpoint_name(name),
                shape: tensor.shape.clone(),
                block: tensor.block,
                data: tensor.data,
                interleaved,
            });
        }
        Ok(all)
    }
}

/// `blk.3.attn_q.weight` is `model.layers.3.self_attn.q_proj.weight`.
fn checkpoint_name(name: &str) -> String {
    let known = |table: &[(&str, &'static str)], part: &str| table.iter().find(|(n, _)| *n == part).map(|(_, to)| *to);
    let outside = known(OUTSIDE, name).map(ToOwned::to_owned);
    let inside = || {
        let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
        let number: u32 = layer.parse().ok()?;
        let to = known(IN_LAYER, part)?;
        (number.to_string() == layer).then(|| format!("model.layers.{number}.{to}"))
    };
    outside.or_else(inside).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_translated_one_to_one() {
        assert_eq!(checkpoint_name("blk.12.attn_k.bias"), "model.layers.12.self_attn.k_proj.bias");
        assert_eq!(checkpoint_name("output.weight"), "lm_head.weight");
        for same in ["blk.01.attn_k.weight", "blk.1.attn_qkv.weight", "blk.x.attn_k.weight", "enc.output.weight"] {
            assert_eq!(checkpoint_name(same), same);
        }
    }
}
