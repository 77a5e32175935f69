//! TR-FDPA and GTR-FDPA, the matrix units of CDNA3: products truncated, then rounded *down* beside C (`gpu-arithmetic` 2.10, 2.11).
//!
//! Source: MMA-Sim. Rounding down makes the operation asymmetric: negated operands do not give the negated result.

use super::aligned::{Term, floor, largest, truncated_sum};
use super::specials::{Resolved, resolve};
use super::tfdpa::ZeroPolicy;
use crate::format::{Elem, F32, Unpacked};
use crate::round;

/// Parameters of the fused sums of CDNA3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrFdpa {
    /// Element type of A.
    pub a: Elem,
    /// Element type of B.
    pub b: Elem,
    /// Products of one step.
    pub max_terms: usize,
    /// Fraction bits to which products, and C, are cut.
    pub fraction: i32,
    /// Fraction bits kept of the sum of the products when C is added.
    pub sum_fraction: i32,
    /// GTR-FDPA: even and odd products are summed apart, and a C far below the products is dropped.
    pub interleaved: bool,
    /// How zeros take part.
    pub zeros: ZeroPolicy,
    /// Floor of the alignment exponent under [`ZeroPolicy::Exclude`].
    pub floor: Option<i32>,
}

impl TrFdpa {
    /// `c + sum a[k] b[k]`, f32 in and out.
    ///
    /// # Panics
    /// If `a` and `b` differ in length.
    ///
    /// **Bits.** As MMA-Sim under [`ZeroPolicy::SentinelMinus126`]. Only *that* a result is NaN is modelled. A product of magnitude `2^128`
    /// or more is an infinity. A negative sum that underflows gives `-0`, a zero sum `+0`.
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        assert_eq!(a.len(), b.len(), "A and B have one length, K");
        let steps = a.chunks(self.max_terms).zip(b.chunks(self.max_terms));
        steps.fold(c, |d, (a, b)| u64::from(self.step(a, b, d)))
    }

    fn step(&self, a: &[u64], b: &[u64], c: u64) -> u32 {
        let (fa, fb) = (self.a.format(), self.b.format());
        let c = F32.unpack(c);
        let pairs = || a.iter().zip(b).map(|(&a, &b)| (fa.unpack(a), fb.unpack(b)));
        match resolve(pairs(), c) {
            Resolved::Finite => {}
            special => return special.bits(&F32) as u32,
        }
        let fraction = (fa.fraction_bits + fb.fraction_bits) as i32;
        let products: Vec<Term> = pairs().map(|(a, b)| Term::product(a, b, fraction, self.zeros)).collect();
        match overflowed(&products) {
            Resolved::Finite => {}
            special => return special.bits(&F32) as u32,
        }
        let c = Term::single(c, F32.fraction_bits, self.zeros);
        let of_c = largest(&[c], self.zeros);
        let sum = if self.interleaved { self.halves(&products) } else { self.truncated(&products) };
        let Some(mut exponent) = sum.map(|(_, e)| e).max(of_c) else {
            return 0;
        };
        if let (ZeroPolicy::Exclude, Some(least)) = (self.zeros, self.floor) {
            exponent = exponent.max(least);
        }
        let down = sum.map_or(0, |(sum, e)| floor(sum, self.sum_fraction - self.fraction + e - exponent));
        let dropped = self.interleaved && c.exponent < exponent - self.fraction - 1;
        let addend = if dropped { 0 } else { floor(c.significand, self.fraction - c.fraction + c.exponent - exponent) };
        let total = down + (addend << (self.sum_fraction - self.fraction));
        round::rne32_signed(i128::from(total), exponent - self.sum_fraction)
    }

    /// The sum of products in units of `2^(exponent - fraction)`, and that exponent.
    fn truncated(&self, products: &[Term]) -> Option<(i64, i32)> {
        let exponent = largest(products, self.zeros)?;
        Some((truncated_sum(products, exponent, self.fraction), exponent))
    }

    /// The same with even and odd products summed apart, each by its own exponent.
    fn halves(&self, products: &[Term]) -> Option<(i64, i32)> {
        let every_other = |first: usize| -> Vec<Term> { products.iter().copied().skip(first).step_by(2).collect() };
        let halves = [self.truncated(&every_other(0)), self.truncated(&every_other(1))];
        let exponent = halves.iter().flatten().map(|(_, e)| *e).max()?;
        Some((halves.iter().flatten().map(|&(sum, e)| floor(sum, e - exponent)).sum(), exponent))
    }
}

/// Products of magnitude `2^128` and more are infinities.
fn overflowed(products: &[Term]) -> Resolved {
    let infinity = |negative: bool| Unpacked::Infinite { negative };
    let one = Unpacked::Finite { negative: false, significand: 1, exponent: 0 };
    let zero = Unpacked::Finite { negative: false, significand: 0, exponent: 0 };
    let too_large = products
        .iter()
        .filter(|t| t.significand != 0 && t.significand.unsigned_abs().ilog2() as i32 + t.exponent - t.fraction >= 128);
    resolve(too_large.map(|t| (infinity(t.significand < 0), one)), zero)
}
