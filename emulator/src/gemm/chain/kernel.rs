//! The kernel: as many chains as registers hold, each from the first k to the last.

use super::ChainRows;
use crate::gemm::tile::columns;
use crate::gemm::weights::{Line, Storage, Weights};
use crate::simd::lanes::{Kernel, Lanes};

/// k of a chunk. Accumulators go through memory between chunks, so it changes no bit.
const CHUNK: usize = 512;
/// Panels that few rows are multiplied with at once.
pub(super) const TOGETHER: usize = 4;
/// How far ahead lines are asked for, to the second-level cache, where weights are read once: 16 KiB of each panel.
const AHEAD: usize = 256;

/// All rows of up to [`TOGETHER`] panels.
pub(super) struct Call<'a> {
    pub rows: &'a ChainRows,
    pub weights: &'a Weights,
    /// The first.
    pub panel: usize,
    /// D: `(panel, row, half)`.
    pub d: &'a mut [Line],
}

/// The kernel.
pub(super) struct Fma;

impl Kernel for Fma {
    type Call<'a> = Call<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Call<'_>) {
        match call.weights.storage {
            Storage::Bf16 => all::<S, AsBf16>(s, call),
            Storage::F16 => all::<S, AsF16>(s, call),
            Storage::F32 => all::<S, AsF32>(s, call),
        }
    }
}

/// A [`Storage`] as a type.
trait Held {
    const STORAGE: Storage;
}

struct AsBf16;
struct AsF16;
struct AsF32;

impl Held for AsBf16 {
    const STORAGE: Storage = Storage::Bf16;
}
impl Held for AsF16 {
    const STORAGE: Storage = Storage::F16;
}
impl Held for AsF32 {
    const STORAGE: Storage = Storage::F32;
}

#[inline(always)]
fn all<S: Lanes, T: Held>(s: S, call: &mut Call<'_>) {
    let Call { rows, weights, panel, .. } = *call;
    let lines = 2 * rows.height();
    let panels = call.d.len() / lines.max(1);
    for k in (0..rows.k).step_by(CHUNK) {
        let count = CHUNK.min(rows.k - k);
        let mut at = 0;
        for &(height, start) in &rows.tiles {
            let a = &rows.values[start + k * height..][..count * height];
            let work = Part { weights, panel, k, lines, at };
            match (height, panels, S::ROWS) {
                (1, 4, 8) => work.run::<S, T, 1, 1, 4, 2>(s, a, call.d),
                (2, 4, 8) => work.run::<S, T, 2, 2, 4, 2>(s, a, call.d),
                (1, _, 8) => work.run::<S, T, 1, 1, 1, 2>(s, a, call.d),
                (2, _, 8) => work.run::<S, T, 2, 2, 1, 2>(s, a, call.d),
                (4, _, 8) => work.run::<S, T, 4, 4, 1, 2>(s, a, call.d),
                (8, _, 8) => work.run::<S, T, 8, 8, 1, 2>(s, a, call.d),
                (_, _, 8) => work.run::<S, T, 12, 12, 1, 2>(s, a, call.d),
                // A vector is two registers, of sixteen.
                (1, 4, _) => work.run::<S, T, 1, 1, 2, 2>(s, a, call.d),
                (1, _, _) => work.run::<S, T, 1, 1, 1, 2>(s, a, call.d),
                (2, _, _) => work.run::<S, T, 2, 2, 1, 2>(s, a, call.d),
                (4, _, _) => work.run::<S, T, 4, 4, 1, 1>(s, a, call.d),
                (8, _, _) => work.run::<S, T, 8, 4, 1, 1>(s, a, call.d),
                _ => work.run::<S, T, 12, 6, 1, 1>(s, a, call.d),
            }
            at += height;
        }
    }
}

/// A chunk of K of one row tile.
#[derive(Clone, Copy)]
struct Part<'a> {
    weights: &'a Weights,
    panel: usize,
    k: usize,
    /// Lines of a panel's D.
    lines: usize,
    /// First row.
    at: usize,
}

impl Part<'_> {
    /// A tile of `H` rows, `R` of them, `P` panels and `W` halves of a panel at a time.
    #[inline(always)]
    fn run<S: Lanes, T: Held, const H: usize, const R: usize, const P: usize, const W: usize>(
        self,
        s: S,
        a: &[u32],
        d: &mut [Line],
    ) {
        let (a, _) = a.as_chunks::<H>();
        for first in (0..d.len() / self.lines).step_by(P) {
            let panels: [&[Line]; P] = std::array::from_fn(|p| self.weights.panel(self.panel + first + p, self.k));
            for sub in 0..H / R {
                for half in (0..2).step_by(W) {
                    self.block::<S, T, H, R, P, W>(s, a, panels, [first, sub, half], d);
                }
            }
        }
    }

    #[inline(always)]
    fn block<S: Lanes, T: Held, const H: usize, const R: usize, const P: usize, const W: usize>(
        self,
        s: S,
        a: &[[u32; H]],
        panels: [&[Line]; P],
        [first, sub, half]: [usize; 3],
        d: &mut [Line],
    ) {
        let line = |p: usize, r: usize, w: usize| (first + p) * self.lines + (self.at + sub * R + r) * 2 + half + w;
        let mut sums = [[[s.splat(0); W]; P]; R];
        for r in 0..R {
            for p in 0..P {
                for w in 0..W {
                    sums[r][p][w] = s.load(&d[line(p, r, w)].0);
                }
            }
        }
        let per_k = if T::STORAGE == Storage::F32 { 2 } else { 1 };
        let panels = panels.map(|lines| &lines[..a.len() * per_k]);
        for (k, a) in a.iter().enumerate() {
            let a = &a.as_chunks::<R>().0[sub];
            let mut b = [[s.splat(0); W]; P];
            for p in 0..P {
                if P > 1 {
                    s.prefetch(panels[p].as_ptr().wrapping_add(k * per_k + AHEAD).cast());
                }
                let both = columns(s, T::STORAGE, panels[p], k);
                for w in 0..W {
                    b[p][w] = if half + w == 0 { both[0] } else { both[1] };
                }
            }
            for r in 0..R {
                let a = s.splat(a[r]);
                for p in 0..P {
                    for w in 0..W {
                        sums[r][p][w] = s.fma(a, b[p][w], sums[r][p][w]);
                    }
                }
            }
        }
        for r in 0..R {
            for p in 0..P {
                for w in 0..W {
                    s.store(sums[r][p][w], &mut d[line(p, r, w)].0);
                }
            }
        }
    }
}
