//! Where each tensor of a checkpoint lies among the engine's matrices. One table serves loading and looking up single weights.

use super::{EMBED, Matrix, Padded, Weights};
use crate::config::Config;

/// A matrix of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Embed,
    FinalNorm,
    LmHead,
    AttnNorm(usize),
    Qkv(usize),
    QkvBias(usize),
    QNorm(usize),
    KNorm(usize),
    OProj(usize),
    MlpNorm(usize),
    GateUp(usize),
    Down(usize),
}

/// Indices that come in heads of `dim`, stored in heads of `pad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heads {
    dim: u32,
    pad: u32,
}

/// One tensor of a checkpoint, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlace {
    /// Name in the files: `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// Rows; 1 for a vector.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// Stored with one dimension in the files.
    pub vector: bool,
    target: Target,
    first_row: u32,
    first_col: u32,
    row_heads: Option<Heads>,
    col_heads: Option<Heads>,
}

fn spread(heads: Option<Heads>, n: u32) -> u32 {
    heads.map_or(n, |h| n / h.dim * h.pad + n % h.dim)
}

impl TensorPlace {
    fn matrix(name: String, rows: u32, cols: u32, target: Target) -> Self {
        Self { name, rows, cols, vector: false, target, first_row: 0, first_col: 0, row_heads: None, col_heads: None }
    }

    fn vector(name: String, cols: u32, target: Target) -> Self {
        Self { vector: true, ..Self::matrix(name, 1, cols, target) }
    }

    fn at_row(self, first_row: u32) -> Self {
        Self { first_row, ..self }
    }

    /// Shape in the files.
    pub fn shape(&self) -> Vec<usize> {
        if self.vector { vec![self.cols as usize] } else { vec![self.rows as usize, self.cols as usize] }
    }

    /// Flat index within the engine's matrix, whose rows are `cols_pad` wide.
    fn index(&self, row: u32, col: u32, cols_pad: u32) -> usize {
        let row = self.first_row + spread(self.row_heads, row);
        row as usize * cols_pad as usize + (self.first_col + spread(self.col_heads, col)) as usize
    }
}

/// All tensors of a configuration, in the order in which the engine uses them. A tied LM head is not among them.
pub fn places(config: &Config) -> Vec<TensorPlace> {
    use TensorPlace as P;
    let p = Padded::of(config);
    let (h, f, d, v) = (config.hidden, config.ffn, config.head_dim, config.vocab_size);
    let (q, kv) = (config.q_heads, config.kv_heads);
    let heads = Some(Heads { dim: d, pad: p.head });
    let mut all = vec![P::matrix(EMBED.into(), v, h, Target::Embed)];
    for i in 0..config.layers as usize {
        let name = |part: &str| format!("model.layers.{i}.{part}.weight");
        let head = |part: &str, count: u32, first: u32| P {
            row_heads: heads,
            ..P::matrix(name(part), count * d, h, Target::Qkv(i)).at_row(first * p.head)
        };
        all.extend([
            P::vector(name("input_layernorm"), h, Target::AttnNorm(i)),
            head("self_attn.q_proj", q, 0),
            head("self_attn.k_proj", kv, q),
            head("self_attn.v_proj", kv, q + kv),
        ]);
        if config.architecture.qkv_bias() {
            let bias = |part: &str, count: u32, first: u32| P {
                first_col: first * p.head,
                col_heads: heads,
                ..P::vector(format!("model.layers.{i}.self_attn.{part}.bias"), count * d, Target::QkvBias(i))
            };
            all.extend([bias("q_proj", q, 0), bias("k_proj", kv, q), bias("v_proj", kv, q + kv)]);
        }
        if config.architecture.qk_norm() {
            all.push(P::vector(name("self_attn.q_norm"), d, Target::QNorm(i)));
            all.push(P::vector(name("self_attn.k_norm"), d, Target::KNorm(i)));
        }
        all.extend([
            P { col_heads: heads, ..P::matrix(name("self_attn.o_proj"), h, q * d, Target::OProj(i)) },
            P::vector(name("post_attention_layernorm"), h, Target::MlpNorm(i)),
            P::matrix(name("mlp.gate_proj"), f, h, Target::GateUp(i)),
            P::matrix(name("mlp.up_proj"), f, h, Target::GateUp(i)).at_row(p.ffn),
            P::matrix(name("mlp.down_proj"), h, f, Target::Down(i)),
        ]);
    }
    all.push(P::vector("model.norm.weight".into(), h, Target::FinalNorm));
    if !config.tied {
        all.push(P::matrix("lm_head.weight".into(), v, h, Target::LmHead));
    }
    all
}

impl Weights {
    fn matrix_mut(&mut self, target: Target) -> Option<&mut Matrix> {
        match target {
            Target::Embed => Some(&mut self.embed),
            Target::FinalNorm => Some(&mut self.final_norm),
            Target::LmHead => self.lm_head.as_mut(),
            Target::AttnNorm(i) => self.layers.get_mut(i).map(|l| &mut l.attn_norm),
            Target::Qkv(i) => self.layers.get_mut(i).map(|l| &mut l.qkv),
            Target::QkvBias(i) => self.layers.get_mut(i).and_then(|l| l.qkv_bias.as_mut()),
            Target::QNorm(i) => self.layers.get_mut(i).and_then(|l| l.q_norm.as_mut()),
            Target::KNorm(i) => self.layers.get_mut(i).and_then(|l| l.k_norm.as_mut()),
            Target::OProj(i) => self.layers.get_mut(i).map(|l| &mut l.o_proj),
            Target::MlpNorm(i) => self.layers.get_mut(i).map(|l| &mut l.mlp_norm),
            Target::GateUp(i) => self.layers.get_mut(i).map(|l| &mut l.gate_up),
            Target::Down(i) => self.layers.get_mut(i).map(|l| &mut l.down),
        }
    }

    fn matrix(&self, target: Target) -> Option<&Matrix> {
        match target {
            Target::Embed => Some(&self.embed),
            Target::FinalNorm => Some(&self.final_norm),
            Target::LmHead => self.lm_head.as_ref(),
            Target::AttnNorm(i) => self.layers.get(i).map(|l| &l.attn_norm),
            Target::Qkv(i) => self.layers.get(i).map(|l| &l.qkv),
            Target::QkvBias(i) => self.layers.get(i).and_then(|l| l.qkv_bias.as_ref()),
            Target::QNorm(i) => self.layers.get(i).and_then(|l| l.q_norm.as_ref()),
            Target::KNorm(i) => self.layers.get(i).and_then(|l| l.k_norm.as_ref()),
            Target::OProj(i) => self.layers.get(i).map(|l| &l.o_proj),
            Target::MlpNorm(i) => self.layers.get(i).map(|l| &l.mlp_norm),
            Target::GateUp(i) => self.layers.get(i).map(|l| &l.gate_up),
            Target::Down(i) => self.layers.get(i).map(|l| &l.down),
        }
    }

    /// The bf16 bits of one weight; none outside the tensor.
    pub fn element(&self, place: &TensorPlace, row: u32, col: u32) -> Option<u16> {
        if row >= place.rows || col >= place.cols {
            return None;
        }
        let matrix = self.matrix(place.target)?;
        matrix.bits.get(place.index(row, col, matrix.cols_pad)).copied()
    }

    /// The bf16 bits of one weight, to be read or changed in place; none outside the tensor.
    pub fn element_mut(&mut self, place: &TensorPlace, row: u32, col: u32) -> Option<&mut u16> {
        if row >= place.rows || col >= place.cols {
            return None;
        }
        let matrix = self.matrix_mut(place.target)?;
        let index = place.index(row, col, matrix.cols_pad);
        matrix.bits.get_mut(index)
    }

    /// Puts a tensor's bits, row-major, in their place.
    pub(super) fn put(&mut self, place: &TensorPlace, bits: &[u16]) {
        for (row, source) in (0..).zip(bits.chunks_exact(place.cols as usize)) {
            self.put_row(place, row, source);
        }
    }

    /// Puts one row of a tensor in its place.
    pub(super) fn put_row(&mut self, place: &TensorPlace, row: u32, source: &[u16]) {
        let Some(matrix) = self.matrix_mut(place.target) else { return };
        // Columns are contiguous within a head, and altogether where there are no heads.
        let run = place.col_heads.map_or(place.cols, |h| h.dim);
        for (first, part) in (0..).step_by(run as usize).zip(source.chunks(run as usize)) {
            let at = place.index(row, first, matrix.cols_pad);
            matrix.bits[at..at + part.len()].copy_from_slice(part);
        }
    }

    /// A tensor's bits, row-major.
    pub fn tensor(&mut self, place: &TensorPlace) -> Vec<u16> {
        let all = (0..place.rows).flat_map(|row| (0..place.cols).map(move |col| (row, col)));
        all.filter_map(|(row, col)| self.element_mut(place, row, col).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_weights_share_a_place() {
        for architecture in crate::config::Architecture::ALL {
            no_two_weights_share_a_place_of(architecture);
        }
    }

    fn no_two_weights_share_a_place_of(architecture: crate::config::Architecture) {
        let mut config = crate::model::embedded().unwrap().config;
        config.architecture = architecture;
        (config.head_dim, config.q_heads, config.kv_heads, config.hidden, config.ffn) = (8, 4, 2, 24, 20);
        (config.vocab_size, config.layers, config.tied) = (5, 2, false);
        let mut weights = Weights::zeros(&config);
        let mut count = 0usize;
        for place in places(&config) {
            for row in 0..place.rows {
                for col in 0..place.cols {
                    let bits = weights.element_mut(&place, row, col).unwrap();
                    assert_eq!(*bits, 0, "{} ({row}, {col}) is somebody else's", place.name);
                    *bits = 1;
                    assert_eq!(weights.element(&place, row, col), Some(1));
                    count += 1;
                }
            }
            assert!(weights.element_mut(&place, place.rows, 0).is_none());
            assert!(weights.element_mut(&place, 0, place.cols).is_none());
        }
        assert_eq!(count as u64, config.parameters());
    }

    #[test]
    fn heads_are_padded_one_by_one() {
        let mut config = crate::model::embedded().unwrap().config;
        (config.head_dim, config.q_heads, config.kv_heads, config.hidden) = (8, 2, 1, 16);
        let mut weights = Weights::zeros(&config);
        let place = |name: &str| places(&config).into_iter().find(|p| p.name.contains(name)).unwrap();
        // Second q head, row 1; the k head follows two padded q heads.
        *weights.element_mut(&place("0.self_attn.q_proj"), 9, 3).unwrap() = 5;
        *weights.element_mut(&place("0.self_attn.k_proj"), 0, 1).unwrap() = 6;
        *weights.element_mut(&place("0.self_attn.o_proj"), 2, 9).unwrap() = 7;
        assert_eq!((weights.layers[0].qkv.row(17)[3], weights.layers[0].qkv.row(32)[1]), (5, 6));
        assert_eq!(weights.layers[0].o_proj.row(2)[17], 7);
    }
}
