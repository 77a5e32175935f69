//! Integer matrix instructions: exact, then wrapped or clamped (`gpu-arithmetic` 3.7; PTX ISA, `mma`).

use crate::format::{Elem, Unpacked};

/// What two elements make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Multiply {
    /// Their product.
    Product,
    /// 1 if the bits differ: the population count of `a xor b`.
    Xor,
    /// 1 if both bits are set: the population count of `a and b`.
    And,
}

/// When `.satfinite` clamps the running sum to 32 bits. Open point 5 of `gpu-arithmetic` 9: it matters only if the exact running sum
/// leaves the range and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClampStep {
    /// Once, when the instruction has summed all of K.
    Instruction,
    /// After every so many products, at least one.
    Products(usize),
}

/// Parameters of an integer dot product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IntegerDot {
    /// Element type of A.
    pub a: Elem,
    /// Element type of B.
    pub b: Elem,
    /// What two elements make.
    pub multiply: Multiply,
    /// `.satfinite`, and when it acts; `None` wraps modulo `2^32`.
    pub clamp: Option<ClampStep>,
}

impl IntegerDot {
    /// `c + sum a[k] b[k]`, s32 in and out.
    ///
    /// # Panics
    /// If `a` and `b` differ in length.
    ///
    /// **Bits.** Exact for any K below `2^47`: compared with plain 64-bit integers.
    #[must_use]
    pub fn dot(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        assert_eq!(a.len(), b.len(), "A and B have one length, K");
        let (fa, fb) = (self.a.format(), self.b.format());
        let term = |(&a, &b): (&u64, &u64)| {
            let (a, b) = (value(fa.unpack(a)), value(fb.unpack(b)));
            match self.multiply {
                Multiply::Product => a * b,
                Multiply::Xor => a ^ b,
                Multiply::And => a & b,
            }
        };
        let clamped = |sum: i64| if self.clamp.is_some() { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
        let step = match self.clamp {
            Some(ClampStep::Products(n)) => n.max(1),
            Some(ClampStep::Instruction) | None => a.len().max(1),
        };
        let c = value(Elem::S32.format().unpack(c));
        let steps = a.chunks(step).zip(b.chunks(step));
        let sum = steps.fold(c, |d, (a, b)| clamped(d + a.iter().zip(b).map(term).sum::<i64>()));
        u64::from(sum as u32)
    }
}

fn value(unpacked: Unpacked) -> i64 {
    match unpacked {
        Unpacked::Finite { negative: true, significand, .. } => -(significand as i64),
        Unpacked::Finite { significand, .. } => significand as i64,
        Unpacked::Infinite { .. } | Unpacked::Nan => unreachable!("every integer pattern is finite"),
    }
}
