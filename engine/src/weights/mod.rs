//! Weights of a Llama model as the kernels want them: bf16, padded, q/k/v and gate/up fused.

mod load;
mod pack;

use crate::config::Config;
use crate::error::Result;
use crate::kernels::pad;
use crate::model::ModelFiles;

pub use pack::Matrix;

/// Weights of one layer. Shapes are `(rows, cols)` before padding.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerWeights {
    /// `(1, hidden)`.
    pub attn_norm: Matrix,
    /// `((q_heads + 2*kv_heads) * head_pad, hidden)`: q heads, k heads, v heads; each head padded with zero rows.
    pub qkv: Matrix,
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
    /// Loads the weights of `config` from safetensors files.
    ///
    /// # Errors
    /// Damaged files, tensors missing, left over, of another shape or format, or not finite.
    pub fn load(config: &Config, files: &ModelFiles) -> Result<Self> {
        let mut tensors = load::Tensors::read(files)?;
        let p = Padded::of(config);
        let (h, f, d) = (config.hidden, config.ffn, config.head_dim);
        let (q, kv) = (config.q_heads, config.kv_heads);
        let embed = tensors.take("model.embed_tokens.weight", &[config.vocab_size, h])?;
        let mut layers = Vec::with_capacity(config.layers as usize);
        for i in 0..config.layers {
            let mut take = |name: &str, shape: &[u32]| tensors.take(&format!("model.layers.{i}.{name}.weight"), shape);
            let mut qkv = Matrix::zeros(p.qkv, h);
            qkv.put_head_rows(&take("self_attn.q_proj", &[q * d, h])?, d, p.head, 0);
            qkv.put_head_rows(&take("self_attn.k_proj", &[kv * d, h])?, d, p.head, q * p.head);
            qkv.put_head_rows(&take("self_attn.v_proj", &[kv * d, h])?, d, p.head, (q + kv) * p.head);
            let mut o_proj = Matrix::zeros(h, p.attn);
            o_proj.put_head_cols(&take("self_attn.o_proj", &[h, q * d])?, d, p.head);
            let mut gate_up = Matrix::zeros(2 * p.ffn, h);
            gate_up.put_rows(&take("mlp.gate_proj", &[f, h])?, 0);
            gate_up.put_rows(&take("mlp.up_proj", &[f, h])?, p.ffn);
            layers.push(LayerWeights {
                attn_norm: Matrix::from_plain(1, h, &take("input_layernorm", &[h])?),
                qkv,
                o_proj,
                mlp_norm: Matrix::from_plain(1, h, &take("post_attention_layernorm", &[h])?),
                gate_up,
                down: Matrix::from_plain(h, f, &take("mlp.down_proj", &[h, f])?),
            });
        }
        let final_norm = Matrix::from_plain(1, h, &tensors.take("model.norm.weight", &[h])?);
        let head = "lm_head.weight";
        let lm_head = if config.tied {
            tensors.drop_copy_of(head, &embed);
            None
        } else {
            Some(Matrix::from_plain(config.vocab_size, h, &tensors.take(head, &[config.vocab_size, h])?))
        };
        let source_formats = tensors.finish()?;
        let embed = Matrix::from_plain(config.vocab_size, h, &embed);
        Ok(Self { embed, layers, final_norm, lm_head, source_formats })
    }

    /// The matrix of the LM head: its own, or the embedding table when tied.
    pub fn head(&self) -> &Matrix {
        self.lm_head.as_ref().unwrap_or(&self.embed)
    }
}
