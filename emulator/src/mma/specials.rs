//! Infinities and NaNs of a fused dot-add (`gpu-arithmetic` 2.2): decided from all operands before any sum.

use crate::format::{Format, Unpacked};

/// What the specials among the operands make of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// No specials: compute the sum.
    Finite,
    /// NaN.
    Nan,
    /// An infinity.
    Infinite {
        /// Its sign.
        negative: bool,
    },
}

impl Resolved {
    /// The NaN or infinity in an IEEE format.
    ///
    /// # Panics
    /// For [`Resolved::Finite`], which has no bits yet.
    pub fn bits(self, format: &Format) -> u64 {
        match self {
            Self::Finite => unreachable!("a finite sum is computed, not resolved"),
            Self::Nan => format.canonical_nan().expect("results are IEEE formats"),
            Self::Infinite { negative } => {
                u64::from(negative) << (format.width - 1) | ((1 << format.exponent_bits) - 1) << format.fraction_bits
            }
        }
    }
}

/// Any NaN gives NaN; so do infinity times zero and infinities of both signs; else an infinity wins.
pub(super) fn resolve(pairs: impl Iterator<Item = (Unpacked, Unpacked)>, c: Unpacked) -> Resolved {
    let (mut nan, mut positive, mut negative) = (c.is_nan(), false, false);
    let mut infinity = |sign: bool| if sign { negative = true } else { positive = true };
    if let Unpacked::Infinite { negative } = c {
        infinity(negative);
    }
    for (a, b) in pairs {
        match (a, b) {
            (Unpacked::Nan, _) | (_, Unpacked::Nan) => nan = true,
            (Unpacked::Infinite { negative: x }, Unpacked::Infinite { negative: y }) => infinity(x != y),
            (Unpacked::Infinite { negative: x }, other @ Unpacked::Finite { negative: y, .. })
            | (other @ Unpacked::Finite { negative: x, .. }, Unpacked::Infinite { negative: y }) => {
                if other.is_zero() {
                    nan = true;
                } else {
                    infinity(x != y);
                }
            }
            (Unpacked::Finite { .. }, Unpacked::Finite { .. }) => {}
        }
    }
    match (nan, positive, negative) {
        (true, ..) | (_, true, true) => Resolved::Nan,
        (_, true, false) => Resolved::Infinite { negative: false },
        (_, false, true) => Resolved::Infinite { negative: true },
        _ => Resolved::Finite,
    }
}
