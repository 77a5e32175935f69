//! Shares of several stacks behind one endpoint.

/// Shares, and how sure.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// Share of each component.
    pub shares: Vec<f64>,
    /// Requests that fit each component best.
    pub counts: Vec<usize>,
    /// Smallest share that so many requests would show at least once with a chance of 95 %.
    pub detectable: f64,
}

/// Steps of expectation and maximisation.
const ROUNDS: usize = 200;

/// Shares of components by expectation-maximisation (Dempster, Laird, Rubin 1977). `likelihood[request][component]`, each at least 0; a
/// request that fits nothing has no say.
pub fn mixture(likelihood: &[Vec<f64>]) -> Mixture {
    let components = likelihood.first().map_or(0, Vec::len);
    let mut shares = vec![1.0 / components.max(1) as f64; components];
    let said: Vec<&Vec<f64>> = likelihood.iter().filter(|l| l.iter().any(|x| *x > 0.0)).collect();
    for _ in 0..ROUNDS {
        let mut next = vec![0.0; components];
        for request in &said {
            let total: f64 = request.iter().zip(&shares).map(|(l, s)| l * s).sum();
            if total > 0.0 {
                for (n, (l, s)) in next.iter_mut().zip(request.iter().zip(&shares)) {
                    *n += l * s / total / said.len() as f64;
                }
            }
        }
        shares = next;
    }
    let mut counts = vec![0; components];
    for request in &said {
        let best = (0..components).max_by(|a, b| (request[*a] * shares[*a]).total_cmp(&(request[*b] * shares[*b])));
        if let Some(best) = best {
            counts[best] += 1;
        }
    }
    let detectable = if said.is_empty() { 1.0 } else { 1.0 - libm::pow(0.05, 1.0 / said.len() as f64) };
    Mixture { shares, counts, detectable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_from_elsewhere_is_found() {
        let requests: Vec<Vec<f64>> =
            (0..60).map(|i| if i % 10 == 0 { vec![0.01, 1.0] } else { vec![1.0, 0.01] }).collect();
        let m = mixture(&requests);
        assert!((m.shares[1] - 0.1).abs() < 0.02 && m.counts == [54, 6], "{m:?}");
        assert!((m.detectable - 0.0487).abs() < 1e-3);
        assert!(mixture(&[]).shares.is_empty());
        assert_eq!(mixture(&[vec![0.0, 0.0]]).counts, [0, 0]);
    }
}
