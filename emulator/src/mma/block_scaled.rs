//! Block-scaled sums of Blackwell: MXFP8, MXFP6, MXFP4 and NVFP4.
//!
//! Two rules (`gpu-arithmetic` 2.5 and 2.6). [`ScaledTFdpa`] adds the scales' exponents to every product's. [`GroupScaledTFdpa`]
//! sums groups of sixteen FP4 products exactly, multiplies each by its scales, and aligns the groups by the exponents of the scales
//! alone. Source: MMA-Sim; no recorded hardware outputs are public.

use super::aligned::{Term, fused_sum, operand};
use super::specials::{Resolved, resolve};
use super::tfdpa::ZeroPolicy;
use crate::format::{Elem, F32, Unpacked};
use crate::round;

/// Scales of one row of A and one column of B, block 0 first; bit patterns.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Scales<'a> {
    pub a: &'a [u64],
    pub b: &'a [u64],
}

/// Truncated fused dot-product-add whose products are scaled by powers of two, one pair of UE8M0 scales a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledTFdpa {
    /// Element type of A.
    pub a: Elem,
    /// Element type of B.
    pub b: Elem,
    /// Products of one step, which is also the size of a block.
    pub max_terms: usize,
    /// Fraction bits kept below the largest exponent.
    pub fraction: i32,
    /// How zeros take part.
    pub zeros: ZeroPolicy,
    /// Floor of the alignment exponent under [`ZeroPolicy::Exclude`].
    pub floor: Option<i32>,
}

impl ScaledTFdpa {
    /// `c + sum a[k] b[k] 2^(scales)`, f32 in and out.
    ///
    /// # Panics
    /// If `a` and `b` differ in length or there are not `K / max_terms` scales of each.
    ///
    /// **Bits.** As MMA-Sim under [`ZeroPolicy::SentinelMinus126`]. NaN is `7fffffff`, also for a NaN scale; a zero result is `+0`.
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64, scales: Scales<'_>) -> u64 {
        check(a, b, scales, self.max_terms);
        let blocks = a.chunks(self.max_terms).zip(b.chunks(self.max_terms));
        let scales = scales.a.iter().zip(scales.b);
        blocks.zip(scales).fold(c, |d, ((a, b), (&sa, &sb))| u64::from(self.block(a, b, d, sa, sb)))
    }

    fn block(&self, a: &[u64], b: &[u64], c: u64, scale_a: u64, scale_b: u64) -> u32 {
        let (fa, fb) = (self.a.format(), self.b.format());
        let c = F32.unpack(c);
        let scales = [scale_a, scale_b].map(|s| Elem::Ue8m0.format().unpack(s));
        let pairs = || a.iter().zip(b).map(|(&a, &b)| (fa.unpack(a), fb.unpack(b)));
        // A scale is never zero or infinite, so only its NaN matters to the specials.
        match resolve(pairs().chain([(scales[0], scales[1])]), c) {
            Resolved::Finite => {}
            special => return special.bits(&F32) as u32,
        }
        let shift: i32 = scales.iter().map(|&s| operand(s, self.zeros).0).sum();
        let fraction = (fa.fraction_bits + fb.fraction_bits) as i32;
        let product = |(a, b)| {
            let term = Term::product(a, b, fraction, self.zeros);
            Term { exponent: term.exponent + shift, ..term }
        };
        let mut terms: Vec<Term> = pairs().map(product).collect();
        terms.push(Term::single(c, F32.fraction_bits, self.zeros));
        fused_sum(&terms, self.fraction, self.zeros, self.floor)
            .map_or(0, |(sum, scale)| round::rz32(i128::from(sum), scale))
    }
}

/// Truncated fused sum of groups of FP4 products, each group scaled: MXFP4 and NVFP4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupScaledTFdpa {
    /// Element type of the scales: UE8M0 or UE4M3.
    pub scale: Elem,
    /// Elements that share a scale, a multiple of `group`.
    pub block: usize,
    /// Products summed exactly before they are scaled.
    pub group: usize,
    /// Products of one step.
    pub max_terms: usize,
    /// Fraction bits kept below the largest exponent.
    pub fraction: i32,
    /// How zeros take part.
    pub zeros: ZeroPolicy,
    /// Floor of the alignment exponent under [`ZeroPolicy::Exclude`].
    pub floor: Option<i32>,
}

impl GroupScaledTFdpa {
    /// `c + sum over groups of scale_a scale_b (sum a[k] b[k])`, E2M1 operands, f32 in and out.
    ///
    /// # Panics
    /// If `a` and `b` differ in length or there are not `K / block` scales of each.
    ///
    /// **Bits.** As MMA-Sim under [`ZeroPolicy::SentinelMinus126`]. NaN is `7fffffff`; a zero result is `+0`; an infinite C is returned.
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64, scales: Scales<'_>) -> u64 {
        check(a, b, scales, self.block);
        let steps = a.chunks(self.max_terms).zip(b.chunks(self.max_terms));
        let per_step = (self.max_terms / self.block).max(1);
        let scales = scales.a.chunks(per_step).zip(scales.b.chunks(per_step));
        steps.zip(scales).fold(c, |d, ((a, b), (sa, sb))| u64::from(self.step(a, b, d, Scales { a: sa, b: sb })))
    }

    fn step(&self, a: &[u64], b: &[u64], c: u64, scales: Scales<'_>) -> u32 {
        let format = self.scale.format();
        let c = F32.unpack(c);
        let unpack = |scales: &[u64]| -> Vec<Unpacked> { scales.iter().map(|&s| format.unpack(s)).collect() };
        let (sa, sb) = (unpack(scales.a), unpack(scales.b));
        match resolve(sa.iter().copied().zip(sb.iter().copied()), c) {
            Resolved::Finite => {}
            special => return special.bits(&F32) as u32,
        }
        let groups = a.chunks(self.group).zip(b.chunks(self.group));
        let mut terms: Vec<Term> = groups
            .enumerate()
            .map(|(g, (a, b))| {
                // In units of 1/4: an E2M1 number is a whole number of halves.
                let sum: i64 = a.iter().zip(b).map(|(&a, &b)| halves(a) * halves(b)).sum();
                let block = g * self.group / self.block;
                let scale = Term::product(sa[block], sb[block], 2 * format.fraction_bits as i32, self.zeros);
                Term { significand: sum * scale.significand, fraction: 2 + scale.fraction, ..scale }
            })
            .collect();
        terms.push(Term::single(c, F32.fraction_bits, self.zeros));
        fused_sum(&terms, self.fraction, self.zeros, self.floor)
            .map_or(0, |(sum, scale)| round::rz32(i128::from(sum), scale))
    }
}

/// An E2M1 number in halves: 0, 1, 2, 3, 4, 6, 8, 12 with a sign.
fn halves(bits: u64) -> i64 {
    let (exponent, significand) = operand(Elem::E2m1.format().unpack(bits), ZeroPolicy::Exclude);
    significand << exponent
}

fn check(a: &[u64], b: &[u64], scales: Scales<'_>, block: usize) {
    assert_eq!(a.len(), b.len(), "A and B have one length, K");
    let blocks = a.len().div_ceil(block);
    assert_eq!((scales.a.len(), scales.b.len()), (blocks, blocks), "one scale a block of {block}");
}
