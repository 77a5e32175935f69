//! The kernel of few rows, as in a decode step: weights are read once, as they are stored, so memory sets the pace.
//!
//! Exponents are 16-bit words, two columns to a lane: the field of an operand in bits 7 to 14, and sums of two fields need no more than 16
//! bits. The same two operations that make f32 of a pair of bf16 make exponent fields of a pair of maxima.

use super::mend::{Mend, ROWS, Work};
use super::rows::Rows;
use super::spec::{FIELD, MOST_TERMS, Mutation, Spec, Words, facts_of};
use super::tile::{columns, term};
use super::weights::{Line, PANEL, Storage, Weights};
use crate::simd::lanes::{Kernel, Lanes};
use std::ops::Range;

/// k of a chunk: its weights stay in the first-level cache for the row tiles.
const CHUNK: usize = 256;
/// How far ahead lines are asked for, to the second-level cache: 12 KiB. (Measured: 4 and 32 KiB are slower, and so are two panels at once.)
const AHEAD: usize = 192;
/// Halves of a panel.
pub(super) const HALVES: usize = 2;

/// All row tiles of a panel of 32 columns.
pub(super) struct Call<'a> {
    pub spec: &'a Spec,
    pub rows: &'a Rows,
    pub weights: &'a Weights,
    /// Of 32 columns.
    pub panel: usize,
    pub tiles: Range<usize>,
    /// C, then D: `(tile, row, half)`.
    pub d: &'a mut [[Line; HALVES]],
    /// Vectors of 16 outputs that a block computed again.
    pub mended: usize,
}

/// The kernel.
pub(super) struct Few;

impl Kernel for Few {
    type Call<'a> = Call<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Call<'_>) {
        match call.weights.storage {
            Storage::F16 => by_height::<S, F16Words>(s, call),
            _ => by_height::<S, Bf16Words>(s, call),
        }
    }
}

#[inline(always)]
fn by_height<S: Lanes, P: Pairs>(s: S, call: &mut Call<'_>) {
    match call.rows.height {
        1 => panel::<S, P, 1>(s, call),
        2 => panel::<S, P, 2>(s, call),
        _ => panel::<S, P, 4>(s, call),
    }
}

/// Bias of f32 less that of f16.
const REBIAS: u32 = 127 - 15;

/// Exponent words of pairs of elements.
trait Pairs {
    const STORAGE: Storage;
    fn words<S: Lanes>(s: S, pairs: S::V, min_field: S::V) -> S::V;
}

struct Bf16Words;
/// f16, and what f16 holds.
struct F16Words;

impl Pairs for Bf16Words {
    const STORAGE: Storage = Storage::Bf16;
    #[inline(always)]
    fn words<S: Lanes>(s: S, pairs: S::V, _: S::V) -> S::V {
        s.and(pairs, s.splat(0x7f80_7f80))
    }
}

impl Pairs for F16Words {
    const STORAGE: Storage = Storage::F16;
    #[inline(always)]
    fn words<S: Lanes>(s: S, pairs: S::V, min_field: S::V) -> S::V {
        // The field that subnormals share may be above f16's own.
        let field = s.max_halves(s.shr::<3>(s.and(pairs, s.splat(0x7c00_7c00))), min_field);
        let magnitude = s.and(pairs, s.splat(0x7fff_7fff));
        s.add_where_nonzero_halves(magnitude, field, s.splat(REBIAS << 7 | REBIAS << 23))
    }
}

/// All row tiles of a panel, chunk of K by chunk.
#[inline(always)]
fn panel<S: Lanes, P: Pairs, const R: usize>(s: S, call: &mut Call<'_>) {
    let Call { spec, rows, weights, panel, .. } = *call;
    let (d, _) = call.d.as_chunks_mut::<R>();
    let mut settled = [None; 4];
    for ((clamp, d), tile) in settled.iter_mut().zip(d.iter()).zip(call.tiles.clone()) {
        *clamp = Chunk::<S, R>::new(s, spec, rows, weights, panel, tile, d).clamp;
    }
    for k in spec.range.clone().step_by(CHUNK) {
        for (i, (tile, d)) in call.tiles.clone().zip(d.iter_mut()).enumerate() {
            let mut chunk = Chunk::<S, R>::load(s, spec, rows, weights, panel, tile, d);
            chunk.clamp = settled[i];
            call.mended += chunk.run::<P>(s, k..(k + CHUNK).min(spec.range.end));
            chunk.store(s, d);
        }
    }
}

/// One row tile of a panel.
struct Chunk<'a, S: Lanes, const R: usize> {
    spec: &'a Spec,
    rows: &'a Rows,
    weights: &'a Weights,
    panel: usize,
    tile: usize,
    clamp: Option<u32>,
    min_field: S::V,
    /// Accumulators stay in registers: their way through memory would be part of a chain that nothing else hides.
    c: [[S::V; R]; HALVES],
}

/// The operands of a block.
struct Operands<'a, const R: usize> {
    a: &'a [[u32; R]],
    b: &'a [Line],
    /// Sums of two fields carry two biases.
    clamp: u32,
    limit: u32,
    beyond: bool,
    check: bool,
    valid: usize,
}

impl<'a, S: Lanes, const R: usize> Chunk<'a, S, R> {
    #[inline(always)]
    fn load(
        s: S,
        spec: &'a Spec,
        rows: &'a Rows,
        weights: &'a Weights,
        panel: usize,
        tile: usize,
        d: &[[Line; HALVES]; R],
    ) -> Self {
        let min_field = spec.min_fields[1].saturating_sub(REBIAS);
        let min_field = s.splat(min_field << 7 | min_field << 23);
        let mut c = [[s.splat(0); R]; HALVES];
        for r in 0..R {
            for half in 0..HALVES {
                c[half][r] = s.load(&d[r][half].0);
            }
        }
        Self { spec, rows, weights, panel, tile, clamp: None, min_field, c }
    }

    /// With the clamp of the initial accumulators.
    #[inline(always)]
    fn new(
        s: S,
        spec: &'a Spec,
        rows: &'a Rows,
        weights: &'a Weights,
        panel: usize,
        tile: usize,
        d: &[[Line; HALVES]; R],
    ) -> Self {
        let clamp = spec.clamp::<Words>(rows.facts(tile), weights.facts(panel), facts_of(d.as_flattened()));
        Self { clamp, ..Self::load(s, spec, rows, weights, panel, tile, d) }
    }

    #[inline(always)]
    fn store(&self, s: S, d: &mut [[Line; HALVES]; R]) {
        for r in 0..R {
            for half in 0..HALVES {
                s.store(self.c[half][r], &mut d[r][half].0);
            }
        }
    }

    /// Some blocks, from `k` on.
    #[inline(always)]
    fn run<P: Pairs>(&mut self, s: S, k: Range<usize>) -> usize {
        let terms = self.spec.terms;
        let mut mended = 0;
        let mut words = self.words::<P>(s, k.start);
        for at in k.clone().step_by(terms) {
            let operands = self.operands(at);
            if R > 1 {
                mended += self.step::<P>(s, &operands, &words);
                if at + terms < k.end {
                    words = self.words::<P>(s, at + terms);
                }
            } else {
                // (After the last block there is none: the same again.)
                let next = if at + terms < k.end { at + terms } else { at };
                mended += self.single::<P>(s, &operands, &mut words, next);
            }
        }
        mended
    }

    /// The operands of the block from k `at` on.
    #[inline(always)]
    fn operands(&self, at: usize) -> Operands<'a, R> {
        let Self { spec, rows, weights, panel, tile, clamp, .. } = *self;
        let mut operands = Operands {
            a: rows.tile::<R>(tile, at, spec.terms).0,
            b: &weights.panel(panel, at)[..spec.terms],
            clamp: (clamp.unwrap_or(0) + 127) << FIELD,
            limit: !0,
            beyond: false,
            check: spec.overflows_perhaps(rows.significands(tile, at, spec.terms)),
            valid: rows.valid(tile),
        };
        if clamp.is_none() {
            let max_a = rows.max(tile, at, spec.terms);
            let window = spec.window_of_words(max_a, weights.max(panel, at, spec.terms));
            (operands.limit, operands.beyond) = (window.limit, window.beyond);
        }
        operands
    }

    /// The largest exponent words of the block from k `at` on.
    #[inline(always)]
    fn words<P: Pairs>(&self, s: S, at: usize) -> [S::V; R] {
        let Self { spec, rows, weights, panel, tile, min_field, .. } = *self;
        let (_, a_words) = rows.tile::<R>(tile, at, spec.terms);
        let mut words = [s.splat(0); R];
        for (b, a) in weights.panel(panel, at)[..spec.terms].iter().zip(a_words) {
            let b = P::words(s, s.load(&b.0), min_field);
            for r in 0..R {
                words[r] = s.max_halves(words[r], s.add(b, s.splat(a[r])));
            }
        }
        words
    }

    /// One block of several rows: half by half, so that all its sums and scales fit the registers.
    #[inline(always)]
    fn step<P: Pairs>(&mut self, s: S, operands: &Operands<'_, R>, words: &[S::V; R]) -> usize {
        let mut mended = self.half::<P, 0>(s, operands, words);
        if self.weights.n > self.panel * PANEL + 16 {
            mended += self.half::<P, 1>(s, operands, words);
        }
        mended
    }

    #[inline(always)]
    fn half<P: Pairs, const HALF: usize>(&mut self, s: S, operands: &Operands<'_, R>, words: &[S::V; R]) -> usize {
        let spec = self.spec;
        let mut block = Block::open::<HALF>(s, spec, operands, words, &self.c[HALF]);
        if !block.hopeless {
            let cut = if spec.halved() { operands.b.len() / 2 } else { operands.b.len() };
            let ((b, b_rest), (a, a_rest)) = (operands.b.split_at(cut), operands.a.split_at(cut));
            multiply::<S, P, R, HALF>(s, a, b, &block.shift, &mut block.sum);
            if !b_rest.is_empty() {
                let mut rest = [s.splat(0); R];
                multiply::<S, P, R, HALF>(s, a_rest, b_rest, &block.shift, &mut rest);
                block.take(s, &rest, true);
            }
        }
        block.close::<P, HALF>(s, spec, operands, &mut self.c[HALF])
    }

    /// One block of a single row, both halves at once, and the exponent words of the block from k `next` on: they do not depend on the
    /// accumulators, whose chain would else be waited for.
    #[inline(always)]
    fn single<P: Pairs>(&mut self, s: S, operands: &Operands<'_, R>, words: &mut [S::V; R], next: usize) -> usize {
        let Self { spec, rows, weights, panel, tile, min_field, .. } = *self;
        let mut low = Block::open::<0>(s, spec, operands, words, &self.c[0]);
        let mut high = Block::open::<1>(s, spec, operands, words, &self.c[1]);
        let (_, next_a) = rows.tile::<R>(tile, next, spec.terms);
        let next_b = &weights.panel(panel, next)[..spec.terms];
        // Two sums each, of even and of odd k, so that no chain of additions is long.
        let (mut low_odd, mut high_odd) = ([s.splat(0); R], [s.splat(0); R]);
        words[0] = s.splat(0);
        let ((b, _), (a, _)) = (operands.b.as_chunks::<2>(), operands.a.as_chunks::<2>());
        let ((next_b, _), (next_a, _)) = (next_b.as_chunks::<2>(), next_a.as_chunks::<2>());
        for (((b, a), next_b), next_a) in b.iter().zip(a).zip(next_b).zip(next_a) {
            ahead(s, b, 0);
            let both = columns(s, P::STORAGE, b, 0);
            low.sum[0] = s.add(low.sum[0], term(s, s.mul(both[0], s.splat(a[0][0])), low.shift[0]));
            high.sum[0] = s.add(high.sum[0], term(s, s.mul(both[1], s.splat(a[0][0])), high.shift[0]));
            ahead(s, b, 1);
            let both = columns(s, P::STORAGE, b, 1);
            low_odd[0] = s.add(low_odd[0], term(s, s.mul(both[0], s.splat(a[1][0])), low.shift[0]));
            high_odd[0] = s.add(high_odd[0], term(s, s.mul(both[1], s.splat(a[1][0])), high.shift[0]));
            for (b, a) in next_b.iter().zip(next_a) {
                let word = P::words(s, s.load(&b.0), min_field);
                words[0] = s.max_halves(words[0], s.add(word, s.splat(a[0])));
            }
        }
        low.take(s, &low_odd, spec.halved());
        high.take(s, &high_odd, spec.halved());
        let mended = low.close::<P, 0>(s, spec, operands, &mut self.c[0]);
        mended + high.close::<P, 1>(s, spec, operands, &mut self.c[1])
    }
}

/// One block of R rows and 16 columns under way.
struct Block<S: Lanes, const R: usize> {
    /// `F - E`, and the rescaling, in the place of the exponent field.
    shift: [S::V; R],
    /// The accumulators' terms, then the products' too.
    sum: [S::V; R],
    /// Sign bit set where i32 overflowed.
    overflow: S::V,
    /// Which outputs are not to be trusted.
    outside: [u16; ROWS],
    /// None is.
    hopeless: bool,
}

impl<S: Lanes, const R: usize> Block<S, R> {
    /// Aligned, before the products.
    #[inline(always)]
    fn open<const HALF: usize>(
        s: S,
        spec: &Spec,
        operands: &Operands<'_, R>,
        words: &[S::V; R],
        c: &[S::V; R],
    ) -> Self {
        let none = s.splat(0);
        let top = s.splat((spec.highest() + 127) << FIELD);
        let (mut shift, mut worst) = ([none; R], none);
        let fields = spec.fields(s, c);
        for r in 0..R {
            let words = if HALF == 0 { s.shl::<16>(words[r]) } else { s.and(words[r], s.splat(0xffff_0000)) };
            let accumulator = s.add(fields[r], s.splat(127 << FIELD));
            let exponent = s.max_unsigned(s.max_unsigned(words, accumulator), s.splat(operands.clamp));
            shift[r] = s.sub(top, exponent);
            worst = s.max_unsigned(worst, shift[r]);
        }
        let sum = spec.accumulator(s, c, &shift);
        let (mut outside, mut hopeless) = ([0; ROWS], false);
        if operands.beyond || s.gt_unsigned(worst, s.splat(operands.limit)) != 0 {
            for r in 0..operands.valid.min(R) {
                outside[r] = if operands.beyond { !0 } else { s.gt_unsigned(shift[r], s.splat(operands.limit)) };
            }
            // With every row to be computed again, nothing here counts, and all of each row must be.
            hopeless = outside[..R].iter().all(|&lanes| lanes != 0);
            if hopeless {
                outside[..R].fill(!0);
            }
        }
        Self { shift, sum, overflow: none, outside, hopeless }
    }

    /// Takes in a sum of other products, which may overflow where `noticed`.
    #[inline(always)]
    fn take(&mut self, s: S, rest: &[S::V; R], noticed: bool) {
        for r in 0..R {
            let all = s.add(self.sum[r], rest[r]);
            if noticed {
                self.overflow = s.or(self.overflow, s.overflow(self.sum[r], rest[r], all));
            }
            self.sum[r] = all;
        }
    }

    /// The sums as accumulators, what is not to be trusted computed again; how many rows were.
    #[inline(always)]
    fn close<P: Pairs, const HALF: usize>(
        mut self,
        s: S,
        spec: &Spec,
        operands: &Operands<'_, R>,
        c: &mut [S::V; R],
    ) -> usize {
        if operands.check && !spec.halved() {
            let c = spec.accumulator(s, c, &self.shift);
            for r in 0..R {
                let products = s.sub(self.sum[r], c[r]);
                self.overflow = s.or(self.overflow, s.overflow(products, c[r], self.sum[r]));
            }
        }
        let out = spec.results(s, &self.sum, &self.shift);
        if s.signs(self.overflow) != 0 && !spec.mutated(Mutation::NoOverflowCheck) {
            self.outside[..operands.valid.min(R)].fill(!0);
        }
        if self.outside != [0; ROWS] {
            return mend::<S, P, R, HALF>(s, spec, operands, &self.outside, out, c);
        }
        *c = out;
        0
    }
}

/// Stores the results, those of outputs outside computed again.
#[inline(always)]
fn mend<S: Lanes, P: Pairs, const R: usize, const HALF: usize>(
    s: S,
    spec: &Spec,
    operands: &Operands<'_, R>,
    outside: &[u16; ROWS],
    out: [S::V; R],
    c: &mut [S::V; R],
) -> usize {
    let (mut a, mut b, none) = ([[0; ROWS]; MOST_TERMS], [Line::ZERO; MOST_TERMS], [Line::ZERO; ROWS]);
    for k in 0..operands.b.len() {
        s.store(columns(s, P::STORAGE, operands.b, k)[HALF], &mut b[k].0);
        a[k][..R].copy_from_slice(&operands.a[k]);
    }
    let (a, b) = (&a[..operands.a.len()], &b[..operands.b.len()]);
    let mut work = Work { spec, a, b, stride: 1, row: 0, c: none, outside: *outside, d: none, mended: 0 };
    for r in 0..R {
        s.store(c[r], &mut work.c[r].0);
        s.store(out[r], &mut work.d[r].0);
    }
    s.outlined::<Mend>(&mut work);
    for r in 0..R {
        c[r] = s.load(&work.d[r].0);
    }
    work.mended
}

/// Adds the truncated products of R rows and 16 columns.
#[inline(always)]
fn multiply<S: Lanes, P: Pairs, const R: usize, const HALF: usize>(
    s: S,
    a: &[[u32; R]],
    b: &[Line],
    shift: &[S::V; R],
    sum: &mut [S::V; R],
) {
    part::<S, P, R, HALF, 0>(s, a, b, shift, sum);
    if S::PARTS == 2 {
        part::<S, P, R, HALF, 1>(s, a, b, shift, sum);
    }
}

/// The same for one part of the columns; the compiler drops the others.
#[inline(always)]
fn part<S: Lanes, P: Pairs, const R: usize, const HALF: usize, const PART: usize>(
    s: S,
    a: &[[u32; R]],
    b: &[Line],
    shift: &[S::V; R],
    sum: &mut [S::V; R],
) {
    let mut out = *sum;
    for (k, a) in a.iter().enumerate() {
        if k % 2 == HALF && PART == 0 {
            ahead(s, b, k);
        }
        let b = columns(s, P::STORAGE, b, k)[HALF];
        for r in 0..R {
            out[r] = s.add(out[r], term(s, s.mul(b, s.splat(a[r])), shift[r]));
        }
    }
    for r in 0..R {
        sum[r] = s.part::<PART>(sum[r], out[r]);
    }
}

/// Asks for the line of `k` some blocks later. The halves of a block share its lines, so that requests do not come in bursts, for
/// which the first-level cache has too few places.
#[inline(always)]
fn ahead<S: Lanes>(s: S, lines: &[Line], k: usize) {
    s.prefetch(lines.as_ptr().wrapping_add(k + AHEAD).cast());
}
