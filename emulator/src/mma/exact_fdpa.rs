//! E-FDPA, the exact fused dot-product-add of CDNA1: one rounding a step (`gpu-arithmetic` 2.8).
//!
//! Source: the second version of the MMA-Sim paper; Khattak and Mikaitis's model of the MI100 agrees. The released MMA-Sim code does not.

use super::aligned::operand;
use super::exact_sum::ExactSum;
use super::specials::{Resolved, resolve};
use super::tfdpa::ZeroPolicy;
use crate::format::{Elem, F32, Unpacked};

/// The sign of a sum that is exactly zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZeroSum {
    /// `+0`, whatever the signs of the terms.
    Positive,
    /// As IEEE addition to nearest: `-0` if every term is a negative zero, else `+0`.
    Ieee,
}

/// Parameters of an exact fused dot-product-add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExactFdpa {
    /// Element type of A and B: f16 or bf16.
    pub ab: Elem,
    /// Products of one step.
    pub max_terms: usize,
    /// The sign of an exact zero.
    pub zero_sum: ZeroSum,
}

impl ExactFdpa {
    /// `c + sum a[k] b[k]`, f32 in and out, one rounding to nearest even a step.
    ///
    /// # Panics
    /// If `a` and `b` differ in length.
    ///
    /// **Bits.** Equal to an independent model on the simulated vectors. Only *that* a result is NaN is modelled. A negative sum that
    /// underflows gives `-0`.
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        assert_eq!(a.len(), b.len(), "A and B have one length, K");
        let steps = a.chunks(self.max_terms).zip(b.chunks(self.max_terms));
        steps.fold(c, |d, (a, b)| u64::from(self.step(a, b, d)))
    }

    fn step(&self, a: &[u64], b: &[u64], c: u64) -> u32 {
        let format = self.ab.format();
        let c = F32.unpack(c);
        let pairs = || a.iter().zip(b).map(|(&a, &b)| (format.unpack(a), format.unpack(b)));
        match resolve(pairs(), c) {
            Resolved::Finite => {}
            special => return special.bits(&F32) as u32,
        }
        let mut sum = ExactSum::zero();
        for (a, b) in pairs() {
            let ((ea, ma), (eb, mb)) = (operand(a, ZeroPolicy::Exclude), operand(b, ZeroPolicy::Exclude));
            sum.add(ma * mb, ea + eb - 2 * format.fraction_bits as i32);
        }
        let (exponent, significand) = operand(c, ZeroPolicy::Exclude);
        sum.add(significand, exponent - F32.fraction_bits as i32);
        if sum.is_zero() {
            let negative_zero = c.is_negative_zero() && pairs().all(|(a, b)| product_is_negative_zero(a, b));
            return u32::from(self.zero_sum == ZeroSum::Ieee && negative_zero) << 31;
        }
        sum.to_f32()
    }
}

fn product_is_negative_zero(a: Unpacked, b: Unpacked) -> bool {
    (a.is_zero() || b.is_zero()) && a.is_negative() != b.is_negative()
}
