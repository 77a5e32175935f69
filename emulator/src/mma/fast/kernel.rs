//! The kernel: one text for every set of vector instructions.

use super::Call;
use super::accumulator::Accumulator;
use super::careful::{Careful, Work};
use super::operand::{A, B, Operand};
use crate::mma::TFdpa;
use crate::simd::lanes::{Kernel, Lanes};
use std::marker::PhantomData;

/// Columns of the tile.
pub(super) const N: usize = 8;
/// Exponent fields sit at bit 23.
const FIELD: u32 = 23;
/// The largest `h` of the window, in the place of the exponent field.
const WINDOW: u32 = 125 << FIELD;

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
struct Operands<'a, V> {
    a: &'a A<V>,
    b: &'a B,
    beyond: bool,
}

impl<T: Operand, C: Accumulator, H: Hooks, const PAIRS: usize, const BLOCKS: usize> Kernel
    for Dense<T, C, H, PAIRS, BLOCKS>
{
    type Call<'a> = Call<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Call<'_>) {
        let a = T::a::<S, PAIRS>(s, call.forms[0], call.a);
        let mut b = B { values: [[0; 16]; 8], words: [[0; 16]; 4] };
        let mut largest = T::b::<S, PAIRS>(s, call.forms[1], call.b, &mut b);
        for words in &a.words[..PAIRS] {
            largest = s.max_halves(largest, *words);
        }
        let limit = s.splat(T::limit(call.params.fraction) << FIELD);
        let beyond = s.gt_unsigned(fold_halves(s, largest), limit) != 0 && H::NOTICE_LIMIT;

        let operands = Operands { a: &a, b: &b, beyond };
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
    /// `h`, in the place of the exponent field.
    shift: [V; N],
    /// Top bit set where i32 overflowed.
    overflow: [V; N],
}

/// One hardware step on the whole tile: C of the next.
#[inline(always)]
fn step<S: Lanes, T: Operand, C: Accumulator, H: Hooks, const PAIRS: usize, const BLOCKS: usize>(
    s: S,
    params: &TFdpa,
    operands: &Operands<'_, S::V>,
    c: &[S::V; N],
    block: usize,
) -> [S::V; N] {
    let pairs = PAIRS / BLOCKS;
    let first = block * pairs;
    let Operands { a, b, beyond } = *operands;
    // Both exponents of a product carry a bias, so everything that is compared with it carries two.
    let top = s.splat((params.fraction as u32 + 254) << FIELD);
    let none = s.splat(0);
    let mut found = Found { d: [none; N], shift: [none; N], overflow: [none; N] };
    let floor = C::floor(params);
    let mut values = [none; N];
    let (mut largest_shift, mut overflows) = (none, none);
    for n in 0..N {
        values[n] = C::value(s, c[n]);
        let mut words = s.add(a.words[first], s.splat(b.words::<T>(first, n)));
        for pair in first + 1..first + pairs {
            words = s.max_halves(words, s.add(a.words[pair], s.splat(b.words::<T>(pair, n))));
        }
        let mut exponent = fold_halves(s, words);
        if H::ALIGN_ACCUMULATOR {
            exponent = s.max_unsigned(exponent, s.add(C::field(s, values[n]), s.splat(127 << FIELD)));
        }
        if let Some(floor) = floor {
            exponent = s.max_unsigned(exponent, s.splat((127 + floor) << FIELD));
        }
        let shift = s.sub(top, exponent);
        largest_shift = s.max_unsigned(largest_shift, shift);

        let mut products = term(s, s.mul(a.values[2 * first], s.splat(b.value::<T>(2 * first, n))), shift);
        for k in 2 * first + 1..2 * (first + pairs) {
            products = s.add(products, term(s, s.mul(a.values[k], s.splat(b.value::<T>(k, n))), shift));
        }
        let accumulator = term(s, values[n], shift);
        let sum = s.add(products, accumulator);
        // With fewer products than 16, i32 holds products and accumulator.
        if pairs == 8 {
            found.overflow[n] = s.overflow(products, accumulator, sum);
            overflows = s.or(overflows, found.overflow[n]);
        }
        let scale = s.sub(s.splat(127 << FIELD), shift);
        found.d[n] = C::converted(s, params, sum, scale);
        #[cfg(test)]
        if !H::CONVERT_TOWARD_ZERO {
            found.d[n] = s.mul(s.to_float_nearest(sum), scale);
        }
        found.shift[n] = shift;
    }
    let outside = s.gt_unsigned(largest_shift, s.splat(WINDOW)) != 0;
    if outside || beyond || pairs == 8 && s.signs(overflows) != 0 {
        mend::<S, T, C, H, PAIRS, BLOCKS>(s, params, operands, &values, block, &mut found);
    } else {
        H::count(0);
    }
    found.d
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
    operands: &Operands<'_, S::V>,
    c: &[S::V; N],
    block: usize,
    found: &mut Found<S::V>,
) {
    let Operands { a, b, beyond } = *operands;
    let terms = 2 * PAIRS / BLOCKS;
    let first = block * terms;
    let mut any = a.values[first];
    for k in first + 1..first + terms {
        any = s.or(any, a.values[k]);
    }
    let empty_rows = !s.nonzero(s.shl::<1>(any));
    let mut columns = [false; N];
    for n in 0..N {
        let mut outside = s.gt_unsigned(found.shift[n], s.splat(WINDOW));
        // h is below 280 for the smallest exponents and wraps to above 400 for the largest.
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
            for k in first..first + terms {
                any = s.or(any, s.min_unsigned(s.shl::<1>(a.values[k]), s.splat(b.value::<T>(k, n) << 1)));
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
        if PAIRS / BLOCKS == 8 && H::NOTICE_OVERFLOW {
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
    operands: &Operands<'_, S::V>,
    c: &[S::V; N],
    block: usize,
    columns: [bool; N],
    found: &mut Found<S::V>,
) {
    let terms = 2 * PAIRS / BLOCKS;
    let first = block * terms;
    let mut work = Work {
        params,
        terms,
        min_field: T::MIN_FIELD,
        a: [[0; 16]; 16],
        b: [[0; 16]; N],
        c: [[0; 16]; N],
        columns,
        d: [[0; 16]; N],
    };
    for k in 0..terms {
        s.store(operands.a.values[first + k], &mut work.a[k]);
        for n in 0..N {
            work.b[n][k] = operands.b.value::<T>(first + k, n);
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
