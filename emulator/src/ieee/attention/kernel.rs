//! Up to [`TOGETHER`](super::TOGETHER) queries through the tiles of a context.

use super::super::{HIGH, Line, MINUS_INFINITY, ONE, butterfly, exp2_lanes, widen};
use super::{Context, Query, TILE, spans};
use crate::simd::lanes::{Kernel, Lanes};

pub(super) struct Call<'a> {
    pub scale: f32,
    pub context: &'a Context,
    pub queries: &'a [Query<'a>],
    /// `(queries, width)`.
    pub out: &'a mut [u32],
}

pub(super) struct Attend;

impl Kernel for Attend {
    type Call<'a> = Call<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Call<'_>) {
        match call.queries.len() {
            1 => together::<S, 1>(s, call),
            2 => together::<S, 2>(s, call),
            3 => together::<S, 3>(s, call),
            _ => together::<S, 4>(s, call),
        }
    }
}

/// What a query has gathered: O is kept by spans of 32 columns, the even ones first.
struct State {
    m: f32,
    l: [Line; 2],
    o: Vec<[Line; 2]>,
}

/// Probabilities of a tile, by key; how many keys are seen; what the old output is multiplied with.
#[derive(Clone, Copy)]
struct Weighed {
    p: [u32; TILE],
    seen: usize,
    scale: u32,
}

#[inline(always)]
fn together<S: Lanes, const Q: usize>(s: S, call: &mut Call<'_>) {
    let (context, width) = (call.context, call.context.width);
    let queries: &[Query<'_>; Q] = call.queries.try_into().expect("as many as were counted");
    let mut states: [State; Q] =
        std::array::from_fn(|_| State { m: f32::NEG_INFINITY, l: [[0; 16]; 2], o: vec![[[0; 16]; 2]; spans(width)] });
    let tiles = queries.iter().map(|q| q.sees).max().unwrap_or(0).div_ceil(TILE);
    for tile in 0..tiles {
        let scores = scores(s, queries, &context.keys[tile * width..][..width]);
        let first = tile * TILE;
        // (A loop: what a closure computes is not compiled for the level.)
        let mut weighed = [Weighed { p: [0; TILE], seen: 0, scale: ONE }; Q];
        for i in 0..Q {
            weighed[i].seen = queries[i].sees.saturating_sub(first).min(TILE);
            weigh(s, call.scale, &mut states[i], scores[i], &mut weighed[i]);
        }
        let most = weighed.iter().map(|w| w.seen).max().unwrap_or(0);
        let values = &context.values[first * spans(width)..][..most * spans(width)];
        // All alike, or one by one: a query must not touch what it does not see.
        if weighed.iter().all(|w| w.seen == most) {
            accumulate(s, &mut states, &weighed, values);
        } else {
            for (state, weighed) in states.iter_mut().zip(weighed) {
                accumulate(s, std::array::from_mut(state), &[weighed], values);
            }
        }
    }
    for (state, out) in states.iter().zip(call.out.chunks_exact_mut(width)) {
        finish(state, out);
    }
}

/// `q . k` of 32 keys for each query.
#[inline(always)]
fn scores<S: Lanes, const Q: usize>(s: S, queries: &[Query<'_>; Q], keys: &[Line]) -> [[S::V; 2]; Q] {
    let mut sums = [[s.splat(0); 2]; Q];
    for (pair, keys) in keys.as_chunks::<2>().0.iter().enumerate() {
        let q: [u32; Q] = std::array::from_fn(|i| queries[i].q[pair]);
        for (half, line) in keys.iter().enumerate() {
            let keys = widen(s, s.load(line));
            for i in 0..Q {
                let q = s.splat(if half == 0 { q[i] << 16 } else { q[i] & HIGH });
                for w in 0..2 {
                    sums[i][w] = s.fma(q, keys[w], sums[i][w]);
                }
            }
        }
    }
    sums
}

/// Takes the scores of a tile into the running maximum and the partial sums.
#[inline(always)]
fn weigh<S: Lanes>(s: S, c: f32, state: &mut State, scores: [S::V; 2], weighed: &mut Weighed) {
    if weighed.seen == 0 {
        return;
    }
    let mut lines = [[0; 16]; 2];
    for w in 0..2 {
        s.store(scores[w], &mut lines[w]);
    }
    lines.as_flattened_mut()[weighed.seen..].fill(MINUS_INFINITY);
    let top = largest(state.m, lines.as_flattened());
    let fall = state.m - top;
    state.m = top;
    let old = exp2_lanes(s, c, s.splat(fall.to_bits()));
    let minus_top = s.splat((-top).to_bits());
    for w in 0..2 {
        // One rounding: the product with 1 is exact.
        let below = s.fma(s.load(&lines[w]), s.splat(ONE), minus_top);
        let p = exp2_lanes(s, c, below);
        s.store(p, &mut weighed.p[16 * w..].as_chunks_mut().0[0]);
        let l = s.fma(s.load(&state.l[w]), old, p);
        s.store(l, &mut state.l[w]);
    }
    s.store(old, &mut lines[0]);
    weighed.scale = lines[0][0];
}

/// `max.f32` over `m` and 32 scores: a NaN counts as absent.
#[inline(always)]
fn largest(m: f32, scores: &[u32]) -> f32 {
    let mut top = [f32::NEG_INFINITY; TILE];
    for (top, bits) in top.iter_mut().zip(scores) {
        let score = f32::from_bits(*bits);
        *top = if score > *top { score } else { *top };
    }
    for distance in [16, 8, 4, 2, 1] {
        for i in 0..distance {
            top[i] = if top[i + distance] > top[i] { top[i + distance] } else { top[i] };
        }
    }
    if top[0] > m { top[0] } else { m }
}

/// Takes the values of the seen keys of a tile into the outputs; `seen` is the same for all.
#[inline(always)]
fn accumulate<S: Lanes, const Q: usize>(s: S, states: &mut [State; Q], weighed: &[Weighed; Q], values: &[Line]) {
    let seen = weighed[0].seen;
    if seen == 0 {
        return;
    }
    let spans = states[0].o.len();
    for span in 0..spans {
        let mut sums = [[s.splat(0); 2]; Q];
        for i in 0..Q {
            for w in 0..2 {
                sums[i][w] = s.mul(s.load(&states[i].o[span][w]), s.splat(weighed[i].scale));
            }
        }
        for j in 0..seen {
            let values = widen(s, s.load(&values[j * spans + span]));
            for i in 0..Q {
                let p = s.splat(weighed[i].p[j]);
                for w in 0..2 {
                    sums[i][w] = s.fma(p, values[w], sums[i][w]);
                }
            }
        }
        for i in 0..Q {
            for w in 0..2 {
                s.store(sums[i][w], &mut states[i].o[span][w]);
            }
        }
    }
}

/// `O / L`.
#[inline(always)]
fn finish(state: &State, out: &mut [u32]) {
    let mut l = [0.0; TILE];
    for (l, bits) in l.iter_mut().zip(state.l.as_flattened()) {
        *l = f32::from_bits(*bits);
    }
    let sum = butterfly(l);
    for (column, out) in out.iter_mut().enumerate() {
        let o = f32::from_bits(state.o[column / 32][column % 2][column % 32 / 2]);
        let quotient = o / sum;
        *out = if quotient.is_nan() { 0x7fff_ffff } else { quotient.to_bits() };
    }
}
