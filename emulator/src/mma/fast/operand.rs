//! Operands taken apart: f32 values for the products, exponent words for the alignment.

use crate::format::Elem;
use crate::mma::layout::Register;
use crate::simd::lanes::Lanes;

/// A: rows are lanes.
pub(super) struct A<V, const PAIRS: usize> {
    /// f32 values of two neighbouring k, times `2^-RESCALE` of the operand type.
    pub values: [[V; 2]; PAIRS],
    /// Exponent words of both, the lower in the low half.
    pub words: [V; PAIRS],
}

/// B in memory, for broadcasts; where an element sits says the operand type.
#[repr(align(64))]
pub(super) struct B<const PAIRS: usize> {
    values: [[u32; 16]; PAIRS],
    words: [[u32; 16]; PAIRS],
}

impl<const PAIRS: usize> B<PAIRS> {
    pub(super) const ZERO: Self = Self { values: [[0; 16]; PAIRS], words: [[0; 16]; PAIRS] };

    /// The f32 bits of `B[2 pair + odd, n]`.
    #[inline(always)]
    pub(super) fn value<T: Operand>(&self, pair: usize, odd: usize, n: usize) -> u32 {
        self.values.as_flattened()[T::value_offset(pair, odd) + 4 * n]
    }

    /// The words of `B[2 pair, n]` and `B[2 pair + 1, n]`.
    #[inline(always)]
    pub(super) fn words<T: Operand>(&self, pair: usize, n: usize) -> u32 {
        self.words.as_flattened()[T::word_offset(pair) + 4 * n]
    }
}

/// What 8-bit elements a register holds, and which of its four a step of two takes.
#[derive(Clone, Copy, Debug)]
pub(in crate::mma) struct Form {
    /// E4M3 or E5M2.
    pub elem: Elem,
    /// The upper two.
    pub upper: bool,
}

impl Form {
    /// Of elements of `elem`, the lower two.
    pub(super) fn of(elem: Elem) -> Self {
        Self { elem, upper: false }
    }
}

/// An element type of A and B.
///
/// The *exponent word* of an operand is the exponent field of its f32 value, in bits 7 to 14; 0 for a zero. Where the operand is
/// subnormal, the field of its unnormalised exponent, except that the subnormals of bf16 and TF32, like zeros, have 0.
pub(super) trait Operand {
    /// A is held divided by two to this power, exactly, so that all products of the type lie below the window's upper edge.
    const RESCALE: u32 = 0;
    /// Exponent field of the largest finite number, as an f32.
    const MAX_FIELD: u32;

    /// Exponent field of the smallest normal number, as an f32, which subnormals share.
    fn min_field(form: Form) -> u32;

    /// The largest field that the fast path takes: finite, and such that a product with a word of 0 is below the window.
    #[inline(always)]
    fn limit(fraction: i32) -> u32 {
        Self::MAX_FIELD.min(fraction as u32 + 128 + Self::RESCALE)
    }

    /// Takes A apart.
    fn a<S: Lanes, const PAIRS: usize>(s: S, form: Form, registers: &[&Register]) -> A<S::V, PAIRS>;

    /// Takes B apart; returns the largest words of every lane.
    fn b<S: Lanes, const PAIRS: usize>(s: S, form: Form, registers: &[&Register], out: &mut B<PAIRS>) -> S::V;

    /// Where the values of B hold `B[2 pair + odd, 0]`; columns are 4 apart.
    fn value_offset(pair: usize, odd: usize) -> usize;

    /// Where the words of B hold those of the pair's column 0; columns are 4 apart.
    fn word_offset(pair: usize) -> usize;
}

/// Lanes 0 to 15 and 16 to 31 of a register.
#[inline(always)]
pub(super) fn halves<S: Lanes>(s: S, register: &Register) -> [S::V; 2] {
    let (halves, _) = register.as_chunks::<16>();
    [s.load(&halves[0]), s.load(&halves[1])]
}

/// The four columns of four lanes' registers: a fragment by (row, lane of a group).
#[inline(always)]
fn columns<S: Lanes>(s: S, upper: &Register, lower: &Register) -> [S::V; 4] {
    let ([a, b], [c, d]) = (halves(s, upper), halves(s, lower));
    s.transpose([a, b, c, d])
}

/// A type of which a step takes two elements of a word.
trait Packed {
    const MIN_FIELD: u32;
    const MAX_FIELD: u32;
    /// The lower and the upper element as f32, and the exponent words of both.
    fn apart<S: Lanes>(s: S, form: Form, words: S::V) -> (S::V, S::V, S::V);
}

/// bfloat16.
pub(super) struct Bf16;
/// binary16.
pub(super) struct F16;
/// TF32.
pub(super) struct Tf32;

impl Packed for Bf16 {
    const MIN_FIELD: u32 = 1;
    const MAX_FIELD: u32 = 254;
    #[inline(always)]
    fn apart<S: Lanes>(s: S, _: Form, pairs: S::V) -> (S::V, S::V, S::V) {
        (s.shl::<16>(pairs), s.and(pairs, s.splat(0xffff_0000)), s.and(pairs, s.splat(0x7f80_7f80)))
    }
}

/// Bias of f32 less that of f16.
const F16_REBIAS: u32 = 127 - 15;

impl Packed for F16 {
    const MIN_FIELD: u32 = F16_REBIAS + 1;
    const MAX_FIELD: u32 = F16_REBIAS + 30;
    #[inline(always)]
    fn apart<S: Lanes>(s: S, _: Form, pairs: S::V) -> (S::V, S::V, S::V) {
        let field = s.shr::<3>(s.and(pairs, s.splat(0x7c00_7c00)));
        let field = s.max_halves(field, s.splat(0x0080_0080));
        let magnitude = s.and(pairs, s.splat(0x7fff_7fff));
        let words = s.add_where_nonzero_halves(magnitude, field, s.splat(F16_REBIAS << 7 | F16_REBIAS << 23));
        let (low, high) = s.widen_f16(pairs);
        (low, high, words)
    }
}

/// E4M3 and E5M2 as the f16 that they are widened to, in instructions without an FP8 unit behind them.
pub(super) struct Fp8AsF16;

impl Packed for Fp8AsF16 {
    const MIN_FIELD: u32 = F16_REBIAS + 1;
    const MAX_FIELD: u32 = F16_REBIAS + 30;
    #[inline(always)]
    fn apart<S: Lanes>(s: S, form: Form, words: S::V) -> (S::V, S::V, S::V) {
        fp8(s, form, words, <Self as Packed>::MIN_FIELD, 0)
    }
}

/// Two of four 8-bit elements: the lower and the upper, as f32 divided by `2^rescale`, and the exponent words of both.
#[inline(always)]
fn fp8<S: Lanes>(s: S, form: Form, words: S::V, min_field: u32, rescale: u32) -> (S::V, S::V, S::V) {
    let chosen = if form.upper { s.shr::<16>(words) } else { words };
    let bytes = s.or(s.and(chosen, s.splat(0xff)), s.shl::<8>(s.and(chosen, s.splat(0xff00))));
    let signs = s.shl::<8>(s.and(bytes, s.splat(0x0080_0080)));
    let magnitudes = s.and(bytes, s.splat(0x007f_007f));
    // As f16, E5M2 is the upper byte. E4M3 is 2^-8 times itself; its NaN needs the exponent of one.
    let (halves, power) = match form.elem {
        Elem::E5m2 => (s.shl::<8>(magnitudes), 127),
        _ => {
            let nan = s.and(s.add(magnitudes, s.splat(0x0001_0001)), s.splat(0x0080_0080));
            let nan = s.shl::<8>(s.sub(nan, s.shr::<7>(nan)));
            (s.or(s.shl::<7>(magnitudes), nan), 127 + 8)
        }
    };
    let (low, high) = s.widen_f16(s.or(halves, signs));
    let scaled = |value, power: u32| s.mul(value, s.splat(power << 23));
    let (whole_low, whole_high) = (scaled(low, power), scaled(high, power));
    let field = s.or(s.shr::<16>(s.and(whole_low, s.splat(0x7f80_0000))), s.and(whole_high, s.splat(0x7f80_0000)));
    let field = s.max_halves(field, s.splat(min_field * 0x0080_0080));
    let words = s.add_where_nonzero_halves(magnitudes, field, s.splat(0));
    (scaled(low, power - rescale), scaled(high, power - rescale), words)
}

macro_rules! packed {
    ($type:ty) => {
        impl Operand for $type {
            const MAX_FIELD: u32 = <Self as Packed>::MAX_FIELD;

            #[inline(always)]
            fn min_field(_: Form) -> u32 {
                <Self as Packed>::MIN_FIELD
            }

            #[inline(always)]
            fn a<S: Lanes, const PAIRS: usize>(s: S, form: Form, registers: &[&Register]) -> A<S::V, PAIRS> {
                let mut out = A { values: [[s.splat(0); 2]; PAIRS], words: [s.splat(0); PAIRS] };
                for quarter in 0..PAIRS / 4 {
                    let pairs = columns(s, registers[2 * quarter], registers[2 * quarter + 1]);
                    for i in 0..4 {
                        let (even, odd, words) = Self::apart(s, form, pairs[i]);
                        out.values[4 * quarter + i] = [even, odd];
                        out.words[4 * quarter + i] = words;
                    }
                }
                out
            }

            #[inline(always)]
            fn b<S: Lanes, const PAIRS: usize>(s: S, form: Form, registers: &[&Register], out: &mut B<PAIRS>) -> S::V {
                let mut largest = s.splat(0);
                for r in 0..PAIRS / 4 {
                    let loaded = halves(s, registers[r]);
                    for i in 0..2 {
                        let (even, odd, words) = Self::apart(s, form, loaded[i]);
                        s.store(even, &mut out.values[4 * r + i]);
                        s.store(odd, &mut out.values[4 * r + 2 + i]);
                        s.store(words, &mut out.words[2 * r + i]);
                        largest = s.max_halves(largest, words);
                    }
                }
                largest
            }

            #[inline(always)]
            fn value_offset(pair: usize, odd: usize) -> usize {
                pair / 4 * 64 + odd * 32 + pair % 4
            }

            #[inline(always)]
            fn word_offset(pair: usize) -> usize {
                pair / 4 * 32 + pair % 4
            }
        }
    };
}

packed!(Bf16);
packed!(F16);
packed!(Fp8AsF16);

impl Tf32 {
    #[inline(always)]
    fn clear<S: Lanes>(s: S, values: S::V) -> S::V {
        s.and(values, s.splat(!0x1fff))
    }

    /// The exponent word of each lane, in its high half.
    #[inline(always)]
    fn high_words<S: Lanes>(s: S, values: S::V) -> S::V {
        s.and(values, s.splat(0x7f80_0000))
    }
}

impl Operand for Tf32 {
    const MAX_FIELD: u32 = 254;

    #[inline(always)]
    fn min_field(_: Form) -> u32 {
        1
    }

    #[inline(always)]
    fn a<S: Lanes, const PAIRS: usize>(s: S, _: Form, registers: &[&Register]) -> A<S::V, PAIRS> {
        let mut out = A { values: [[s.splat(0); 2]; PAIRS], words: [s.splat(0); PAIRS] };
        for quarter in 0..PAIRS / 2 {
            let values = columns(s, registers[2 * quarter], registers[2 * quarter + 1]);
            for i in 0..2 {
                let [even, odd] = [Self::clear(s, values[2 * i]), Self::clear(s, values[2 * i + 1])];
                out.values[2 * quarter + i] = [even, odd];
                out.words[2 * quarter + i] = s.or(s.shr::<16>(Self::high_words(s, even)), Self::high_words(s, odd));
            }
        }
        out
    }

    #[inline(always)]
    fn b<S: Lanes, const PAIRS: usize>(s: S, _: Form, registers: &[&Register], out: &mut B<PAIRS>) -> S::V {
        let mut largest = s.splat(0);
        for r in 0..PAIRS / 2 {
            let loaded = halves(s, registers[r]);
            for i in 0..2 {
                let values = Self::clear(s, loaded[i]);
                let words = s.shr::<16>(Self::high_words(s, values));
                s.store(values, &mut out.values[2 * r + i]);
                s.store(s.pack_pairs(words), &mut out.words[2 * r + i]);
                largest = s.max_halves(largest, words);
            }
        }
        largest
    }

    #[inline(always)]
    fn value_offset(pair: usize, odd: usize) -> usize {
        pair / 2 * 32 + pair % 2 * 2 + odd
    }

    #[inline(always)]
    fn word_offset(pair: usize) -> usize {
        pair / 2 * 32 + pair % 2 * 2
    }
}

/// E4M3 and E5M2 as units for them take them, in any mix. A step's pairs are those of its registers: the lower two elements of a word, then
/// the upper two; the order within a step is of no account.
pub(super) struct Fp8;

impl Operand for Fp8 {
    // Products reach 2^30, but the window of a unit with 13 fraction bits ends, unscaled, at 2^13.
    const RESCALE: u32 = 20;
    const MAX_FIELD: u32 = F16_REBIAS + 30;

    #[inline(always)]
    fn min_field(form: Form) -> u32 {
        (127 + form.elem.format().min_exponent()) as u32
    }

    #[inline(always)]
    fn a<S: Lanes, const PAIRS: usize>(s: S, form: Form, registers: &[&Register]) -> A<S::V, PAIRS> {
        let mut out = A { values: [[s.splat(0); 2]; PAIRS], words: [s.splat(0); PAIRS] };
        for quarter in 0..PAIRS / 8 {
            let quads = columns(s, registers[2 * quarter], registers[2 * quarter + 1]);
            for i in 0..4 {
                for upper in [false, true] {
                    let pair = 8 * quarter + 2 * i + usize::from(upper);
                    let (even, odd, words) =
                        fp8(s, Form { upper, ..form }, quads[i], Self::min_field(form), Self::RESCALE);
                    out.values[pair] = [even, odd];
                    out.words[pair] = words;
                }
            }
        }
        out
    }

    #[inline(always)]
    fn b<S: Lanes, const PAIRS: usize>(s: S, form: Form, registers: &[&Register], out: &mut B<PAIRS>) -> S::V {
        let mut largest = s.splat(0);
        for r in 0..PAIRS / 8 {
            let loaded = halves(s, registers[r]);
            for i in 0..2 {
                for upper in [false, true] {
                    let (even, odd, words) = fp8(s, Form { upper, ..form }, loaded[i], Self::min_field(form), 0);
                    let line = 2 * r + usize::from(upper);
                    s.store(even, &mut out.values[4 * line + i]);
                    s.store(odd, &mut out.values[4 * line + 2 + i]);
                    s.store(words, &mut out.words[2 * line + i]);
                    largest = s.max_halves(largest, words);
                }
            }
        }
        largest
    }

    #[inline(always)]
    fn value_offset(pair: usize, odd: usize) -> usize {
        pair / 8 * 128 + pair % 2 * 64 + odd * 32 + pair % 8 / 2
    }

    #[inline(always)]
    fn word_offset(pair: usize) -> usize {
        pair / 8 * 64 + pair % 2 * 32 + pair % 8 / 2
    }
}
