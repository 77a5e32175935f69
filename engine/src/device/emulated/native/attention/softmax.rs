//! The online softmax of a query tile's rows for the query heads of one key/value head.
//!
//! Operations and their order are those that [`AttentionSpec`] states; 32 values are computed at a time, in whatever grouping.

use emulator::format::Elem;
use emulator::gemm::{Gemm, Rows, Weights, Workspace};
use emulator::simd::Warp;

use super::plan::{Outputs, Plan, QueryTile};
use super::tiles::KvTile;
use crate::device::emulated::native::warp::{LANES, NOTHING, Units, warp};
use crate::kernels::{AttentionSpec, KV_TILE, scale_log2e};

const NEG_INFINITY: u32 = 0xff80_0000;
const ONE: u32 = 0x3f80_0000;
/// Partial sums of a row: column `j` of a KV tile belongs to sum `(j mod 8) / 2`.
const SUMS: usize = 4;

const _: () = assert!(KV_TILE as usize == LANES, "a row of scores is a warp");

/// The state of `rows = count * group` rows, those of one position together.
pub(super) struct Softmax<'a> {
    units: Units,
    product: Gemm,
    space: Workspace,
    tile: &'a QueryTile,
    /// Query heads of the key/value head.
    group: usize,
    width: usize,
    /// bf16 `(rows, head_pad)`, and packed.
    queries: Vec<u16>,
    packed: Rows,
    /// `log2(e) / sqrt(head_dim)`, and its negative.
    scale: Warp,
    negative: Warp,
    /// Running maximum, partial sums and unnormalised output, f32 `(rows, head_pad)`.
    m: Vec<u32>,
    l: Vec<[u32; SUMS]>,
    o: Vec<u32>,
}

impl<'a> Softmax<'a> {
    pub fn new(spec: &AttentionSpec, units: Units, product: Gemm, tile: &'a QueryTile, queries: Vec<u16>) -> Self {
        let group = (spec.q_heads / spec.kv_heads) as usize;
        let (rows, width) = (tile.count as usize * group, spec.head_pad as usize);
        let scale = scale_log2e(spec.head_dim);
        Self {
            units,
            product,
            space: Workspace::default(),
            tile,
            group,
            width,
            packed: packed(rows, width, &queries),
            queries,
            scale: [scale.to_bits(); LANES],
            negative: [(-scale).to_bits(); LANES],
            m: vec![NEG_INFINITY; rows],
            l: vec![[0; SUMS]; rows],
            o: vec![0; rows * width],
        }
    }

    /// Takes in KV tile number `kv_tile`.
    pub fn advance(&mut self, kv_tile: u32, kv: &KvTile) {
        let first_key = kv_tile * KV_TILE;
        // Rows before the tile see nothing of it and keep what they have; positions ascend, so they come first.
        let unseeing = first_key.saturating_sub(self.tile.start).min(self.tile.count) as usize;
        let from = unseeing * self.group;
        let mut scores = self.scores(from, kv);
        self.mask(unseeing, first_key, &mut scores);
        let factors = self.probabilities(from, &mut scores);
        self.accumulate(from, &scores, &factors, kv);
    }

    /// `S = q . k` of the rows from `from` on.
    fn scores(&mut self, from: usize, kv: &KvTile) -> Vec<Warp> {
        let rows = self.m.len() - from;
        let mut s = vec![0; rows * LANES];
        let part;
        let queries = if from == 0 {
            &self.packed
        } else {
            part = packed(rows, self.width, &self.queries[from * self.width..]);
            &part
        };
        multiply(self.product, &mut self.space, queries, &kv.keys, &mut s);
        s.as_chunks().0.to_vec()
    }

    /// Scores of keys after their row become `-inf`.
    fn mask(&self, unseeing: usize, first_key: u32, scores: &mut [Warp]) {
        for (row, scores) in (unseeing * self.group..).zip(scores) {
            let position = self.tile.start + (row / self.group) as u32;
            let seen = (position + 1 - first_key).min(KV_TILE) as usize;
            scores[seen..].fill(NEG_INFINITY);
        }
    }

    /// Updates `m` and `l` of the rows from `from` on and turns their scores into probabilities; what the old outputs are multiplied with.
    fn probabilities(&mut self, from: usize, scores: &mut [Warp]) -> Vec<u32> {
        let units = self.units;
        let mut factors = Vec::with_capacity(scores.len());
        for (first, scores) in (from..).step_by(LANES).zip(scores.chunks_mut(LANES)) {
            let rows = first..first + scores.len();
            let (mut m, mut top) = (NOTHING, NOTHING);
            m[..rows.len()].copy_from_slice(&self.m[rows.clone()]);
            for (top, scores) in top.iter_mut().zip(&*scores) {
                *top = units.largest(*scores);
            }
            let top = units.max(&m, &top);
            let factor = units.ex2(&units.mul(&units.sub(&m, &top), &self.scale));
            let shift = units.mul(&top, &self.negative);
            for (scores, shift) in scores.iter_mut().zip(shift) {
                *scores = units.ex2(&units.fma(scores, &self.scale, &[shift; LANES]));
            }
            self.m[rows.clone()].copy_from_slice(&top[..rows.len()]);
            factors.extend(&factor[..rows.len()]);
            for (i, (sums, scores)) in self.l[rows].chunks_mut(TOGETHER).zip(scores.chunks(TOGETHER)).enumerate() {
                add_up(units, sums, scores, &factor[i * TOGETHER..]);
            }
        }
        factors
    }

    /// `O = O * factor + bf16(P) . v` of the rows from `from` on.
    fn accumulate(&mut self, from: usize, probabilities: &[Warp], factors: &[u32], kv: &KvTile) {
        let o = &mut self.o[from * self.width..];
        for (o, &factor) in o.chunks_exact_mut(self.width).zip(factors) {
            // (A product with one changes nothing: a NaN here has no payload.)
            if factor != ONE {
                scale(self.units, o, factor);
            }
        }
        let mut p = Vec::with_capacity(probabilities.len() * LANES);
        for row in probabilities {
            p.extend(self.units.narrow(row).into_iter().flat_map(|pair| [pair as u16, (pair >> 16) as u16]));
        }
        let p = packed(probabilities.len(), LANES, &p);
        multiply(self.product, &mut self.space, &p, &kv.values, o);
    }

    /// Stores what the rows come to.
    pub fn store(self, spec: &AttentionSpec, plan: &Plan<'_>, outputs: Outputs<'_>, split: u32, kv_head: u32) {
        let units = self.units;
        let line = |row: usize| {
            let at = split as usize * plan.rows as usize + self.tile.first_row as usize + row / self.group;
            at * spec.q_heads as usize + kv_head as usize * self.group + row % self.group
        };
        for first in (0..self.m.len()).step_by(LANES) {
            let count = LANES.min(self.m.len() - first);
            let part = |sum: usize| -> Warp {
                std::array::from_fn(|lane| if lane < count { self.l[first + lane][sum] } else { 0 })
            };
            let sums = units.add(&units.add(&part(0), &part(2)), &units.add(&part(1), &part(3)));
            let inverse = units.rcp(&sums);
            for row in first..first + count {
                let mut o = self.o[row * self.width..][..self.width].to_vec();
                match outputs {
                    Outputs::Whole(out) => {
                        scale(units, &mut o, inverse[row - first]);
                        for (i, values) in o.chunks(LANES).enumerate() {
                            let words = units.narrow(&warp(values));
                            out.put((line(row) * self.width + i * LANES) / 2, &words[..values.len() / 2]);
                        }
                    }
                    Outputs::Partial([out, m, l]) => {
                        out.put(line(row) * self.width, &o);
                        m.set(line(row), self.m[row]);
                        l.set(line(row), sums[row - first]);
                    }
                }
            }
        }
    }
}

/// Rows whose partial sums are one warp.
const TOGETHER: usize = LANES / SUMS;

/// The partial sums of up to eight rows: `l = fma(l, factor, P[first column])`, then each further column added, ascending.
fn add_up(units: Units, sums: &mut [[u32; SUMS]], probabilities: &[Warp], factors: &[u32]) {
    let each = |of: &dyn Fn(usize, usize) -> u32| -> Warp {
        std::array::from_fn(|lane| if lane / SUMS < sums.len() { of(lane / SUMS, lane % SUMS) } else { 0 })
    };
    let column = |i: usize| each(&|row, sum| probabilities[row][8 * (i / 2) + 2 * sum + i % 2]);
    let mut total = units.fma(&each(&|row, sum| sums[row][sum]), &each(&|row, _| factors[row]), &column(0));
    for i in 1..LANES / SUMS {
        total = units.add(&total, &column(i));
    }
    for (sums, total) in sums.iter_mut().zip(total.as_chunks().0) {
        *sums = *total;
    }
}

/// `o = o * factor`.
fn scale(units: Units, o: &mut [u32], factor: u32) {
    for values in o.chunks_mut(LANES) {
        let scaled = units.mul(&warp(values), &[factor; LANES]);
        values.copy_from_slice(&scaled[..values.len()]);
    }
}

fn packed(rows: usize, k: usize, data: &[u16]) -> Rows {
    Rows::pack(Elem::Bf16, rows, k, data).expect("bf16, as many as rows and columns say")
}

fn multiply(product: Gemm, space: &mut Workspace, x: &Rows, w: &Weights, d: &mut [u32]) {
    product.accumulate(space, x, w, d).expect("operands of one K, and as many accumulators as their product has");
}
