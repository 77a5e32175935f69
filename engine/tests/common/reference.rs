//! A forward pass in straight f64 loops: shares nothing with the kernels but the weights' values.
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
    /// Laid out like the rows of `qkv`; zeros where the family has none.
    pub qkv_bias: Vec<f64>,
    /// Weights of the norms of q and k heads, where the family has them.
    pub head_norms: Option<[Vec<f64>; 2]>,
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
    /// Radians a position, one a pair of dimensions.
    pub frequencies: Vec<f64>,
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
            qkv_bias: match &l.qkv_bias {
                Some(b) => Dense::select(b, &[0], &heads(q + 2 * kv, dim, pad)).values,
                None => vec![0.0; (q + 2 * kv) * dim],
            },
            head_norms: l
                .q_norm
                .as_ref()
                .zip(l.k_norm.as_ref())
                .map(|(q, k)| [q, k].map(|m| Dense::select(m, &[0], &all(dim)).values)),
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
            // Scaled frequencies are put in their place by the test that has them from elsewhere.
            frequencies: (0..dim / 2).map(|i| libm::pow(c.rope_theta, -2.0 * i as f64 / dim as f64)).collect(),
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

    /// The fused projection with its bias.
    pub fn project(&self, layer: &Layer, x: &[f64]) -> Vec<f64> {
        let y = layer.qkv.apply(x);
        y.iter().zip(layer.qkv_bias.iter().cycle()).map(|(y, b)| y + b).collect()
    }

    /// q, k and v out of the fused projection's rows; q and k normalised where the family does, and rotated, row `i` at position `i`.
    pub fn split_and_rotate(&self, layer: &Layer, qkv: &[f64]) -> [Vec<f64>; 3] {
        let (q, kv) = (self.q_heads * self.dim, self.kv_heads * self.dim);
        let mut out = [Vec::new(), Vec::new(), Vec::new()];
        for (position, row) in qkv.chunks_exact(q + 2 * kv).enumerate() {
            let normed = |row: &[f64], which: usize| match &layer.head_norms {
                Some(weights) => self.norm(row, &weights[which]),
                None => row.to_vec(),
            };
            out[0].extend(self.rotate(&normed(&row[..q], 0), position));
            out[1].extend(self.rotate(&normed(&row[q..q + kv], 1), position));
            out[2].extend(&row[q + kv..]);
        }
        out
    }

    fn rotate(&self, row: &[f64], position: usize) -> Vec<f64> {
        let half = self.dim / 2;
        let mut out = row.to_vec();
        for head in out.chunks_exact_mut(self.dim) {
            for i in 0..half {
                let angle = position as f64 * self.frequencies[i];
                let (s, c) = (libm::sin(angle), libm::cos(angle));
                let (a, b) = (head[i], head[i + half]);
                head[i] = a * c - b * s;
                head[i + half] = b * c + a * s;
            }
        }
        out
    }

    /// Length of the pair that each dimension is rotated with.
    pub fn pair_sizes(&self, rotated: &[f64]) -> Vec<f64> {
        let half = self.dim / 2;
        let pair = |head: &[f64], i: usize| {
            (head[i % half] * head[i % half] + head[i % half + half] * head[i % half + half]).sqrt()
        };
        rotated
            .chunks_exact(self.dim)
            .flat_map(|head| (0..self.dim).map(|i| pair(head, i)).collect::<Vec<_>>())
            .collect()
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
            let [q, k, v] = self.split_and_rotate(l, &self.project(l, &self.norm(&x, &l.attn_norm)));
            let attended = l.o_proj.apply(&self.attention(&q, &k, &v));
            x = add(x, attended);
            let fed = l.down.apply(&self.silu_mul(&l.gate_up.apply(&self.norm(&x, &l.mlp_norm))));
            x = add(x, fed);
        }
        self.head.apply(&self.norm(&x, &self.final_norm))
    }
}
