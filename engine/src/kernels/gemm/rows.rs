//! The product with rows of `X` as the rows of each `mma`: 16 of them at a time.

use ptx::builder::{F32, KernelBuilder, P, R32, R64};

use super::place::Place;
use super::{GemmOut, GemmSpec, PAD, Product, ROW, WARP_COLS};

/// A warp's 16 or 32 rows by 32 columns.
pub(super) struct Rows {
    /// `mma` accumulators: by 16-row subtile, then by 8-column tile.
    acc: Vec<[[F32; 4]; 4]>,
    /// For each subtile: whether any of its rows exists.
    live: Vec<P>,
    /// This lane's ldmatrix addresses in the first stage: rows of `X`, rows of `W`.
    x: R32,
    w: R32,
}

impl Rows {
    pub(super) fn new(spec: &GemmSpec, k: &mut KernelBuilder, place: &Place, smem: R32, rows: R32) -> Self {
        let subtiles = spec.tile.warp_rows() / 16;
        let acc = (0..subtiles).map(|_| std::array::from_fn(|_| std::array::from_fn(|_| k.mov_f32(0.0)))).collect();
        let live = (0..subtiles)
            .map(|m| {
                let row = k.add_u32(place.warp_row, 16 * m);
                k.setp_lt_u32(row, rows)
            })
            .collect();
        let x = place.matrix_address(k, smem, place.down, 16);
        let first = k.add_u32(place.right, spec.tile.rows());
        let w = place.matrix_address(k, smem, first, 16);
        Self { acc, live, x, w }
    }

    /// Adds the products of the stage to the first `subtiles` subtiles.
    fn subtiles(&self, spec: &GemmSpec, k: &mut KernelBuilder, (x, w): (R32, R32), left: R32, subtiles: usize) {
        spec.each_block(k, left, |k, block| {
            let at = |subtile: usize| i64::from(16 * subtile as u32 * ROW + block * PAD * 2);
            // Columns 0-15 and 16-31: depth 0-7 of both tiles of the pair, then depth 8-15 of both.
            let columns: [[R32; 4]; 2] = std::array::from_fn(|pair| k.ldmatrix(false, w, at(pair)));
            for (m, acc) in self.acc[..subtiles].iter().enumerate() {
                let rows: [R32; 4] = k.ldmatrix(false, x, at(m));
                for (n, &acc) in acc.iter().enumerate() {
                    let (pair, odd) = (columns[n / 2], n % 2);
                    k.mma_m16n8k16_bf16_into(acc, rows, [pair[odd], pair[odd + 2]]);
                }
            }
        });
    }
}

impl Product for Rows {
    /// A warp leaves out the subtiles that hold no row.
    fn stage(&self, spec: &GemmSpec, k: &mut KernelBuilder, now: R32, left: R32) {
        let at = (k.add_u32(self.x, now), k.add_u32(self.w, now));
        match *self.live {
            // A block exists because its first row does.
            [_] => self.subtiles(spec, k, at, left, 1),
            [first, second] => k.if_(first, |k| {
                k.if_else(second, |k| self.subtiles(spec, k, at, left, 2), |k| self.subtiles(spec, k, at, left, 1));
            }),
            _ => unreachable!("a warp has one or two subtiles"),
        }
    }

    /// A thread holds two neighbouring columns of rows `g` and `g + 8` of each tile.
    fn store(&self, spec: &GemmSpec, k: &mut KernelBuilder, place: &Place, y: R64, rows: R32) {
        let g = k.shr_u32(place.lane, 2);
        let row = k.add_u32(place.warp_row, g);
        let t = k.and_b32(place.lane, 3);
        let col = k.mad_lo_u32(t, 2, place.warp_col);
        let at = spec.address(k, place, y, (row, rows), col);
        let pairs: Vec<Option<P>> = (0..WARP_COLS / 16).map(|pair| spec.columns_exist(k, place, 16 * pair)).collect();
        for (m, half) in (0..self.acc.len()).flat_map(|m| [(m, 0), (m, 1)]) {
            let down = 16 * m as u32 + 8 * half as u32;
            let this = k.add_u32(row, down);
            let exists = k.setp_lt_u32(this, rows);
            for (n, acc) in self.acc[m].iter().enumerate() {
                let store = match pairs[n / 2] {
                    Some(column) => k.and_pred(exists, column),
                    None => exists,
                };
                let offset = spec.offset(down, 8 * n as u32);
                let (lo, hi) = (acc[2 * half], acc[2 * half + 1]);
                if spec.out == GemmOut::Bf16 {
                    let both = k.cvt_rn_bf16x2_f32(hi, lo);
                    k.with_guard(store, |k| k.st_global(at, offset, both));
                } else {
                    k.with_guard(store, |k| k.st_global_v(at, offset, [lo, hi]));
                }
            }
        }
    }
}
