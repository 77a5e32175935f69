//! Evidence against a null: conformal p-values, e-processes, and many questions at once.

/// An e-process that reaches 1 / 0.01 rejects at level 0.01, whenever one looks (Ville 1939).
pub const E_REJECT: f64 = 100.0;

/// Conformal p-value of a distance among distances of the null: the share that is at least as large, counting itself. Exact if all are
/// exchangeable; ties count against the rejection.
pub fn conformal(null: &[f64], distance: f64) -> f64 {
    let above = null.iter().filter(|d| **d >= distance).count();
    (above + 1) as f64 / (null.len() + 1) as f64
}

/// A p-value as an e-value, `1 / (2 sqrt(p))`: a calibrator (Vovk and Wang 2021), so its expectation under the null is at most 1.
pub fn e_of_p(p: f64) -> f64 {
    0.5 / libm::sqrt(p.clamp(f64::MIN_POSITIVE, 1.0))
}

/// A running product of e-values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    log: f64,
    most: f64,
}

impl Default for Evidence {
    fn default() -> Self {
        Self { log: 0.0, most: 0.0 }
    }
}

impl Evidence {
    /// Multiplies by an e-value.
    pub fn add(&mut self, e: f64) {
        self.log += libm::log(e.max(f64::MIN_POSITIVE));
        self.most = self.most.max(self.log);
    }

    /// The largest product so far: what one may stop at.
    pub fn value(&self) -> f64 {
        libm::exp(self.most.min(700.0))
    }

    /// The product now.
    pub fn now(&self) -> f64 {
        libm::exp(self.log.min(700.0))
    }
}

/// Holm's adjusted p-values (1979): each may be compared with the level itself.
pub fn holm(p: &[f64]) -> Vec<f64> {
    adjusted(p, |rank, n| (n - rank) as f64, false)
}

/// Adjusted p-values that bound the share of false discoveries (Benjamini and Hochberg 1995).
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    adjusted(p, |rank, n| n as f64 / (rank + 1) as f64, true)
}

fn adjusted(p: &[f64], factor: impl Fn(usize, usize) -> f64, from_above: bool) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut out = vec![0.0; p.len()];
    let scaled = |rank: usize| (p[order[rank]] * factor(rank, p.len())).min(1.0);
    if from_above {
        let mut least: f64 = 1.0;
        for rank in (0..p.len()).rev() {
            least = least.min(scaled(rank));
            out[order[rank]] = least;
        }
    } else {
        let mut most: f64 = 0.0;
        for rank in 0..p.len() {
            most = most.max(scaled(rank));
            out[order[rank]] = most;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;

    /// Values of R: `p.adjust`.
    #[test]
    fn adjusted_as_another_program_does() {
        let p = [0.01, 0.04, 0.03, 0.005];
        let near = |a: Vec<f64>, b: [f64; 4]| assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?}");
        near(holm(&p), [0.03, 0.06, 0.06, 0.02]);
        near(benjamini_hochberg(&p), [0.02, 0.04, 0.04, 0.02]);
    }

    #[test]
    fn conformal_p_values_count_ties_against_rejection() {
        assert_eq!(conformal(&[0.0; 9], 0.0), 1.0);
        assert_eq!(conformal(&[0.0; 9], 1e-9), 0.1);
        assert_eq!(conformal(&[], 5.0), 1.0);
    }

    #[test]
    fn an_honest_process_seldom_rejects() {
        let mut random = Random::new(9);
        let rejected = (0..1000)
            .filter(|_| {
                let mut evidence = Evidence::default();
                (0..200).for_each(|_| evidence.add(e_of_p(1.0 - random.unit())));
                evidence.value() >= E_REJECT
            })
            .count();
        // At most 10 are expected; above 22 has chance below 0.1 %.
        assert!(rejected <= 22, "{rejected}");
    }
}
