//! Matrix multiply on tensor cores: cp.async double buffering, ldmatrix, `mma.sync.m16n8k16`.

mod copy;
mod fragments;

use ptx::builder::{KernelBuilder, P, R32, R64};

use self::copy::Copies;
use self::fragments::{Accumulators, Place};
use super::emit::text;
use super::{KernelText, PAD};

/// Columns of `Y` per block.
const COLS: u32 = 64;
/// Columns of `Y` per warp.
const WARP_COLS: u32 = 32;
/// 16-blocks of `K` per stage.
const STAGE_BLOCKS: u32 = 4;
/// Bytes from row to row of a tile in shared memory: 64 bf16, and 16 bytes so that the eight rows an ldmatrix phase
/// reads start in eight different groups of banks.
const ROW: u32 = STAGE_BLOCKS * PAD * 2 + 16;

/// What a GEMM leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GemmOut {
    /// `bf16[rows, n_pad]`, rounded once to nearest even.
    Bf16,
    /// `f32[rows, n_pad]`, the accumulator itself.
    F32,
    /// `f32[splits, rows, n_pad]`: partial sums for [`SplitKReduceSpec`](super::SplitKReduceSpec).
    Partial,
}

/// Rows of `Y` per block. It decides speed only: a row has the same bits under either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GemmTile {
    /// 16 rows: decoding.
    M16,
    /// 64 rows: prefill.
    M64,
}

impl GemmTile {
    /// The tile that wastes least on a launch of `rows` rows.
    #[must_use]
    pub const fn for_rows(rows: u32) -> Self {
        if rows <= 16 { GemmTile::M16 } else { GemmTile::M64 }
    }

    /// Rows of `Y` per block.
    #[must_use]
    pub const fn rows(self) -> u32 {
        self.warps_down() * self.warp_rows()
    }

    /// Warps along the rows of a block.
    const fn warps_down(self) -> u32 {
        match self {
            GemmTile::M16 => 1,
            GemmTile::M64 => 2,
        }
    }

    /// Rows of `Y` per warp.
    const fn warp_rows(self) -> u32 {
        match self {
            GemmTile::M16 => 16,
            GemmTile::M64 => 32,
        }
    }

    const fn threads(self) -> u32 {
        32 * self.warps_down() * (COLS / WARP_COLS)
    }
}

/// `Y[rows, n] = X[rows, k] W[n, k]^T` on `mma.sync.m16n8k16` bf16, K ascending.
///
/// Arguments: `x: bf16[rows, k_pad]`, `w: bf16[n_pad, k_pad]`, `y` (out, see [`GemmOut`]), `rows: u32`, and for
/// [`GemmOut::Partial`] also `splits: u32` (not zero); slice `s` covers the 16-blocks `[s*c, min(nb, (s+1)*c))`, with
/// `nb = k_pad / 16` and `c = ceil(nb/splits)`. A slice with no block writes `+0.0`.
///
/// # Bits
/// One accumulator an output, from `+0`; one `mma` a 16-block of `K`, in ascending order, the accumulator being `c` and `d` of each:
///
/// ```text
/// acc = +0;  for b in blocks of the slice: acc = mma(x[row, 16b..16b+16], w[col, 16b..16b+16], acc)
/// y = acc, or bf16(acc) nearest even
/// ```
///
/// A row's bits depend on its own `x`, on `w` and on the slice: not on `rows`, on its place, or on the tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GemmSpec {
    /// Padded output width.
    pub n_pad: u32,
    /// Padded depth.
    pub k_pad: u32,
    /// Rows per block.
    pub tile: GemmTile,
    /// Kind of output.
    pub out: GemmOut,
}

impl GemmSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let tile = match self.tile {
            GemmTile::M16 => "m16",
            GemmTile::M64 => "m64",
        };
        let out = match self.out {
            GemmOut::Bf16 => "bf16",
            GemmOut::F32 => "f32",
            GemmOut::Partial => "partial",
        };
        let mut k = KernelBuilder::new(&format!("gemm_{tile}_{out}"));
        k.max_ntid(self.tile.threads(), 1, 1);
        let (x, w, y, rows) = (k.param_ptr("x"), k.param_ptr("w"), k.param_ptr("y"), k.param_u32("rows"));
        let (first_block, left) = self.slice(&mut k);
        let place = Place::new(&mut k, self.tile);
        let copy = Copies::new(self, &mut k, &place, (x, w, rows), first_block);
        let live = self.live_subtiles(&mut k, &place, rows);
        let tiles = Accumulators::new(&mut k, self.tile);
        self.walk(&mut k, &place, &copy, &live, &tiles, left);
        self.store(&mut k, &place, &tiles, y, rows);
        text(k.finish(), self.tile.threads())
    }

    /// Blocks of a launch over `rows` rows and `splits` slices of `K` (1 unless the output is [`GemmOut::Partial`]).
    #[must_use]
    pub fn grid(&self, rows: u32, splits: u32) -> [u32; 3] {
        [self.n_pad.div_ceil(COLS), rows.div_ceil(self.tile.rows()), splits]
    }

    /// True when some stage may hold fewer than [`STAGE_BLOCKS`] blocks of `K`.
    fn ragged(&self) -> bool {
        self.out == GemmOut::Partial || !(self.k_pad / PAD).is_multiple_of(STAGE_BLOCKS)
    }

    /// First 16-block of this slice and the number of blocks in it.
    fn slice(&self, k: &mut KernelBuilder) -> (Option<R32>, R32) {
        let blocks = self.k_pad / PAD;
        if self.out != GemmOut::Partial {
            return (None, k.mov_b32(blocks));
        }
        let splits = k.param_u32("splits");
        let up = k.add_u32(splits, blocks - 1);
        let per = k.div_u32(up, splits);
        let slice = k.ctaid_z();
        let first = k.mul_lo_u32(slice, per);
        let first = k.min_u32(first, blocks);
        let end = k.add_u32(first, per);
        let end = k.min_u32(end, blocks);
        (Some(first), k.sub_u32(end, first))
    }

    /// For each 16-row subtile of this warp: whether any of its rows exists.
    fn live_subtiles(&self, k: &mut KernelBuilder, place: &Place, rows: R32) -> Vec<P> {
        let subtiles = self.tile.warp_rows() / 16;
        (0..subtiles)
            .map(|m| {
                let row = k.add_u32(place.warp_row, 16 * m);
                k.setp_lt_u32(row, rows)
            })
            .collect()
    }

    /// The walk over `K`: stage `t + 1` is copied while stage `t` is multiplied. One barrier a stage: it makes stage `t` (which every
    /// thread has waited for) visible to all, and tells that all are done with the buffer that stage `t + 1` goes to.
    fn walk(&self, k: &mut KernelBuilder, place: &Place, copy: &Copies, live: &[P], tiles: &Accumulators, left: R32) {
        let stage_bytes = (self.tile.rows() + COLS) * ROW;
        let smem = k.shared("stages", 16, 2 * stage_bytes);
        let (a, b, to) = place.addresses(k, smem, self.tile);
        // What the stage being multiplied and the one being filled are away from the first.
        let (now, next) = (k.mov_b32(0u32), k.mov_b32(stage_bytes));
        let any = k.setp_gt_s32(left, 0);
        k.if_(any, |k| copy.stage(k, to, left));
        k.cp_async_commit();
        k.while_(
            |k| k.setp_gt_s32(left, 0),
            |k| {
                k.cp_async_wait_group(0);
                k.bar_sync(0);
                let after = k.sub_s32(left, STAGE_BLOCKS);
                let more = k.setp_gt_s32(after, 0);
                k.if_(more, |k| {
                    let to = k.add_u32(to, next);
                    copy.stage(k, to, after);
                });
                k.cp_async_commit();
                let (a, b) = (k.add_u32(a, now), k.add_u32(b, now));
                self.multiply(k, (a, b), live, tiles, left);
                k.set(left, after);
                k.sub_u32_into(now, stage_bytes, now);
                k.sub_u32_into(next, stage_bytes, next);
            },
        );
    }

    /// The products of one stage. A warp leaves out the subtiles that hold no row.
    fn multiply(&self, k: &mut KernelBuilder, at: (R32, R32), live: &[P], tiles: &Accumulators, left: R32) {
        match *live {
            // A block exists because its first row does.
            [_] => self.multiply_subtiles(k, at, tiles, 1, left),
            [first, second] => {
                k.if_(first, |k| {
                    k.if_else(
                        second,
                        |k| self.multiply_subtiles(k, at, tiles, 2, left),
                        |k| self.multiply_subtiles(k, at, tiles, 1, left),
                    );
                });
            }
            _ => unreachable!("a warp has one or two subtiles"),
        }
    }

    fn multiply_subtiles(
        &self,
        k: &mut KernelBuilder,
        (a, b): (R32, R32),
        tiles: &Accumulators,
        subtiles: usize,
        left: R32,
    ) {
        let end = k.label();
        for block in 0..STAGE_BLOCKS {
            if block > 0 && self.ragged() {
                let over = k.setp_le_s32(left, block);
                k.bra_if(over, end);
            }
            tiles.multiply(k, (a, b), subtiles, block);
        }
        k.place(end);
    }

    /// Stores the rows and columns that exist. A thread holds two neighbouring columns of rows `g` and `g + 8` of each tile.
    fn store(&self, k: &mut KernelBuilder, place: &Place, tiles: &Accumulators, y: R64, rows: R32) {
        let size = if self.out == GemmOut::Bf16 { 2 } else { 4 };
        let row_bytes = self.n_pad * size;
        let g = k.shr_u32(place.lane, 2);
        let row = k.add_u32(place.warp_row, g);
        let t = k.and_b32(place.lane, 3);
        let col = k.mad_lo_u32(t, 2, place.warp_col);
        let line = if self.out == GemmOut::Partial {
            let slice = k.ctaid_z();
            k.mad_lo_u32(slice, rows, row)
        } else {
            row
        };
        let at = k.mad_wide_u32(line, row_bytes, y);
        let at = k.mad_wide_u32(col, size, at);
        // Columns end at a multiple of 16, so a pair of tiles exists or does not as a whole.
        let pairs: Vec<Option<P>> = (0..WARP_COLS / 16)
            .map(|pair| {
                (!self.n_pad.is_multiple_of(COLS)).then(|| {
                    let first = k.add_u32(place.warp_col, 16 * pair);
                    k.setp_lt_u32(first, self.n_pad)
                })
            })
            .collect();
        for (m, half) in (0..tiles.0.len()).flat_map(|m| [(m, 0), (m, 1)]) {
            let down = 16 * m as u32 + 8 * half as u32;
            let this = k.add_u32(row, down);
            let exists = k.setp_lt_u32(this, rows);
            for (n, acc) in tiles.0[m].iter().enumerate() {
                let store = match pairs[n / 2] {
                    Some(column) => k.and_pred(exists, column),
                    None => exists,
                };
                let offset = i64::from(down) * i64::from(row_bytes) + i64::from(8 * n as u32 * size);
                let (lo, hi) = (acc[2 * half], acc[2 * half + 1]);
                if self.out == GemmOut::Bf16 {
                    let both = k.cvt_rn_bf16x2_f32(hi, lo);
                    k.with_guard(store, |k| k.st_global(at, offset, both));
                } else {
                    k.with_guard(store, |k| k.st_global_v(at, offset, [lo, hi]));
                }
            }
        }
    }
}
