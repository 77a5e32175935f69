//! The online softmax of one query tile: running maximum, running sums and unnormalised output, in `mma` fragments.

use ptx::builder::{F32, KernelBuilder, P, R32, R64};

use super::tiles::KvTiles;
use super::{AttentionSpec, Job, KV_TILE, LanePlace, TwoRows, scale_log2e};

/// Key tiles of 8 in a KV tile.
const KEY_TILES: usize = (KV_TILE / 8) as usize;
/// Scores of a KV tile, then probabilities: by key tile.
type Scores = [[F32; 4]; KEY_TILES];

/// What a lane keeps of its two rows.
pub(super) struct State {
    place: LanePlace,
    /// Query fragments, one for each 16-block of the head.
    q: Vec<[R32; 4]>,
    /// Running maximum and this lane's partial sum.
    m: TwoRows,
    l: TwoRows,
    /// Unnormalised output: column tiles of 8.
    o: Vec<[F32; 4]>,
    /// What scores are summed from.
    zero: F32,
}

impl State {
    pub(super) fn new(spec: &AttentionSpec, k: &mut KernelBuilder, job: &Job, lane: R32, q: R64) -> Self {
        let place = LanePlace { g: k.shr_u32(lane, 2), t: k.and_b32(lane, 3) };
        let row = k.add_u32(job.first_row, place.g);
        let at = spec.row_address(k, q, row, job.head, spec.head_pad * 2);
        let at = k.mad_wide_u32(place.t, 4, at);
        let down = i64::from(8 * spec.q_heads * spec.head_pad * 2);
        let fragments: Vec<[R32; 4]> = (0..spec.blocks()).map(|_| std::array::from_fn(|_| k.mov_b32(0))).collect();
        for (half, exists) in [rows_exist(k, job, place, 0), rows_exist(k, job, place, 8)].into_iter().enumerate() {
            k.with_guard(exists, |k| {
                for (block, fragment) in fragments.iter().enumerate() {
                    let offset = half as i64 * down + 32 * block as i64;
                    k.ld_global_into(fragment[half], at, offset);
                    k.ld_global_into(fragment[half + 2], at, offset + 16);
                }
            });
        }
        Self {
            place,
            q: fragments,
            m: [k.mov_f32(f32::NEG_INFINITY), k.mov_f32(f32::NEG_INFINITY)],
            l: [k.mov_f32(0.0), k.mov_f32(0.0)],
            o: (0..2 * spec.blocks()).map(|_| std::array::from_fn(|_| k.mov_f32(0.0))).collect(),
            zero: k.mov_f32(0.0),
        }
    }

    /// Takes in the KV tile in use. `edge`: its number, when some row does not see all of it.
    pub(super) fn advance(
        &self,
        spec: &AttentionSpec,
        k: &mut KernelBuilder,
        job: &Job,
        kv: &KvTiles,
        edge: Option<R32>,
    ) {
        let s = self.scores(k, kv);
        let live = edge.map(|tile| self.mask(k, job, tile, &s));
        let c = scale_log2e(spec.head_dim);
        let scale = [0, 1].map(|half| self.probabilities(k, half, c, &s, live.map(|live| live[half])));
        self.accumulate(k, kv, scale, &s, live);
    }

    /// `S = q . k`, from `+0`.
    fn scores(&self, k: &mut KernelBuilder, kv: &KvTiles) -> Scores {
        let mut s = [[self.zero; 4]; KEY_TILES];
        for (block, &q) in self.q.iter().enumerate() {
            for half in 0..KEY_TILES / 2 {
                let keys = kv.keys(k, half, block);
                for (tile, b) in [(2 * half, [keys[0], keys[2]]), (2 * half + 1, [keys[1], keys[3]])] {
                    if block == 0 {
                        s[tile] = k.mma_m16n8k16_bf16(q, b, s[tile]);
                    } else {
                        k.mma_m16n8k16_bf16_into(s[tile], q, b);
                    }
                }
            }
        }
        s
    }

    /// Scores of keys after the row become `-inf`. Returns which of the two rows see any key of the tile.
    fn mask(&self, k: &mut KernelBuilder, job: &Job, tile: R32, s: &Scores) -> [P; 2] {
        let first_key = k.mul_lo_u32(tile, KV_TILE);
        let position = k.add_u32(job.start, self.place.g);
        let ahead = k.sub_u32(position, first_key);
        let ahead = [ahead, k.add_u32(ahead, 8)];
        let live = ahead.map(|ahead| k.setp_ge_s32(ahead, 0));
        // How far the row sees, from the lane's first column.
        let columns = k.mul_lo_u32(self.place.t, 2);
        let reach = ahead.map(|ahead| k.sub_s32(ahead, columns));
        for (n, s) in s.iter().enumerate() {
            for (i, &s) in s.iter().enumerate() {
                let seen = k.setp_ge_s32(reach[i / 2], 8 * n as u32 + i as u32 % 2);
                k.selp_f32_into(s, s, f32::NEG_INFINITY, seen);
            }
        }
        live
    }

    /// Updates `m` and `l` of one row and turns its scores into probabilities; returns the factor of the old output. A row that is
    /// not live keeps `m` and `l`; for it the maximum 0 and the factor 1 stand in, so that nothing overflows in vain.
    fn probabilities(&self, k: &mut KernelBuilder, half: usize, c: f32, s: &Scores, live: Option<P>) -> F32 {
        let row: Vec<F32> = s.iter().flat_map(|s| [s[2 * half], s[2 * half + 1]]).collect();
        let (m, l) = (self.m[half], self.l[half]);
        let top = k.max_f32(m, row[0]);
        for &s in &row[1..] {
            k.max_f32_into(top, top, s);
        }
        for distance in [1u32, 2] {
            let other = k.shfl_bfly(top, distance);
            k.max_f32_into(top, top, other);
        }
        if let Some(live) = live {
            k.selp_f32_into(top, top, 0.0, live);
        }
        let fall = k.sub_rn(m, top);
        let fall = k.mul_rn(fall, c);
        if let Some(live) = live {
            k.selp_f32_into(fall, fall, 0.0, live);
        }
        let scale = k.ex2_approx_ftz(fall);
        // Multiplying with -c gives the negative of the product with c: rounding to nearest is symmetric.
        let shift = k.mul_rn(top, -c);
        for &s in &row {
            k.fma_rn_into(s, s, c, shift);
            k.ex2_approx_ftz_into(s, s);
        }
        let sum = k.fma_rn(l, scale, row[0]);
        for &p in &row[1..] {
            k.add_rn_into(sum, sum, p);
        }
        match live {
            Some(live) => {
                k.selp_f32_into(m, top, m, live);
                k.selp_f32_into(l, sum, l, live);
            }
            None => {
                k.set(m, top);
                k.set(l, sum);
            }
        }
        scale
    }

    /// `O = O * scale + bf16(P) . v`, the product chained onto the scaled output.
    fn accumulate(&self, k: &mut KernelBuilder, kv: &KvTiles, scale: TwoRows, s: &Scores, live: Option<[P; 2]>) {
        let scaled = |k: &mut KernelBuilder, o: &[F32; 4]| {
            let to = if live.is_some() { k.fresh_array() } else { *o };
            for i in 0..4 {
                k.mul_rn_into(to[i], o[i], scale[i / 2]);
            }
            to
        };
        let o: Vec<[F32; 4]> = self.o.iter().map(|o| scaled(k, o)).collect();
        for half in 0..KEY_TILES / 2 {
            let (left, right) = (s[2 * half], s[2 * half + 1]);
            let p = [[left[0], left[1]], [left[2], left[3]], [right[0], right[1]], [right[2], right[3]]]
                .map(|[lo, hi]| k.cvt_rn_bf16x2_f32(hi, lo));
            for (block, pair) in o.chunks_exact(2).enumerate() {
                let values = kv.values(k, half, block);
                k.mma_m16n8k16_bf16_into(pair[0], p, [values[0], values[1]]);
                k.mma_m16n8k16_bf16_into(pair[1], p, [values[2], values[3]]);
            }
        }
        if let Some(live) = live {
            for (kept, new) in self.o.iter().zip(&o) {
                for i in 0..4 {
                    k.selp_f32_into(kept[i], new[i], kept[i], live[i / 2]);
                }
            }
        }
    }

    /// Normalised output, bf16.
    pub(super) fn store(&self, spec: &AttentionSpec, k: &mut KernelBuilder, job: &Job, out: R64) {
        let row = k.add_u32(job.first_row, self.place.g);
        let at = spec.row_address(k, out, row, job.head, spec.head_pad * 2);
        let at = k.mad_wide_u32(self.place.t, 4, at);
        let down = i64::from(8 * spec.q_heads * spec.head_pad * 2);
        for half in 0..2 {
            let sum = self.full_sum(k, half);
            let inverse = k.rcp_approx_ftz(sum);
            let exists = rows_exist(k, job, self.place, 8 * half as u32);
            for (n, o) in self.o.iter().enumerate() {
                let (lo, hi) = (k.mul_rn(o[2 * half], inverse), k.mul_rn(o[2 * half + 1], inverse));
                let pair = k.cvt_rn_bf16x2_f32(hi, lo);
                let offset = half as i64 * down + 16 * n as i64;
                k.with_guard(exists, |k| k.st_global(at, offset, pair));
            }
        }
    }

    /// Output, maximum and sum as they stand, f32, of this block's split.
    pub(super) fn store_partial(
        &self,
        spec: &AttentionSpec,
        k: &mut KernelBuilder,
        job: &Job,
        rows: R32,
        (o, m, l): (R64, R64, R64),
    ) {
        let split = k.ctaid_z();
        let row = k.add_u32(job.first_row, self.place.g);
        let line = k.mad_lo_u32(split, rows, row);
        let o = spec.row_address(k, o, line, job.head, spec.head_pad * 4);
        let o = k.mad_wide_u32(self.place.t, 8, o);
        let (m, l) = (spec.row_address(k, m, line, job.head, 4), spec.row_address(k, l, line, job.head, 4));
        let down = i64::from(8 * spec.q_heads);
        let first_lane = k.setp_eq_u32(self.place.t, 0);
        for half in 0..2 {
            let sum = self.full_sum(k, half);
            let exists = rows_exist(k, job, self.place, 8 * half as u32);
            let lines = half as i64 * down;
            k.with_guard(exists, |k| {
                for (n, part) in self.o.iter().enumerate() {
                    let offset = lines * i64::from(spec.head_pad * 4) + 32 * n as i64;
                    k.st_global_v(o, offset, [part[2 * half], part[2 * half + 1]]);
                }
            });
            let writes = k.and_pred(exists, first_lane);
            k.with_guard(writes, |k| {
                k.st_global(m, lines * 4, self.m[half]);
                k.st_global(l, lines * 4, sum);
            });
        }
    }

    /// `(l0 + l2) + (l1 + l3)`, the same in the four lanes of a row.
    fn full_sum(&self, k: &mut KernelBuilder, half: usize) -> F32 {
        let other = k.shfl_bfly(self.l[half], 2u32);
        let sum = k.add_rn(self.l[half], other);
        let other = k.shfl_bfly(sum, 1u32);
        k.add_rn(sum, other)
    }
}

/// Whether the lane's row `g + down` is one of the tile's.
fn rows_exist(k: &mut KernelBuilder, job: &Job, place: LanePlace, down: u32) -> P {
    let row = k.add_u32(place.g, down);
    k.setp_lt_u32(row, job.count)
}
