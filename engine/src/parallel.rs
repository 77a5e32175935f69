//! Tensor parallelism: a layer divided over ranks, and the order in which their partial results are added.
//!
//! Ranks are simulated: one device holds all of them and runs them one after another. What real ranks would compute alike (norms, residual
//! additions, embedding, head) is computed once.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::weights::{LayerWeights, Matrix, Padded};

/// Rule by which partial results are combined: every rank's bf16 result, added as f32 in ascending order of ranks, rounded once. It is
/// what a one-shot all-reduce computes, on each rank the same. Source: kernel-recipes, 7.14.
pub const ALL_REDUCE: &str = "one-shot-ascending/1";
/// Numbers of ranks there may be.
pub const RANKS: [u32; 4] = [1, 2, 4, 8];

/// How the layers of a model are divided.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Ranks.
    pub ranks: u32,
    /// The model as one rank sees it: its heads, its part of the feed-forward layer.
    pub shard: Config,
    /// Ranks that hold the same key/value head, where there are more ranks than heads.
    pub sharing: u32,
}

/// What one rank holds of a layer. Shapes are those of [`LayerWeights`] under [`Division::shard`].
pub struct RankWeights {
    /// Rows of its heads.
    pub qkv: Matrix,
    /// The same of the bias.
    pub qkv_bias: Option<Matrix>,
    /// Columns of its heads.
    pub o_proj: Matrix,
    /// Rows of its part of the feed-forward layer.
    pub gate_up: Matrix,
    /// Columns of its part of the feed-forward layer.
    pub down: Matrix,
}

impl Division {
    /// Divides a model over `ranks` ranks.
    ///
    /// # Errors
    /// [`Error::Plan`] where heads or feed-forward columns cannot be divided so.
    pub fn new(config: &Config, ranks: u32) -> Result<Self> {
        let refuse = |what: &str, count: u32| {
            Err(Error::Plan { detail: format!("{count} {what} cannot be divided over {ranks} tensor-parallel ranks") })
        };
        if !RANKS.contains(&ranks) {
            return Err(Error::Plan { detail: format!("{ranks} tensor-parallel ranks; there may be 1, 2, 4 or 8") });
        }
        if !config.q_heads.is_multiple_of(ranks) {
            return refuse("query heads", config.q_heads);
        }
        if !config.kv_heads.is_multiple_of(ranks) && !ranks.is_multiple_of(config.kv_heads) {
            return refuse("key/value heads", config.kv_heads);
        }
        if !config.ffn.is_multiple_of(ranks) {
            return refuse("feed-forward columns", config.ffn);
        }
        let shard = Config {
            q_heads: config.q_heads / ranks,
            kv_heads: (config.kv_heads / ranks).max(1),
            ffn: config.ffn / ranks,
            ..config.clone()
        };
        Ok(Self { ranks, shard, sharing: (ranks / config.kv_heads).max(1) })
    }

    /// What a rank holds of a layer of `config`.
    pub fn weights(&self, config: &Config, layer: &LayerWeights, rank: u32) -> RankWeights {
        let (whole, part) = (Padded::of(config), Padded::of(&self.shard));
        let head = whole.head;
        let kv = rank / self.sharing * self.shard.kv_heads;
        let (q, k) = (rank * self.shard.q_heads, config.q_heads + kv);
        let v = k + config.kv_heads;
        let heads = [(q, self.shard.q_heads), (k, self.shard.kv_heads), (v, self.shard.kv_heads)];
        let heads: Vec<u32> = heads.into_iter().flat_map(|(first, n)| first * head..(first + n) * head).collect();
        let ffn = rank * self.shard.ffn..(rank + 1) * self.shard.ffn;
        // Gate rows, padding, up rows, padding.
        let mut gate_up = Matrix::zeros(2 * part.ffn, config.hidden);
        for (to, from) in ffn.clone().enumerate() {
            gate_up.row_mut(to as u32).copy_from_slice(layer.gate_up.row(from));
            gate_up.row_mut(part.ffn + to as u32).copy_from_slice(layer.gate_up.row(whole.ffn + from));
        }
        let attn = q * head..(q + self.shard.q_heads) * head;
        RankWeights {
            qkv: layer.qkv.rows(&heads),
            qkv_bias: layer.qkv_bias.as_ref().map(|b| b.columns(&heads)),
            o_proj: layer.o_proj.columns(&attn.collect::<Vec<_>>()),
            gate_up,
            down: layer.down.columns(&ffn.collect::<Vec<_>>()),
        }
    }
}
