//! The always-on baseline: tokens are decoded fast, a window of them is computed again by the reference, and everything after the first
//! difference is dropped. Source: LLM-42 (arXiv 2601.17768).

/// What a verified window comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciled {
    /// Tokens to release: those that agree, then the reference's where they part.
    pub released: Vec<u32>,
    /// Tokens decoded fast and dropped; their columns are freed.
    pub dropped: usize,
}

/// Compares the tokens of a window with the reference's, each chosen from the same row. At least one token is released.
///
/// The reference's tokens after the first difference follow from a prefix that no longer stands, so they are not looked at.
pub fn reconcile(fast: &[u32], reference: &[u32]) -> Reconciled {
    let common = fast.iter().zip(reference).take_while(|(a, b)| a == b).count();
    let released: Vec<u32> = reference.iter().take(common + 1).copied().collect();
    Reconciled { dropped: fast.len().saturating_sub(released.len()), released }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_kept_to_the_first_difference() {
        let all = |released: &[u32], dropped| Reconciled { released: released.to_vec(), dropped };
        assert_eq!(reconcile(&[1, 2, 3], &[1, 2, 3]), all(&[1, 2, 3], 0));
        assert_eq!(reconcile(&[1, 2, 3], &[1, 9, 3]), all(&[1, 9], 1));
        assert_eq!(reconcile(&[1, 2, 3], &[7, 2, 3]), all(&[7], 2), "progress of one token");
        assert_eq!(reconcile(&[1, 2, 3], &[1, 2, 4]), all(&[1, 2, 4], 0));
    }
}
