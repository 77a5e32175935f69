//! Where a thread of a GEMM block works, and the fragments it holds.

use ptx::builder::{F32, KernelBuilder, R32, SharedRef};

use super::{COLS, GemmTile, PAD, ROW, WARP_COLS};

/// Where a thread works.
pub(super) struct Place {
    tid: R32,
    pub(super) lane: R32,
    /// First row of `Y` of the block, and of the warp.
    pub(super) block_row: R32,
    pub(super) warp_row: R32,
    /// First column of `Y` of the block, and of the warp.
    pub(super) block_col: R32,
    pub(super) warp_col: R32,
    /// The warp's rows and columns within the block.
    down: R32,
    right: R32,
}

impl Place {
    pub(super) fn new(k: &mut KernelBuilder, tile: GemmTile) -> Self {
        let tid = k.tid_x();
        let lane = k.and_b32(tid, 31);
        let warp = k.shr_u32(tid, 5);
        let across = COLS / WARP_COLS;
        let (down, right) = (k.div_u32(warp, across), k.rem_u32(warp, across));
        let (down, right) = (k.mul_lo_u32(down, tile.warp_rows()), k.mul_lo_u32(right, WARP_COLS));
        let (row, col) = (k.ctaid_y(), k.ctaid_x());
        let (block_row, block_col) = (k.mul_lo_u32(row, tile.rows()), k.mul_lo_u32(col, COLS));
        let (warp_row, warp_col) = (k.add_u32(block_row, down), k.add_u32(block_col, right));
        Self { tid, lane, block_row, warp_row, block_col, warp_col, down, right }
    }

    /// Shared addresses in the first stage: of this lane's row of the A tile, of the B tile (both in the order of ldmatrix.x4: rows
    /// 0-15 at depth 0, then again at depth 8), and of the chunk this thread copies first.
    pub(super) fn addresses(&self, k: &mut KernelBuilder, smem: SharedRef, tile: GemmTile) -> (R32, R32, R32) {
        let smem = k.shared_addr(smem);
        let row = k.and_b32(self.lane, 15);
        let half = k.shr_u32(self.lane, 4);
        let lane = k.mad_lo_u32(row, ROW, smem);
        let lane = k.mad_lo_u32(half, 16, lane);
        let a = k.mad_lo_u32(self.down, ROW, lane);
        let b = k.mad_lo_u32(self.right, ROW, lane);
        let b = k.add_u32(b, tile.rows() * ROW);
        let (copy_row, chunk) = self.copy_place(k);
        let to = k.mad_lo_u32(copy_row, ROW, smem);
        let to = k.mad_lo_u32(chunk, 16, to);
        (a, b, to)
    }

    /// Row and 16-byte chunk of a tile that this thread copies first: eight threads a row.
    pub(super) fn copy_place(&self, k: &mut KernelBuilder) -> (R32, R32) {
        (k.shr_u32(self.tid, 3), k.and_b32(self.tid, 7))
    }
}

/// The accumulators of a warp's tile, in the register layout of `mma.m16n8k16`: by 16-row subtile, then by 8-column tile.
pub(super) struct Accumulators(pub(super) Vec<[[F32; 4]; 4]>);

impl Accumulators {
    /// Accumulators at `+0`.
    pub(super) fn new(k: &mut KernelBuilder, tile: GemmTile) -> Self {
        let subtiles = 0..tile.warp_rows() / 16;
        Self(subtiles.map(|_| std::array::from_fn(|_| std::array::from_fn(|_| k.mov_f32(0.0)))).collect())
    }

    /// Adds the products of 16-block `block` of the stage to the first `subtiles` subtiles; `a` and `b` are this lane's ldmatrix
    /// addresses in the stage.
    pub(super) fn multiply(&self, k: &mut KernelBuilder, (a, b): (R32, R32), subtiles: usize, block: u32) {
        let at = |subtile: usize| i64::from(16 * subtile as u32 * ROW + block * PAD * 2);
        // Columns 0-15 and 16-31: depth 0-7 of both tiles of the pair, then depth 8-15 of both.
        let columns: [[R32; 4]; 2] = std::array::from_fn(|pair| k.ldmatrix(false, b, at(pair)));
        for (m, acc) in self.0[..subtiles].iter().enumerate() {
            let rows: [R32; 4] = k.ldmatrix(false, a, at(m));
            for (n, &acc) in acc.iter().enumerate() {
                let (pair, odd) = (columns[n / 2], n % 2);
                k.mma_m16n8k16_bf16_into(acc, rows, [pair[odd], pair[odd + 2]]);
            }
        }
    }
}
