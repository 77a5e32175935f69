//! T-FDPA, the truncated fused dot-product-add of NVIDIA tensor cores: the reference.
//!
//! Source: `gpu-arithmetic` 2.2 to 2.4, 3.1 and 3.4. Every other path of this crate that computes a tensor-core result is compared
//! with [`TFdpa::dot`] bit for bit. It is written to be read, not to be fast.

use super::aligned::{Term, fused_sum};
use super::specials::{Resolved, resolve};
use crate::format::Elem;
use crate::round;

/// How zero terms take part in the alignment (`gpu-arithmetic` 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZeroPolicy {
    /// Zero products and a zero accumulator are left out, and the alignment has an exponent floor. The default.
    Exclude,
    /// A zero operand has exponent -126 and takes part; there is no floor. The rule of MMA-Sim.
    SentinelMinus126,
}

impl ZeroPolicy {
    /// The name in listings: `exclude` or `sentinel-126`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclude => "exclude",
            Self::SentinelMinus126 => "sentinel-126",
        }
    }
}

/// The final conversion of one fused step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// f32, toward zero.
    Rz32,
    /// f32 with 13 fraction bits, toward zero.
    RzE8m13,
    /// f16, to nearest even; a negative sum that underflows gives `+0`.
    Rne16,
    /// f16, to nearest even; a negative sum that underflows keeps its sign. Open point 2 of `gpu-arithmetic` 9.
    Rne16Signed,
}

impl Conversion {
    /// `sum * 2^scale`, converted.
    #[must_use]
    pub fn apply(self, sum: i128, scale: i32) -> u32 {
        match self {
            Self::Rz32 => round::rz32(sum, scale),
            Self::RzE8m13 => round::rz_e8m13(sum, scale),
            Self::Rne16 => u32::from(round::rne16(sum, scale)),
            Self::Rne16Signed => u32::from(round::rne16_signed(sum, scale)),
        }
    }

    /// Bits of an f32 result that are kept.
    pub(crate) const fn kept(self) -> u32 {
        if matches!(self, Self::RzE8m13) { !0x3ff } else { !0 }
    }

    /// The element type the result is held in, which is also the type of C of the next block.
    #[must_use]
    pub const fn elem(self) -> Elem {
        match self {
            Self::Rz32 | Self::RzE8m13 => Elem::F32,
            Self::Rne16 | Self::Rne16Signed => Elem::F16,
        }
    }
}

/// Parameters of a truncated fused dot-product-add: one row of the table of generations, its switches resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TFdpa {
    /// Element type of A.
    pub a: Elem,
    /// Element type of B.
    pub b: Elem,
    /// Element type of C. An f16 C under an f32 result is widened first, exactly.
    pub c: Elem,
    /// Most products one hardware step takes (`L_max`).
    pub max_terms: usize,
    /// Fraction bits kept below the largest exponent (`F`).
    pub fraction: i32,
    /// Final conversion of every step.
    pub conversion: Conversion,
    /// How zeros take part.
    pub zeros: ZeroPolicy,
    /// Floor of the alignment exponent under [`ZeroPolicy::Exclude`]; `None` for no floor.
    pub floor: Option<i32>,
}

impl TFdpa {
    /// `c + sum a[k] b[k]` of one instruction: K is cut into blocks of `min(K, max_terms)` products, ascending, and the converted
    /// result of a block is C of the next.
    ///
    /// `a`, `b`: K element bit patterns each; `c` and the result in the low bits of their words.
    ///
    /// # Panics
    /// If `a` and `b` differ in length.
    ///
    /// **Bits.** Equal to hardware on all recorded vectors of the families it covers, and to MMA-Sim under
    /// [`ZeroPolicy::SentinelMinus126`]. NaN results are canonical (`7fffffff`, `7fff`). A zero result is always `+0`.
    #[must_use]
    pub fn dot(&self, a: &[u32], b: &[u32], c: u32) -> u32 {
        assert_eq!(a.len(), b.len(), "A and B have one length, K");
        let mut d = self.widen_c(c);
        for (a, b) in a.chunks(self.max_terms).zip(b.chunks(self.max_terms)) {
            d = self.block(a, b, d);
        }
        d
    }

    /// C in the type that is chained between blocks.
    pub(crate) fn widen_c(&self, c: u32) -> u32 {
        match (self.c, self.conversion.elem()) {
            (Elem::F16, Elem::F32) => crate::format::f16_to_f32(c as u16),
            _ => c,
        }
    }

    /// One hardware step; `c` in the type of the result.
    #[must_use]
    pub fn block(&self, a: &[u32], b: &[u32], c: u32) -> u32 {
        let chained = self.conversion.elem().format();
        let (fa, fb) = (self.a.format(), self.b.format());
        let c = chained.unpack(u64::from(c));
        let pairs = || a.iter().zip(b).map(|(&a, &b)| (fa.unpack(u64::from(a)), fb.unpack(u64::from(b))));
        match resolve(pairs(), c) {
            Resolved::Finite => {}
            special => return special.bits(chained) as u32,
        }
        let fraction = (fa.fraction_bits + fb.fraction_bits) as i32;
        let mut terms: Vec<Term> = pairs().map(|(a, b)| Term::product(a, b, fraction, self.zeros)).collect();
        terms.push(Term::single(c, chained.fraction_bits, self.zeros));
        fused_sum(&terms, self.fraction, self.zeros, self.floor)
            .map_or(0, |(sum, scale)| self.conversion.apply(i128::from(sum), scale))
    }
}
