//! Triton's `tl.sum`.

use super::{Offsets, add, butterfly};

/// The order of a thread's own elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InThread {
    /// From the left, in register order: releases before 2026.
    Fold,
    /// A binary tree that pairs neighbours: releases of 2026. That neighbours are paired is a reading, not a measurement.
    Tree,
}

/// `tl.sum` over a block in the blocked layout: `per_thread` contiguous elements a thread, 32 lanes, `warps` warps, then
/// around again. Butterflies with descending distances join lanes, then warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TritonSum {
    /// `BLOCK`, a power of two.
    pub block: usize,
    /// Contiguous elements a thread holds, a power of two.
    pub per_thread: usize,
    /// `num_warps`, a power of two.
    pub warps: usize,
    /// The order within a thread.
    pub in_thread: InThread,
}

impl TritonSum {
    /// The sum of up to `block` elements; the masked rest is `+0`.
    ///
    /// # Panics
    /// If a parameter is not a power of two, or there are more values than the block holds.
    #[must_use]
    pub fn sum(&self, values: &[u32]) -> u32 {
        let Self { block, per_thread, warps, .. } = *self;
        assert!([block, per_thread, warps].iter().all(|n| n.is_power_of_two()), "powers of two");
        assert!(values.len() <= block, "at most {block} values");
        let per_thread = per_thread.min(block);
        // A block smaller than the layout is held several times over; each value counts once.
        let threads = (32 * warps).min(block / per_thread);
        let at = |i: usize| values.get(i).copied().unwrap_or(0);
        let partials: Vec<u32> = (0..threads)
            .map(|t| {
                let rounds = (0..block).step_by(threads * per_thread);
                let own: Vec<u32> =
                    rounds.flat_map(|round| (0..per_thread).map(move |i| at(round + t * per_thread + i))).collect();
                self.within(&own)
            })
            .collect();
        let warps: Vec<u32> =
            partials.chunks(threads.min(32)).map(|warp| butterfly(warp, Offsets::Descending)).collect();
        butterfly(&warps, Offsets::Descending)
    }

    /// The sum of a longer row: `acc += tl.sum(block)` over its blocks, from `+0`.
    ///
    /// # Panics
    /// As [`TritonSum::sum`].
    #[must_use]
    pub fn looped(&self, values: &[u32]) -> u32 {
        values.chunks(self.block).fold(0, |acc, block| add(acc, self.sum(block)))
    }

    fn within(&self, own: &[u32]) -> u32 {
        match (self.in_thread, own) {
            (_, [x]) => *x,
            (InThread::Fold, _) => own.iter().copied().reduce(add).unwrap_or(0),
            (InThread::Tree, _) => {
                let (low, high) = own.split_at(own.len() / 2);
                add(self.within(low), self.within(high))
            }
        }
    }
}
