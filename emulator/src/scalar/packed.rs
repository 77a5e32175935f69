//! Packed operands: `f16x2` and `bf16x2` in 32 bits, `f32x2` in 64.
//!
//! Each half is computed by itself with the scalar operation, so there is no arithmetic here. Element 0 is the low half.

use super::{Bf16, F16, F32, Ieee, Mods, add, fma, max, min, mul, sub};

/// A register that holds two elements of one format.
pub trait Packed {
    /// The format of an element.
    type Element: Ieee;
    /// The register's bits.
    type Bits: Copy;

    /// Low and high element.
    fn split(bits: Self::Bits) -> [<Self::Element as Ieee>::Bits; 2];
    /// The register of a low and a high element.
    fn join(elements: [<Self::Element as Ieee>::Bits; 2]) -> Self::Bits;
}

macro_rules! packed {
    ($($(#[$doc:meta])* $name:ident($element:ident, $half:ty, $bits:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl Packed for $name {
            type Element = $element;
            type Bits = $bits;
            fn split(bits: $bits) -> [$half; 2] {
                [bits as $half, (bits >> <$half>::BITS) as $half]
            }
            fn join([low, high]: [$half; 2]) -> $bits {
                <$bits>::from(high) << <$half>::BITS | <$bits>::from(low)
            }
        }
    )*};
}

packed! {
    /// Two f16 in 32 bits.
    F16x2(F16, u16, u32);
    /// Two bf16 in 32 bits.
    Bf16x2(Bf16, u16, u32);
    /// Two f32 in 64 bits.
    F32x2(F32, u32, u64);
}

/// The bits of an element of a packed register.
type Half<P> = <<P as Packed>::Element as Ieee>::Bits;

/// `op` of each half: `abs`, `neg`, `relu`, conversions within the format.
#[must_use]
pub fn map<P: Packed>(a: P::Bits, op: impl Fn(Half<P>) -> Half<P>) -> P::Bits {
    P::join(P::split(a).map(op))
}

/// `op` of each pair of halves: `min` and `max` with their modifiers, and whatever else has two operands.
#[must_use]
pub fn zip<P: Packed>(a: P::Bits, b: P::Bits, op: impl Fn(Half<P>, Half<P>) -> Half<P>) -> P::Bits {
    let ([a0, a1], [b0, b1]) = (P::split(a), P::split(b));
    P::join([op(a0, b0), op(a1, b1)])
}

macro_rules! binary {
    ($($name:ident $op:ident $text:literal;)*) => {$(
        #[doc = concat!("`", $text, "` of each half.")]
        #[must_use]
        pub fn $name<P: Packed>(a: P::Bits, b: P::Bits, mods: Mods) -> P::Bits {
            zip::<P>(a, b, |a, b| $op::<P::Element>(a, b, mods))
        }
    )*};
}

binary! {
    add_x2 add "a + b";
    sub_x2 sub "a - b";
    mul_x2 mul "a * b";
}

/// `a * b + c` of each half, one rounding.
#[must_use]
pub fn fma_x2<P: Packed>(a: P::Bits, b: P::Bits, c: P::Bits, mods: Mods) -> P::Bits {
    let ([a0, a1], [b0, b1], [c0, c1]) = (P::split(a), P::split(b), P::split(c));
    P::join([fma::<P::Element>(a0, b0, c0, mods), fma::<P::Element>(a1, b1, c1, mods)])
}

/// [`min()`] of each half.
#[must_use]
pub fn min_x2<P: Packed>(a: P::Bits, b: P::Bits, nan: bool, ftz: bool) -> P::Bits {
    zip::<P>(a, b, |a, b| min::<P::Element>(a, b, nan, ftz))
}

/// [`max()`] of each half.
#[must_use]
pub fn max_x2<P: Packed>(a: P::Bits, b: P::Bits, nan: bool, ftz: bool) -> P::Bits {
    zip::<P>(a, b, |a, b| max::<P::Element>(a, b, nan, ftz))
}
