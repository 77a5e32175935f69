//! T-FDPA, the truncated fused dot-product-add of NVIDIA tensor cores: the reference.
//!
//! Source: `gpu-arithmetic` 2.2 to 2.4, 3.1 and 3.4. Every other path of this crate that computes a tensor-core result is compared
//! with [`TFdpa::dot`] bit for bit. It is written to be read, not to be fast.

use super::specials::{Resolved, resolve};
use crate::format::{Elem, Unpacked};
use crate::round;

/// How zero terms take part in the alignment (`gpu-arithmetic` 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZeroPolicy {
    /// Zero products and a zero accumulator are left out, and the alignment has an exponent floor. The default.
    Exclude,
    /// A zero operand has exponent -126 and takes part; there is no floor. The rule of MMA-Sim.
    SentinelMinus126,
}

/// The final conversion of one fused step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// f32, toward zero.
    Rz32,
    /// f32 with 13 fraction bits, toward zero.
    RzE8m13,
    /// f16, to nearest even.
    Rne16,
}

impl Conversion {
    /// `sum * 2^scale`, converted.
    #[must_use]
    pub fn apply(self, sum: i128, scale: i32) -> u32 {
        match self {
            Self::Rz32 => round::rz32(sum, scale),
            Self::RzE8m13 => round::rz_e8m13(sum, scale),
            Self::Rne16 => u32::from(round::rne16(sum, scale)),
        }
    }

    /// The element type the result is held in, which is also the type of C of the next block.
    #[must_use]
    pub const fn elem(self) -> Elem {
        match self {
            Self::Rz32 | Self::RzE8m13 => Elem::F32,
            Self::Rne16 => Elem::F16,
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

/// One aligned summand: `significand * 2^(exponent - fraction)`.
struct Term {
    exponent: i32,
    significand: i64,
    fraction: i32,
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
            Resolved::Nan => return chained.canonical_nan().expect("results are IEEE formats") as u32,
            Resolved::Infinite { negative } => {
                let width = chained.width - 1;
                let infinity = ((1 << chained.exponent_bits) - 1) << chained.fraction_bits;
                return u32::from(negative) << width | infinity;
            }
        }

        let product_fraction = (fa.fraction_bits + fb.fraction_bits) as i32;
        let terms: Vec<Term> = pairs()
            .map(|(a, b)| {
                let ((ea, ma), (eb, mb)) = (self.operand(a), self.operand(b));
                Term { exponent: ea + eb, significand: ma * mb, fraction: product_fraction }
            })
            .chain(std::iter::once_with(|| {
                let (exponent, significand) = self.operand(c);
                Term { exponent, significand, fraction: chained.fraction_bits as i32 }
            }))
            .filter(|t| self.zeros == ZeroPolicy::SentinelMinus126 || t.significand != 0)
            .collect();
        let Some(mut largest) = terms.iter().map(|t| t.exponent).max() else {
            return 0;
        };
        if let (ZeroPolicy::Exclude, Some(floor)) = (self.zeros, self.floor) {
            largest = largest.max(floor);
        }
        let sum: i64 =
            terms.iter().map(|t| truncate(t.significand, self.fraction - t.fraction + t.exponent - largest)).sum();
        self.conversion.apply(i128::from(sum), largest - self.fraction)
    }

    /// Exponent and signed significand of a finite operand, zeros by the policy.
    fn operand(&self, value: Unpacked) -> (i32, i64) {
        let Unpacked::Finite { negative, significand, exponent } = value else {
            unreachable!("specials were resolved before the sum");
        };
        let exponent = if significand == 0 && self.zeros == ZeroPolicy::SentinelMinus126 { -126 } else { exponent };
        (exponent, if negative { -(significand as i64) } else { significand as i64 })
    }
}

/// `value * 2^shift`, rounded toward zero.
fn truncate(value: i64, shift: i32) -> i64 {
    match shift {
        0.. => value << shift,
        -63..0 => value.signum() * (value.abs() >> -shift),
        _ => 0,
    }
}
