//! One change of a share along a sequence.

use super::random::Random;

/// Where a share changes most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// First place after the change.
    pub at: usize,
    /// Share before it.
    pub before: f64,
    /// Share from it on.
    pub after: f64,
    /// Chance of so large a change if order did not matter, by permutation.
    pub p: f64,
}

/// Random orders that are tried.
const ROUNDS: usize = 999;
/// Fewest values on each side.
const SIDE: usize = 4;

/// The change point of a sequence of hits by cumulative sums (Page 1954), with a permutation p-value; none for short sequences.
pub fn change_point(hits: &[bool], seed: u64) -> Option<Change> {
    if hits.len() < 2 * SIDE {
        return None;
    }
    let (at, found) = largest(hits);
    let mut random = Random::named(seed, "change");
    let mut order = hits.to_vec();
    let mut as_large = 1;
    for _ in 0..ROUNDS {
        random.shuffle(&mut order);
        as_large += usize::from(largest(&order).1 >= found - 1e-12);
    }
    let share = |part: &[bool]| part.iter().filter(|h| **h).count() as f64 / part.len() as f64;
    Some(Change { at, before: share(&hits[..at]), after: share(&hits[at..]), p: as_large as f64 / (ROUNDS + 1) as f64 })
}

/// The split with the largest standardised difference of shares.
fn largest(hits: &[bool]) -> (usize, f64) {
    let n = hits.len() as f64;
    let total = hits.iter().filter(|h| **h).count() as f64;
    let (mut best, mut sum) = ((SIDE, -1.0), 0.0);
    for (i, hit) in hits.iter().enumerate() {
        sum += f64::from(u8::from(*hit));
        let before = (i + 1) as f64;
        if i + 1 < SIDE || hits.len() - i - 1 < SIDE {
            continue;
        }
        let gap = (sum - before * total / n).abs() / libm::sqrt(before * (n - before));
        if gap > best.1 {
            best = (i + 1, gap);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_onset_is_found_and_chance_is_not() {
        let onset: Vec<bool> = (0..120).map(|i| i < 96 || i % 3 == 0).collect();
        let change = change_point(&onset, 1).unwrap();
        assert!(change.at.abs_diff(96) <= 2 && change.p <= 0.002 && change.before > change.after, "{change:?}");
        let even: Vec<bool> = (0..120).map(|i| i % 3 == 0).collect();
        assert!(change_point(&even, 1).unwrap().p > 0.2);
        assert_eq!(change_point(&[true; 7], 1), None);
        assert_eq!(change_point(&[true; 20], 1).unwrap().p, 1.0);
    }

    #[test]
    fn p_values_are_honest() {
        let mut random = Random::new(5);
        let small = (0..200)
            .filter(|seed| {
                let hits: Vec<bool> = (0..40).map(|_| random.below(2) == 0).collect();
                change_point(&hits, *seed).unwrap().p <= 0.05
            })
            .count();
        // 200 draws of chance at most 0.05: above 20 has chance below 0.1 %.
        assert!(small <= 20, "{small}");
    }
}
