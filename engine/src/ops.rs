//! Names of the operations of a forward pass: taps, evidence and explanations use exactly these.

use crate::config::Config;
use serde::{Deserialize, Serialize};

/// An operation whose result can be looked at. The order of the variants is the order of execution within a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Token embedding: boundary 0 of the residual stream.
    Embed,
    /// RMSNorm before attention.
    AttnNorm,
    /// Fused q, k, v projection, with its bias where the family has one: q heads, k heads, v heads.
    Qkv,
    /// q after its norm, where the family has one, and the rotary embedding.
    RopeQ,
    /// k after its norm, where the family has one, and the rotary embedding, as stored in the cache.
    K,
    /// v, as stored in the cache.
    V,
    /// Attention output, all heads.
    Attention,
    /// Attention output projection.
    OProj,
    /// Residual stream after attention.
    AttnResidual,
    /// RMSNorm before the feed-forward layer.
    MlpNorm,
    /// Fused gate and up projection: gate columns, up columns.
    GateUp,
    /// `silu(gate) * up`.
    SiluMul,
    /// Down projection.
    Down,
    /// Residual stream after the layer: the next boundary.
    MlpResidual,
    /// RMSNorm before the head, on the rows that want logits.
    FinalNorm,
    /// Logits, f32.
    LmHead,
}

impl Op {
    /// Operations of one layer, in order.
    pub const LAYER: [Op; 13] = [
        Op::AttnNorm,
        Op::Qkv,
        Op::RopeQ,
        Op::K,
        Op::V,
        Op::Attention,
        Op::OProj,
        Op::AttnResidual,
        Op::MlpNorm,
        Op::GateUp,
        Op::SiluMul,
        Op::Down,
        Op::MlpResidual,
    ];

    /// All operations, in order of execution (those of a layer once).
    pub fn all() -> impl Iterator<Item = Op> {
        [Op::Embed].into_iter().chain(Op::LAYER).chain([Op::FinalNorm, Op::LmHead])
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Embed => "embed",
            Op::AttnNorm => "attn_norm",
            Op::Qkv => "qkv",
            Op::RopeQ => "rope_q",
            Op::K => "k",
            Op::V => "v",
            Op::Attention => "attention",
            Op::OProj => "o_proj",
            Op::AttnResidual => "attn_residual",
            Op::MlpNorm => "mlp_norm",
            Op::GateUp => "gate_up",
            Op::SiluMul => "silu_mul",
            Op::Down => "down",
            Op::MlpResidual => "mlp_residual",
            Op::FinalNorm => "final_norm",
            Op::LmHead => "lm_head",
        }
    }

    /// Shape of one row's result, without padding: `(heads, head_dim)`, `(2, ffn)` for gate and up, otherwise `(width)`.
    pub fn row_shape(self, config: &Config) -> Vec<u64> {
        let heads = |n: u32| vec![u64::from(n), u64::from(config.head_dim)];
        match self {
            Op::Qkv => heads(config.q_heads + 2 * config.kv_heads),
            Op::RopeQ | Op::Attention => heads(config.q_heads),
            Op::K | Op::V => heads(config.kv_heads),
            Op::GateUp => vec![2, config.ffn.into()],
            Op::SiluMul => vec![config.ffn.into()],
            Op::LmHead => vec![config.vocab_size.into()],
            _ => vec![config.hidden.into()],
        }
    }

    /// True for the operations that belong to a layer.
    pub const fn in_layer(self) -> bool {
        !matches!(self, Op::Embed | Op::FinalNorm | Op::LmHead)
    }

    /// The operation of this name.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::all().find(|op| op.name() == name)
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// An operation at its place: inside a layer, or outside all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpAt {
    /// The layer, from 0; none for [`Op::Embed`], [`Op::FinalNorm`] and [`Op::LmHead`].
    pub layer: Option<u32>,
    /// The operation.
    pub op: Op,
}

impl OpAt {
    /// Path as evidence carries it: `layers.3.silu_mul`, `final_norm`.
    pub fn path(self) -> String {
        match self.layer {
            Some(layer) => format!("layers.{layer}.{}", self.op),
            None => self.op.to_string(),
        }
    }

    /// All operations of a model of `layers` layers, in order of execution.
    pub fn all(layers: u32) -> Vec<OpAt> {
        let outside = |op| OpAt { layer: None, op };
        let inside = (0..layers).flat_map(|l| Op::LAYER.map(|op| OpAt { layer: Some(l), op }));
        [outside(Op::Embed)].into_iter().chain(inside).chain([outside(Op::FinalNorm), outside(Op::LmHead)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_come_back() {
        assert_eq!(Op::all().count(), 16);
        assert!(Op::all().is_sorted());
        for op in Op::all() {
            assert_eq!(Op::from_name(op.name()), Some(op));
            assert_eq!(serde_json::to_string(&op).unwrap(), format!("\"{}\"", op.name()));
            assert_eq!(op.in_layer(), Op::LAYER.contains(&op));
        }
        assert_eq!(Op::from_name("softmax"), None);
        let all = OpAt::all(2);
        assert_eq!(all.len(), 3 + 2 * 13);
        assert_eq!((all[14].path(), all[28].path()), ("layers.1.attn_norm".into(), "lm_head".into()));
    }
}
