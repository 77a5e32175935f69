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
            for at in (k..(k + CHUNK).min(spec.range.end)).step_by(spec.terms) {
                call.mended += chunk.step::<P>(s, at);
            }
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

    /// One block, from k `at` on.
    #[inline(always)]
    fn step<P: Pairs>(&mut self, s: S, at: usize) -> usize {
        let Self { spec, rows, weights, panel, tile, clamp, min_field, .. } = *self;
        let (a, a_words) = rows.tile::<R>(tile, at, spec.terms);
        let mut operands = Operands {
            a,
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
        let mut words = [s.splat(0); R];
        for (b, a) in operands.b.iter().zip(a_words) {
            let b = P::words(s, s.load(&b.0), min_field);
            for r in 0..R {
                words[r] = s.max_halves(words[r], s.add(b, s.splat(a[r])));
            }
        }
        let mut mended = half::<S, P, R, 0>(s, spec, &operands, &words, &mut self.c[0]);
        if weights.n > panel * PANEL + 16 {
            mended += half::<S, P, R, 1>(s, spec, &operands, &words, &mut self.c[1]);
        }
        mended
    }
}

/// One half of a block: R rows and 16 columns.
#[inline(always)]
fn half<S: Lanes, P: Pairs, const R: usize, const HALF: usize>(
    s: S,
    spec: &Spec,
    operands: &Operands<'_, R>,
    words: &[S::V; R],
    c: &mut [S::V; R],
) -> usize {
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
    let mut sum = spec.accumulator(s, c, &shift);
    let mut outside = [0; ROWS];
    if operands.beyond || s.gt_unsigned(worst, s.splat(operands.limit)) != 0 {
        for r in 0..operands.valid.min(R) {
            outside[r] = if operands.beyond { !0 } else { s.gt_unsigned(shift[r], s.splat(operands.limit)) };
        }
        // With every row to be computed again, nothing here counts, and all of each row must be.
        if outside[..R].iter().all(|&lanes| lanes != 0) {
            outside[..R].fill(!0);
            return mend::<S, P, R, HALF>(s, spec, operands, &outside, [none; R], c);
        }
    }
    let cut = if spec.halved() { operands.b.len() / 2 } else { operands.b.len() };
    let ((b, b_rest), (a, a_rest)) = (operands.b.split_at(cut), operands.a.split_at(cut));
    multiply::<S, P, R, HALF>(s, a, b, &shift, &mut sum);
    let mut overflow = none;
    if !b_rest.is_empty() {
        let mut rest = [none; R];
        multiply::<S, P, R, HALF>(s, a_rest, b_rest, &shift, &mut rest);
        for r in 0..R {
            let all = s.add(sum[r], rest[r]);
            overflow = s.or(overflow, s.overflow(sum[r], rest[r], all));
            sum[r] = all;
        }
    } else if operands.check {
        let c = spec.accumulator(s, c, &shift);
        for r in 0..R {
            overflow = s.or(overflow, s.overflow(s.sub(sum[r], c[r]), c[r], sum[r]));
        }
    }
    let out = spec.results(s, &sum, &shift);
    if s.signs(overflow) != 0 && !spec.mutated(Mutation::NoOverflowCheck) {
        outside[..operands.valid.min(R)].fill(!0);
    }
    if outside != [0; ROWS] {
        return mend::<S, P, R, HALF>(s, spec, operands, &outside, out, c);
    }
    *c = out;
    0
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
    if R == 1 {
        // Two sums, of even and of odd k, so that neither chain of additions is long.
        let mut odd = s.splat(0);
        for (pair, a) in a.as_chunks::<2>().0.iter().enumerate() {
            ahead(s, b, 2 * pair + HALF);
            let even_b = columns(s, P::STORAGE, b, 2 * pair)[HALF];
            let odd_b = columns(s, P::STORAGE, b, 2 * pair + 1)[HALF];
            sum[0] = s.add(sum[0], term(s, s.mul(even_b, s.splat(a[0][0])), shift[0]));
            odd = s.add(odd, term(s, s.mul(odd_b, s.splat(a[1][0])), shift[0]));
        }
        sum[0] = s.add(sum[0], odd);
        return;
    }
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
