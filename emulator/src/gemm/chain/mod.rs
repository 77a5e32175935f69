//! The batch-invariant product: one chain of fused multiply-adds an output.

mod kernel;

use super::element::{Element, Reader, container};
use super::error::operand_size;
use super::exact::At;
use super::weights::{Line, PANEL, Weights};
use crate::Error;
use crate::format::Elem;
use crate::simd::Level;
use crate::simd::lanes;
use crate::threads;
use kernel::{Call, Fma};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Heights of row tiles that the kernel is compiled for.
const HEIGHTS: [usize; 5] = [1, 2, 4, 8, 12];

/// The rows of a product, packed for [`Chain`]: `M` rows of A, each `K` elements, as f32 in tiles of up to 12 rows.
///
/// Shape: given as `(M, K)`, row-major. Size: 4 bytes an element.
#[derive(Clone, Debug)]
pub struct ChainRows {
    m: usize,
    k: usize,
    /// Heights and, for each, where its values begin.
    tiles: Vec<(usize, usize)>,
    /// f32 bits, `(k, row)` of each tile.
    values: Vec<u32>,
}

impl ChainRows {
    /// Packs `data`, `(m, k)` row-major, of any element type up to 32 bits; it is widened exactly.
    ///
    /// # Errors
    /// [`Error::GemmOperand`] if the data is not `m * k` long or its container is not that of `elem`.
    pub fn pack<T: Element>(elem: Elem, m: usize, k: usize, data: &[T]) -> Result<Self, Error> {
        operand_size("rows", elem, container(elem), T::WIDTH, m, k, data.len())?;
        let reader = Reader::new(elem);
        let (mut tiles, mut values, mut row) = (Vec::new(), Vec::new(), 0);
        while row < m {
            let height = HEIGHTS.into_iter().find(|&h| h >= m - row).unwrap_or(12);
            let start = values.len();
            tiles.push((height, start));
            values.resize(start + height * k, 0);
            for lane in 0..height.min(m - row) {
                for (i, element) in data[(row + lane) * k..][..k].iter().enumerate() {
                    values[start + i * height + lane] = reader.value(element.bits());
                }
            }
            row += height;
        }
        Ok(Self { m, k, tiles, values })
    }

    /// Rows with padding.
    fn height(&self) -> usize {
        self.tiles.iter().map(|&(height, _)| height).sum()
    }
}

/// `D = A B`, every output `d = fma(a[k], b[k], d)` from `+0`, k ascending, and nothing else.
///
/// **Bits.** IEEE 754 fusedMultiplyAdd in binary32, to nearest even, subnormals kept: those of [`crate::scalar::fma`], and of PTX
/// `fma.rn.f32`. They depend on the row and the column alone: not on other rows, tiling, threads or [`Level`]. NaN results are
/// `7fffffff`.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    level: Level,
    threads: usize,
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

impl Chain {
    /// On one thread and the fastest level of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self { level: Level::detect(), threads: 1 }
    }

    /// On so many threads. They share the outputs, never a sum.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }

    /// With these vector instructions.
    #[must_use]
    pub fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// `x w^T` as f32 bits, `(M, N)` row-major. The weights may be of any type; they are widened exactly.
    ///
    /// # Errors
    /// [`Error::GemmOperand`] if the operands differ in K.
    pub fn run(&self, x: &ChainRows, w: &Weights) -> Result<Vec<u32>, Error> {
        let d: Vec<AtomicU32> = std::iter::repeat_with(AtomicU32::default).take(x.m * w.n).collect();
        self.each(x, w, |at, values| {
            for (to, value) in d[at.row * w.n + at.column..].iter().zip(values) {
                to.store(*value, Relaxed);
            }
        })?;
        Ok(d.into_iter().map(AtomicU32::into_inner).collect())
    }

    /// The same, handed out: `out(at, values)` gets the f32 bits of up to sixteen results of a row, all results once, in any order, on any of
    /// the threads.
    ///
    /// # Errors
    /// As [`Chain::run`].
    pub fn each(&self, x: &ChainRows, w: &Weights, out: impl Fn(At, &[u32]) + Sync) -> Result<(), Error> {
        if x.k != w.k {
            let problem = format!("K is {} of the rows and {} of these", x.k, w.k);
            return Err(Error::GemmOperand { operand: "weights", problem });
        }
        let lines = 2 * x.height();
        // Few rows: several panels at once, for enough independent chains.
        let together = if x.height() <= 2 { kernel::TOGETHER } else { 1 };
        threads::share(self.threads, (0..w.panels()).step_by(together), |panel| {
            let mut d = vec![Line::ZERO; together.min(w.panels() - panel) * lines];
            lanes::run::<Fma>(self.level, &mut Call { rows: x, weights: w, panel, d: &mut d });
            for (panel, d) in (panel..).zip(d.chunks_exact_mut(lines.max(1))) {
                for (row, halves) in d.as_chunks_mut::<2>().0.iter_mut().take(x.m).enumerate() {
                    for (half, line) in halves.iter_mut().enumerate() {
                        let column = panel * PANEL + 16 * half;
                        for word in &mut line.0 {
                            *word = if *word & 0x7fff_ffff > 0x7f80_0000 { 0x7fff_ffff } else { *word };
                        }
                        if column < w.n {
                            out(At { range: 0, row, column }, &line.0[..16.min(w.n - column)]);
                        }
                    }
                }
            }
        });
        Ok(())
    }
}
