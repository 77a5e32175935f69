//! What the kernels know of one product, and when they may trust their exponents.

use super::element::{Facts, RESCALE, small};
use super::weights::Line;
use crate::format::f16_to_f32;
use crate::mma::{Conversion, TFdpa, ZeroPolicy, convert};
use crate::simd::lanes::Lanes;
use std::ops::Range;

/// Where f32 has its exponent field.
pub(super) const FIELD: u32 = 23;
pub(super) const EXPONENT: u32 = 0xff << FIELD;
/// The lowest alignment exponent of the fast path, as a field: -100. From there on units are at least 2^-125, whatever F is.
const LOWEST: u32 = 27;

/// A mistake that the tests must notice, or what they force. Only tests set one; elsewhere the questions are constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum Mutation {
    /// None.
    Production,
    /// An overflow of i32 is not noticed.
    NoOverflowCheck,
    /// The clamp does not rise with the largest operands, whose zero and clipped partners are misstated.
    ClampFixed,
    /// Alignments are not compared with the window, whatever the facts say.
    NoTracking,
    /// The sum is converted to nearest.
    ConvertedToNearest,
    /// Not a mistake: all tiles are tracked.
    AlwaysTracking,
}

/// The arithmetic of one product.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub params: TFdpa,
    /// Products of a block.
    pub terms: usize,
    /// The k to multiply, rounded up to whole instructions.
    pub range: Range<usize>,
    /// The field that the subnormals of A share, and those of B.
    pub min_fields: [u32; 2],
    /// Products of a partial sum that starts from zero and is added to the accumulator in f32; `None`: there are no partial sums.
    pub promote: Option<usize>,
    /// Whether the two steps of 32 products take pairs of k in turn.
    pub interleaved: bool,
    pub mutation: Mutation,
}

/// How the two kernels state the exponents of products: what they get wrong, and up to where.
pub(super) trait Form {
    /// The smallest clamp such that every misstated product exponent lies at or below it, truly and as stated.
    fn clamp(max_a: u32, max_b: u32) -> u32;
}

/// Bytes: `max(fa - 63, 0) + max(fb - 64, 0)`. A zero or clipped operand makes it the partner's share or less, and so is the truth.
pub(super) struct Bytes;

impl Form for Bytes {
    #[inline(always)]
    fn clamp(max_a: u32, max_b: u32) -> u32 {
        max_a.saturating_sub(63).max(max_b.saturating_sub(64))
    }
}

/// Words: `fa + fb`, but 0 for zeros and for the subnormals of bf16, where the truth is 1 (or no exponent at all).
pub(super) struct Words;

impl Form for Words {
    #[inline(always)]
    fn clamp(max_a: u32, max_b: u32) -> u32 {
        // One more than the true field 1 + f - 127, so that what is misstated lies below: then the window may include the clamp.
        max_a.max(max_b).saturating_sub(125)
    }
}

/// What a block's operands allow.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// The largest `F - E` that is right, in the place of the exponent field; anything above, as unsigned, is outside.
    pub limit: u32,
    /// No alignment is to be trusted: infinities, NaNs or sums of bytes that carry.
    pub beyond: bool,
}

impl Spec {
    /// Whether the tests ask for this.
    #[inline(always)]
    pub(super) fn mutated(&self, mutation: Mutation) -> bool {
        cfg!(test) && self.mutation == mutation
    }

    /// The power of two that rows are held divided by.
    #[inline(always)]
    pub(super) fn rescale(&self) -> u32 {
        if small(self.params.a) { RESCALE } else { 0 }
    }

    /// Field of the largest alignment exponent that the fast path takes: E <= F, and more for rescaled rows.
    #[inline(always)]
    pub(super) fn highest(&self) -> u32 {
        (127 + self.params.fraction) as u32 + self.rescale()
    }

    /// Whether accumulators are f16. They are held as f32, exactly.
    #[inline(always)]
    pub(super) fn halves(&self) -> bool {
        matches!(self.params.conversion, Conversion::Rne16 | Conversion::Rne16Signed)
    }

    /// Whether accumulators are f32 and come as they are: no rounding to f16, no addition that leaves any NaN.
    pub(super) fn plain(&self) -> bool {
        !self.halves() && self.promote.is_none()
    }

    /// C as accumulators are held.
    pub(super) fn held(&self, bits: u32) -> u32 {
        if self.halves() { f16_to_f32(bits as u16) } else { bits }
    }

    /// Accumulators as D.
    #[inline(always)]
    pub(super) fn d<S: Lanes>(&self, s: S, held: S::V) -> S::V {
        if self.halves() {
            return convert::packed(s, held);
        }
        let nan = s.max(s.sub(s.and(held, s.splat(0x7fff_ffff)), s.splat(EXPONENT)), s.splat(0));
        s.where_nonzero(nan, s.splat(0x7fff_ffff), held)
    }

    /// The exponent fields that accumulators align by, in their place. f16 subnormals share one, and no alignment is below the floor.
    #[inline(always)]
    pub(super) fn fields<S: Lanes, const R: usize>(&self, s: S, c: &[S::V; R]) -> [S::V; R] {
        let mut out = *c;
        for r in 0..R {
            out[r] = s.and(c[r], s.splat(EXPONENT));
        }
        if self.halves() {
            // (As f32, every f16 but zero is a normal number.)
            let floor = self.floor();
            let (least, floor) = (s.splat(LEAST_HALF.max(floor) << FIELD), s.splat(floor << FIELD));
            for r in 0..R {
                out[r] = s.where_nonzero(out[r], s.max_unsigned(out[r], least), floor);
            }
        }
        out
    }

    /// The least alignment exponent of f16 results as a field, where there is a floor that the window may reach.
    #[inline(always)]
    pub(super) fn floor(&self) -> u32 {
        match (self.params.zeros, self.params.floor) {
            (ZeroPolicy::Exclude, Some(floor)) if self.halves() && floor >= -100 => (127 + floor) as u32,
            _ => 0,
        }
    }

    /// The accumulator's term. `shift` is `F - E`, and the rescaling, in the place of the exponent field.
    ///
    /// Without rescaling the shift is not negative, and adding it to the field multiplies. With it, the accumulator's own shift may be:
    /// then it is multiplied as a float, exactly unless the result is far below one, where the term is 0.
    #[inline(always)]
    pub(super) fn accumulator<S: Lanes, const R: usize>(&self, s: S, c: &[S::V; R], shift: &[S::V; R]) -> [S::V; R] {
        let mut out = [s.splat(0); R];
        if self.rescale() == 0 {
            for r in 0..R {
                out[r] = s.truncate(s.add(c[r], shift[r]));
            }
        } else {
            for r in 0..R {
                let power = s.add(shift[r], s.splat((127 - RESCALE) << FIELD));
                out[r] = s.truncate(s.mul(c[r], power));
            }
        }
        out
    }

    #[inline(always)]
    fn raised(&self, clamp: u32) -> u32 {
        let lowest = LOWEST + self.rescale();
        if self.mutated(Mutation::ClampFixed) { lowest } else { clamp.max(lowest) }
    }

    /// The clamp for a tile and a panel, if their facts make tracking unnecessary.
    ///
    /// With `E' = max(E, clamp)`: wherever the true E is at or above the clamp, E' is E, because what is misstated lies below. Where it is
    /// below, no product is nonzero (every nonzero product's exponent is at or above it), and the accumulator is a multiple of the
    /// unit at the clamp: at first because a nonzero one starts at or above the clamp, then because every step leaves a multiple of
    /// a unit at least as large. So the step returns the accumulator either way. Last, no alignment passes the window's upper edge: the sum
    /// of K products stays below it.
    ///
    /// f16 accumulators are rounded, so that argument does not hold for them. But a nonzero one has an exponent of at least -14, so where the
    /// true E is below a lower clamp, there is no term at all, and either way the step returns 0. A floor above the clamp is true.
    pub(super) fn clamp<F: Form>(&self, a: Facts, b: Facts, c: Facts) -> Option<u32> {
        let (max_a, max_b) = (u32::from(a.max), u32::from(b.max));
        let clamp = self.raised(F::clamp(max_a, max_b));
        let growth = usize::BITS - self.range.len().leading_zeros();
        let bounded = max_a < 255
            && max_b < 255
            && max_a + max_b + 2 + growth < 127 + self.highest()
            && u32::from(c.max) < self.highest();
        // Without nonzero elements the minimum is 255, and the product is nothing.
        let nothing = a.max == 0 || b.max == 0;
        let products = nothing || u32::from(a.min) + u32::from(b.min) >= 127 + clamp;
        let (settled, clamp) = if self.halves() {
            // Nor must an accumulator become infinite: products come to less than 2^14, and rounding errs by no more than what is added.
            let finite = max_a + max_b + 2 + growth < 127 + 127 + 15 && u32::from(c.max) < 127 + 14;
            (bounded && finite && products && clamp <= LEAST_HALF, clamp.max(self.floor()))
        } else {
            // (Zeros alone beside huge partners may raise the clamp out of the window.)
            (bounded && products && u32::from(c.min) >= clamp && clamp <= self.highest(), clamp)
        };
        if self.mutated(Mutation::NoTracking) || settled && !self.mutated(Mutation::AlwaysTracking) {
            Some(clamp)
        } else {
            None
        }
    }

    /// The window of a block whose operands have these largest fields, for the byte form (exclusive of its clamp).
    #[inline(always)]
    pub(super) fn window_of_bytes(&self, max_a: u8, max_b: u8) -> Window {
        let (max_a, max_b) = (u32::from(max_a), u32::from(max_b));
        let clamp = self.raised(Bytes::clamp(max_a, max_b));
        // Bytes carry from a sum of 256 on.
        let beyond = max_a == 255 || max_b == 255 || max_a + max_b > 127 + 255 || clamp >= self.highest();
        Window { limit: if beyond { 0 } else { (self.highest() - clamp - 1) << FIELD }, beyond }
    }

    /// The same for the word form (inclusive).
    #[inline(always)]
    pub(super) fn window_of_words(&self, max_a: u8, max_b: u8) -> Window {
        let (max_a, max_b) = (u32::from(max_a), u32::from(max_b));
        let clamp = self.raised(Words::clamp(max_a, max_b));
        let beyond = max_a == 255 || max_b == 255 || clamp > self.highest();
        Window { limit: if beyond { 0 } else { (self.highest() - clamp) << FIELD }, beyond }
    }

    /// The sum of a row's significands, in sixteenths, from which on i32 might overflow.
    ///
    /// A term is below `s(a) * 2 * 2^F`, the accumulator below `2 * 2^F`: `2 S + 2 < 2^(31 - F)` excludes it.
    fn overflow_from(&self) -> u32 {
        16 * ((1 << (30 - self.params.fraction)) - 1)
    }

    /// Whether a block's sum is taken in two halves, each of which i32 holds: 32 products with 25 bits. (Products of such narrow
    /// elements are at most `1.875^2`, so 16 of them and the accumulator stay below `59 * 2^25`.)
    pub(super) fn halved(&self) -> bool {
        self.terms == 32 && self.params.fraction > 24
    }

    /// Whether a block's sum might overflow i32, given its rows' significands.
    #[inline(always)]
    pub(super) fn overflows_perhaps(&self, significands: u32) -> bool {
        significands >= self.overflow_from() && !self.mutated(Mutation::NoOverflowCheck)
    }

    /// The sum converted toward zero.
    #[inline(always)]
    pub(super) fn converted<S: Lanes>(&self, s: S, sum: S::V) -> S::V {
        #[cfg(test)]
        if self.mutated(Mutation::ConvertedToNearest) {
            return s.to_float_nearest(sum);
        }
        s.to_float_toward_zero(sum)
    }

    /// The sums of a block, converted and scaled: accumulators.
    #[inline(always)]
    pub(super) fn results<S: Lanes, const R: usize>(&self, s: S, sum: &[S::V; R], shift: &[S::V; R]) -> [S::V; R] {
        let mut out = *sum;
        if self.halves() {
            for r in 0..R {
                out[r] = self.half(s, s.mul(convert::odd(s, sum[r]), self.scale(s, shift[r])));
            }
            return out;
        }
        for r in 0..R {
            out[r] = s.mul(self.converted(s, sum[r]), self.scale(s, shift[r]));
        }
        if self.params.conversion.kept() != !0 {
            for r in 0..R {
                out[r] = s.and(out[r], s.splat(self.params.conversion.kept()));
            }
        }
        out
    }

    /// An f32, exact or rounded to odd, as an f16 accumulator.
    #[inline(always)]
    pub(super) fn half<S: Lanes>(&self, s: S, value: S::V) -> S::V {
        let rounded = s.round_f16(value);
        if self.params.conversion == Conversion::Rne16Signed {
            return rounded;
        }
        s.where_nonzero(s.shl::<1>(rounded), rounded, s.splat(0))
    }

    /// The scale `2^(E - F)` of a shift.
    #[inline(always)]
    pub(super) fn scale<S: Lanes>(&self, s: S, shift: S::V) -> S::V {
        s.sub(s.splat((127 + self.rescale()) << FIELD), shift)
    }
}

/// The f32 exponent field that f16 subnormals share with the smallest normal numbers.
pub(super) const LEAST_HALF: u32 = 127 - 14;

/// The facts of accumulators.
pub(super) fn facts_of(lines: &[Line]) -> Facts {
    let mut facts = Facts::NONE;
    for &word in lines.iter().flat_map(|line| &line.0) {
        // A subnormal has field 0 here, and is below every clamp: so it counts as 1.
        facts.add(if word << 1 == 0 { 0 } else { (word >> FIELD & 0xff).max(1) });
    }
    facts
}

/// The most products of a block.
pub(super) const MOST_TERMS: usize = 32;
