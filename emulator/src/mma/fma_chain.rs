//! A chain of fused multiply-adds: f64 on NVIDIA and AMD, f32 on AMD (`gpu-arithmetic` 2.7).

use crate::format::Elem;
use crate::scalar::{self, Mods};

/// Parameters of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FmaChain {
    /// The one element type: f32 or f64.
    pub elem: Elem,
}

impl FmaChain {
    /// `d = fma(a[k], b[k], d)` from `d = c`, k ascending, to nearest even, subnormals kept.
    ///
    /// # Panics
    /// If `a` and `b` differ in length, or the type is neither f32 nor f64.
    ///
    /// **Bits.** IEEE 754. Only *that* a result is NaN is modelled, not its payload.
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        assert_eq!(a.len(), b.len(), "A and B have one length, K");
        let pairs = a.iter().zip(b);
        match self.elem {
            Elem::F64 => pairs.fold(c, |d, (&a, &b)| scalar::fma::<scalar::F64>(a, b, d, Mods::RN)),
            Elem::F32 => u64::from(
                pairs.fold(c as u32, |d, (&a, &b)| scalar::fma::<scalar::F32>(a as u32, b as u32, d, Mods::RN)),
            ),
            other => panic!("no chain of {other} multiply-adds is known"),
        }
    }
}
