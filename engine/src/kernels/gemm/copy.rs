//! Global to shared memory: the part of a GEMM block's stage that one thread copies.

use ptx::builder::{KernelBuilder, R32, R64};

use super::place::Place;
use super::{COLS, GemmSpec, PAD, ROW, STAGE_BLOCKS};

/// What a thread copies for each stage: 16 bytes of every line.
pub(super) struct Copies {
    /// Rows of the A tile, then rows of the B tile.
    lines: Vec<Line>,
    /// Pointers that move on from stage to stage.
    moving: Vec<R64>,
    /// The 16-block of the stage that this thread's chunk belongs to, where a stage may not have it.
    block: Option<R32>,
}

struct Line {
    shared: u32,
    from: R64,
    from_offset: i64,
    /// 16, or 0 to fill with zeros; absent: always 16.
    bytes: Option<R32>,
}

impl Copies {
    /// `first`: the 16-block of `K` that the slice starts from (absent: 0).
    pub(super) fn new(
        spec: &GemmSpec,
        k: &mut KernelBuilder,
        place: &Place,
        (x, w, rows): (R64, R64, R32),
        first: Option<R32>,
    ) -> Self {
        let (row, chunk) = place.copy_place(k);
        let mut along = k.mul_lo_u32(chunk, 16);
        if let Some(first) = first {
            along = k.mad_lo_u32(first, PAD * 2, along);
        }
        let along = k.cvt_u64_u32(along);
        let (x, w) = (k.add_u64(x, along), k.add_u64(w, along));
        let block = spec.ragged().then(|| k.shr_u32(chunk, 1));
        let mut copies = Self { lines: Vec::new(), moving: Vec::new(), block };

        let row_bytes = spec.k_pad * 2;
        let step = spec.tile.threads() / 8;
        let x_row = k.add_u32(place.block_row, row);
        for down in (0..spec.tile.rows()).step_by(step as usize) {
            copies.clamped(k, (x, row_bytes), (x_row, down, rows), down);
        }
        let w_row = k.add_u32(place.block_col, row);
        if spec.n_pad.is_multiple_of(COLS) {
            let from = k.mad_wide_u32(w_row, row_bytes, w);
            copies.moving.push(from);
            for down in (0..COLS).step_by(step as usize) {
                let from_offset = i64::from(down) * i64::from(row_bytes);
                let shared = (spec.tile.rows() + down) * ROW;
                copies.lines.push(Line { shared, from, from_offset, bytes: None });
            }
        } else {
            let end = k.mov_b32(spec.n_pad);
            for down in (0..COLS).step_by(step as usize) {
                copies.clamped(k, (w, row_bytes), (w_row, down, end), spec.tile.rows() + down);
            }
        }
        copies
    }

    /// Adds a line of a matrix whose rows end at `end`; one past it is zeros, its address that of the last row.
    fn clamped(
        &mut self,
        k: &mut KernelBuilder,
        (base, row_bytes): (R64, u32),
        (first, down, end): (R32, u32, R32),
        tile_row: u32,
    ) {
        let row = k.add_u32(first, down);
        let exists = k.setp_lt_u32(row, end);
        let last = k.sub_u32(end, 1);
        let row = k.min_u32(row, last);
        let from = k.mad_wide_u32(row, row_bytes, base);
        let bytes = k.selp_b32(16, 0, exists);
        self.moving.push(from);
        self.lines.push(Line { shared: tile_row * ROW, from, from_offset: 0, bytes: Some(bytes) });
    }

    /// Copies one stage to the buffer at `to`, of which `left` 16-blocks exist or more, and moves on.
    pub(super) fn stage(&self, k: &mut KernelBuilder, to: R32, left: R32) {
        let copy = |k: &mut KernelBuilder| {
            for line in &self.lines {
                let shared = i64::from(line.shared);
                match line.bytes {
                    Some(bytes) => k.cp_async_cg_zfill(to, shared, line.from, line.from_offset, bytes),
                    None => k.cp_async_cg(to, shared, line.from, line.from_offset),
                }
            }
        };
        match self.block {
            // The blocks that do not exist are not read from shared memory either.
            Some(block) => {
                let exists = k.setp_gt_s32(left, block);
                k.with_guard(exists, copy);
            }
            None => copy(k),
        }
        for &pointer in &self.moving {
            k.add_u64_into(pointer, pointer, STAGE_BLOCKS * PAD * 2);
        }
    }
}
