//! Weights of a model as the kernels want them: bf16, padded, q/k/v and gate/up fused.

mod load;
mod matrix;
mod places;
mod quantise;

use crate::config::Config;
use crate::error::Result;
use crate::kernels::pad;
use crate::model::ModelFiles;

pub use matrix::Matrix;
pub use places::{TensorPlace, places};
pub use quantise::Scheme;

/// Name of the embedding table in the files.
const EMBED: &str = "model.embed_tokens.weight";

/// Weights of one layer. Shapes are `(rows, cols)` before padding.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerWeights {
    /// `(1, hidden)`.
    pub attn_norm: Matrix,
    /// `((q_heads + 2*kv_heads) * head_pad, hidden)`: q heads, k heads, v heads; each head padded with zero rows.
    pub qkv: Matrix,
    /// `(1, (q_heads + 2*kv_heads) * head_pad)`, laid out like the rows of `qkv`; in families with such biases.
    pub qkv_bias: Option<Matrix>,
    /// `(1, head_dim)`; in families that normalise q heads.
    pub q_norm: Option<Matrix>,
    /// `(1, head_dim)`; in families that normalise k heads.
    pub k_norm: Option<Matrix>,
    /// `(hidden, q_heads * head_pad)`: each head padded with zero columns.
    pub o_proj: Matrix,
    /// `(1, hidden)`.
    pub mlp_norm: Matrix,
    /// `(2 * ffn_pad, hidden)`: gate rows, padding, up rows, padding.
    pub gate_up: Matrix,
    /// `(hidden, ffn)`.
    pub down: Matrix,
}

/// All weights of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// `(vocab, hidden)`.
    pub embed: Matrix,
    /// In order.
    pub layers: Vec<LayerWeights>,
    /// `(1, hidden)`.
    pub final_norm: Matrix,
    /// `(vocab, hidden)`; absent when the head is the embedding table.
    pub lm_head: Option<Matrix>,
    /// Formats found in the files, e.g. `["F32"]`. Anything but bf16 was rounded to bf16, nearest even, when loaded.
    pub source_formats: Vec<String>,
}

/// Padded sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padded {
    /// Residual stream.
    pub hidden: u32,
    /// Feed-forward layer.
    pub ffn: u32,
    /// Head.
    pub head: u32,
    /// Vocabulary.
    pub vocab: u32,
    /// Fused q, k and v.
    pub qkv: u32,
    /// All query heads.
    pub attn: u32,
}

impl Padded {
    /// Sizes for a configuration.
    pub fn of(c: &Config) -> Self {
        let head = pad(c.head_dim);
        Self {
            hidden: pad(c.hidden),
            ffn: pad(c.ffn),
            head,
            vocab: pad(c.vocab_size),
            qkv: (c.q_heads + 2 * c.kv_heads) * head,
            attn: c.q_heads * head,
        }
    }
}

impl Weights {
    /// Loads the weights of `config` from safetensors or GGUF files.
    ///
    /// # Errors
    /// Damaged files, tensors missing, left over, of another shape or format, or not finite.
    pub fn load(config: &Config, files: &ModelFiles) -> Result<Self> {
        let mut tensors = load::Tensors::read(config, files)?;
        // Shapes first: a corrupt file is refused before memory of a whole model is asked for.
        let places = places(config);
        places.iter().try_for_each(|place| tensors.check(place))?;
        let mut weights = Self::zeros(config);
        for place in &places {
            tensors.take(place, |row, bits| weights.put_row(place, row, bits))?;
            if config.tied && place.name == EMBED {
                // Some checkpoints store a tied head again.
                tensors.drop_copy("lm_head.weight", place, |row, col| weights.element(place, row, col))?;
            }
        }
        weights.source_formats = tensors.finish()?;
        Ok(weights)
    }

    /// Weights of the right sizes, all zero.
    pub(crate) fn zeros(config: &Config) -> Self {
        let p = Padded::of(config);
        let h = config.hidden;
        let layer = LayerWeights {
            attn_norm: Matrix::zeros(1, h),
            qkv: Matrix::zeros(p.qkv, h),
            qkv_bias: config.architecture.qkv_bias().then(|| Matrix::zeros(1, p.qkv)),
            q_norm: config.architecture.qk_norm().then(|| Matrix::zeros(1, config.head_dim)),
            k_norm: config.architecture.qk_norm().then(|| Matrix::zeros(1, config.head_dim)),
            o_proj: Matrix::zeros(h, p.attn),
            mlp_norm: Matrix::zeros(1, h),
            gate_up: Matrix::zeros(2 * p.ffn, h),
            down: Matrix::zeros(h, config.ffn),
        };
        Self {
            embed: Matrix::zeros(config.vocab_size, h),
            layers: vec![layer; config.layers as usize],
            final_norm: Matrix::zeros(1, h),
            lm_head: (!config.tied).then(|| Matrix::zeros(config.vocab_size, h)),
            source_formats: Vec::new(),
        }
    }

    /// The matrix of the LM head: its own, or the embedding table when tied.
    pub fn head(&self) -> &Matrix {
        self.lm_head.as_ref().unwrap_or(&self.embed)
    }
}
