//! The kernel: one text for every set of vector instructions.

use super::careful::Work;
use super::lanes::Lanes;
use super::operand::{A, B, Operand, SENTINEL_WORDS, WORD_BIAS, halves};
use super::{Call, Kernel};
use crate::mma::{TFdpa, ZeroPolicy};
use std::marker::PhantomData;

/// Columns of the tile.
const N: usize = 8;
/// Largest `h` of the window.
const WINDOW: u32 = 125;
/// Word of a sum of two exponents: `exponent + SUM_BIAS`. A sum with a zero operand excluded is below [`NO_TERM`].
const SUM_BIAS: u32 = 2 * WORD_BIAS;
/// Smallest word of a term that takes part.
pub(super) const NO_TERM: u32 = 1024;

/// Switches for the tests: mistakes that the suite must notice, and a count of who computed what.
pub(super) trait Hooks {
    /// Whether an overflow of i32 is noticed.
    const NOTICE_OVERFLOW: bool = true;
    /// Whether infinities and NaNs are noticed.
    const NOTICE_SPECIALS: bool = true;
    /// Whether outputs below the window are noticed.
    const NOTICE_SMALL: bool = true;
    /// Whether outputs above the window are noticed.
    const NOTICE_LARGE: bool = true;
    /// Whether zero operands are kept out of the alignment when the policy says so.
    const EXCLUDE_ZEROS: bool = true;
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

/// T-FDPA of `2 * PAIRS` products in `BLOCKS` steps, of operands `T`, on m16n8.
pub(super) struct Dense<T, H, const PAIRS: usize, const BLOCKS: usize>(PhantomData<(T, H)>);

/// Constants of a call.
struct Constants<V> {
    /// Word of a zero accumulator.
    zero_c: V,
    /// `F + SUM_BIAS`, from which a word is subtracted to give `h`.
    top: V,
    /// Largest `h` of the window.
    window: V,
    /// `h` from here on has no nonzero term.
    no_term: V,
}

impl<T: Operand, H: Hooks, const PAIRS: usize, const BLOCKS: usize> Kernel for Dense<T, H, PAIRS, BLOCKS> {
    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Call<'_>) {
        let sentinel = call.params.zeros == ZeroPolicy::SentinelMinus126 || !H::EXCLUDE_ZEROS;
        let fraction = call.params.fraction as u32;
        let constants = Constants {
            zero_c: s.splat(if sentinel { SUM_BIAS - 126 } else { 0 }),
            top: s.splat(fraction + SUM_BIAS),
            window: s.splat(WINDOW),
            no_term: s.splat(fraction + SUM_BIAS - NO_TERM + 1),
        };
        let zero = s.splat(if sentinel { SENTINEL_WORDS } else { 0 });

        let a = T::a::<S, PAIRS>(s, call.a, zero);
        let mut b = B { values: [[0; 16]; 8], words: [[0; 16]; 4] };
        let mut largest = T::b::<S, PAIRS>(s, call.b, zero, &mut b);
        for words in &a.words[..PAIRS] {
            largest = s.max_halves(largest, *words);
        }
        let special = s.gt_unsigned(fold_halves(s, largest), s.splat(T::SPECIAL - 1)) != 0 && H::NOTICE_SPECIALS;

        let mut c = load_accumulators(s, call);
        for block in 0..BLOCKS {
            c = step::<S, T, H, PAIRS, BLOCKS>(s, call.params, &constants, &a, &b, &c, block, special);
        }
        store_accumulators(s, call, c);
    }
}

/// The larger half of each word.
#[inline(always)]
fn fold_halves<S: Lanes>(s: S, words: S::V) -> S::V {
    s.max(s.shr::<16>(words), s.and(words, s.splat(0xffff)))
}

/// C by columns of 16 rows.
#[inline(always)]
fn load_accumulators<S: Lanes>(s: S, call: &Call<'_>) -> [S::V; N] {
    let mut out = [s.splat(0); N];
    for odd in 0..2 {
        let ([x, y], [z, w]) = (halves(s, call.c[odd]), halves(s, call.c[odd + 2]));
        let columns = s.transpose([x, y, z, w]);
        for i in 0..4 {
            out[2 * i + odd] = columns[i];
        }
    }
    out
}

#[inline(always)]
fn store_accumulators<S: Lanes>(s: S, call: &mut Call<'_>, columns: [S::V; N]) {
    for odd in 0..2 {
        let rows = s.transpose_back([columns[odd], columns[odd + 2], columns[odd + 4], columns[odd + 6]]);
        for (i, row) in rows.into_iter().enumerate() {
            let (register, half) = (odd + i / 2 * 2, i % 2);
            s.store(row, &mut call.d[register].as_chunks_mut::<16>().0[half]);
        }
    }
}

/// One hardware step on the whole tile.
#[allow(clippy::too_many_arguments)] // An internal function, inlined into one place.
#[inline(always)]
fn step<S: Lanes, T: Operand, H: Hooks, const PAIRS: usize, const BLOCKS: usize>(
    s: S,
    params: &TFdpa,
    constants: &Constants<S::V>,
    a: &A<S::V>,
    b: &B,
    c: &[S::V; N],
    block: usize,
    special: bool,
) -> [S::V; N] {
    let pairs = PAIRS / BLOCKS;
    let first = block * pairs;
    let mut out = [s.splat(0); N];
    let mut left_window = [0_u16; N];
    let mut any_left = 0_u16;
    for n in 0..N {
        let word = s.max(product_word::<S, T>(s, a, b, n, first, pairs), accumulator_word::<S, H>(s, constants, c[n]));
        let h = s.sub(constants.top, word);
        let mut left = s.gt_unsigned(h, constants.window) & s.lt_signed(h, constants.no_term);
        if !H::NOTICE_SMALL {
            left &= s.signs(h);
        }
        if !H::NOTICE_LARGE {
            left &= !s.signs(h);
        }
        let shift = s.shl::<23>(s.min(h, constants.window));

        let mut products = term(s, s.mul(a.values[2 * first], s.splat(b.value::<T>(2 * first, n))), shift);
        for k in 2 * first + 1..2 * (first + pairs) {
            products = s.add(products, term(s, s.mul(a.values[k], s.splat(b.value::<T>(k, n))), shift));
        }
        let accumulator = term(s, c[n], shift);
        let sum = s.add(products, accumulator);
        // With fewer products than 16, i32 holds products and accumulator.
        if pairs == 8 && H::NOTICE_OVERFLOW {
            left |= s.signs(s.overflow(products, accumulator, sum));
        }
        #[cfg(test)]
        let converted = if H::CONVERT_TOWARD_ZERO { s.to_float_toward_zero(sum) } else { s.to_float_nearest(sum) };
        #[cfg(not(test))]
        let converted = s.to_float_toward_zero(sum);
        out[n] = s.mul(converted, s.sub(s.splat(0x3f80_0000), shift));
        left_window[n] = left;
        any_left |= left;
    }
    if special || any_left != 0 {
        recompute::<S, T, H, PAIRS, BLOCKS>(
            s,
            params,
            a,
            b,
            c,
            block,
            if special { [!0; N] } else { left_window },
            &mut out,
        );
    } else {
        H::count(0);
    }
    out
}

/// The integer `p * 2^h`, toward zero; `shift` is h in the place of the exponent field.
#[inline(always)]
fn term<S: Lanes>(s: S, p: S::V, shift: S::V) -> S::V {
    s.truncate(s.add(p, shift))
}

/// `E + SUM_BIAS` over the products of one column, or below [`NO_TERM`].
#[inline(always)]
fn product_word<S: Lanes, T: Operand>(s: S, a: &A<S::V>, b: &B, n: usize, first: usize, pairs: usize) -> S::V {
    let mut words = s.add(a.words[first], s.splat(b.words::<T>(first, n)));
    for pair in first + 1..first + pairs {
        words = s.max_halves(words, s.add(a.words[pair], s.splat(b.words::<T>(pair, n))));
    }
    fold_halves(s, words)
}

/// The same of an accumulator. A subnormal gets exponent -127, which is as far outside the window as -126.
#[inline(always)]
fn accumulator_word<S: Lanes, H: Hooks>(s: S, constants: &Constants<S::V>, c: S::V) -> S::V {
    if !H::ALIGN_ACCUMULATOR {
        return s.splat(0);
    }
    let magnitude = s.shl::<1>(c);
    s.add_where_nonzero(magnitude, constants.zero_c, s.shr::<24>(magnitude), s.splat(SUM_BIAS - 127))
}

/// Recomputes the columns that have lanes outside the window.
#[allow(clippy::too_many_arguments)] // An internal function, inlined into one place.
#[inline(always)]
fn recompute<S: Lanes, T: Operand, H: Hooks, const PAIRS: usize, const BLOCKS: usize>(
    s: S,
    params: &TFdpa,
    a: &A<S::V>,
    b: &B,
    c: &[S::V; N],
    block: usize,
    left_window: [u16; N],
    out: &mut [S::V; N],
) {
    let pairs = PAIRS / BLOCKS;
    let first = block * pairs;
    let mut work = Work::new(params, 2 * pairs);
    for k in 0..2 * pairs {
        s.store(a.values[2 * first + k], &mut work.a[k]);
    }
    let mut careful = 0;
    for n in 0..N {
        if left_window[n] == 0 {
            continue;
        }
        careful += 1;
        for k in 0..2 * pairs {
            work.b[k] = b.value::<T>(2 * first + k, n);
        }
        s.store(product_word::<S, T>(s, a, b, n, first, pairs), &mut work.words);
        s.store(c[n], &mut work.c);
        s.careful(&mut work);
        out[n] = s.load(&work.d);
    }
    H::count(careful);
}
