//! The kernel: one text for every set of vector instructions.

use super::Call;
use super::accumulator::Accumulator;
use super::careful::{Careful, MOST_TERMS, Work};
use super::operand::{A, B, Form, Operand};
use crate::mma::TFdpa;
use crate::simd::lanes::{Kernel, Lanes};
use std::marker::PhantomData;
use std::ops::Range;

/// Columns of the tile.
pub(super) const N: usize = 8;
/// Exponent fields sit at bit 23.
const FIELD: u32 = 23;
/// The largest shift of the window, in the place of the exponent field.
const WINDOW: u32 = 125 << FIELD;
/// Pairs whose products i32 holds, whatever they are.
const HELD: usize = 8;

/// Switches for the tests (mistakes that the suite must notice), and a count of who computed what.
pub(super) trait Hooks {
    /// Whether an overflow of i32 is noticed.
    const NOTICE_OVERFLOW: bool = true;
    /// Whether operands beyond the limit, infinities and NaNs among them, are noticed.
    const NOTICE_LIMIT: bool = true;
    /// Whether outputs below the window are noticed.
    const NOTICE_SMALL: bool = true;
    /// Whether outputs above the window are noticed.
    const NOTICE_LARGE: bool = true;
    /// Whether an output below the window is known to be zero only if all its terms are.
    const NOTICE_TERMS: bool = true;
    /// Whether the accumulator takes part in the alignment.
    const ALIGN_ACCUMULATOR: bool = true;
    /// Whether the sum is converted toward zero.
    #[cfg(test)]
    const CONVERT_TOWARD_ZERO: bool = true;

    /// `careful` of the tile's 8 columns left the fast path in one block.
    #[inline(always)]
    fn count(_careful: usize) {}
}

/// No mistakes; counted in tests only.
pub(super) struct Production;

impl Hooks for Production {
    #[cfg(test)]
    fn count(careful: usize) {
        super::tests::count(careful);
    }
}

/// T-FDPA of `2 * PAIRS` products in `BLOCKS` steps, of operands `T` and accumulators `C`, on m16n8.
pub(super) struct Dense<T, C, H, const PAIRS: usize, const BLOCKS: usize>(PhantomData<(T, C, H)>);

/// What a step reads: operands taken apart, and whether one of them is beyond the limit.
struct Operands<'a, V, const PAIRS: usize> {
    a: &'a A<V, PAIRS>,
    b: &'a B<PAIRS>,
    forms: [Form; 2],
    beyond: bool,
}

impl<T: Operand, C: Accumulator, H: Hooks, const PAIRS: usize, const BLOCKS: usize> Kernel
    for Dense<T, C, H, PAIRS, BLOCKS>
{
    type Call<'a> = Call<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Call<'_>) {
        let a = T::a::<S, PAIRS>(s, call.forms[0], call.a);
        let mut b = B::<PAIRS>::ZERO;
        let mut largest = T::b::<S, PAIRS>(s, call.forms[1], call.b, &mut b);
        for words in &a.words {
            largest = s.max_halves(largest, *words);
        }
        let limit = s.splat(T::limit(call.params.fraction) << FIELD);
        let beyond = s.gt_unsigned(fold_halves(s, largest), limit) != 0 && H::NOTICE_LIMIT;

        let operands = Operands { a: &a, b: &b, forms: call.forms, beyond };
        let mut c = C::load(s, call);
        for block in 0..BLOCKS {
            c = step::<S, T, C, H, PAIRS, BLOCKS>(s, call.params, &operands, &c, block);
        }
        C::store(s, call, c);
    }
}

/// What a step found for each column, before it is known whether all of it counts.
struct Found<V> {
    /// The result.
    d: [V; N],
    /// `h`, and the rescaling of A, in the place of the exponent field.
    shift: [V; N],
    /// Top bit set where i32 overflowed.
    overflow: [V; N],
}

/// One hardware step on the whole tile: C of the next.
#[inline(always)]
fn step<S: Lanes, T: Operand, C: Accumulator, H: Hooks, const PAIRS: usize, const BLOCKS: usize>(
    s: S,
    params: &TFdpa,
    operands: &Operands<'_, S::V, PAIRS>,
    c: &[S::V; N],
    block: usize,
) -> [S::V; N] {
    let pairs = PAIRS / BLOCKS;
    let first = block * pairs;
    let Operands { a, b, beyond, .. } = *operands;
    // Both exponents of a product carry a bias, so everything that is compared with it carries two.
    let top = s.splat((params.fraction as u32 + 254 + T::RESCALE) << FIELD);
    let none = s.splat(0);
    let mut found = Found { d: [none; N], shift: [none; N], overflow: [none; N] };
    let floor = C::floor(params);
    let (mut largest_shift, mut overflows) = (none, none);
    for n in 0..N {
        let mut words = s.add(a.words[first], s.splat(b.words::<T>(first, n)));
        for pair in first + 1..first + pairs {
            words = s.max_halves(words, s.add(a.words[pair], s.splat(b.words::<T>(pair, n))));
        }
        let mut exponent = fold_halves(s, words);
        if H::ALIGN_ACCUMULATOR {
            exponent = s.max_unsigned(exponent, s.add(C::field(s, c[n]), s.splat(127 << FIELD)));
        }
        if let Some(floor) = floor {
            exponent = s.max_unsigned(exponent, s.splat((127 + floor) << FIELD));
        }
        let shift = s.sub(top, exponent);
        largest_shift = s.max_unsigned(largest_shift, shift);

        let products = products::<S, T, PAIRS>(s, a, b, n, first..first + pairs.min(HELD), shift);
        let accumulator = accumulator::<S, T>(s, c[n], shift);
        let mut sum = s.add(products, accumulator);
        // With fewer products, i32 holds them and the accumulator.
        if pairs >= HELD {
            found.overflow[n] = s.overflow(products, accumulator, sum);
        }
        if pairs > HELD {
            let rest = self::products::<S, T, PAIRS>(s, a, b, n, first + HELD..first + pairs, shift);
            let all = s.add(sum, rest);
            found.overflow[n] = s.or(found.overflow[n], s.overflow(sum, rest, all));
            sum = all;
        }
        overflows = s.or(overflows, found.overflow[n]);
        let scale = s.sub(s.splat((127 + T::RESCALE) << FIELD), shift);
        found.d[n] = C::converted(s, params, sum, scale);
        #[cfg(test)]
        if !H::CONVERT_TOWARD_ZERO {
            found.d[n] = s.mul(s.to_float_nearest(sum), scale);
        }
        found.shift[n] = shift;
    }
    let outside = s.gt_unsigned(largest_shift, s.splat(WINDOW)) != 0;
    if outside || beyond || pairs >= HELD && s.signs(overflows) != 0 {
        mend::<S, T, C, H, PAIRS, BLOCKS>(s, params, operands, c, block, &mut found);
    } else {
        H::count(0);
    }
    found.d
}

/// The truncated products of column `n`, summed.
#[inline(always)]
fn products<S: Lanes, T: Operand, const PAIRS: usize>(
    s: S,
    a: &A<S::V, PAIRS>,
    b: &B<PAIRS>,
    n: usize,
    pairs: Range<usize>,
    shift: S::V,
) -> S::V {
    let product = |pair: usize, odd| term(s, s.mul(a.values[pair][odd], s.splat(b.value::<T>(pair, odd, n))), shift);
    let mut sum = s.add(product(pairs.start, 0), product(pairs.start, 1));
    for pair in pairs.start + 1..pairs.end {
        sum = s.add(sum, product(pair, 0));
        sum = s.add(sum, product(pair, 1));
    }
    sum
}

/// The accumulator's term. Where A is rescaled, its own shift may be negative: then it is multiplied as a float, exactly unless the result is
/// far below one, where the term is 0.
#[inline(always)]
fn accumulator<S: Lanes, T: Operand>(s: S, c: S::V, shift: S::V) -> S::V {
    if T::RESCALE == 0 {
        return term(s, c, shift);
    }
    s.truncate(s.mul(c, s.add(shift, s.splat((127 - T::RESCALE) << FIELD))))
}

/// The integer `p * 2^h`, toward zero; `shift` is h in the place of the exponent field.
#[inline(always)]
fn term<S: Lanes>(s: S, p: S::V, shift: S::V) -> S::V {
    s.truncate(s.add(p, shift))
}

/// The larger half of each word, in the place of an f32 exponent field (with one bit more above it).
#[inline(always)]
fn fold_halves<S: Lanes>(s: S, words: S::V) -> S::V {
    s.max_unsigned(s.shl::<16>(words), s.and(words, s.splat(0xffff_0000)))
}

/// Mends the outputs that do not count, given the values of C: those without a term are zero, columns with others are computed again.
#[inline(always)]
fn mend<S: Lanes, T: Operand, C: Accumulator, H: Hooks, const PAIRS: usize, const BLOCKS: usize>(
    s: S,
    params: &TFdpa,
    operands: &Operands<'_, S::V, PAIRS>,
    c: &[S::V; N],
    block: usize,
    found: &mut Found<S::V>,
) {
    let Operands { a, b, beyond, .. } = *operands;
    let pairs = block * PAIRS / BLOCKS..(block + 1) * PAIRS / BLOCKS;
    let mut any = s.splat(0);
    for values in &a.values[pairs.clone()] {
        any = s.or(any, s.or(values[0], values[1]));
    }
    let empty_rows = !s.nonzero(s.shl::<1>(any));
    let mut columns = [false; N];
    for n in 0..N {
        let mut outside = s.gt_unsigned(found.shift[n], s.splat(WINDOW));
        // The shift is below 300 for the smallest exponents and wraps to above 400 for the largest.
        let large = s.gt_unsigned(found.shift[n], s.splat(300 << FIELD));
        if !H::NOTICE_SMALL {
            outside &= large;
        }
        if !H::NOTICE_LARGE {
            outside &= !large;
        }
        let candidates = outside & !s.nonzero(s.shl::<1>(c[n]));
        let mut no_term = candidates & empty_rows;
        if no_term != candidates {
            // A product has a nonzero operand on either side. (The f32 product may be zero all the same.)
            let mut any = s.splat(0);
            for pair in pairs.clone() {
                for odd in 0..2 {
                    let b = s.splat(b.value::<T>(pair, odd, n) << 1);
                    any = s.or(any, s.min_unsigned(s.shl::<1>(a.values[pair][odd]), b));
                }
            }
            no_term = candidates & !s.nonzero(any);
        }
        if !H::NOTICE_TERMS {
            no_term = outside;
        }
        if beyond {
            (outside, no_term) = (!0, 0);
        }
        let mut left = outside & !no_term;
        if PAIRS / BLOCKS >= HELD && H::NOTICE_OVERFLOW {
            left |= s.signs(found.overflow[n]) & !outside;
        }
        found.d[n] = s.clear(found.d[n], no_term);
        columns[n] = left != 0;
    }
    H::count(columns.iter().filter(|&&left| left).count());
    if columns.contains(&true) {
        recompute::<S, T, C, PAIRS, BLOCKS>(s, params, operands, c, block, columns, found);
    }
}

/// Computes columns by the careful path.
#[inline(always)]
fn recompute<S: Lanes, T: Operand, C: Accumulator, const PAIRS: usize, const BLOCKS: usize>(
    s: S,
    params: &TFdpa,
    operands: &Operands<'_, S::V, PAIRS>,
    c: &[S::V; N],
    block: usize,
    columns: [bool; N],
    found: &mut Found<S::V>,
) {
    let pairs = PAIRS / BLOCKS;
    let mut work = Work {
        params,
        terms: 2 * pairs,
        min_fields: operands.forms.map(T::min_field),
        a: [[0; 16]; MOST_TERMS],
        b: [[0; MOST_TERMS]; N],
        c: [[0; 16]; N],
        columns,
        d: [[0; 16]; N],
    };
    let whole = s.splat((127 + T::RESCALE) << FIELD);
    for pair in 0..pairs {
        for odd in 0..2 {
            let value = operands.a.values[block * pairs + pair][odd];
            let value = if T::RESCALE == 0 { value } else { s.mul(value, whole) };
            s.store(value, &mut work.a[2 * pair + odd]);
            for n in 0..N {
                work.b[n][2 * pair + odd] = operands.b.value::<T>(block * pairs + pair, odd, n);
            }
        }
    }
    for n in 0..N {
        s.store(c[n], &mut work.c[n]);
    }
    s.outlined::<Careful<C>>(&mut work);
    for n in 0..N {
        if columns[n] {
            found.d[n] = s.load(&work.d[n]);
        }
    }
}
