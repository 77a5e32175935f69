//! Matrix multiply: cp.async double buffering, then `mma.sync.m16n8k16` on tensor cores or chains of fused multiply-adds.

mod chains;
mod copy;
mod few_rows;
mod place;
mod rows;
mod stream;

use ptx::builder::{KernelBuilder, P, R32, R64};

use self::chains::Chains;
use self::copy::Copies;
use self::few_rows::FewRows;
use self::place::Place;
use self::rows::Rows;
pub use self::stream::Stream;
use self::stream::Walk;
pub(in crate::kernels) use self::stream::per;
use super::emit::text;
use super::{KernelText, PAD, Units};

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
    /// `f32[segments, rows, n_pad]`: those of a [`Stream`], of each tile as many as it has.
    Stream,
}

/// Rows of `Y` per block. It decides speed only: a row has the same bits under each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GemmTile {
    /// 8 rows: decoding a few sequences.
    M8,
    /// 16 rows: decoding.
    M16,
    /// 64 rows: prefill.
    M64,
}

impl GemmTile {
    /// Every tile, ascending; `tile as usize` is its place here.
    pub const ALL: [Self; 3] = [GemmTile::M8, GemmTile::M16, GemmTile::M64];

    /// The tile that wastes least on a launch of `rows` rows.
    #[must_use]
    pub const fn for_rows(rows: u32) -> Self {
        match rows {
            0..=8 => GemmTile::M8,
            9..=16 => GemmTile::M16,
            _ => GemmTile::M64,
        }
    }

    /// Rows of `Y` per block.
    #[must_use]
    pub const fn rows(self) -> u32 {
        self.warps_down() * self.warp_rows()
    }

    /// Warps along the rows of a block.
    const fn warps_down(self) -> u32 {
        match self {
            GemmTile::M8 | GemmTile::M16 => 1,
            GemmTile::M64 => 2,
        }
    }

    /// Rows of `Y` per warp.
    const fn warp_rows(self) -> u32 {
        match self {
            GemmTile::M8 => 8,
            GemmTile::M16 => 16,
            GemmTile::M64 => 32,
        }
    }

    const fn threads(self) -> u32 {
        32 * self.warps_down() * (COLS / WARP_COLS)
    }
}

/// What a warp computes of the output, and how it stores it.
trait Product {
    /// Adds the products of the stage that starts `now` bytes after the first and has `left` 16-blocks or more.
    fn stage(&self, spec: &GemmSpec, k: &mut KernelBuilder, now: R32, left: R32);

    /// Stores the rows and columns that exist.
    fn store(&self, spec: &GemmSpec, k: &mut KernelBuilder, place: &Place, y: R64, rows: R32);
}

/// `Y[rows, n] = X[rows, k] W[n, k]^T`, K ascending.
///
/// Arguments: `x: bf16[rows, k_pad]`, `w: bf16[n_pad, k_pad]`, `y` (out, see [`GemmOut`]), `rows: u32`, and for
/// [`GemmOut::Partial`] also `splits: u32` (not zero); slice `s` covers the 16-blocks `[s*c, min(nb, (s+1)*c))`, with
/// `nb = k_pad / 16` and `c = ceil(nb/splits)`. A slice with no block writes `+0.0`. For [`GemmOut::Stream`] also `workers: u32` (not zero),
/// which divides the product as [`Stream`] says.
///
/// # Bits
/// One accumulator an output, from `+0`. On tensor cores ([`Units::Special`]) one `mma.m16n8k16` bf16 a 16-block of `K`, in ascending order,
/// the accumulator being `c` and `d` of each; otherwise ([`Units::Ieee`]) one `fma.rn.f32` an element, in ascending order:
///
/// ```text
/// acc = +0
/// Special: for b in blocks of the slice: acc = mma(x[row, 16b..16b+16], w[col, 16b..16b+16], acc)
/// Ieee:    for i in elements of the slice, padding included: acc = fma(x[row, i], w[col, i], acc)
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
    /// What products are summed with.
    pub units: Units,
}

impl GemmSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let tile = match self.tile {
            GemmTile::M8 => "m8",
            GemmTile::M16 => "m16",
            GemmTile::M64 => "m64",
        };
        let out = match self.out {
            GemmOut::Bf16 => "bf16",
            GemmOut::F32 => "f32",
            GemmOut::Partial => "partial",
            GemmOut::Stream => "stream",
        };
        let units = match self.units {
            Units::Special => "",
            Units::Ieee => "chain_",
        };
        let mut k = KernelBuilder::new(&format!("gemm_{units}{tile}_{out}"));
        k.max_ntid(self.tile.threads(), 1, 1);
        let (x, w, y, rows) = (k.param_ptr("x"), k.param_ptr("w"), k.param_ptr("y"), k.param_u32("rows"));
        if self.out == GemmOut::Stream {
            let workers = k.param_u32("workers");
            let smem = self.stages(&mut k);
            let stream = Walk::new(self, &mut k, workers);
            k.while_(
                |k| stream.more(k),
                |k| {
                    let segment = stream.next(k);
                    // Somebody may still read the stages of the segment before.
                    k.bar_sync(0);
                    let place = Place::new(k, self.tile, Some((segment.tile, segment.number)));
                    self.part(k, (x, w, y, rows), smem, &place, (Some(segment.first), segment.left));
                },
            );
        } else {
            let slice = self.slice(&mut k);
            let smem = self.stages(&mut k);
            let place = Place::new(&mut k, self.tile, None);
            self.part(&mut k, (x, w, y, rows), smem, &place, slice);
        }
        text(k.finish(), self.tile.threads(), self.clone())
    }

    /// Blocks of a launch over `rows` rows and `splits` slices of `K`: 1 unless the output is [`GemmOut::Partial`], and workers for
    /// [`GemmOut::Stream`].
    #[must_use]
    pub fn grid(&self, rows: u32, splits: u32) -> [u32; 3] {
        let down = rows.div_ceil(self.tile.rows());
        if self.out == GemmOut::Stream {
            return [Stream::new(self.n_pad, self.k_pad, splits).workers(), down, 1];
        }
        [self.n_pad.div_ceil(COLS), down, splits]
    }

    /// Partial results that an output may have, for `splits` slices or workers.
    #[must_use]
    pub fn parts(&self, splits: u32) -> u32 {
        match self.out {
            GemmOut::Bf16 | GemmOut::F32 => 1,
            GemmOut::Partial => splits,
            GemmOut::Stream => Stream::new(self.n_pad, self.k_pad, splits).segments(),
        }
    }

    /// Shared address of two stages.
    fn stages(&self, k: &mut KernelBuilder) -> R32 {
        let smem = k.shared("stages", 16, 2 * self.stage_bytes());
        k.shared_addr(smem)
    }

    /// What a block computes at a place: the 16-blocks from `first` (absent: 0) on, `left` of them.
    fn part(
        &self,
        k: &mut KernelBuilder,
        (x, w, y, rows): (R64, R64, R64, R32),
        smem: R32,
        place: &Place,
        (first, left): (Option<R32>, R32),
    ) {
        let copies = Copies::new(self, k, place, (x, w, rows), first);
        let product: Box<dyn Product> = match (self.units, self.tile) {
            (Units::Special, GemmTile::M8) => Box::new(FewRows::new(self, k, place, smem)),
            (Units::Special, _) => Box::new(Rows::new(self, k, place, smem, rows)),
            (Units::Ieee, _) => Box::new(Chains::new(self, k, place, smem, rows)),
        };
        let to = place.copy_address(k, smem);
        self.walk(k, &copies, to, &*product, left);
        product.store(self, k, place, y, rows);
    }

    /// Rows of `X`, then rows of `W`.
    fn stage_bytes(&self) -> u32 {
        (self.tile.rows() + COLS) * ROW
    }

    /// True when some stage may hold fewer than [`STAGE_BLOCKS`] blocks of `K`.
    fn ragged(&self) -> bool {
        self.out == GemmOut::Partial || !(self.k_pad / PAD).is_multiple_of(STAGE_BLOCKS)
    }

    /// First 16-block of this slice (absent: 0) and the number of blocks in it.
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

    /// The walk over `K`: stage `t + 1` is copied while stage `t` is multiplied. One barrier a stage: it makes stage `t` (which every
    /// thread has waited for) visible to all, and tells that all are done with the buffer that stage `t + 1` goes to.
    fn walk(&self, k: &mut KernelBuilder, copies: &Copies, to: R32, product: &dyn Product, left: R32) {
        let stage_bytes = self.stage_bytes();
        // How far the stage being multiplied and the one being filled are from the first.
        let (now, next) = (k.mov_b32(0u32), k.mov_b32(stage_bytes));
        let any = k.setp_gt_s32(left, 0);
        k.if_(any, |k| copies.stage(k, to, left));
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
                    copies.stage(k, to, after);
                });
                k.cp_async_commit();
                product.stage(self, k, now, left);
                k.set(left, after);
                k.sub_u32_into(now, stage_bytes, now);
                k.sub_u32_into(next, stage_bytes, next);
            },
        );
    }

    /// The 16-blocks of a stage that exist, ascending.
    fn each_block(&self, k: &mut KernelBuilder, left: R32, mut body: impl FnMut(&mut KernelBuilder, u32)) {
        let end = k.label();
        for block in 0..STAGE_BLOCKS {
            if block > 0 && self.ragged() {
                let over = k.setp_le_s32(left, block);
                k.bra_if(over, end);
            }
            body(k, block);
        }
        k.place(end);
    }

    /// Bytes of an element of `Y`.
    fn size(&self) -> u32 {
        if self.out == GemmOut::Bf16 { 2 } else { 4 }
    }

    /// Address of an element of `Y`, in this block's slice of it.
    fn address(&self, k: &mut KernelBuilder, place: &Place, y: R64, (row, rows): (R32, R32), col: R32) -> R64 {
        let line = match (place.segment, self.out) {
            (Some(segment), _) => k.mad_lo_u32(segment, rows, row),
            (None, GemmOut::Partial) => {
                let slice = k.ctaid_z();
                k.mad_lo_u32(slice, rows, row)
            }
            _ => row,
        };
        let at = k.mad_wide_u32(line, self.n_pad * self.size(), y);
        k.mad_wide_u32(col, self.size(), at)
    }

    /// Bytes from an element of `Y` to the one so many rows down and columns to the right.
    fn offset(&self, down: u32, right: u32) -> i64 {
        (i64::from(down) * i64::from(self.n_pad) + i64::from(right)) * i64::from(self.size())
    }

    /// Whether the 16 columns `right` of the warp's first exist, where that is not so for every block: `n_pad` ends at a multiple of 16.
    fn columns_exist(&self, k: &mut KernelBuilder, place: &Place, right: u32) -> Option<P> {
        (!self.n_pad.is_multiple_of(COLS)).then(|| {
            let first = k.add_u32(place.warp_col, right);
            k.setp_lt_u32(first, self.n_pad)
        })
    }
}
