//! A fixed-point number wide enough for any sum of bf16, f16 and f32 products: sums in it are exact.

use crate::format::F32;
use crate::round::{Overflow, Rounding, pack};

/// The weight of the lowest bit. Products of two bf16 subnormals reach down to `2^-266`, f32 accumulators to `2^-149`.
const LOWEST: i32 = -272;
/// Words: from `2^-272` past the largest product, `2^256`, with more than a hundred bits of headroom and a sign.
const WORDS: usize = 10;

/// An exact sum in units of `2^-272`, two's complement, lowest word first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExactSum([u64; WORDS]);

impl ExactSum {
    pub fn zero() -> Self {
        Self([0; WORDS])
    }

    /// Adds `significand * 2^scale`.
    ///
    /// # Panics
    /// If bits would fall off either end.
    pub fn add(&mut self, significand: i64, scale: i32) {
        let fits = (LOWEST..LOWEST + 64 * (WORDS as i32 - 1)).contains(&scale) && significand.unsigned_abs() < 1 << 32;
        assert!(fits, "{significand} * 2^{scale} is outside the exact sum");
        let at = (scale - LOWEST) as usize;
        let (word, bit) = (at / 64, at % 64);
        let value = i128::from(significand) << bit;
        let extension = if value < 0 { u64::MAX } else { 0 };
        let mut carry = false;
        for (i, w) in self.0.iter_mut().enumerate().skip(word) {
            let part = match i - word {
                0 => value as u64,
                1 => (value >> 64) as u64,
                _ => extension,
            };
            let (sum, first) = w.overflowing_add(part);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            (*w, carry) = (sum, first || second);
        }
    }

    pub fn is_zero(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The nearest f32, ties to even, gradual underflow; overflow gives infinity, a zero keeps the sign of what underflowed.
    pub fn to_f32(&self) -> u32 {
        let negative = self.0[WORDS - 1] >> 63 == 1;
        let mut words = self.0;
        if negative {
            let mut carry = true;
            for w in &mut words {
                (*w, carry) = (!*w).overflowing_add(u64::from(carry));
            }
        }
        let Some(top) = words.iter().rposition(|&w| w != 0) else { return 0 };
        // The top two words hold at least 65 significant bits, more than any rounding to f32 looks at; what is below is sticky.
        let low = top.saturating_sub(1);
        let kept = u128::from(words[low]) | if top > low { u128::from(words[top]) << 64 } else { 0 };
        let sticky = words[..low].iter().any(|&w| w != 0);
        let scale = LOWEST + 64 * low as i32;
        pack(&F32, negative, kept | u128::from(sticky), scale, Rounding::NearestEven, Overflow::Infinity) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_over_the_whole_range() {
        let mut sum = ExactSum::zero();
        for (significand, scale) in [(1, 128 - 1), (-3, -266), (1, -149), (-1, 128 - 1), (3, -266)] {
            sum.add(significand, scale);
        }
        assert_eq!(sum.to_f32(), 1);
        sum.add(-1, -149);
        assert!(sum.is_zero());
        assert_eq!(sum.to_f32(), 0);
        sum.add(-1, -272);
        assert_eq!(sum.to_f32(), 0x8000_0000);
    }

    #[test]
    fn one_bit_far_below_breaks_a_tie() {
        let mut sum = ExactSum::zero();
        sum.add((1 << 24) + 1, 0); // halfway between two f32
        assert_eq!(sum.to_f32(), 0x4b80_0000);
        sum.add(1, -270);
        assert_eq!(sum.to_f32(), 0x4b80_0001);
        sum.add(-2, -270);
        assert_eq!(sum.to_f32(), 0x4b80_0000);
        let mut large = ExactSum::zero();
        large.add(1, 256 - 1);
        assert_eq!(large.to_f32(), 0x7f80_0000);
    }
}
