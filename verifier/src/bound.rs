//! The chance that an audit of a sample misses dishonest records.
//!
//! Source: `docs/spec/audit-result.md`, *Sampling*. Without replacement the chance that `n` of `N` records, drawn uniformly, miss
//! all `D` dishonest ones is hypergeometric: `C(N-D, n) / C(N, n) = prod_{i<n} (N-D-i)/(N-i)`.
//!
//! **Bits.** Integers only. Every product is rounded up, so what is reported is never below the true probability; each
//! step adds at most one unit in the 63rd bit, and the decimal form is rounded up as well.

/// A probability held as `mantissa * 2^-shift`, every operation rounded up. Zero has mantissa 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperBound {
    /// In `[2^63, 2^64)`, or 0 for the probability 0.
    mantissa: u64,
    /// Binary places; 63 with mantissa `2^63` is the probability 1.
    shift: u32,
}

impl UpperBound {
    /// Certainty.
    pub const ONE: Self = Self { mantissa: 1 << 63, shift: 63 };
    /// Impossibility.
    pub const ZERO: Self = Self { mantissa: 0, shift: 63 };

    /// The product with `num / den`, rounded up. `num <= den`, `den > 0`.
    #[must_use]
    fn times(self, num: u64, den: u64) -> Self {
        debug_assert!(num <= den && den > 0);
        if self.mantissa == 0 || num == 0 {
            return Self::ZERO;
        }
        // 128 bits of product over 64 bits of divisor: at least 63 - 64 bits would be lost for tiny ratios, so the
        // product is widened first. mantissa >= 2^63, num >= 1: after scaling by 2^z the numerator fills 127 bits.
        let product = u128::from(self.mantissa) * u128::from(num);
        let z = product.leading_zeros();
        let scaled = product << z;
        let mut quotient = scaled.div_ceil(u128::from(den));
        let mut shift = self.shift + z;
        // Back to 64 bits, rounding up.
        let excess = 64_u32.saturating_sub(quotient.leading_zeros());
        if excess > 0 {
            quotient = quotient.div_ceil(1_u128 << excess);
            if quotient == 1_u128 << 64 {
                quotient >>= 1;
                shift -= 1;
            }
            shift -= excess;
        }
        let lead = (quotient as u64).leading_zeros();
        Self { mantissa: (quotient as u64) << lead, shift: shift + lead }
    }

    /// True when the probability is at most `10^-exponent`.
    pub fn at_most_ten_to_minus(self, exponent: u32) -> bool {
        let (digits, exp10) = self.decimal();
        // digits * 10^(exp10 - 3), digits in 1000..=9999 (or 0).
        digits == 0 || exp10 < -i64::from(exponent) || (exp10 == -i64::from(exponent) && digits == 1000)
    }

    /// Four significant decimal digits, rounded up, and the decimal exponent of the first.
    fn decimal(self) -> (u64, i64) {
        if self.mantissa == 0 {
            return (0, 0);
        }
        // value = m * 2^-s. Multiply by ten until at least one, always keeping 64 bits and rounding up.
        let (mut m, mut s, mut exp10) = (u128::from(self.mantissa), i64::from(self.shift), 0_i64);
        while s > 63 {
            m *= 10;
            exp10 -= 1;
            let excess = 64_u32.saturating_sub(m.leading_zeros());
            m = m.div_ceil(1_u128 << excess);
            s -= i64::from(excess);
            if m == 1_u128 << 64 {
                m >>= 1;
                s -= 1;
            }
        }
        // Now 1 <= value < 10 (s <= 63 and m in [2^63, 2^64)): value = m / 2^s with s in 60..=63.
        let mut digits = (m * 1000).div_ceil(1_u128 << s) as u64;
        if digits >= 10_000 {
            digits = digits.div_ceil(10);
            exp10 += 1;
        }
        (digits, exp10)
    }
}

impl std::fmt::Display for UpperBound {
    /// `0`, `1`, or `d.ddde-x` with four significant digits, rounded up.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.decimal() {
            (0, _) => f.write_str("0"),
            (1000, 0) => f.write_str("1"),
            (digits, exp10) => write!(f, "{}.{:03}e{exp10}", digits / 1000, digits % 1000),
        }
    }
}

/// The chance that a uniform sample of `sampled` of `population` records misses all `dishonest` ones.
///
/// Numbers past the population are clamped to it.
///
/// # Examples
/// ```
/// use verifier::bound::hypergeometric_miss;
/// assert_eq!(hypergeometric_miss(10, 1, 10).to_string(), "0"); // everything was audited
/// assert_eq!(hypergeometric_miss(10, 0, 3).to_string(), "1"); // nothing to find
/// assert_eq!(hypergeometric_miss(10, 1, 5).to_string(), "5.000e-1");
/// ```
pub fn hypergeometric_miss(population: u64, dishonest: u64, sampled: u64) -> UpperBound {
    let dishonest = dishonest.min(population);
    let sampled = sampled.min(population);
    // The product is symmetric in `dishonest` and `sampled`: walk the shorter one.
    let (steps, other) = if dishonest < sampled { (dishonest, sampled) } else { (sampled, dishonest) };
    let mut p = UpperBound::ONE;
    for i in 0..steps {
        let left = population - i;
        p = p.times(left.saturating_sub(other), left);
        if p == UpperBound::ZERO {
            break;
        }
    }
    p
}

/// The chance `(1 - num/den)^n` that `n` independent draws miss a fraction `num/den` of dishonest records.
pub fn independent_miss(num: u64, den: u64, draws: u64) -> UpperBound {
    let num = num.min(den);
    (0..draws).fold(UpperBound::ONE, |p, _| p.times(den - num, den))
}

/// The fewest independent draws that miss a fraction `num/den` with probability at most `10^-exponent`; `None` when the
/// fraction is zero.
pub fn draws_needed(num: u64, den: u64, exponent: u32) -> Option<u64> {
    if num == 0 || den == 0 {
        return None;
    }
    let num = num.min(den);
    let (mut p, mut draws) = (UpperBound::ONE, 0);
    while !p.at_most_ten_to_minus(exponent) {
        p = p.times(den - num, den);
        draws += 1;
    }
    Some(draws)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The three sample sizes that the specification states.
    #[test]
    fn published_sample_sizes() {
        assert_eq!(draws_needed(1, 100, 6), Some(1375));
        assert_eq!(draws_needed(1, 1000, 6), Some(13_809));
        assert_eq!(draws_needed(1, 10_000, 6), Some(138_149));
        assert_eq!(draws_needed(0, 100, 6), None);
    }

    /// Against exact rationals in 128 bits, over every small case.
    #[test]
    fn small_cases_are_exact_upper_bounds() {
        fn choose(n: u128, k: u128) -> u128 {
            (0..k).fold(1, |c, i| c * (n - i) / (i + 1))
        }
        for population in 1..=20_u64 {
            for dishonest in 0..=population {
                for sampled in 0..=population {
                    let got = hypergeometric_miss(population, dishonest, sampled);
                    let num = if dishonest + sampled > population {
                        0
                    } else {
                        choose(u128::from(population - dishonest), u128::from(sampled))
                    };
                    let den = choose(u128::from(population), u128::from(sampled));
                    if num == 0 {
                        assert_eq!(got, UpperBound::ZERO);
                        continue;
                    }
                    // got >= num/den and got - num/den < 2^-50, in integers: got = m * 2^-s.
                    let scaled = u128::from(got.mantissa) * den; // num < 2^18, den < 2^18
                    let exact = num << got.shift.min(100);
                    assert!(scaled >= exact, "{population} {dishonest} {sampled}: below the truth");
                    assert!(scaled - exact <= exact >> 50, "{population} {dishonest} {sampled}: too far above");
                }
            }
        }
    }

    #[test]
    fn decimal_rounds_up() {
        assert_eq!(hypergeometric_miss(3, 1, 1).to_string(), "6.667e-1");
        assert_eq!(independent_miss(1, 2, 10).to_string(), "9.766e-4"); // 0.0009765625
        assert_eq!(independent_miss(9, 10, 7).to_string(), "1.001e-7"); // 1e-7, and every product rounded up
    }
}
