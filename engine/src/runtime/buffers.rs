//! Device memory of an engine: weights, caches, tables, and scratch that grows with the step.

use crate::config::Config;
use crate::device::{Buffer, Device};
use crate::error::Result;
use crate::kernels::{KvType, PAGE};
use crate::model::Model;
use crate::parallel::Division;
use crate::rope;
use crate::weights::{Matrix, Padded};

/// Weights of one layer on the device.
pub(super) struct LayerBuffers {
    pub attn_norm: Buffer,
    /// Weights of the norms of q and k heads.
    pub head_norms: Option<[Buffer; 2]>,
    pub mlp_norm: Buffer,
    pub ranks: Vec<RankBuffers>,
}

/// What a rank holds of a layer.
#[derive(Clone, Copy)]
pub(super) struct RankBuffers {
    pub qkv: Buffer,
    pub qkv_bias: Option<Buffer>,
    pub o_proj: Buffer,
    pub gate_up: Buffer,
    pub down: Buffer,
    /// Of K and of V.
    pub caches: [Buffer; 2],
}

/// What stays on the device for an engine's life.
pub(super) struct Resident {
    pub embed: Buffer,
    pub layers: Vec<LayerBuffers>,
    pub final_norm: Buffer,
    /// The same buffer as `embed` when the head is tied.
    pub lm_head: Buffer,
    pub cos: Buffer,
    pub sin: Buffer,
}

impl Resident {
    pub fn new(model: &Model, division: &Division, pages: u32, kv: KvType, device: &mut dyn Device) -> Result<Self> {
        let config = &model.config;
        let weights = &model.weights;
        let cache_bytes = cache_bytes(&division.shard, kv, pages);
        let mut layers = Vec::with_capacity(weights.layers.len());
        for w in &weights.layers {
            let mut ranks = Vec::with_capacity(division.ranks as usize);
            for rank in 0..division.ranks {
                let w = division.weights(config, w, rank);
                ranks.push(RankBuffers {
                    qkv: put(device, &w.qkv)?,
                    qkv_bias: w.qkv_bias.as_ref().map(|b| put(device, b)).transpose()?,
                    o_proj: put(device, &w.o_proj)?,
                    gate_up: put(device, &w.gate_up)?,
                    down: put(device, &w.down)?,
                    caches: [device.alloc(cache_bytes)?, device.alloc(cache_bytes)?],
                });
            }
            layers.push(LayerBuffers {
                attn_norm: put(device, &w.attn_norm)?,
                head_norms: match (&w.q_norm, &w.k_norm) {
                    (Some(q), Some(k)) => Some([put(device, q)?, put(device, k)?]),
                    _ => None,
                },
                mlp_norm: put(device, &w.mlp_norm)?,
                ranks,
            });
        }
        let embed = put(device, &weights.embed)?;
        let lm_head = match &weights.lm_head {
            Some(head) => put(device, head)?,
            None => embed,
        };
        let tables = rope::tables(config);
        Ok(Self {
            embed,
            layers,
            final_norm: put(device, &weights.final_norm)?,
            lm_head,
            cos: put_words(device, &tables.cos)?,
            sin: put_words(device, &tables.sin)?,
        })
    }
}

/// Bytes of one rank's K (or V) cache of a layer: `(pages, kv_heads, PAGE, head_pad)`.
pub(super) fn cache_bytes(config: &Config, kv: KvType, pages: u32) -> u64 {
    let line = u64::from(Padded::of(config).head) * u64::from(kv.bytes());
    u64::from(pages) * u64::from(config.kv_heads) * u64::from(PAGE) * line
}

fn put(device: &mut dyn Device, matrix: &Matrix) -> Result<Buffer> {
    upload(device, &matrix.to_bytes())
}

fn put_words(device: &mut dyn Device, words: &[u32]) -> Result<Buffer> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    upload(device, &bytes)
}

fn upload(device: &mut dyn Device, bytes: &[u8]) -> Result<Buffer> {
    let buffer = device.alloc(bytes.len() as u64)?;
    device.upload(buffer.address, bytes)?;
    Ok(buffer)
}

/// Names of scratch arrays. `rows` and `logit rows` below are those of the step; widths are those of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scratch {
    /// The step's input arrays, see [`Section`](super::layout::Section).
    Inputs,
    /// Residual stream at every border of layers, bf16 `(layers + 1, rows, hidden_pad)`.
    Boundaries,
    /// Output of a norm, bf16 `(rows, hidden_pad)`.
    Normed,
    /// bf16 `(ranks, rows, qkv)`.
    Qkv,
    /// bf16 `(ranks, rows, attn)`.
    Query,
    /// bf16 `(ranks, rows, attn)`.
    Attention,
    /// What ranks add to `Projected`, bf16 `(ranks, rows, hidden_pad)`.
    Shares,
    /// Output of `o_proj` and of `down`, bf16 `(rows, hidden_pad)`.
    Projected,
    /// Residual stream after attention, bf16 `(rows, hidden_pad)`.
    Middle,
    /// bf16 `(ranks, rows, 2 * ffn_pad)`.
    GateUp,
    /// bf16 `(ranks, rows, ffn_pad)`.
    Activated,
    /// bf16 `(logit rows, hidden_pad)`.
    Gathered,
    /// bf16 `(logit rows, hidden_pad)`.
    FinalNormed,
    /// f32 `(logit rows, vocab_pad)`.
    Logits,
    /// u32 `(logit rows, TOP2_WORDS)`.
    Top2,
    /// Split-K partials, f32 `(splits, rows, n_pad)`.
    Partials,
    /// Split-KV partial outputs, f32 `(kv_splits, rows, attn)`.
    KvOutput,
    /// Split-KV running maxima, f32 `(kv_splits, rows, q_heads)`.
    KvMax,
    /// Split-KV running sums, f32 `(kv_splits, rows, q_heads)`.
    KvSum,
}

const SCRATCH: usize = Scratch::KvSum as usize + 1;

/// Scratch arrays, each as large as the largest step so far wanted it.
#[derive(Default)]
pub(super) struct ScratchPool {
    buffers: [Option<Buffer>; SCRATCH],
}

impl ScratchPool {
    /// The array, at least `bytes` long. What it held is lost when it has to grow.
    pub fn get(&mut self, device: &mut dyn Device, name: Scratch, bytes: u64) -> Result<Buffer> {
        let place = &mut self.buffers[name as usize];
        if let Some(buffer) = place {
            if buffer.bytes >= bytes {
                return Ok(*buffer);
            }
            device.free(*buffer)?;
            *place = None;
        }
        let buffer = device.alloc(bytes.next_power_of_two())?;
        *place = Some(buffer);
        Ok(buffer)
    }
}
