//! The sum of the partial results of tensor-parallel ranks.

use ptx::builder::{KernelBuilder, R32};

use super::KernelText;
use super::emit::{CHUNK, THREADS, for_each_unit, narrow8, text, unit_grid, widen8};

/// One-shot all-reduce, as every rank computes it.
///
/// Arguments: `parts: bf16[ranks, rows, width]`, `y: bf16[rows, width]` (out), `rows: u32`.
///
/// # Bits
/// `sum = parts[0]` as f32, then `sum = add.rn.f32(sum, parts[r])` for `r = 1, 2, ...`; `y = bf16(sum)`. NaN results are `7fff`; padding
/// (`+0` of every rank) stays `+0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllReduceSpec {
    /// Padded width of a row.
    pub width: u32,
    /// Ranks, at least two.
    pub ranks: u32,
}

impl AllReduceSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let mut k = KernelBuilder::new(&format!("all_reduce_{}", self.ranks));
        let (parts, y, rows) = (k.param_ptr("parts"), k.param_ptr("y"), k.param_u32("rows"));
        for_each_unit(&mut k, rows, self.width / CHUNK, |k, row, unit| {
            let chunk = k.mad_lo_u32(row, self.width / CHUNK, unit);
            let rank_bytes = k.mul_wide_u32(rows, self.width * 2);
            let from = k.mad_wide_u32(chunk, 16, parts);
            let first: [R32; 4] = k.ld_global_nc_v(from, 0);
            let sum = widen8(k, first);
            for _ in 1..self.ranks {
                k.add_u64_into(from, from, rank_bytes);
                let part: [R32; 4] = k.ld_global_nc_v(from, 0);
                for (sum, part) in sum.into_iter().zip(widen8(k, part)) {
                    k.add_rn_into(sum, sum, part);
                }
            }
            let sum = narrow8(k, sum);
            let to = k.mad_wide_u32(chunk, 16, y);
            k.st_global_v(to, 0, sum);
        });
        text(k.finish(), THREADS, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        unit_grid(rows, self.width / CHUNK)
    }
}
