//! Causal attention over the paged cache: one warp for each query tile, head and split; keys and values pass through shared memory
//! one tile ahead of their use.

mod chain;
mod softmax;
mod tiles;

use ptx::builder::{F32, KernelBuilder, R32, R64};

pub use self::chain::ChainAttentionSpec;
use self::softmax::State;
use self::tiles::KvTiles;
use super::emit::text;
use super::{KernelText, KvType, PAD, Q_TILE};

/// Keys in a KV tile. Tiles sit at absolute positions `0, 32, 64, ...`, whatever the query rows are.
pub const KV_TILE: u32 = 32;
/// `u32` words in one entry of the attention tile table: request slot, first row, rows, position of the first row.
pub const TILE_WORDS: u32 = 4;
/// Threads of a block: one warp.
const LANES: u32 = 32;

/// What scores are multiplied with before `ex2`: `log2(e) / sqrt(head_dim)`, in f64 and rounded once to f32.
#[must_use]
pub fn scale_log2e(head_dim: u32) -> f32 {
    (std::f64::consts::LOG2_E / f64::from(head_dim).sqrt()) as f32
}

/// Causal attention over the paged cache, online softmax over KV tiles in ascending order.
///
/// Arguments: `q: bf16[rows, q_heads * head_pad]`, `k_cache`, `v_cache` (one layer's), `tiles: u32[tile_count, TILE_WORDS]`,
/// `block_tables: u32[request slots, max_pages]`, then
/// * `partial == false`: `out: bf16[rows, q_heads * head_pad]` (out), `rows: u32`, `tile_count: u32`, `max_pages: u32`;
/// * `partial == true`: `o: f32[splits, rows, q_heads * head_pad]`, `m: f32[splits, rows, q_heads]`, `l: f32[splits, rows, q_heads]`
///   (out: unnormalised sum, running maximum, running sum), `rows: u32`, `tile_count: u32`, `max_pages: u32`, `splits: u32` (not zero).
///
/// A tile of the table is 1 to [`Q_TILE`] consecutive rows of one request; its row `i` attends to positions `0..=start + i`, which the
/// cache holds already. Its KV tiles (`ceil((start + rows)/KV_TILE)`) are divided over the splits in contiguous ranges of
/// `ceil(tiles/splits)`. An empty range leaves `o = 0, m = -inf, l = 0`. Only pages that hold an attended position are read.
///
/// # Bits
/// `c = `[`scale_log2e`]; f32, nearest even, unless said otherwise. Per row and head, `m = -inf, O = 0`, four partial sums `l = 0`
/// (column `j` of a tile belongs to sum `(j mod 8) / 2`), then for each KV tile of the range in ascending order:
///
/// ```text
/// S[j] = mma over head_pad in ascending 16-blocks of q . k[j], from +0
/// S[j] = -inf where position j is after the row's
/// m' = max(m, S[..])
/// a = ex2.approx.ftz((m - m') * c)
/// P[j] = ex2.approx.ftz(fma(S[j], c, -(m' * c)))
/// l = fma(l, a, P[first column]), then l = l + P[next column] in ascending order    (each of the four)
/// O = O * a;  O = mma over the tile's keys in ascending 16-blocks of bf16(P) . v, from O
/// ```
///
/// At the end `L = (l0 + l2) + (l1 + l3)` and `out = bf16(O * rcp.approx.ftz(L))`.
///
/// A tile that lies wholly after the row leaves `m`, `l` and `O` as they are, by selection: so a row that shares a query tile with later
/// rows has the bits it would have alone. Keys after the tile's last row are zeros. A key that the row must not see, but a later row
/// of the tile does, enters as `0 * v`, which adds nothing for finite `v` (under the zero policy "sentinel" of the tensor-core
/// model: for `v` of ordinary size).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionSpec {
    /// Query heads.
    pub q_heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// True head width (sets the scale).
    pub head_dim: u32,
    /// Padded head width.
    pub head_pad: u32,
    /// True for the first half of split-KV.
    pub partial: bool,
    /// Element type of both caches; fp8 is widened to bf16 on its way to shared memory.
    pub kv: KvType,
}

/// Uniform facts of the block.
struct Job {
    /// Query head, and the key/value head it reads.
    head: R32,
    kv_head: R32,
    /// The tile table's entry.
    slot: R32,
    first_row: R32,
    count: R32,
    start: R32,
    /// Position of the last row.
    last: R32,
}

impl AttentionSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let mut k = KernelBuilder::new(match (self.partial, self.kv) {
            (false, KvType::Bf16) => "attention",
            (true, KvType::Bf16) => "attention_partial",
            (false, KvType::Fp8) => "attention_fp8",
            (true, KvType::Fp8) => "attention_partial_fp8",
        });
        k.max_ntid(LANES, 1, 1);
        let (q, k_cache, v_cache) = (k.param_ptr("q"), k.param_ptr("k_cache"), k.param_ptr("v_cache"));
        let (tiles, block_tables) = (k.param_ptr("tiles"), k.param_ptr("block_tables"));
        let out: Vec<R64> = if self.partial { vec!["o", "m", "l"] } else { vec!["out"] }
            .into_iter()
            .map(|name| k.param_ptr(name))
            .collect();
        let (rows, tile_count, max_pages) = (k.param_u32("rows"), k.param_u32("tile_count"), k.param_u32("max_pages"));
        let tile = k.ctaid_x();
        let outside = k.setp_ge_u32(tile, tile_count);
        k.ret_if(outside);

        let job = self.job(&mut k, tiles, tile);
        let (first, end) = self.range(&mut k, &job);
        let lane = k.tid_x();
        let kv = KvTiles::new(self, &mut k, &job, lane, (k_cache, v_cache), (block_tables, max_pages));
        let state = State::new(self, &mut k, &job, lane, q);
        self.walk(&mut k, &job, &kv, &state, first, end);
        if self.partial {
            state.store_partial(self, &mut k, &job, rows, (out[0], out[1], out[2]));
        } else {
            state.store(self, &mut k, &job, out[0]);
        }
        text(k.finish(), LANES, self.clone())
    }

    /// Blocks of a launch over `tile_count` query tiles and `splits` ranges of KV tiles (1 unless `partial`).
    #[must_use]
    pub fn grid(&self, tile_count: u32, splits: u32) -> [u32; 3] {
        [tile_count, self.q_heads, splits]
    }

    fn job(&self, k: &mut KernelBuilder, tiles: R64, tile: R32) -> Job {
        let at = k.mad_wide_u32(tile, TILE_WORDS * 4, tiles);
        let [slot, first_row, count, start]: [R32; 4] = k.ld_global_nc_v(at, 0);
        let head = k.ctaid_y();
        let kv_head = k.div_u32(head, self.q_heads / self.kv_heads);
        let end = k.add_u32(start, count);
        let last = k.sub_u32(end, 1);
        Job { head, kv_head, slot, first_row, count, start, last }
    }

    /// First and end of this block's range of KV tiles.
    fn range(&self, k: &mut KernelBuilder, job: &Job) -> (R32, R32) {
        let last = k.div_u32(job.last, KV_TILE);
        let all = k.add_u32(last, 1);
        if !self.partial {
            return (k.mov_b32(0), all);
        }
        let splits = k.param_u32("splits");
        let up = k.add_u32(all, splits);
        let up = k.sub_u32(up, 1);
        let per = k.div_u32(up, splits);
        let split = k.ctaid_z();
        let first = k.mul_lo_u32(split, per);
        let first = k.min_u32(first, all);
        let end = k.add_u32(first, per);
        (first, k.min_u32(end, all))
    }

    /// The KV tiles in ascending order: first those that every row sees as a whole, then those that some row does not.
    /// The next tile is copied while this one is used; the barrier is for the shared memory of the one warp.
    fn walk(&self, k: &mut KernelBuilder, job: &Job, kv: &KvTiles, state: &State, first: R32, end: R32) {
        let seen = k.add_u32(job.start, 1);
        let whole = k.div_u32(seen, KV_TILE);
        let whole = k.min_u32(whole, end);
        let tile = k.mov_b32(first);
        let any = k.setp_lt_u32(tile, end);
        k.if_(any, |k| kv.copy(k, tile));
        k.cp_async_commit();
        for (until, edge) in [(whole, false), (end, true)] {
            k.while_(
                |k| k.setp_lt_u32(tile, until),
                |k| {
                    k.cp_async_wait_group(0);
                    k.bar_sync(0);
                    let next = k.add_u32(tile, 1);
                    let more = k.setp_lt_u32(next, end);
                    k.if_(more, |k| kv.copy(k, next));
                    k.cp_async_commit();
                    state.advance(self, k, job, kv, edge.then_some(tile));
                    kv.swap(k);
                    k.set(tile, next);
                },
            );
        }
    }

    /// 16-blocks of a head.
    fn blocks(&self) -> u32 {
        self.head_pad / PAD
    }

    /// Address of row `first_row + g`, this head, in an array `[.., rows, q_heads, width]` of `size`-byte elements.
    fn row_address(&self, k: &mut KernelBuilder, base: R64, row: R32, head: R32, bytes: u32) -> R64 {
        let line = k.mad_lo_u32(row, self.q_heads, head);
        k.mad_wide_u32(line, bytes, base)
    }
}

/// The lane's place in an `mma` fragment: rows `g` and `g + 8`, columns `2t` and `2t + 1` of each tile.
#[derive(Clone, Copy)]
struct LanePlace {
    g: R32,
    t: R32,
}

/// An f32 for each of the lane's two rows.
type TwoRows = [F32; 2];

const _: () = assert!(Q_TILE == 16, "a query tile is the M of one mma");
