//! Intervals and tails.

use super::random::Random;

/// A number and the range it may lie in (95 % unless said otherwise).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub at: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Quantile of the standard normal distribution for 95 %, two-sided.
const Z: f64 = 1.959_963_984_540_054;

/// Wilson's interval (1927) of a share `hits / of`. Nothing seen: anything is possible.
pub fn wilson(hits: usize, of: usize) -> Interval {
    if of == 0 {
        return Interval { at: 0.0, low: 0.0, high: 1.0 };
    }
    let (n, p) = (of as f64, hits as f64 / of as f64);
    let z2 = Z * Z;
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z * libm::sqrt(p * (1.0 - p) / n + z2 / (4.0 * n * n)) / (1.0 + z2 / n);
    Interval { at: p, low: (centre - half).max(0.0), high: (centre + half).min(1.0) }
}

/// Mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Quantile `q` of values in any order, between the neighbours; 0 of nothing.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, part) = (at as usize, at - libm::floor(at));
    sorted[low] + part * (sorted[(low + 1).min(last)] - sorted[low])
}

/// Median.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Percentile bootstrap of the mean over units that are independent (prompts).
pub fn bootstrap(values: &[f64], rounds: usize, seed: u64) -> Interval {
    let at = mean(values);
    if values.len() < 2 {
        return Interval { at, low: f64::NEG_INFINITY, high: f64::INFINITY };
    }
    let mut random = Random::named(seed, "bootstrap");
    let draw = |random: &mut Random| (0..values.len()).map(|_| values[random.below(values.len())]).sum::<f64>();
    let means: Vec<f64> = (0..rounds).map(|_| draw(&mut random) / values.len() as f64).collect();
    Interval { at, low: quantile(&means, 0.025), high: quantile(&means, 0.975) }
}

/// Logarithm of `n choose k`.
fn ln_choose(n: usize, k: usize) -> f64 {
    libm::lgamma(n as f64 + 1.0) - libm::lgamma(k as f64 + 1.0) - libm::lgamma((n - k) as f64 + 1.0)
}

fn binomial(k: usize, n: usize, p: f64) -> f64 {
    if p <= 0.0 {
        return if k == 0 { 1.0 } else { 0.0 };
    }
    if p >= 1.0 {
        return if k == n { 1.0 } else { 0.0 };
    }
    libm::exp(ln_choose(n, k) + k as f64 * libm::log(p) + (n - k) as f64 * libm::log1p(-p))
}

/// Chance of `hits` or more of `of` where each has chance `p`.
pub fn binomial_above(hits: usize, of: usize, p: f64) -> f64 {
    (hits..=of).map(|k| binomial(k, of, p)).sum::<f64>().min(1.0)
}

/// Chance of an outcome no likelier than `hits` of `of`.
pub fn binomial_two_sided(hits: usize, of: usize, p: f64) -> f64 {
    let own = binomial(hits, of, p) * (1.0 + 1e-9);
    (0..=of).map(|k| binomial(k, of, p)).filter(|q| *q <= own).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() < tolerance, "{a} is not {b}");
    }

    /// Values of R: `prop.test(correct=FALSE)`, `binom.test`.
    #[test]
    fn values_of_another_program() {
        let i = wilson(8, 10);
        near(i.low, 0.490_162, 1e-5);
        near(i.high, 0.943_318, 1e-5);
        near(binomial_above(8, 10, 0.5), 0.054_687_5, 1e-12);
        near(binomial_two_sided(8, 10, 0.5), 0.109_375, 1e-12);
        near(binomial_two_sided(1, 20, 0.3), 0.012_775_421_309, 1e-10);
    }

    #[test]
    fn edges() {
        assert_eq!((wilson(0, 0).low, wilson(0, 0).high), (0.0, 1.0));
        assert!(wilson(5, 5).high == 1.0 && wilson(5, 5).low > 0.5);
        assert_eq!((binomial_above(0, 5, 0.0), binomial_above(1, 5, 0.0), binomial_above(5, 5, 1.0)), (1.0, 0.0, 1.0));
        assert_eq!((median(&[3.0, 1.0]), quantile(&[], 0.5), mean(&[])), (2.0, 0.0, 0.0));
        assert!(bootstrap(&[1.0], 10, 0).high.is_infinite());
        let b = bootstrap(&[1.0, 2.0, 3.0, 4.0], 500, 1);
        assert!(b.low < 2.5 && b.high > 2.5 && b.low >= 1.0 && b.high <= 4.0);
    }
}
