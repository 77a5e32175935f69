//! The product without tensor cores: a chain of fused multiply-adds for each output.

use ptx::builder::{F32, KernelBuilder, P, R32, R64};

use super::place::Place;
use super::{GemmOut, GemmSpec, PAD, Product, ROW, WARP_COLS};
use crate::kernels::emit::{CHUNK, widen8};

/// Lanes along the columns of a warp, and along its rows.
const ACROSS: u32 = 8;
const DOWN: u32 = 32 / ACROSS;
/// Columns of a lane, [`ACROSS`] apart: so the rows of `W` that the lanes read start in eight different groups of banks.
const COLS: usize = (WARP_COLS / ACROSS) as usize;
/// Rows that a warp computes or leaves out together.
const SUBTILE: u32 = 16;

/// A warp's 8, 16 or 32 rows by 32 columns: a lane has every fourth row and every eighth column.
pub(super) struct Chains {
    /// Accumulators, by the lane's rows.
    acc: Vec<[F32; COLS]>,
    /// For each subtile: whether any of its rows exists.
    live: Vec<P>,
    /// This lane's first row of `X` and of `W` in the first stage.
    x: R32,
    w: R32,
    /// This lane's first row and column of `Y`.
    row: R32,
    col: R32,
}

impl Chains {
    pub(super) fn new(spec: &GemmSpec, k: &mut KernelBuilder, place: &Place, smem: R32, rows: R32) -> Self {
        let (down, across) = (k.div_u32(place.lane, ACROSS), k.rem_u32(place.lane, ACROSS));
        let address = |k: &mut KernelBuilder, first: R32, within: R32| {
            let row = k.add_u32(first, within);
            k.mad_lo_u32(row, ROW, smem)
        };
        let x = address(k, place.down, down);
        let first = k.add_u32(place.right, spec.tile.rows());
        let w = address(k, first, across);
        let warp_rows = spec.tile.warp_rows();
        let live = (0..warp_rows.div_ceil(SUBTILE))
            .map(|m| {
                let row = k.add_u32(place.warp_row, SUBTILE * m);
                k.setp_lt_u32(row, rows)
            })
            .collect();
        Self {
            acc: (0..warp_rows / DOWN).map(|_| std::array::from_fn(|_| k.mov_f32(0.0))).collect(),
            live,
            x,
            w,
            row: k.add_u32(place.warp_row, down),
            col: k.add_u32(place.warp_col, across),
        }
    }

    /// Adds the products of the stage to the first `rows` rows of the lane, eight k at a time.
    fn rows(&self, k: &mut KernelBuilder, (x, w): (R32, R32), chunks: R32, rows: usize) {
        k.for_u32(0u32, chunks, 1u32, |k, chunk| {
            let (x, w) = (k.mad_lo_u32(chunk, CHUNK * 2, x), k.mad_lo_u32(chunk, CHUNK * 2, w));
            let load = |k: &mut KernelBuilder, at: R32, row: u32| -> [F32; 8] {
                let chunk: [R32; 4] = k.ld_shared_v(at, i64::from(row * ROW));
                widen8(k, chunk)
            };
            let w: [[F32; 8]; COLS] = std::array::from_fn(|j| load(k, w, ACROSS * j as u32));
            for (i, acc) in self.acc[..rows].iter().enumerate() {
                let x = load(k, x, DOWN * i as u32);
                for (at, x) in x.into_iter().enumerate() {
                    for (&acc, w) in acc.iter().zip(&w) {
                        k.fma_rn_into(acc, x, w[at], acc);
                    }
                }
            }
        });
    }
}

impl Product for Chains {
    /// A warp leaves out the subtiles that hold no row.
    fn stage(&self, _: &GemmSpec, k: &mut KernelBuilder, now: R32, left: R32) {
        let at = (k.add_u32(self.x, now), k.add_u32(self.w, now));
        let blocks = k.min_s32(left, super::STAGE_BLOCKS);
        let chunks = k.mul_lo_u32(blocks, PAD / CHUNK);
        let half = (SUBTILE / DOWN) as usize;
        match *self.live {
            // A block exists because its first row does.
            [_] => self.rows(k, at, chunks, self.acc.len()),
            [first, second] => k.if_(first, |k| {
                k.if_else(second, |k| self.rows(k, at, chunks, self.acc.len()), |k| self.rows(k, at, chunks, half));
            }),
            _ => unreachable!("a warp has one or two subtiles"),
        }
    }

    fn store(&self, spec: &GemmSpec, k: &mut KernelBuilder, place: &Place, y: R64, rows: R32) {
        let at = spec.address(k, place, y, (self.row, rows), self.col);
        let pairs: Vec<Option<P>> = (0..WARP_COLS / PAD).map(|pair| spec.columns_exist(k, place, PAD * pair)).collect();
        for (down, acc) in (0..).step_by(DOWN as usize).zip(&self.acc) {
            let row = k.add_u32(self.row, down);
            let exists = k.setp_lt_u32(row, rows);
            for (right, &value) in (0..).step_by(ACROSS as usize).zip(acc) {
                let store = match pairs[(right / PAD) as usize] {
                    Some(columns) => k.and_pred(exists, columns),
                    None => exists,
                };
                let offset = spec.offset(down, right);
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
