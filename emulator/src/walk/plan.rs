//! The plan of a walk, and its evaluation for one output element.

use std::ops::Range;

use crate::mma::Operation;
use crate::profile::Confidence;
use crate::reduce::add;
use crate::scalar::{Bf16, F16, F32, Mods, convert};

/// The type an output, or a stored partial sum, is rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Kept.
    F32,
    /// To nearest even.
    Bf16,
    /// To nearest even.
    F16,
}

impl Output {
    /// The f32 value after it was stored in this type and loaded again.
    #[must_use]
    pub fn round_trip(self, x: u32) -> u32 {
        match self {
            Self::F32 => x,
            Self::Bf16 => convert::<Bf16, F32>(convert::<F32, Bf16>(x, Mods::RN), Mods::RN),
            Self::F16 => convert::<F16, F32>(convert::<F32, F16>(x, Mods::RN), Mods::RN),
        }
    }

    /// The stored bits.
    #[must_use]
    pub fn bits(self, x: u32) -> u32 {
        match self {
            Self::F32 => x,
            Self::Bf16 => u32::from(convert::<F32, Bf16>(x, Mods::RN)),
            Self::F16 => u32::from(convert::<F32, F16>(x, Mods::RN)),
        }
    }
}

/// How one block of threads walks its part of K.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// One accumulator, k ascending.
    Single,
    /// Sliced-K: of each `tile` elements of K, warp `p` takes the stripes `p, p + warps, ...` of `stripe` elements; the
    /// warps' f32 accumulators are added in order 0, 1, ...
    Sliced {
        /// Warps that share the tile.
        warps: usize,
        /// Elements of K in a stripe.
        stripe: usize,
        /// Elements of K in a tile.
        tile: usize,
    },
    /// FP8 slow accumulation: every `every` elements the accumulator is added to an f32 sum outside the tensor core, which
    /// starts at `+0`, and begins again at `+0`.
    Promoted {
        /// Elements between promotions (128 was measured for cuBLASLt 12.8).
        every: usize,
    },
}

/// How the partial sums of several blocks are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// `splitk_serial_out`: block 0 stores in the output type; block s adds its f32 accumulator to what is stored, and
    /// stores again.
    Serial,
    /// `splitk_ws_out`: every partial is stored in the output type; they are added in f32 from `+0`, in order.
    WorkspaceOutput,
    /// `splitk_ws_f32`: partials stay f32; they are added from `+0`, in order.
    WorkspaceF32,
}

/// A whole walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walk {
    /// One block.
    Whole(Piece),
    /// Split-K: contiguous slices of `ceil(K / (slices * tile)) * tile` elements, the last shorter.
    Split {
        /// Slices asked for.
        slices: usize,
        /// Elements of K in a tile, to which slice boundaries are aligned.
        tile: usize,
        /// How they are joined.
        combine: Combine,
        /// The walk of a slice.
        piece: Piece,
    },
    /// Stream-K: K is cut anywhere; the f32 partials are added in the order in which the blocks took their turns, the last
    /// adding the workspace to its own.
    StreamK {
        /// Where a block ends and the next begins, ascending, within `1..K`.
        cuts: Vec<usize>,
        /// The order of the turns, as indices of blocks along K.
        order: Vec<usize>,
        /// The walk of a block's part.
        piece: Piece,
    },
}

impl Walk {
    /// The recipe's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Whole(Piece::Single) => "single_walk",
            Self::Whole(Piece::Sliced { .. }) => "sliced_k",
            Self::Whole(Piece::Promoted { .. }) => "fp8_slow_accumulation",
            Self::Split { combine: Combine::Serial, .. } => "splitk_serial_out",
            Self::Split { combine: Combine::WorkspaceOutput, .. } => "splitk_ws_out",
            Self::Split { combine: Combine::WorkspaceF32, .. } => "splitk_ws_f32",
            Self::StreamK { .. } => "stream_k",
        }
    }

    /// How well the order is established, and on what (`specs/kernel-recipes.md` 5.2, 14).
    #[must_use]
    pub const fn evidence(&self) -> (Confidence, &'static str) {
        match self {
            Self::Whole(Piece::Single) => (Confidence::Hardware, "published runs on A100, L40S, H100, 0 differences"),
            Self::Split { combine: Combine::Serial, .. } => {
                (Confidence::Hardware, "published runs on A100 (2 and 4 slices) and L40S (3), 0 differences")
            }
            Self::Split { combine: Combine::WorkspaceOutput, .. } => {
                (Confidence::Hardware, "published runs on A100 (5 slices) and L40S (3), 0 differences")
            }
            Self::Split { combine: Combine::WorkspaceF32, .. } => {
                (Confidence::Open, "likely: the published rate of differing outputs on H100 agrees")
            }
            Self::Whole(Piece::Promoted { .. }) => (Confidence::Open, "likely: an interval of 128 was measured"),
            Self::Whole(Piece::Sliced { .. }) => (Confidence::Open, "from disassembly by others; no published run"),
            Self::StreamK { .. } => (Confidence::Open, "from source code"),
        }
    }

    /// The slice boundaries of split-K.
    #[must_use]
    pub fn slices(k: usize, slices: usize, tile: usize) -> Vec<Range<usize>> {
        let length = k.div_ceil(slices * tile).max(1) * tile;
        (0..k).step_by(length).map(|start| start..(start + length).min(k)).collect()
    }

    /// One output element: the dot product of a row of A and a column of B.
    ///
    /// `step` is the k of the matrix instruction; elements beyond K are zeros. `a` and `b` are element bits. The result is
    /// bits of `output`.
    ///
    /// # Panics
    /// If `a` and `b` differ in length, `step` is 0, or `cuts` and `order` do not describe blocks.
    #[must_use]
    pub fn element(&self, op: &Operation, step: usize, output: Output, a: &[u64], b: &[u64]) -> u32 {
        assert_eq!(a.len(), b.len(), "A and B have one length, K");
        let k = a.len();
        let part = |piece: &Piece, range: Range<usize>| piece.sum(op, step, a, b, range);
        let acc = match self {
            Self::Whole(piece) => part(piece, 0..k),
            Self::Split { slices, tile, combine, piece } => {
                let partials = Self::slices(k, *slices, *tile).into_iter().map(|range| part(piece, range));
                match combine {
                    Combine::Serial => {
                        partials.reduce(|stored, partial| add(partial, output.round_trip(stored))).unwrap_or(0)
                    }
                    Combine::WorkspaceOutput => partials.map(|p| output.round_trip(p)).fold(0, add),
                    Combine::WorkspaceF32 => partials.fold(0, add),
                }
            }
            Self::StreamK { cuts, order, piece } => {
                let ends: Vec<usize> = cuts.iter().copied().chain([k]).collect();
                assert!(ends.is_sorted_by(|a, b| a < b), "cuts ascend within K");
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().copied().eq(0..ends.len()), "every block has one turn");
                let range = |i: usize| i.checked_sub(1).map_or(0, |before| ends[before])..ends[i];
                let mut turns = order.iter().map(|&i| part(piece, range(i)));
                let first = turns.next().unwrap_or(0);
                turns.fold(first, |workspace, own| add(own, workspace))
            }
        };
        output.bits(acc)
    }
}

impl Piece {
    /// The f32 accumulator of `range`.
    fn sum(&self, op: &Operation, step: usize, a: &[u64], b: &[u64], range: Range<usize>) -> u32 {
        match *self {
            Self::Single => chain(op, step, a, b, 0, range),
            Self::Sliced { warps, stripe, tile } => {
                let warp = |p: usize| {
                    range.clone().step_by(tile).fold(0, |acc, start| {
                        let end = (start + tile).min(range.end);
                        let stripes = (start..end).step_by(stripe).skip(p).step_by(warps);
                        stripes.fold(acc, |acc, from| chain(op, step, a, b, acc, from..(from + stripe).min(end)))
                    })
                };
                (0..warps).map(warp).reduce(add).unwrap_or(0)
            }
            Self::Promoted { every } => range
                .clone()
                .step_by(every)
                .map(|start| chain(op, step, a, b, 0, start..(start + every).min(range.end)))
                .fold(0, add),
        }
    }
}

/// Matrix instructions over `range`, k ascending, the accumulator going from one to the next.
fn chain(op: &Operation, step: usize, a: &[u64], b: &[u64], acc: u32, range: Range<usize>) -> u32 {
    range.clone().step_by(step).fold(acc, |acc, start| {
        let end = (start + step).min(range.end);
        let padded = |x: &[u64]| -> Vec<u64> {
            let mut x = x[start..end].to_vec();
            x.resize(step, 0);
            x
        };
        op.dot(&padded(a), &padded(b), u64::from(acc)) as u32
    })
}
