//! The kernel of many rows: tiles of 8 rows and 64 columns, exponents in bytes.
//!
//! B is expanded once for a chunk of K, to f32 and to exponent bytes, and read by all row tiles. Lanes are columns: of each of four
//! groups of 16, byte `g` of lane `i` belongs to column `16 g + i`. C lives in memory, one load and one store a block, so the chunks
//! change no bit.

use super::element::Facts;
use super::mend::{Mend, ROWS, Work};
use super::rows::{self, Rows, TALL};
use super::spec::{Bytes, EXPONENT, FIELD, Mutation, Spec, facts_of};
use super::weights::{Line, PANEL, Storage, Weights};
use crate::mma::convert;
use crate::simd::lanes::{Kernel, Lanes};
use std::ops::Range;

/// k of a chunk.
const CHUNK: usize = 256;
/// Groups of 16 columns.
pub(super) const GROUPS: usize = 4;

/// What a thread keeps between calls.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    values: Vec<[Line; GROUPS]>,
    bytes: Vec<Line>,
    clamps: Vec<Option<u32>>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self { values: vec![[Line::ZERO; GROUPS]; CHUNK], bytes: vec![Line::ZERO; CHUNK], clamps: Vec::new() }
    }
}

/// Some row tiles of a panel of 64 columns.
pub(super) struct Call<'a> {
    pub spec: &'a Spec,
    pub rows: &'a Rows,
    pub weights: &'a Weights,
    /// Of 64 columns.
    pub panel: usize,
    pub tiles: Range<usize>,
    /// C, then D: `(tile, row, group)`.
    pub d: &'a mut [[[Line; GROUPS]; TALL]],
    pub scratch: &'a mut Scratch,
    /// Vectors of 16 outputs that a block computed again.
    pub mended: usize,
}

/// The kernel.
pub(super) struct Tiles;

impl Kernel for Tiles {
    type Call<'a> = Call<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Call<'_>) {
        let Call { spec, rows, weights, panel, .. } = *call;
        let groups = (weights.n - panel * 2 * PANEL).div_ceil(16).min(GROUPS);
        let facts = (2 * panel..weights.panels().min(2 * panel + 2))
            .fold(Facts::NONE, |facts, panel| facts.and(weights.facts(panel)));
        call.scratch.clamps.clear();
        for (tile, d) in call.tiles.clone().zip(call.d.iter()) {
            // Partial sums start from zero.
            let c = if spec.promote.is_some() { Facts::NONE } else { facts_of(d.as_flattened()) };
            call.scratch.clamps.push(spec.clamp::<Bytes>(rows.facts(tile), facts, c));
        }
        for k in spec.range.clone().step_by(CHUNK) {
            let count = CHUNK.min(spec.range.end - k);
            expand(s, spec, weights, panel, k, &mut call.scratch.values[..count], &mut call.scratch.bytes[..count]);
            for (i, tile) in call.tiles.clone().enumerate() {
                let chunk = Chunk { spec, rows, weights, panel, groups, tile, k, count, scratch: &*call.scratch };
                let d = &mut call.d[i];
                let clamp = call.scratch.clamps[i];
                call.mended +=
                    if S::ROWS == 8 { chunk.run::<S, 8>(s, clamp, d) } else { chunk.run::<S, 4>(s, clamp, d) };
            }
        }
    }
}

/// B of a chunk, as f32 and as bytes.
#[inline(always)]
fn expand<S: Lanes>(
    s: S,
    spec: &Spec,
    weights: &Weights,
    panel: usize,
    k: usize,
    values: &mut [[Line; GROUPS]],
    bytes: &mut [Line],
) {
    let halves = [weights.panel(2 * panel, k), weights.panel(2 * panel + 1, k)];
    let (min_field, raise) = (s.splat(spec.min_fields[1]), spec.min_fields[1] > 1);
    for at in 0..values.len() {
        // Where the halves of a run of k take turns, lines are taken in the order of the steps.
        let i = if spec.interleaved { rows::interleaved(at) } else { at };
        let (values, bytes) = (&mut values[at], &mut bytes[at]);
        let mut all = s.splat(0);
        for (half, lines) in halves.into_iter().enumerate() {
            let groups = if lines.is_empty() { [s.splat(0); 2] } else { columns(s, weights.storage, lines, i) };
            for (j, value) in groups.into_iter().enumerate() {
                s.store(value, &mut values[2 * half + j].0);
                let magnitude = s.shl::<1>(value);
                let field = s.shr::<24>(magnitude);
                let clipped = |field| s.max(s.sub(field, s.splat(64)), s.splat(0));
                let byte = if raise {
                    s.where_nonzero(magnitude, clipped(s.max(field, min_field)), s.splat(0))
                } else {
                    clipped(field)
                };
                all = s.or(s.shr::<8>(all), s.shl::<24>(byte));
            }
        }
        s.store(all, &mut bytes.0);
    }
}

/// The 32 columns of a panel's k as f32.
#[inline(always)]
pub(super) fn columns<S: Lanes>(s: S, storage: Storage, lines: &[Line], k: usize) -> [S::V; 2] {
    match storage {
        Storage::Bf16 => {
            let pairs = s.load(&lines[k].0);
            [s.shl::<16>(pairs), s.and(pairs, s.splat(0xffff_0000))]
        }
        Storage::F16 => {
            let (low, high) = s.widen_f16(s.load(&lines[k].0));
            [low, high]
        }
        Storage::F32 => [s.load(&lines[2 * k].0), s.load(&lines[2 * k + 1].0)],
    }
}

/// A chunk of K of one row tile.
struct Chunk<'a> {
    spec: &'a Spec,
    rows: &'a Rows,
    weights: &'a Weights,
    panel: usize,
    groups: usize,
    tile: usize,
    k: usize,
    count: usize,
    scratch: &'a Scratch,
}

/// The operands of a block.
struct Operands<'a> {
    a: &'a [[u32; TALL]],
    a_bytes: &'a [[u32; TALL]],
    b: &'a [[Line; GROUPS]],
    b_bytes: &'a [Line],
    /// Clamp of the exponents, in every byte; 0 where they are compared with the window.
    clamp: u32,
    /// Largest shift that is right; all ones where the clamp makes every shift right.
    limit: u32,
    beyond: bool,
    /// Whether i32 might overflow.
    check: bool,
    /// First row.
    row: usize,
    valid: usize,
}

impl Chunk<'_> {
    #[inline(always)]
    fn run<S: Lanes, const R: usize>(&self, s: S, clamp: Option<u32>, d: &mut [[Line; GROUPS]; TALL]) -> usize {
        let Self { spec, rows, tile, .. } = *self;
        let (a, a_bytes) = rows.tile::<TALL>(tile, self.k, self.count);
        let valid = rows.valid(tile);
        let mut mended = 0;
        let mut partial = [[Line::ZERO; GROUPS]; TALL];
        for at in (0..self.count).step_by(spec.terms) {
            let here = at..at + spec.terms;
            let mut operands = Operands {
                a: &a[here.clone()],
                a_bytes: &a_bytes[here.clone()],
                b: &self.scratch.values[here.clone()],
                b_bytes: &self.scratch.bytes[here],
                clamp: clamp.unwrap_or(0) * 0x0101_0101,
                limit: !0,
                beyond: false,
                check: spec.overflows_perhaps(rows.significands(tile, self.k + at, spec.terms)),
                row: 0,
                valid,
            };
            if clamp.is_none() {
                let max_a = rows.max(tile, self.k + at, spec.terms);
                // Both steps of a run, where they take turns: weights lie in the order of k.
                let (from, terms) = if spec.interleaved { (at & !31, 32) } else { (at, spec.terms) };
                let mut max_b = self.weights.max(2 * self.panel, self.k + from, terms);
                if 2 * self.panel + 1 < self.weights.panels() {
                    max_b = max_b.max(self.weights.max(2 * self.panel + 1, self.k + from, terms));
                }
                let window = spec.window_of_bytes(max_a, max_b);
                (operands.limit, operands.beyond) = (window.limit, window.beyond);
            }
            for row in (0..valid).step_by(R) {
                operands.row = row;
                let d = if spec.promote.is_some() { &mut partial } else { &mut *d };
                mended += step::<S, R>(s, spec, &operands, self.groups, d);
            }
            let end = self.k + at + spec.terms;
            let done = end - spec.range.start;
            if spec.promote.is_some_and(|every| done.is_multiple_of(every) || end == spec.range.end) {
                promote(s, spec, &mut partial, d);
            }
        }
        mended
    }
}

/// Adds partial sums to the accumulators, and starts others: IEEE additions to nearest even. That of f32 is its own definition here
/// (`1 * partial + d`, rounded once); that of f16 is rounded again ([`convert::sum`]).
#[inline(always)]
fn promote<S: Lanes>(s: S, spec: &Spec, partial: &mut [[Line; GROUPS]; TALL], d: &mut [[Line; GROUPS]; TALL]) {
    let one = s.splat(127 << FIELD);
    for (partial, d) in partial.as_flattened_mut().iter_mut().zip(d.as_flattened_mut()) {
        let (a, b) = (s.load(&partial.0), s.load(&d.0));
        let sum = if spec.halves() { convert::sum(s, a, b) } else { s.fma(one, a, b) };
        s.store(sum, &mut d.0);
        *partial = Line::ZERO;
    }
}

/// R rows of one block.
#[inline(always)]
fn step<S: Lanes, const R: usize>(
    s: S,
    spec: &Spec,
    operands: &Operands<'_>,
    groups: usize,
    d: &mut [[Line; GROUPS]; TALL],
) -> usize {
    let sub = operands.row / R;
    let mut bytes = [s.splat(operands.clamp); R];
    for (b, a) in operands.b_bytes.iter().zip(operands.a_bytes) {
        let (b, a) = (s.load(&b.0), &a.as_chunks::<R>().0[sub]);
        for r in 0..R {
            bytes[r] = s.max_bytes(bytes[r], s.add(b, s.splat(a[r])));
        }
    }
    let mut mended = 0;
    let d = &mut d.as_chunks_mut::<R>().0[sub];
    mended += group::<S, R, 0>(s, spec, operands, &bytes, d);
    if groups > 1 {
        mended += group::<S, R, 1>(s, spec, operands, &bytes, d);
    }
    if groups > 2 {
        mended += group::<S, R, 2>(s, spec, operands, &bytes, d);
    }
    if groups > 3 {
        mended += group::<S, R, 3>(s, spec, operands, &bytes, d);
    }
    mended
}

/// Byte `G` of every lane, in the place of the exponent field.
#[inline(always)]
fn field_of<S: Lanes, const G: usize>(s: S, bytes: S::V) -> S::V {
    let moved = match G {
        0 => s.shl::<23>(bytes),
        1 => s.shl::<15>(bytes),
        2 => s.shl::<7>(bytes),
        _ => s.shr::<1>(bytes),
    };
    s.and(moved, s.splat(EXPONENT))
}

/// The integer `p * 2^h`, toward zero; `shift` is h in the place of the exponent field.
#[inline(always)]
pub(super) fn term<S: Lanes>(s: S, p: S::V, shift: S::V) -> S::V {
    s.truncate(s.add(p, shift))
}

/// R rows and 16 columns of one block.
#[inline(always)]
fn group<S: Lanes, const R: usize, const G: usize>(
    s: S,
    spec: &Spec,
    operands: &Operands<'_>,
    bytes: &[S::V; R],
    d: &mut [[Line; GROUPS]; R],
) -> usize {
    let none = s.splat(0);
    let top = s.splat(spec.highest() << FIELD);
    let (mut c, mut shift, mut worst) = ([none; R], [none; R], none);
    for r in 0..R {
        c[r] = s.load(&d[r][G].0);
    }
    let fields = spec.fields(s, &c);
    for r in 0..R {
        let exponent = s.max_unsigned(field_of::<S, G>(s, bytes[r]), fields[r]);
        shift[r] = s.sub(top, exponent);
        worst = s.max_unsigned(worst, shift[r]);
    }
    let mut sum = spec.accumulator(s, &c, &shift);
    let mut outside = [0; ROWS];
    if operands.beyond || s.gt_unsigned(worst, s.splat(operands.limit)) != 0 {
        let limit = s.splat(operands.limit);
        for r in 0..operands.valid.saturating_sub(operands.row).min(R) {
            outside[r] = if operands.beyond { !0 } else { s.gt_unsigned(shift[r], limit) };
        }
        // With every row to be computed again, nothing here counts, and all of each row must be.
        if outside[..R].iter().all(|&lanes| lanes != 0) {
            outside[..R].fill(!0);
            return mend::<S, R, G>(s, spec, operands, &outside, [none; R], d);
        }
    }
    let sub = operands.row / R;
    let half = if spec.halved() { operands.b.len() / 2 } else { operands.b.len() };
    let ((b, b_rest), (a, a_rest)) = (operands.b.split_at(half), operands.a.split_at(half));
    multiply::<S, R, G>(s, a, b, sub, &shift, &mut sum);
    let mut overflow = none;
    if !b_rest.is_empty() {
        let mut rest = [none; R];
        multiply::<S, R, G>(s, a_rest, b_rest, sub, &shift, &mut rest);
        for r in 0..R {
            let all = s.add(sum[r], rest[r]);
            overflow = s.or(overflow, s.overflow(sum[r], rest[r], all));
            sum[r] = all;
        }
    } else if operands.check {
        for r in 0..R {
            c[r] = s.load(&d[r][G].0);
        }
        let c = spec.accumulator(s, &c, &shift);
        for r in 0..R {
            overflow = s.or(overflow, s.overflow(s.sub(sum[r], c[r]), c[r], sum[r]));
        }
    }
    let out = spec.results(s, &sum, &shift);
    if s.signs(overflow) != 0 && !spec.mutated(Mutation::NoOverflowCheck) {
        outside[..operands.valid.saturating_sub(operands.row).min(R)].fill(!0);
    }
    if outside != [0; ROWS] {
        return mend::<S, R, G>(s, spec, operands, &outside, out, d);
    }
    for r in 0..R {
        s.store(out[r], &mut d[r][G].0);
    }
    0
}

/// Stores the results, those of outputs outside computed again.
#[inline(always)]
fn mend<S: Lanes, const R: usize, const G: usize>(
    s: S,
    spec: &Spec,
    operands: &Operands<'_>,
    outside: &[u16; ROWS],
    out: [S::V; R],
    d: &mut [[Line; GROUPS]; R],
) -> usize {
    let none = [Line::ZERO; ROWS];
    let b = &operands.b.as_flattened()[G..];
    let mut work = Work {
        spec,
        a: operands.a,
        b,
        stride: GROUPS,
        row: operands.row,
        c: none,
        outside: *outside,
        d: none,
        mended: 0,
    };
    for r in 0..R {
        work.c[r] = d[r][G];
        s.store(out[r], &mut work.d[r].0);
    }
    s.outlined::<Mend>(&mut work);
    for r in 0..R {
        d[r][G] = work.d[r];
    }
    work.mended
}

/// Adds the truncated products of R rows and 16 columns.
#[inline(always)]
fn multiply<S: Lanes, const R: usize, const G: usize>(
    s: S,
    a: &[[u32; TALL]],
    b: &[[Line; GROUPS]],
    sub: usize,
    shift: &[S::V; R],
    sum: &mut [S::V; R],
) {
    part::<S, R, G, 0>(s, a, b, sub, shift, sum);
    if S::PARTS == 2 {
        part::<S, R, G, 1>(s, a, b, sub, shift, sum);
    }
}

/// The same for one part of the columns; the compiler drops the others.
#[inline(always)]
fn part<S: Lanes, const R: usize, const G: usize, const PART: usize>(
    s: S,
    a: &[[u32; TALL]],
    b: &[[Line; GROUPS]],
    sub: usize,
    shift: &[S::V; R],
    sum: &mut [S::V; R],
) {
    let mut out = *sum;
    for (b, a) in b.iter().zip(a) {
        let (b, a) = (s.load(&b[G].0), &a.as_chunks::<R>().0[sub]);
        for r in 0..R {
            // Each element of A once in this loop: the broadcast becomes part of the multiplication.
            out[r] = s.add(out[r], term(s, s.mul(b, s.splat(a[r])), shift[r]));
        }
    }
    for r in 0..R {
        sum[r] = s.part::<PART>(sum[r], out[r]);
    }
}
