//! The second half of split-K and of stream-K.

use ptx::builder::{F32, KernelBuilder, R32};

use super::emit::{THREADS, for_each_unit, text, unit_grid};
use super::gemm::per;
use super::{KernelText, Stream};

/// Columns a thread adds up: 16 bytes of f32.
const COLS: u32 = 4;

/// Adds split-K partials in ascending slice order, or the segments of a [`Stream`] in theirs.
///
/// Arguments: `ws: f32[splits, rows, n_pad]`, `y: [rows, n_pad]` (out, bf16 or f32), `rows: u32`, `splits: u32` (not zero); the segments
/// and workers of a stream are its `splits`.
///
/// # Bits
/// `sum = ws[0]`, then `sum = add.rn.f32(sum, ws[s])` for `s = 1, 2, ...`; `y = sum`, or `bf16(sum)` nearest even. One slice is
/// copied (or rounded) as it is. Of a stream, a column has the segments of its tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SplitKReduceSpec {
    /// Padded output width.
    pub n_pad: u32,
    /// True for an f32 output (the LM head), false for bf16.
    pub f32_out: bool,
    /// Depth of the product whose segments are added; none for slices, of which every column has as many.
    pub stream: Option<u32>,
}

impl SplitKReduceSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let mut k = KernelBuilder::new(match (self.stream, self.f32_out) {
            (None, false) => "splitk_reduce_bf16",
            (None, true) => "splitk_reduce_f32",
            (Some(_), false) => "stream_reduce_bf16",
            (Some(_), true) => "stream_reduce_f32",
        });
        let (ws, y, rows, splits) = (k.param_ptr("ws"), k.param_ptr("y"), k.param_u32("rows"), k.param_u32("splits"));
        for_each_unit(&mut k, rows, self.n_pad / COLS, |k, row, unit| {
            let splits = match self.stream {
                None => splits,
                Some(k_pad) => self.segments(k, k_pad, unit, splits),
            };
            let unit = k.mad_lo_u32(row, self.n_pad / COLS, unit);
            let slice_bytes = k.mul_wide_u32(rows, self.n_pad * 4);
            let from = k.mad_wide_u32(unit, COLS * 4, ws);
            let sum: [F32; 4] = k.ld_global_nc_v(from, 0);
            k.for_u32(1u32, splits, 1u32, |k, _| {
                k.add_u64_into(from, from, slice_bytes);
                let part: [F32; 4] = k.ld_global_nc_v(from, 0);
                for (sum, part) in sum.into_iter().zip(part) {
                    k.add_rn_into(sum, sum, part);
                }
            });
            if self.f32_out {
                let to = k.mad_wide_u32(unit, COLS * 4, y);
                k.st_global_v(to, 0, sum);
            } else {
                let to = k.mad_wide_u32(unit, COLS * 2, y);
                let pairs = [k.cvt_rn_bf16x2_f32(sum[1], sum[0]), k.cvt_rn_bf16x2_f32(sum[3], sum[2])];
                k.st_global_v(to, 0, pairs);
            }
        });
        text(k.finish(), THREADS, self.clone())
    }

    /// How many segments the tile of four columns has.
    fn segments(&self, k: &mut KernelBuilder, k_pad: u32, unit: R32, workers: R32) -> R32 {
        let (units, tiles) = Stream::new(self.n_pad, k_pad, 1).units();
        let per = per(k, units * tiles, workers);
        let tile = k.div_u32(unit, Stream::COLUMNS / COLS);
        let begin = k.mul_lo_u32(tile, units);
        let last = k.add_u32(begin, units - 1);
        let (first, last) = (k.div_u32(begin, per), k.div_u32(last, per));
        let more = k.sub_u32(last, first);
        k.add_u32(more, 1)
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        unit_grid(rows, self.n_pad / COLS)
    }
}
