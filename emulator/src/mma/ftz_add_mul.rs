//! FTZ-AddMul, the matrix units of CDNA2: f32 multiplications and additions that flush, in pairs or fours (`gpu-arithmetic` 2.9).
//!
//! Source: MMA-Sim's paper; its released code cannot run these instructions.

use crate::format::{Elem, F32, Format, Unpacked, widen_to_f32};
use crate::scalar::{self, Mods};

/// Parameters of a group-wise multiply-add with flushing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FtzAddMul {
    /// Element type of A and B: f16 or bf16.
    pub ab: Elem,
    /// Products added to each other before they are added to D: 2 or 4.
    pub group: usize,
}

impl FtzAddMul {
    /// `c + sum a[k] b[k]`, f32 in and out.
    ///
    /// # Panics
    /// If `a` and `b` differ in length.
    ///
    /// **Bits.** Equal to an independent model on the simulated vectors. Only *that* a result is NaN is modelled. Subnormal operands count
    /// as `+0`; a subnormal intermediate result becomes zero of its sign.
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        assert_eq!(a.len(), b.len(), "A and B have one length, K");
        let format = self.ab.format();
        let add = |x, y| scalar::add::<scalar::F32>(x, y, Mods::RN_FTZ);
        let start = flushed(c, &F32);
        let groups = a.chunks(self.group).zip(b.chunks(self.group));
        let sum = groups.fold(start, |d, (a, b)| {
            let product = |(&a, &b): (&u64, &u64)| {
                scalar::mul::<scalar::F32>(flushed(a, format), flushed(b, format), Mods::RN_FTZ)
            };
            let products: Vec<u32> = a.iter().zip(b).map(product).collect();
            let pairs = products.chunks(2).map(|pair| pair.iter().copied().reduce(add).unwrap_or(0));
            add(d, pairs.reduce(add).unwrap_or(0))
        });
        u64::from(sum)
    }
}

/// An element as f32, a subnormal of its own format as `+0`.
fn flushed(bits: u64, format: &Format) -> u32 {
    match format.unpack(bits) {
        Unpacked::Finite { significand, .. } if significand != 0 && significand >> format.fraction_bits == 0 => 0,
        _ => widen_to_f32(bits, format),
    }
}
