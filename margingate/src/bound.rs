//! What a count may claim: exact binomial bounds (Clopper and Pearson, 1934).
//!
//! **Bits.** In f64 with the pinned `libm`, so equal on every host; compared with tables and with closed forms in the tests.

/// One-sided upper bound of a probability of which `k` of `n` independent trials showed it, at a confidence such as 0.95.
/// 1 when nothing was tried.
pub fn upper(k: u64, n: u64, confidence: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    let tail = 1.0 - confidence;
    if k == 0 {
        return -libm::expm1(libm::log(tail) / n as f64);
    }
    let (mut low, mut high) = (k as f64 / n as f64, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if at_most(k, n, middle) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// One-sided lower bound; 0 when nothing was tried.
pub fn lower(k: u64, n: u64, confidence: f64) -> f64 {
    1.0 - upper(n - k.min(n), n, confidence)
}

/// Probability of at most `k` of `n` at probability `p`, summed from the largest term down.
fn at_most(k: u64, n: u64, p: f64) -> f64 {
    let (nf, kf) = (n as f64, k as f64);
    let choose = libm::lgamma(nf + 1.0) - libm::lgamma(kf + 1.0) - libm::lgamma(nf - kf + 1.0);
    let last = choose + kf * libm::log(p) + (nf - kf) * libm::log1p(-p);
    let (mut term, mut sum) = (1.0, 1.0);
    for i in (1..=k).rev() {
        term *= i as f64 / (n - i + 1) as f64 * ((1.0 - p) / p);
        sum += term;
        // Below the mean, where this is called, terms only shrink.
        if term < sum * 1e-18 {
            break;
        }
    }
    sum * libm::exp(last)
}

/// A share that was counted, with its bound: the only form in which a report states one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// How often.
    pub hits: u64,
    /// Of how many.
    pub of: u64,
}

impl Count {
    /// The share; 0 of nothing.
    pub fn share(self) -> f64 {
        if self.of == 0 { 0.0 } else { self.hits as f64 / self.of as f64 }
    }

    /// "k of n, at least (or at most) x at 95 %": in words, for a report.
    pub fn at_least(self) -> String {
        format!("{} of {} (at least {:.4} at 95 % confidence)", self.hits, self.of, lower(self.hits, self.of, 0.95))
    }

    /// The same for an upper bound.
    pub fn at_most(self) -> String {
        format!("{} of {} (at most {:.3e} at 95 % confidence)", self.hits, self.of, upper(self.hits, self.of, 0.95))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 5e-5, "{a} {b}");
    }

    /// One-sided 95 % limits as tables of exact binomial limits give them.
    #[test]
    fn agrees_with_published_tables() {
        for (k, n, expected) in
            [(0, 10, 0.2589), (1, 10, 0.3942), (2, 10, 0.5069), (5, 10, 0.7776), (9, 10, 0.9949), (0, 59, 0.0495)]
        {
            near(upper(k, n, 0.95), expected);
        }
        // Two-sided 95 % is one-sided 97.5 %.
        near(upper(0, 10, 0.975), 0.3085);
        near(upper(1, 10, 0.975), 0.4450);
        near(lower(1, 10, 0.975), 0.0025);
        near(lower(10, 10, 0.95), 0.7411);
    }

    #[test]
    fn no_event_is_about_three_over_n() {
        for n in [100, 1000, 100_000] {
            let ratio = upper(0, n, 0.95) * n as f64;
            assert!((2.9..3.0).contains(&ratio), "{ratio}");
        }
        assert_eq!((upper(0, 0, 0.95), lower(0, 0, 0.95)), (1.0, 0.0));
    }

    /// The definition, by direct summation with another formula.
    #[test]
    fn the_tail_at_the_bound_is_what_was_asked_for() {
        for (k, n) in [(1u64, 30u64), (7, 50), (30, 40)] {
            let p = upper(k, n, 0.95);
            let mut pmf = libm::exp(n as f64 * libm::log1p(-p));
            let mut sum = 0.0;
            for i in 0..=k {
                sum += pmf;
                pmf *= (n - i) as f64 / (i + 1) as f64 * (p / (1.0 - p));
            }
            assert!((sum - 0.05).abs() < 1e-9, "{k} {n} {sum}");
        }
    }

    #[test]
    fn words_carry_count_and_bound() {
        assert_eq!(Count { hits: 1000, of: 1000 }.at_least(), "1000 of 1000 (at least 0.9970 at 95 % confidence)");
        assert!(
            Count { hits: 0, of: 300 }.at_most().contains("9.936e-3")
                || Count { hits: 0, of: 300 }.at_most().contains("9.9")
        );
    }
}
