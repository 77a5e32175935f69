//! KV tiles in shared memory: two buffers, each a tile of keys and one of values.

use ptx::builder::{KernelBuilder, P, R32, R64};

use super::{AttentionSpec, Job, KV_TILE, LANES};
use crate::kernels::cache::decode8;
use crate::kernels::emit::narrow8;
use crate::kernels::{KvType, PAGE};

/// Pages that a tile spans.
const PAGES: u32 = KV_TILE / PAGE;

/// Copies KV tiles to shared memory and hands out their fragments.
pub(super) struct KvTiles {
    /// Bytes from row to row in shared memory: an odd number of 16-byte groups, so that the eight rows an ldmatrix phase reads
    /// start in eight different groups of banks.
    stride: u32,
    /// Rows that one copy instruction of the warp covers, and 16-byte chunks of a row.
    rows_per_copy: u32,
    chunks: u32,
    /// Element type of the cache, and bytes of eight of its elements.
    kv: KvType,
    chunk_bytes: u32,
    page_bytes: u32,
    /// This lane's chunk in page 0 of the cache (keys, values).
    from: [R64; 2],
    /// The request's page numbers.
    pages: R64,
    last: R32,
    /// Row of the lane's chunk within one copy instruction; whether it has one.
    row: R32,
    has_chunk: Option<P>,
    /// Shared address of the lane's chunk in the buffer to fill, and of its ldmatrix row in the buffer to use.
    to: R32,
    at: R32,
    /// What [`swap`](Self::swap) subtracts them from.
    to_both: R32,
    at_both: R32,
}

impl KvTiles {
    pub(super) fn new(
        spec: &AttentionSpec,
        k: &mut KernelBuilder,
        job: &Job,
        lane: R32,
        (k_cache, v_cache): (R64, R64),
        (block_tables, max_pages): (R64, R32),
    ) -> Self {
        let stride = spec.head_pad * 2 + 16;
        let buffer = 2 * KV_TILE * stride;
        let shared = k.shared("kv", 16, 2 * buffer);
        let shared = k.shared_addr(shared);
        let chunks = spec.head_pad / 8;
        let rows_per_copy = LANES / chunks;
        let (row, chunk) = (k.div_u32(lane, chunks), k.rem_u32(lane, chunks));
        let has_chunk = (rows_per_copy * chunks != LANES).then(|| k.setp_lt_u32(lane, rows_per_copy * chunks));

        let line_bytes = spec.head_pad * spec.kv.bytes();
        let chunk_bytes = 8 * spec.kv.bytes();
        let page_bytes = spec.kv_heads * PAGE * line_bytes;
        let from = [k_cache, v_cache].map(|cache| {
            let head = k.mad_wide_u32(job.kv_head, PAGE * line_bytes, cache);
            k.mad_wide_u32(lane, chunk_bytes, head)
        });
        let table = k.mul_lo_u32(job.slot, max_pages);
        let pages = k.mad_wide_u32(table, 4, block_tables);

        let to = k.mad_lo_u32(row, stride, shared);
        let to = k.mad_lo_u32(chunk, 16, to);
        // ldmatrix.x4 here always takes rows 0-15 at depth 0, then again at depth 8.
        let (matrix_row, depth) = (k.and_b32(lane, 15), k.shr_u32(lane, 4));
        let at = k.mad_lo_u32(matrix_row, stride, shared);
        let at = k.mad_lo_u32(depth, 16, at);
        let both = |k: &mut KernelBuilder, address: R32| {
            let twice = k.add_u32(address, address);
            k.add_u32(twice, buffer)
        };
        let (to_both, at_both) = (both(k, to), both(k, at));
        Self {
            stride,
            rows_per_copy,
            chunks,
            kv: spec.kv,
            chunk_bytes,
            page_bytes,
            from,
            pages,
            last: job.last,
            row,
            has_chunk,
            to,
            at,
            to_both,
            at_both,
        }
    }

    /// Starts the copy of tile `tile` to the buffer to fill, and makes the other one that. Keys past the last position are zeros;
    /// a page that holds none but such keys is not looked up: the last page stands in for it, zero bytes of it.
    pub(super) fn copy(&self, k: &mut KernelBuilder, tile: R32) {
        let last_page = k.div_u32(self.last, PAGE);
        let first_key = k.mul_lo_u32(tile, KV_TILE);
        // Keys up to this lane's row of the first copy, counted back from the last position.
        let left = k.sub_u32(self.last, first_key);
        let left = k.sub_s32(left, self.row);
        for page in 0..PAGES {
            let index = k.mad_lo_u32(tile, PAGES, page);
            let index = k.min_u32(index, last_page);
            let entry = k.mad_wide_u32(index, 4, self.pages);
            let number: R32 = k.ld_global_nc(entry, 0);
            let from = self.from.map(|from| k.mad_wide_u32(number, self.page_bytes, from));
            for first in (0..PAGE).step_by(self.rows_per_copy as usize) {
                let exists = k.setp_ge_s32(left, page * PAGE + first);
                let bytes = (self.kv == KvType::Bf16).then(|| k.selp_b32(16, 0, exists));
                let within = self.within_page(k, first);
                for (which, from) in from.into_iter().enumerate() {
                    let row = which as u32 * KV_TILE + page * PAGE + first;
                    let to_offset = i64::from(row * self.stride);
                    let from_offset = i64::from(first * self.chunks * self.chunk_bytes);
                    let Some(bytes) = bytes else {
                        self.widened(k, (to_offset, within), (from, from_offset, exists));
                        continue;
                    };
                    let copy =
                        |k: &mut KernelBuilder| k.cp_async_cg_zfill(self.to, to_offset, from, from_offset, bytes);
                    match within {
                        Some(within) => k.with_guard(within, copy),
                        None => copy(k),
                    }
                }
            }
        }
        k.sub_u32_into(self.to, self.to_both, self.to);
    }

    /// Loads eight e4m3 where they exist (zeros elsewhere) and stores them as bf16, in the lanes that have a chunk.
    fn widened(
        &self,
        k: &mut KernelBuilder,
        (to_offset, within): (i64, Option<P>),
        (from, from_offset, exists): (R64, i64, P),
    ) {
        let codes: [R32; 2] = std::array::from_fn(|_| k.mov_b32(0));
        let load = match within {
            Some(within) => k.and_pred(exists, within),
            None => exists,
        };
        k.with_guard(load, |k| k.ld_global_v_into(codes, from, from_offset));
        let wide = decode8(k, codes);
        let halves = narrow8(k, wide);
        match within {
            Some(within) => k.with_guard(within, |k| k.st_shared_v(self.to, to_offset, halves)),
            None => k.st_shared_v(self.to, to_offset, halves),
        }
    }

    /// Whether this lane's row of the copy that starts at row `first` of a page exists, where that is not so for every lane.
    fn within_page(&self, k: &mut KernelBuilder, first: u32) -> Option<P> {
        if first + self.rows_per_copy <= PAGE {
            return self.has_chunk;
        }
        let inside = k.setp_lt_u32(self.row, PAGE - first);
        Some(match self.has_chunk {
            Some(has_chunk) => k.and_pred(inside, has_chunk),
            None => inside,
        })
    }

    /// Done with the buffer in use: the other one is next.
    pub(super) fn swap(&self, k: &mut KernelBuilder) {
        k.sub_u32_into(self.at, self.at_both, self.at);
    }

    /// Keys `16 half .. 16 half + 16`, depths of 16-block `block`: `B` fragments of the key tiles `2 half` (`[0]`, `[2]`) and
    /// `2 half + 1` (`[1]`, `[3]`).
    pub(super) fn keys(&self, k: &mut KernelBuilder, half: usize, block: usize) -> [R32; 4] {
        k.ldmatrix(false, self.at, self.offset(0, half, block))
    }

    /// Values of keys `16 half .. 16 half + 16`, columns of 16-block `block`: `B` fragments of the column tiles `2 block`
    /// (`[0]`, `[1]`) and `2 block + 1` (`[2]`, `[3]`).
    pub(super) fn values(&self, k: &mut KernelBuilder, half: usize, block: usize) -> [R32; 4] {
        k.ldmatrix(true, self.at, self.offset(KV_TILE, half, block))
    }

    fn offset(&self, first_row: u32, half: usize, block: usize) -> i64 {
        i64::from((first_row + 16 * half as u32) * self.stride + 32 * block as u32)
    }
}
