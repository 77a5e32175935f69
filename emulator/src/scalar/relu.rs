//! `.relu`, the clamp of `fma` and `cvt`.

use super::Ieee;

/// A rounded result after `.relu`.
///
/// # Bits
/// Negative results (`-0` among them: the clamp is a maximum with `+0`) give `+0`, NaN gives the canonical NaN. Applied
/// to the rounded result, so it commutes with `.satfinite`.
#[must_use]
pub fn relu<F: Ieee>(a: F::Bits) -> F::Bits {
    let bits = F::widen(a);
    if bits & !F::SIGN > F::INF {
        F::narrow(F::NAN)
    } else if bits & F::SIGN != 0 {
        F::narrow(0)
    } else {
        a
    }
}
