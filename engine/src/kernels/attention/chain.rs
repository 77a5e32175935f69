//! Attention by fused multiply-adds: one warp a row and head, a lane a key, then a lane a pair of output columns.

use ptx::builder::{F32, KernelBuilder, P, R16, R32, R64};

use super::{KV_TILE, LANES, TILE_WORDS, scale_log2e};
use crate::kernels::cache::{decode2, decode8};
use crate::kernels::emit::{CHUNK, text, widen8};
use crate::kernels::units::exp2;
use crate::kernels::{KernelText, KvType, PAGE};

/// Output columns of a warp's lanes, two each.
const SPAN: u32 = 2 * LANES;

/// Causal attention over the paged cache, online softmax over KV tiles in ascending order, without tensor cores and special functions.
///
/// Arguments: those of [`AttentionSpec`](super::AttentionSpec) with `partial == false`. The grid's third dimension is the rows of the
/// largest query tile.
///
/// # Bits
/// `c = `[`scale_log2e`]; f32, nearest even. `exp2(x)` is `2^(x c)` as [`Units::Ieee`](crate::kernels::Units) kernels compute it. Per row
/// and head, `m = -inf`, 32 partial sums `l = +0`, `O = +0`, then for each KV tile that the row sees any key of, in ascending order, `j`
/// going over the keys of the tile that the row sees:
///
/// ```text
/// S[j] = +0; over head_pad in ascending order: S[j] = fma(q, k[j], S[j])
/// m' = max(m, S[..])
/// a = exp2(m - m')
/// P[j] = exp2(S[j] - m'), and +0 for a key that the row does not see
/// l[j] = fma(l[j], a, P[j])
/// O = O * a;  in ascending order of j: O = fma(P[j], v[j], O)
/// ```
///
/// At the end `L` is the butterfly of `l` over lane distances 16, 8, 4, 2, 1 (`l[j] = l[j] + l[j ^ distance]`), and `out = bf16(div.rn(O, L))`.
///
/// Probabilities stay f32. A row has the same bits whatever rows share its query tile: no other row is looked at, and no key after
/// its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChainAttentionSpec {
    /// Query heads.
    pub q_heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// True head width (sets the scale).
    pub head_dim: u32,
    /// Padded head width.
    pub head_pad: u32,
    /// Element type of both caches; fp8 is widened where it is read.
    pub kv: KvType,
}

/// The row and head of this warp.
struct Place {
    lane: R32,
    /// Row and head: a line of `q` and of the output.
    line: R32,
    kv_head: R32,
    /// The row's position.
    position: R32,
    /// The request's page numbers.
    pages: R64,
}

/// What a lane keeps while the tiles pass.
struct State {
    /// Running maximum, and this lane's partial sum.
    m: F32,
    l: F32,
    /// Output columns, two a span, and where they lie in the first line of the value cache.
    o: Vec<[F32; 2]>,
    v: Vec<R64>,
}

impl ChainAttentionSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let mut k = KernelBuilder::new(match self.kv {
            KvType::Bf16 => "attention_chain",
            KvType::Fp8 => "attention_chain_fp8",
        });
        k.max_ntid(LANES, 1, 1);
        let (q, k_cache, v_cache) = (k.param_ptr("q"), k.param_ptr("k_cache"), k.param_ptr("v_cache"));
        let (tiles, block_tables, out) = (k.param_ptr("tiles"), k.param_ptr("block_tables"), k.param_ptr("out"));
        let (_rows, tile_count, max_pages) = (k.param_u32("rows"), k.param_u32("tile_count"), k.param_u32("max_pages"));
        let place = self.place(&mut k, tiles, tile_count, (block_tables, max_pages));
        let q = k.mad_wide_u32(place.line, self.head_pad * 2, q);
        let q: Vec<[R32; 4]> =
            (0..self.head_pad / CHUNK).map(|chunk| k.ld_global_nc_v(q, i64::from(chunk * 16))).collect();
        let state = State {
            m: k.mov_f32(f32::NEG_INFINITY),
            l: k.mov_f32(0.0),
            o: (0..self.spans()).map(|_| [k.mov_f32(0.0), k.mov_f32(0.0)]).collect(),
            v: (0..self.spans())
                .map(|span| {
                    let (column, _) = self.column(&mut k, &place, span);
                    k.mad_wide_u32(column, self.kv.bytes(), v_cache)
                })
                .collect(),
        };
        let last = k.div_u32(place.position, KV_TILE);
        let end = k.add_u32(last, 1);
        k.for_u32(0u32, end, 1u32, |k, tile| {
            let first = k.mul_lo_u32(tile, KV_TILE);
            let ahead = k.sub_u32(place.position, first);
            let key = self.cache_line(k, &place, first);
            let score = self.score(k, &q, k_cache, key);
            let sees = k.setp_le_u32(place.lane, ahead);
            k.selp_f32_into(score, score, f32::NEG_INFINITY, sees);
            let seen = k.add_u32(ahead, 1);
            let seen = k.min_u32(seen, KV_TILE);
            self.advance(k, &state, (score, key, seen));
        });
        self.store(&mut k, &place, &state, out);
        text(k.finish(), LANES, self.clone())
    }

    /// Blocks of a launch over `tile_count` query tiles of up to `tile_rows` rows.
    #[must_use]
    pub fn grid(&self, tile_count: u32, tile_rows: u32) -> [u32; 3] {
        [tile_count, self.q_heads, tile_rows]
    }

    /// The warp's row; warps without one end here.
    fn place(&self, k: &mut KernelBuilder, tiles: R64, tile_count: R32, (tables, max_pages): (R64, R32)) -> Place {
        let (tile, head, row) = (k.ctaid_x(), k.ctaid_y(), k.ctaid_z());
        let outside = k.setp_ge_u32(tile, tile_count);
        k.ret_if(outside);
        let at = k.mad_wide_u32(tile, TILE_WORDS * 4, tiles);
        let [slot, first_row, count, start]: [R32; 4] = k.ld_global_nc_v(at, 0);
        let outside = k.setp_ge_u32(row, count);
        k.ret_if(outside);
        let table = k.mul_lo_u32(slot, max_pages);
        let pages = k.mad_wide_u32(table, 4, tables);
        let position = k.add_u32(start, row);
        let row = k.add_u32(first_row, row);
        let line = k.mad_lo_u32(row, self.q_heads, head);
        let kv_head = k.div_u32(head, self.q_heads / self.kv_heads);
        Place { lane: k.tid_x(), line, kv_head, position, pages }
    }

    /// The line of the caches that holds this lane's key of the tile whose first position is `first`. Where the row sees no such key, its
    /// last one stands in: it is there, and what is made of it is dropped.
    fn cache_line(&self, k: &mut KernelBuilder, place: &Place, first: R32) -> R32 {
        let key = k.add_u32(first, place.lane);
        let key = k.min_u32(key, place.position);
        let (page, offset) = (k.div_u32(key, PAGE), k.rem_u32(key, PAGE));
        let at = k.mad_wide_u32(page, 4, place.pages);
        let number: R32 = k.ld_global_nc(at, 0);
        let line = k.mad_lo_u32(number, self.kv_heads, place.kv_head);
        k.mad_lo_u32(line, PAGE, offset)
    }

    /// `q . k` of this lane's key.
    fn score(&self, k: &mut KernelBuilder, q: &[[R32; 4]], cache: R64, key: R32) -> F32 {
        let at = k.mad_wide_u32(key, self.head_pad * self.kv.bytes(), cache);
        let score = k.mov_f32(0.0);
        for (chunk, &q) in q.iter().enumerate() {
            let (q, key) = match self.kv {
                KvType::Bf16 => {
                    let key: [R32; 4] = k.ld_global_nc_v(at, 16 * chunk as i64);
                    (widen8(k, q), widen8(k, key))
                }
                KvType::Fp8 => {
                    let key: [R32; 2] = k.ld_global_nc_v(at, 8 * chunk as i64);
                    (widen8(k, q), decode8(k, key))
                }
            };
            for (q, key) in q.into_iter().zip(key) {
                k.fma_rn_into(score, q, key, score);
            }
        }
        score
    }

    /// Takes in a tile: this lane's score, the cache line of its key, and how many of the tile's keys the row sees.
    fn advance(&self, k: &mut KernelBuilder, state: &State, (score, key, seen): (F32, R32, R32)) {
        let c = scale_log2e(self.head_dim);
        let top = k.max_f32(state.m, score);
        for distance in [16u32, 8, 4, 2, 1] {
            let other = k.shfl_bfly(top, distance);
            k.max_f32_into(top, top, other);
        }
        let fall = k.sub_rn(state.m, top);
        let scale = exp2(k, fall, c);
        let below = k.sub_rn(score, top);
        let p = exp2(k, below, c);
        k.set(state.m, top);
        k.fma_rn_into(state.l, state.l, scale, p);
        for &o in state.o.iter().flatten() {
            k.mul_rn_into(o, o, scale);
        }
        k.for_u32(0u32, seen, 1u32, |k, j| {
            let (p, line) = (k.shfl_idx(p, j), k.shfl_idx(key, j));
            for (&column, o) in state.v.iter().zip(&state.o) {
                let at = k.mad_wide_u32(line, self.head_pad * self.kv.bytes(), column);
                let pair = match self.kv {
                    KvType::Bf16 => {
                        let pair: R32 = k.ld_global_nc(at, 0);
                        let (lo, hi) = k.bf16x2_to_f32(pair);
                        [lo, hi]
                    }
                    KvType::Fp8 => {
                        let pair: R16 = k.ld_global_nc(at, 0);
                        let pair = k.pack_b16x2(pair, pair);
                        decode2(k, pair)
                    }
                };
                for (o, v) in o.iter().zip(pair) {
                    k.fma_rn_into(*o, p, v, *o);
                }
            }
        });
    }

    fn store(&self, k: &mut KernelBuilder, place: &Place, state: &State, out: R64) {
        for distance in [16u32, 8, 4, 2, 1] {
            let other = k.shfl_bfly(state.l, distance);
            k.add_rn_into(state.l, state.l, other);
        }
        let at = k.mad_wide_u32(place.line, self.head_pad * 2, out);
        for (span, &[lo, hi]) in (0..).zip(&state.o) {
            let (lo, hi) = (k.div_rn(lo, state.l), k.div_rn(hi, state.l));
            let pair = k.cvt_rn_bf16x2_f32(hi, lo);
            let (column, exists) = self.column(k, place, span);
            let at = k.mad_wide_u32(column, 2, at);
            match exists {
                Some(exists) => k.with_guard(exists, |k| k.st_global(at, 0, pair)),
                None => k.st_global(at, 0, pair),
            }
        }
    }

    /// Runs of [`SPAN`] output columns, the last one perhaps not whole.
    fn spans(&self) -> u32 {
        self.head_pad.div_ceil(SPAN)
    }

    /// First of this lane's two columns in a span, and whether they exist where that is not so for every lane; those that do not are
    /// computed as the head's last two.
    fn column(&self, k: &mut KernelBuilder, place: &Place, span: u32) -> (R32, Option<P>) {
        let column = k.mad_lo_u32(place.lane, 2, span * SPAN);
        if (span + 1) * SPAN <= self.head_pad {
            return (column, None);
        }
        let exists = k.setp_lt_u32(column, self.head_pad);
        (k.min_u32(column, self.head_pad - 2), Some(exists))
    }
}
