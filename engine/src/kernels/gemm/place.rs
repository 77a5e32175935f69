//! Where a thread of a GEMM block works.

use ptx::builder::{KernelBuilder, R32};

use super::{COLS, GemmTile, ROW, WARP_COLS};

/// A thread's place in the output and in shared memory.
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
    pub(super) down: R32,
    pub(super) right: R32,
    /// Which segment of its columns the block computes, where there are such.
    pub(super) segment: Option<R32>,
}

impl Place {
    /// `segment`: the tile of columns and the number of its segment, where the block's number does not say the tile.
    pub(super) fn new(k: &mut KernelBuilder, tile: GemmTile, segment: Option<(R32, R32)>) -> Self {
        let tid = k.tid_x();
        let lane = k.and_b32(tid, 31);
        let warp = k.shr_u32(tid, 5);
        let across = COLS / WARP_COLS;
        let (down, right) = (k.div_u32(warp, across), k.rem_u32(warp, across));
        let (down, right) = (k.mul_lo_u32(down, tile.warp_rows()), k.mul_lo_u32(right, WARP_COLS));
        let row = k.ctaid_y();
        let col = segment.map_or_else(|| k.ctaid_x(), |(tile, _)| tile);
        let (block_row, block_col) = (k.mul_lo_u32(row, tile.rows()), k.mul_lo_u32(col, COLS));
        let (warp_row, warp_col) = (k.add_u32(block_row, down), k.add_u32(block_col, right));
        let segment = segment.map(|(_, number)| number);
        Self { tid, lane, block_row, warp_row, block_col, warp_col, down, right, segment }
    }

    /// Row and 16-byte chunk of a stage that this thread copies first: eight threads a row.
    pub(super) fn copy_place(&self, k: &mut KernelBuilder) -> (R32, R32) {
        (k.shr_u32(self.tid, 3), k.and_b32(self.tid, 7))
    }

    /// Shared address of the chunk that this thread copies first, in the first stage.
    pub(super) fn copy_address(&self, k: &mut KernelBuilder, smem: R32) -> R32 {
        let (row, chunk) = self.copy_place(k);
        let at = k.mad_lo_u32(row, ROW, smem);
        k.mad_lo_u32(chunk, 16, at)
    }

    /// Shared address that this lane gives `ldmatrix`, from row `first` of a stage at `smem` on: `rows` rows at depth 0, then the same
    /// rows at depth 8. With 16 rows that is `.x4`, with 8 rows `.x2` (which does not look at the upper lanes).
    pub(super) fn matrix_address(&self, k: &mut KernelBuilder, smem: R32, first: R32, rows: u32) -> R32 {
        let row = k.and_b32(self.lane, rows - 1);
        let half = k.div_u32(self.lane, rows);
        let half = k.and_b32(half, 1);
        let row = k.add_u32(row, first);
        let at = k.mad_lo_u32(row, ROW, smem);
        k.mad_lo_u32(half, 16, at)
    }
}
