//! The product with up to 8 rows of `X` as the *columns* of each `mma`, and 16 columns of `Y` as its rows.
//!
//! An `mma` is symmetric in its operands: the products are the same, and so are their alignment and their sum. So the bits are those of
//! `rows`, for half the instructions.

use ptx::builder::{F32, KernelBuilder, P, R32, R64};

use super::place::Place;
use super::{GemmOut, GemmSpec, PAD, Product, ROW, WARP_COLS};

/// Columns of `Y` in one `mma`.
const SUBTILE: u32 = 16;

/// A warp's 8 rows by 32 columns.
pub(super) struct FewRows {
    /// `mma` accumulators, by 16 columns.
    acc: [[F32; 4]; (WARP_COLS / SUBTILE) as usize],
    /// This lane's ldmatrix addresses in the first stage: rows of `X`, rows of `W`.
    x: R32,
    w: R32,
}

impl FewRows {
    pub(super) fn new(spec: &GemmSpec, k: &mut KernelBuilder, place: &Place, smem: R32) -> Self {
        let x = place.matrix_address(k, smem, place.down, 8);
        let first = k.add_u32(place.right, spec.tile.rows());
        let w = place.matrix_address(k, smem, first, 16);
        Self { acc: std::array::from_fn(|_| std::array::from_fn(|_| k.mov_f32(0.0))), x, w }
    }
}

impl Product for FewRows {
    fn stage(&self, spec: &GemmSpec, k: &mut KernelBuilder, now: R32, left: R32) {
        let (x, w) = (k.add_u32(self.x, now), k.add_u32(self.w, now));
        spec.each_block(k, left, |k, block| {
            let along = block * PAD * 2;
            let rows: [R32; 2] = k.ldmatrix(false, x, i64::from(along));
            for (m, &acc) in self.acc.iter().enumerate() {
                let columns: [R32; 4] = k.ldmatrix(false, w, i64::from(SUBTILE * m as u32 * ROW + along));
                k.mma_m16n8k16_bf16_into(acc, columns, rows);
            }
        });
    }

    /// A thread holds columns `g` and `g + 8` of rows `2t` and `2t + 1` of each subtile.
    fn store(&self, spec: &GemmSpec, k: &mut KernelBuilder, place: &Place, y: R64, rows: R32) {
        let g = k.shr_u32(place.lane, 2);
        let col = k.add_u32(place.warp_col, g);
        let t = k.and_b32(place.lane, 3);
        let row = k.mad_lo_u32(t, 2, place.warp_row);
        let at = spec.address(k, place, y, (row, rows), col);
        let exist: [P; 2] = std::array::from_fn(|i| {
            let this = k.add_u32(row, i as u32);
            k.setp_lt_u32(this, rows)
        });
        for (m, acc) in self.acc.iter().enumerate() {
            let columns = spec.columns_exist(k, place, SUBTILE * m as u32);
            for (down, exists) in exist.into_iter().enumerate() {
                let store = match columns {
                    Some(columns) => k.and_pred(exists, columns),
                    None => exists,
                };
                for half in 0..2 {
                    let value = acc[2 * half + down];
                    let offset = spec.offset(down as u32, SUBTILE * m as u32 + 8 * half as u32);
                    if spec.out == GemmOut::Bf16 {
                        let value = k.cvt_rn_bf16_f32(value);
                        k.with_guard(store, |k| k.st_global(at, offset, value));
                    } else {
                        k.with_guard(store, |k| k.st_global(at, offset, value));
                    }
                }
            }
        }
    }
}
