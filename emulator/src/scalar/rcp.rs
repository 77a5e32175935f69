//! `rcp.rnd`, the correctly rounded reciprocal.

use super::{Ieee, Mods, div};

/// `1 / a`.
///
/// # Bits
/// Correctly rounded: by definition the same as [`div`] of one.
#[must_use]
pub fn rcp<F: Ieee>(a: F::Bits, mods: Mods) -> F::Bits {
    div::<F>(F::narrow(F::ONE), a, mods)
}
