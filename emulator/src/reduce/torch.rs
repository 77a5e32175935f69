//! PyTorch's generic reduce along a contiguous last dimension (`sum`, `mean`, the squares of HF norms).

use super::{Accumulate, Offsets, add, shuffle_down};
use crate::Error;
use crate::open::Open;

/// Which order the release uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TorchVersion {
    /// Up to 2.9: vectors for rows longer than 128, warp offsets ascending, y before x.
    UpTo2_9,
    /// From 2.10: vectors from 128, warp offsets descending, y after x.
    From2_10,
}

/// The launch shape that a reduction gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TorchShape {
    /// Elements are loaded four at a time.
    pub vectors: bool,
    /// Threads along a row.
    pub width: usize,
    /// Rows of threads in a block.
    pub height: usize,
    /// All rows of threads share one row of data.
    pub y_split: bool,
}

/// A reduction of `rows` rows of `length` f32, each starting at a multiple of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TorchReduce {
    /// The release.
    pub version: TorchVersion,
    /// Elements of a row.
    pub length: usize,
    /// Rows of the launch: batch times tokens. It decides the shape.
    pub rows: usize,
}

fn floor_pow2(n: usize) -> usize {
    1 << n.max(1).ilog2()
}

impl TorchReduce {
    /// The launch shape.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the row is split over several blocks, which depends on the number of processors.
    pub fn shape(&self) -> Result<TorchShape, Error> {
        let vectors = match self.version {
            TorchVersion::UpTo2_9 => self.length > 128,
            TorchVersion::From2_10 => self.length >= 128,
        };
        let across = floor_pow2(if vectors { self.length / 4 } else { self.length }).min(512);
        let down = floor_pow2(self.rows).min(512);
        let height = down.min(512 / across.min(32));
        let width = across.min(512 / height);
        let y_split = self.length.div_ceil(width) >= (16 * height).min(256);
        if y_split && self.length.div_ceil(width * height) >= 256 {
            return Err(Open::TorchSeveralBlocks.unsupported());
        }
        Ok(TorchShape { vectors, width, height, y_split })
    }

    /// The sum of one row.
    ///
    /// # Errors
    /// Those of [`TorchReduce::shape`].
    ///
    /// # Panics
    /// If the row does not have `length` elements.
    pub fn sum(&self, row: &[u32]) -> Result<u32, Error> {
        assert_eq!(row.len(), self.length, "a row of the stated length");
        let shape = self.shape()?;
        let height = if shape.y_split { shape.height } else { 1 };
        let threads = shape.width * height;
        let partials: Vec<u32> = (0..threads).map(|t| thread(row, shape.vectors, t, threads)).collect();
        let rows: Vec<&[u32]> = partials.chunks(shape.width).collect();
        Ok(match self.version {
            TorchVersion::UpTo2_9 => {
                let columns: Vec<u32> =
                    (0..shape.width).map(|x| halved(rows.iter().map(|row| row[x]).collect(), 1)[0]).collect();
                across(columns, Offsets::Ascending)
            }
            TorchVersion::From2_10 => {
                halved(rows.iter().map(|row| across(row.to_vec(), Offsets::Descending)).collect(), 1)[0]
            }
        })
    }
}

/// One thread's partial: four accumulators, combined from the left.
fn thread(row: &[u32], vectors: bool, t: usize, threads: usize) -> u32 {
    let mut acc = [0; 4];
    if vectors {
        let (whole, rest) = row.as_chunks::<4>();
        for vector in whole.iter().skip(t).step_by(threads) {
            for (acc, &x) in acc.iter_mut().zip(vector) {
                *acc = Accumulate::Add.step(*acc, x);
            }
        }
        if let Some(&x) = rest.get(t) {
            acc[0] = add(acc[0], x);
        }
    } else {
        for (i, &x) in row.iter().skip(t).step_by(threads).enumerate() {
            acc[i % 4] = add(acc[i % 4], x);
        }
    }
    add(add(add(acc[0], acc[1]), acc[2]), acc[3])
}

/// Halving through shared memory, the upper half added to the lower, until `least` are left.
fn halved(mut values: Vec<u32>, least: usize) -> Vec<u32> {
    while values.len() > least {
        let upper = values.split_off(values.len() / 2);
        for (low, high) in values.iter_mut().zip(upper) {
            *low = add(*low, high);
        }
    }
    values
}

fn across(values: Vec<u32>, offsets: Offsets) -> u32 {
    let warp = halved(values, 32);
    shuffle_down(&warp, warp.len(), offsets)
}
