//! Elements as f32: the exact value, and the exponent that a matrix unit aligns by.

use crate::format::{Elem, f16_to_f32, narrow_f32, widen_to_f32};
use crate::round::{Overflow, Rounding};

/// A container of one element: `u8`, `u16` or `u32`, whichever the element type fills.
pub trait Element: Copy + Send + Sync {
    /// Bits of the container.
    const WIDTH: u32;
    /// The bit pattern.
    fn bits(self) -> u32;
}

macro_rules! element {
    ($($type:ty),*) => {
        $(impl Element for $type {
            const WIDTH: u32 = <$type>::BITS;
            fn bits(self) -> u32 {
                u32::from(self)
            }
        })*
    };
}

element!(u8, u16, u32);

/// Bits of the container that `elem` is passed in; 4- and 6-bit elements come one to a byte.
pub(super) fn container(elem: Elem) -> u32 {
    elem.format().width.max(8)
}

/// Reads elements of one type.
pub(super) struct Reader {
    elem: Elem,
    /// Values of all patterns of at most 8 bits.
    table: Vec<u32>,
    /// The same as f16.
    halves: Vec<u32>,
}

impl Reader {
    pub(super) fn new(elem: Elem) -> Self {
        let patterns = if elem.format().width <= 8 { 0..1 << elem.format().width } else { 0..0 };
        let table: Vec<u32> = patterns.map(|bits| widen_to_f32(bits, elem.format())).collect();
        let half = |&value: &u32| narrow_f32(value, Elem::F16.format(), Rounding::NearestEven, Overflow::ByRounding);
        let halves = table.iter().map(|value| half(value) as u32).collect();
        Self { elem, table, halves }
    }

    /// The bits of the element's value as f16: exact, for f16 and for 8 bits and less.
    #[inline]
    pub(super) fn half(&self, bits: u32) -> u32 {
        match self.elem {
            Elem::F16 => bits & 0xffff,
            _ => self.halves[bits as usize & (self.halves.len() - 1)],
        }
    }

    /// The bits of the element's value as f32: exact. A NaN stays one, with any payload.
    #[inline]
    pub(super) fn value(&self, bits: u32) -> u32 {
        match self.elem {
            Elem::Bf16 => bits << 16,
            Elem::F32 => bits,
            Elem::Tf32 => bits & !0x1fff,
            Elem::F16 => f16_to_f32(bits as u16),
            _ => self.table[bits as usize & (self.table.len() - 1)],
        }
    }
}

/// Whether the exponents of `elem` span few enough binades for [`RESCALE`].
pub(super) fn small(elem: Elem) -> bool {
    min_field(elem) > 64
}

/// Rows of [`small`] types are held times `2^-RESCALE`, exactly, so that all their products lie below the window's upper edge: f16 reaches
/// 2^31, but the window of a unit with 13 fraction bits, unscaled, only 2^13.
pub(super) const RESCALE: u32 = 20;

/// The f32 exponent field that the subnormals of `elem` share with its smallest normal numbers.
pub(super) fn min_field(elem: Elem) -> u32 {
    (127 + elem.format().min_exponent()) as u32
}

/// The f32 exponent field of a value's unnormalised exponent; 0 for a zero.
#[inline]
pub(super) fn field(value: u32, min_field: u32) -> u32 {
    if value << 1 == 0 { 0 } else { (value >> 23 & 0xff).max(min_field) }
}

/// Exponent fields of a part of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// The largest; 255 where there is an infinity or a NaN, 0 where all is zero.
    pub max: u8,
    /// The smallest of a nonzero element; 255 where there is none.
    pub min: u8,
}

impl Facts {
    /// Of nothing.
    pub(super) const NONE: Self = Self { max: 0, min: 255 };

    /// With one element more.
    #[inline]
    pub(super) fn add(&mut self, field: u32) {
        if field != 0 {
            self.max = self.max.max(field as u8);
            self.min = self.min.min(field as u8);
        }
    }

    /// Of both parts.
    pub(super) fn and(self, other: Self) -> Self {
        Self { max: self.max.max(other.max), min: self.min.min(other.min) }
    }
}
