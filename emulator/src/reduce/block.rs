//! Sums of a block: CUB, PyTorch's softmax, FlashInfer. Threads, warps, then the warps' results.

use super::{Accumulate, Offsets, add, butterfly, shuffle_down};

const WARP: usize = 32;

/// A thread's left fold over the vectors `t, t + threads, ...` of `vec` elements, from `+0`.
fn vector_fold(values: &[u32], t: usize, threads: usize, vec: usize, accumulate: Accumulate) -> u32 {
    let vectors = values.chunks(vec).skip(t).step_by(threads);
    vectors.flatten().fold(0, |acc, &x| accumulate.step(acc, x))
}

/// CUB `BlockReduce` as vLLM's norms use it: in a warp offsets 1, 2, 4, 8, 16, absent lanes skipped; then thread 0 adds
/// the warps' results one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CubBlock {
    /// Threads of the block.
    pub threads: usize,
    /// Contiguous elements a thread takes at a time.
    pub vec: usize,
    /// What a thread does with an element.
    pub accumulate: Accumulate,
}

impl CubBlock {
    /// The sum.
    ///
    /// # Panics
    /// If `threads` or `vec` is 0.
    #[must_use]
    pub fn sum(&self, values: &[u32]) -> u32 {
        let partials: Vec<u32> =
            (0..self.threads).map(|t| vector_fold(values, t, self.threads, self.vec, self.accumulate)).collect();
        let mut warps = partials.chunks(WARP).map(|warp| shuffle_down(warp, WARP, Offsets::Ascending));
        let first = warps.next().expect("a block has threads");
        warps.fold(first, add)
    }
}

/// The block reduction of PyTorch's softmax: offsets 16 to 1 in a warp, and the first warp does the same with the warps'
/// results, `+0` for those absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TorchBlock {
    /// Threads of the block, a multiple of 32.
    pub threads: usize,
    /// Elements are in registers, `t, t + threads, ...` (recent releases, up to 9 a thread), instead of vectors of four
    /// with the tail after them.
    pub in_registers: bool,
}

impl TorchBlock {
    /// The block that a row of `length` gets: up to 1024 threads.
    #[must_use]
    pub fn for_row(length: usize, in_registers: bool) -> Self {
        Self { threads: length.next_multiple_of(WARP).clamp(WARP, 1024), in_registers }
    }

    /// The sum of a row that starts at a multiple of 16 bytes.
    ///
    /// # Panics
    /// If `threads` is not a multiple of 32 up to 1024.
    #[must_use]
    pub fn sum(&self, values: &[u32]) -> u32 {
        assert!(self.threads.is_multiple_of(WARP) && (WARP..=1024).contains(&self.threads), "whole warps");
        let (vectors, tail) = if self.in_registers {
            values.split_at(0)
        } else {
            values.split_at(values.len() - values.len() % (4 * self.threads))
        };
        let partial = |t: usize| {
            let start = vector_fold(vectors, t, self.threads, 4, Accumulate::Add);
            tail.iter().skip(t).step_by(self.threads).fold(start, |acc, &x| add(acc, x))
        };
        let partials: Vec<u32> = (0..self.threads).map(partial).collect();
        let mut warps: Vec<u32> =
            partials.chunks(WARP).map(|warp| shuffle_down(warp, WARP, Offsets::Descending)).collect();
        warps.resize(WARP, 0);
        shuffle_down(&warps, WARP, Offsets::Descending)
    }
}

/// PyTorch's softmax for short rows: one warp a row, lane `l` folds elements `l, l + 32, ...`, then a butterfly 16 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TorchWarpRow;

impl TorchWarpRow {
    /// The sum. Rows shorter than 32 use as many lanes as the next power of two.
    #[must_use]
    pub fn sum(&self, values: &[u32]) -> u32 {
        let lanes = values.len().next_power_of_two().min(WARP);
        let partials: Vec<u32> = (0..lanes).map(|l| vector_fold(values, l, lanes, 1, Accumulate::Add)).collect();
        butterfly(&partials, Offsets::Descending)
    }
}

/// FlashInfer's RMSNorm: a chain over a thread's vectors, a butterfly 16 to 1 in each warp, and one over the warps'
/// results in the first, `+0` for those absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlashInferBlock {
    /// Warps of the block, at most 32.
    pub warps: usize,
    /// Contiguous elements a thread takes at a time.
    pub vec: usize,
    /// What a thread does with an element.
    pub accumulate: Accumulate,
}

impl FlashInferBlock {
    /// The sum.
    ///
    /// # Panics
    /// If there are more than 32 warps, or `vec` is 0.
    #[must_use]
    pub fn sum(&self, values: &[u32]) -> u32 {
        let threads = WARP * self.warps;
        let partials: Vec<u32> =
            (0..threads).map(|t| vector_fold(values, t, threads, self.vec, self.accumulate)).collect();
        let mut warps: Vec<u32> = partials.chunks(WARP).map(|warp| butterfly(warp, Offsets::Descending)).collect();
        assert!(warps.len() <= WARP, "the first warp has a lane for every warp");
        warps.resize(WARP, 0);
        butterfly(&warps, Offsets::Descending)
    }
}
