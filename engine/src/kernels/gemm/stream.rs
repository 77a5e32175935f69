//! Stream-K: the work of a product in equal parts, whatever columns they fall on.

use std::ops::Range;

use ptx::builder::{KernelBuilder, P, R32};

use super::{COLS, GemmSpec, PAD, STAGE_BLOCKS};

/// How a stream divides a product (Osama and others, *Stream-K*, 2023, algorithm 5). The unit is a stage of four 16-blocks of `K` of a tile of 64
/// columns; units are numbered tile by tile, `K` ascending. Of `t` units each of `workers` blocks takes `ceil(t / workers)` that follow each
/// other, the last ones fewer or none. What a block has of a tile is a segment; segments of a tile are numbered in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// 16-blocks of `K`, and units, of a tile.
    blocks: u32,
    units: u32,
    tiles: u32,
    /// Units of a block.
    per: u32,
}

impl Stream {
    /// The division of the product of a weight `[n_pad, k_pad]` over `workers` blocks, at least one.
    #[must_use]
    pub fn new(n_pad: u32, k_pad: u32, workers: u32) -> Self {
        let blocks = k_pad.div_ceil(PAD);
        let (units, tiles) = (blocks.div_ceil(STAGE_BLOCKS), n_pad.div_ceil(COLS));
        Self { blocks, units, tiles, per: (units * tiles).div_ceil(workers.max(1)).max(1) }
    }

    /// Blocks that have something to do: the least number that divides the product so.
    #[must_use]
    pub fn workers(&self) -> u32 {
        (self.units * self.tiles).div_ceil(self.per)
    }

    /// Segments that a tile may have.
    #[must_use]
    pub fn segments(&self) -> u32 {
        (self.units + 2 * self.per - 2) / self.per
    }

    /// The 16-blocks of each segment of the tile that holds a column.
    #[must_use]
    pub fn cuts(&self, column: u32) -> Vec<Range<u32>> {
        let first = column / COLS * self.units;
        let (mut at, end) = (first, first + self.units);
        let mut cuts = Vec::new();
        while at < end {
            let next = ((at / self.per + 1) * self.per).min(end);
            let block = |unit: u32| ((unit - first) * STAGE_BLOCKS).min(self.blocks);
            cuts.push(block(at)..block(next));
            at = next;
        }
        cuts
    }

    /// Whether kernels, which count in 32 bits, divide the product so for that many workers.
    pub(crate) fn countable(&self, workers: u32) -> bool {
        workers > 0 && workers.checked_add(self.units * self.tiles).is_some()
    }

    /// Units of a tile, and tiles.
    pub(crate) fn units(&self) -> (u32, u32) {
        (self.units, self.tiles)
    }

    /// Columns of a tile.
    pub(crate) const COLUMNS: u32 = COLS;
}

/// A block's walk over its segments.
pub(super) struct Walk {
    units: u32,
    blocks: u32,
    per: R32,
    /// The next unit, and the first that is another block's.
    unit: R32,
    end: R32,
}

/// One segment.
pub(super) struct Segment {
    /// The tile of columns.
    pub tile: R32,
    /// Its number among those of the tile.
    pub number: R32,
    /// First 16-block, and how many.
    pub first: R32,
    pub left: R32,
}

impl Walk {
    pub(super) fn new(spec: &GemmSpec, k: &mut KernelBuilder, workers: R32) -> Self {
        let Stream { blocks, units, tiles, .. } = Stream::new(spec.n_pad, spec.k_pad, 1);
        let per = per(k, units * tiles, workers);
        let block = k.ctaid_x();
        let unit = k.mul_lo_u32(block, per);
        let end = k.add_u32(unit, per);
        let end = k.min_u32(end, units * tiles);
        Self { units, blocks, per, unit, end }
    }

    pub(super) fn more(&self, k: &mut KernelBuilder) -> P {
        k.setp_lt_u32(self.unit, self.end)
    }

    /// The next segment.
    pub(super) fn next(&self, k: &mut KernelBuilder) -> Segment {
        let tile = k.div_u32(self.unit, self.units);
        let begin = k.mul_lo_u32(tile, self.units);
        let within = k.sub_u32(self.unit, begin);
        let first = k.mul_lo_u32(within, STAGE_BLOCKS);
        // The tile's end or the block's, whichever is nearer.
        let until = k.add_u32(begin, self.units);
        let until = k.min_u32(until, self.end);
        let count = k.sub_u32(until, self.unit);
        let left = k.mul_lo_u32(count, STAGE_BLOCKS);
        let rest = k.sub_u32(self.blocks, first);
        let left = k.min_u32(left, rest);
        let owner = k.div_u32(begin, self.per);
        let block = k.ctaid_x();
        let number = k.sub_u32(block, owner);
        k.set(self.unit, until);
        Segment { tile, number, first, left }
    }
}

/// Units of a block.
pub(in crate::kernels) fn per(k: &mut KernelBuilder, units: u32, workers: R32) -> R32 {
    let up = k.add_u32(workers, units - 1);
    k.div_u32(up, workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every unit once, in order; as many segments as are made room for; equal parts over the whole product.
    #[test]
    fn segments_cover_a_product() {
        for (n, k) in [(16, 16), (64, 64), (80, 272), (960, 576), (576, 1536), (1024, 192), (64, 4096)] {
            for workers in [1, 2, 3, 5, 12, 40, 64] {
                let stream = Stream::new(n, k, workers);
                assert!(stream.workers() <= workers);
                assert_eq!(Stream::new(n, k, stream.workers()), stream);
                let mut most = 0;
                for column in (0..n).step_by(64) {
                    let cuts = stream.cuts(column);
                    assert_eq!((cuts[0].start, cuts.last().unwrap().end), (0, k / 16));
                    assert!(cuts.windows(2).all(|pair| pair[0].end == pair[1].start));
                    assert!(cuts.iter().all(|cut| !cut.is_empty()));
                    most = most.max(cuts.len() as u32);
                }
                assert!(most <= stream.segments(), "{n} {k} {workers}");
            }
        }
        // 15 tiles of 9 units in 64 blocks: 3 units a block, so the first tile has 3 segments.
        assert_eq!(Stream::new(960, 576, 64).cuts(0), [0..12, 12..24, 24..36]);
        // 4 units a block: the second tile starts within the third block.
        assert_eq!(Stream::new(960, 576, 40).cuts(64), [0..12, 12..28, 28..36]);
    }
}
