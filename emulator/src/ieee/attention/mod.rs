//! Softmax attention of many queries over one head's keys and values, by fused multiply-adds.
//!
//! Scores sixteen keys at a time, outputs sixteen columns at a time. Deliberately missing: masks other than "the first so many keys",
//! windows, heads whose width is no multiple of 16.

mod kernel;
#[cfg(test)]
mod tests;

use super::Line;
use crate::simd::Level;
use crate::simd::lanes;
use kernel::{Attend, Call};

/// Keys of a tile.
pub const TILE: usize = 32;
/// Queries that are taken through the tiles together.
const TOGETHER: usize = 4;

/// Keys and values of one head by position, packed: 4 bytes a key element and value element together.
#[derive(Clone, Debug)]
pub struct Context {
    width: usize,
    positions: usize,
    /// By tile and column: keys 0 to 15 of the tile in the low halves, 16 to 31 in the high halves; absent ones are zeros.
    keys: Vec<Line>,
    /// By position: pairs of columns, in runs of 32 of which the last may be padded with zeros.
    values: Vec<Line>,
}

impl Context {
    /// Packs `positions` keys and values of `width` bf16. `row(position, key, value)` fills in one position: pairs of elements, `width / 2`
    /// words each.
    ///
    /// # Panics
    /// If `width` is no positive multiple of 16.
    pub fn pack(width: usize, positions: usize, mut row: impl FnMut(usize, &mut [u32], &mut [u32])) -> Self {
        assert!(width > 0 && width.is_multiple_of(16), "a head of {width} columns");
        let (tiles, spans) = (positions.div_ceil(TILE), spans(width));
        let mut keys = vec![[0; 16]; tiles * width];
        let mut values = vec![[0; 16]; positions * spans];
        let mut key = vec![0; width / 2];
        for position in 0..positions {
            let value = values[position * spans..][..spans].as_flattened_mut();
            row(position, &mut key, &mut value[..width / 2]);
            let (tile, at) = (position / TILE, position % TILE);
            let lines = &mut keys[tile * width..][..width];
            let (lane, shift) = (at % 16, at / 16 * 16);
            for (pair, lines) in key.iter().zip(lines.as_chunks_mut::<2>().0) {
                lines[0][lane] |= (pair & 0xffff) << shift;
                lines[1][lane] |= (pair >> 16) << shift;
            }
        }
        Self { width, positions, keys, values }
    }

    /// Elements of a key.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Keys.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }
}

/// Runs of 32 columns.
const fn spans(width: usize) -> usize {
    width.div_ceil(32)
}

/// A query: pairs of bf16, `width / 2` words, and how many of the keys it sees, the first ones.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Pairs of elements.
    pub q: &'a [u32],
    /// At least one, at most all.
    pub sees: usize,
}

/// `softmax(q k^T scale) v` for each query: f32 bits, `(queries, width)`. `scale` is positive: what scores are multiplied with in the
/// exponent of 2.
///
/// # Panics
/// If a query is not as wide as the keys, or sees none or more than there are.
///
/// # Bits
/// Every operation f32, nearest even; `exp2(x)` is [`super::exp2`]`(x, scale)`. Per query `m = -inf`, 32 partial sums `l = +0`, `O = +0`, then for each tile of 32 keys
/// of which the query sees any, in ascending order, `j` going over those it sees:
///
/// ```text
/// S[j] = +0; over the columns in ascending order: S[j] = fma(q, k[j], S[j])
/// m' = max(m, S[..])                             (as max.f32: a NaN counts as absent)
/// a = exp2(m - m')
/// P[j] = exp2(S[j] - m'), and +0 for a key that is not seen
/// l[j] = fma(l[j], a, P[j])
/// O = O * a;  in ascending order of j: O = fma(P[j], v[j], O)
/// ```
///
/// At the end `L` is the butterfly of `l` over distances 16, 8, 4, 2, 1, and the result `O / L`. It depends on the query and the keys it sees alone,
/// on no other query and no [`Level`]. NaN results are `7fffffff`.
#[must_use]
pub fn attend(level: Level, scale: f32, context: &Context, queries: &[Query<'_>]) -> Vec<u32> {
    let width = context.width;
    let mut out = vec![0; queries.len() * width];
    for (queries, out) in queries.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER * width)) {
        for query in queries {
            assert_eq!(query.q.len() * 2, width, "columns of a query");
            assert!((1..=context.positions).contains(&query.sees), "a query sees {} keys", query.sees);
        }
        let mut call = Call { scale, context, queries, out };
        lanes::run::<Attend>(level, &mut call);
    }
    out
}
