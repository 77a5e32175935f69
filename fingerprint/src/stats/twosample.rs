//! Do two sets of texts come from one distribution?

use super::random::Random;

/// Texts as lists of tokens.
pub type Texts = Vec<Vec<String>>;

/// A statistic and its permutation p-value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    /// The statistic.
    pub statistic: f64,
    /// Chance of one at least as large if the two sets were one.
    pub p: f64,
}

/// Random divisions that are tried.
const ROUNDS: usize = 999;

/// Maximum mean discrepancy with the Hamming kernel over the first `length` tokens (Gao, Liang, Guestrin 2024), by permutation within
/// each prompt. `prompts`: for each prompt the token lists of both sides.
pub fn mmd_hamming(prompts: &[(Texts, Texts)], length: usize, seed: u64) -> Test {
    let pools: Vec<(Vec<Vec<f64>>, usize)> = prompts
        .iter()
        .filter(|(a, b)| a.len() + b.len() > 1 && !a.is_empty() && !b.is_empty())
        .map(|(a, b)| {
            let all: Vec<&Vec<String>> = a.iter().chain(b).collect();
            let kernel = |x: &&Vec<String>, y: &&Vec<String>| {
                (0..length).filter(|i| x.get(*i) == y.get(*i)).count() as f64 / length.max(1) as f64
            };
            (all.iter().map(|x| all.iter().map(|y| kernel(x, y)).collect()).collect(), a.len())
        })
        .collect();
    let mut orders: Vec<Vec<usize>> = pools.iter().map(|(k, _)| (0..k.len()).collect()).collect();
    let value = |orders: &[Vec<usize>]| pools.iter().zip(orders).map(|((k, n), o)| discrepancy(k, o, *n)).sum::<f64>();
    let statistic = value(&orders);
    let mut random = Random::named(seed, "mmd");
    let mut as_large = 1;
    for _ in 0..ROUNDS {
        orders.iter_mut().for_each(|o| random.shuffle(o));
        as_large += usize::from(value(&orders) >= statistic - 1e-12);
    }
    Test { statistic, p: as_large as f64 / (ROUNDS + 1) as f64 }
}

/// Mean kernel within both sides less that between them; the first `n` of `order` are one side.
fn discrepancy(kernel: &[Vec<f64>], order: &[usize], n: usize) -> f64 {
    let (a, b) = order.split_at(n);
    let mean = |x: &[usize], y: &[usize]| {
        let sum: f64 = x.iter().flat_map(|i| y.iter().map(|j| kernel[*i][*j])).sum();
        sum / (x.len() * y.len()) as f64
    };
    mean(a, a) + mean(b, b) - 2.0 * mean(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> Vec<Vec<String>> {
        words.iter().map(|w| w.chars().map(String::from).collect()).collect()
    }

    #[test]
    fn other_texts_are_other_and_the_same_are_the_same() {
        let same: Vec<_> = (0..6).map(|_| (texts(&["abc", "abd", "abc"]), texts(&["abc", "abc", "abd"]))).collect();
        assert!(mmd_hamming(&same, 3, 1).p > 0.2);
        let other: Vec<_> = (0..6).map(|_| (texts(&["abc", "abd", "abc"]), texts(&["xbc", "xyc", "xbd"]))).collect();
        assert!(mmd_hamming(&other, 3, 1).p < 0.01);
        assert_eq!(mmd_hamming(&[], 3, 1).p, 1.0);
    }
}
