//! A Llama forward pass in straight f64 loops: shares nothing with the kernels but the weights' values.
//!
//! Each operation is a function of its inputs, so that it can be compared alone, on the inputs that the device had, or chained
//! into a whole forward pass.

use engine::Model;
use engine::weights::Matrix;
use half::bf16;

/// A matrix of true size.
pub struct Dense {
    pub rows: usize,
    pub cols: usize,
    pub values: Vec<f64>,
}

impl Dense {
    /// The rows `keep` and columns `keep_cols` of a padded matrix.
    fn select(m: &Matrix, rows: &[usize], cols: &[usize]) -> Dense {
        let at = |r: usize, c: usize| bf16::from_bits(m.bits[r * m.cols_pad as usize + c]).to_f64();
        let values = rows.iter().flat_map(|r| cols.iter().map(move |c| at(*r, *c))).collect();
        Dense { rows: rows.len(), cols: cols.len(), values }
    }

    /// `x W^T` for rows `x` of width `cols`.
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        let mut y = Vec::new();
        for row in x.chunks_exact(self.cols) {
            for w in self.values.chunks_exact(self.cols) {
                let mut sum = 0.0;
                for (a, b) in row.iter().zip(w) {
                    sum += a * b;
                }
                y.push(sum);
            }
        }
        y
    }
}

pub struct Layer {
    pub attn_norm: Vec<f64>,
    pub qkv: Dense,
    pub o_proj: Dense,
    pub mlp_norm: Vec<f64>,
    pub gate_up: Dense,
    pub down: Dense,
}

pub struct Reference {
    pub embed: Dense,
    pub layers: Vec<Layer>,
    pub final_norm: Vec<f64>,
    pub head: Dense,
    q_heads: usize,
    kv_heads: usize,
    dim: usize,
    theta: f64,
    eps: f64,
}

/// Indices of the true rows among heads padded from `dim` to `pad`.
fn heads(count: usize, dim: usize, pad: usize) -> Vec<usize> {
    (0..count).flat_map(|h| (0..dim).map(move |d| h * pad + d)).collect()
}

impl Reference {
    pub fn new(model: &Model) -> Reference {
        let (c, w) = (&model.config, &model.weights);
        let (hidden, ffn, dim) = (c.hidden as usize, c.ffn as usize, c.head_dim as usize);
        let (q, kv, pad) = (c.q_heads as usize, c.kv_heads as usize, dim.next_multiple_of(16));
        let all = |n: usize| (0..n).collect::<Vec<_>>();
        let vector = |m: &Matrix| Dense::select(m, &[0], &all(hidden)).values;
        let gate_up: Vec<usize> = (0..ffn).chain((0..ffn).map(|i| ffn.next_multiple_of(16) + i)).collect();
        let layers = w.layers.iter().map(|l| Layer {
            attn_norm: vector(&l.attn_norm),
            qkv: Dense::select(&l.qkv, &heads(q + 2 * kv, dim, pad), &all(hidden)),
            o_proj: Dense::select(&l.o_proj, &all(hidden), &heads(q, dim, pad)),
            mlp_norm: vector(&l.mlp_norm),
            gate_up: Dense::select(&l.gate_up, &gate_up, &all(hidden)),
            down: Dense::select(&l.down, &all(hidden), &all(ffn)),
        });
        Reference {
            embed: Dense::select(&w.embed, &all(c.vocab_size as usize), &all(hidden)),
            layers: layers.collect(),
            final_norm: vector(&w.final_norm),
            head: Dense::select(w.head(), &all(c.vocab_size as usize), &all(hidden)),
            q_heads: q,
            kv_heads: kv,
            dim,
            theta: c.rope_theta,
            eps: f64::from(c.rms_eps),
        }
    }

    pub fn embed(&self, tokens: &[u32]) -> Vec<f64> {
        let width = self.embed.cols;
        tokens.iter().flat_map(|t| self.embed.values[*t as usize * width..][..width].to_vec()).collect()
    }

    pub fn norm(&self, x: &[f64], w: &[f64]) -> Vec<f64> {
        let mut y = Vec::new();
        for row in x.chunks_exact(w.len()) {
            let mean = row.iter().map(|v| v * v).sum::<f64>() / w.len() as f64;
            let r = 1.0 / (mean + self.eps).sqrt();
            y.extend(row.iter().zip(w).map(|(v, w)| v * r * w));
        }
        y
    }

    /// q, k and v out of the fused projection's rows; q and k rotated, row `i` at position `i`.
    pub fn split_and_rotate(&self, qkv: &[f64]) -> [Vec<f64>; 3] {
        let (q, kv) = (self.q_heads * self.dim, self.kv_heads * self.dim);
        let mut out = [Vec::new(), Vec::new(), Vec::new()];
        for (position, row) in qkv.chunks_exact(q + 2 * kv).enumerate() {
            out[0].extend(self.rotate(&row[..q], position));
            out[1].extend(self.rotate(&row[q..q + kv], position));
            out[2].extend(&row[q + kv..]);
        }
        out
    }

    fn rotate(&self, row: &[f64], position: usize) -> Vec<f64> {
        let half = self.dim / 2;
        let mut out = row.to_vec();
        for head in out.chunks_exact_mut(self.dim) {
            for i in 0..half {
                let angle = position as f64 * libm::pow(self.theta, -2.0 * i as f64 / self.dim as f64);
                let (s, c) = (libm::sin(angle), libm::cos(angle));
                let (a, b) = (head[i], head[i + half]);
                head[i] = a * c - b * s;
                head[i + half] = b * c + a * s;
            }
        }
        out
    }

    /// Causal attention, row `i` at position `i`.
    pub fn attention(&self, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
        let (qw, kw, d) = (self.q_heads * self.dim, self.kv_heads * self.dim, self.dim);
        let mut out = Vec::new();
        for (position, row) in q.chunks_exact(qw).enumerate() {
            for (head, q) in row.chunks_exact(d).enumerate() {
                let kv = head / (self.q_heads / self.kv_heads) * d;
                let column = |x: &'_ [f64], p: usize| x[p * kw + kv..][..d].to_vec();
                let score = |p: usize| column(k, p).iter().zip(q).map(|(a, b)| a * b).sum::<f64>() / (d as f64).sqrt();
                let scores: Vec<f64> = (0..=position).map(score).collect();
                let max = scores.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
                let weights: Vec<f64> = scores.iter().map(|s| libm::exp(s - max)).collect();
                let total: f64 = weights.iter().sum();
                for i in 0..d {
                    let sum: f64 = weights.iter().enumerate().map(|(p, w)| w * column(v, p)[i]).sum();
                    out.push(sum / total);
                }
            }
        }
        out
    }

    pub fn silu_mul(&self, gate_up: &[f64]) -> Vec<f64> {
        let ffn = self.layers[0].down.cols;
        let silu = |g: f64| g / (1.0 + libm::exp(-g));
        gate_up
            .chunks_exact(2 * ffn)
            .flat_map(|r| (0..ffn).map(|i| silu(r[i]) * r[ffn + i]).collect::<Vec<_>>())
            .collect()
    }

    /// Logits of every row of one sequence.
    pub fn forward(&self, tokens: &[u32]) -> Vec<f64> {
        let add = |a: Vec<f64>, b: Vec<f64>| -> Vec<f64> { a.iter().zip(&b).map(|(a, b)| a + b).collect() };
        let mut x = self.embed(tokens);
        for l in &self.layers {
            let [q, k, v] = self.split_and_rotate(&l.qkv.apply(&self.norm(&x, &l.attn_norm)));
            let attended = l.o_proj.apply(&self.attention(&q, &k, &v));
            x = add(x, attended);
            let fed = l.down.apply(&self.silu_mul(&l.gate_up.apply(&self.norm(&x, &l.mlp_norm))));
            x = add(x, fed);
        }
        self.head.apply(&self.norm(&x, &self.final_norm))
    }
}
