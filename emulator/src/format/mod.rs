//! Number formats as data.
//!
//! A format is a row of constants ([`Format`]); an [`Elem`] names it where an instruction does. Every value is
//! `(-1)^s * m * 2^(e - p)` with an integer significand `m`, `p` fraction bits and the **unnormalised** exponent `e`: a subnormal keeps
//! the smallest exponent and a significand below `2^p`. Matrix units align products by sums of these exponents, so renormalising would
//! change bits.
//!
//! Source: `gpu-arithmetic` section 1; OCP OFP8 and MX for the 8-, 6- and 4-bit formats. Deliberately missing: nothing that a current
//! matrix unit reads; the packing of narrow elements into registers belongs to [`crate::mma::layout`].

mod convert;
mod elem;

pub use convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, f32_to_tf32, narrow_f32, widen_to_f32};
pub use elem::Elem;

/// What the largest exponent field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Specials {
    /// Infinity at fraction 0, NaN at every other fraction.
    Ieee,
    /// No infinity; only the all-ones pattern is NaN (OCP E4M3, UE4M3).
    AllOnesNan,
    /// No infinity, no negative zero; only the pattern of negative zero is NaN (the AMD `fnuz` formats).
    NegativeZeroNan,
    /// Every pattern is a finite number (FP6, FP4).
    None,
    /// A power of two: no fraction, no sign, no zero; the all-ones pattern is NaN (UE8M0 scales).
    PowerOfTwo,
    /// An integer: no exponent field, every pattern finite, two's complement if signed.
    Integer,
}

/// A number format: a row of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// The name used by PTX and by the vector files.
    pub name: &'static str,
    /// Bits of the container an element is held in.
    pub width: u32,
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// Fraction bits `p`, the leading one excluded.
    pub fraction_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// Whether there is a sign bit.
    pub signed: bool,
    /// Low bits of the container that do not belong to the number and are ignored (13 for TF32).
    pub ignored_bits: u32,
    /// Infinities and NaNs.
    pub specials: Specials,
}

const fn ieee(name: &'static str, width: u32, exponent_bits: u32, fraction_bits: u32) -> Format {
    Format {
        name,
        width,
        exponent_bits,
        fraction_bits,
        bias: (1 << (exponent_bits - 1)) - 1,
        signed: true,
        ignored_bits: width - 1 - exponent_bits - fraction_bits,
        specials: Specials::Ieee,
    }
}

const fn small(
    name: &'static str,
    width: u32,
    exponent_bits: u32,
    fraction_bits: u32,
    bias: i32,
    specials: Specials,
) -> Format {
    Format { name, width, exponent_bits, fraction_bits, bias, signed: true, ignored_bits: 0, specials }
}

/// IEEE binary64.
pub const F64: Format = ieee("f64", 64, 11, 52);
/// IEEE binary32.
pub const F32: Format = ieee("f32", 32, 8, 23);
/// TF32: binary32 whose low 13 bits are ignored, specials included.
pub const TF32: Format = ieee("tf32", 32, 8, 10);
/// The result format of FP8 tensor-core sums on Ada and Hopper: binary32 whose low 10 bits are zero.
pub const E8M13: Format = ieee("e8m13", 32, 8, 13);
/// bfloat16.
pub const BF16: Format = ieee("bf16", 16, 8, 7);
/// IEEE binary16.
pub const F16: Format = ieee("f16", 16, 5, 10);
/// OCP FP8 E5M2.
pub const E5M2: Format = ieee("e5m2", 8, 5, 2);
/// OCP FP8 E4M3 (the "fn" form: no infinity).
pub const E4M3: Format = small("e4m3", 8, 4, 3, 7, Specials::AllOnesNan);
/// OCP FP6 E3M2, in the low 6 bits of its container.
pub const E3M2: Format = small("e3m2", 6, 3, 2, 3, Specials::None);
/// OCP FP6 E2M3, in the low 6 bits of its container.
pub const E2M3: Format = small("e2m3", 6, 2, 3, 1, Specials::None);
/// OCP FP4 E2M1.
pub const E2M1: Format = small("e2m1", 4, 2, 1, 1, Specials::None);
/// OCP scale UE8M0: `2^(code - 127)`.
pub const UE8M0: Format = Format {
    name: "ue8m0",
    width: 8,
    exponent_bits: 8,
    fraction_bits: 0,
    bias: 127,
    signed: false,
    ignored_bits: 0,
    specials: Specials::PowerOfTwo,
};
/// Scale UE4M3: E4M3 whose sign bit is ignored.
pub const UE4M3: Format = Format {
    name: "ue4m3",
    width: 8,
    exponent_bits: 4,
    fraction_bits: 3,
    bias: 7,
    signed: false,
    ignored_bits: 0,
    specials: Specials::AllOnesNan,
};
/// AMD FP8, E4M3 FNUZ.
pub const FP8_FNUZ: Format = small("fp8", 8, 4, 3, 8, Specials::NegativeZeroNan);
/// AMD BF8, E5M2 FNUZ.
pub const BF8_FNUZ: Format = small("bf8", 8, 5, 2, 16, Specials::NegativeZeroNan);

/// AMD XF32: TF32 under the name its instructions give it.
pub const XF32: Format = Format { name: "xf32", ..TF32 };

/// An integer of `width` bits is `m * 2^0`: the exponent is written as `p` so that the rule of all formats gives it.
const fn integer(name: &'static str, width: u32, signed: bool) -> Format {
    Format {
        name,
        width,
        exponent_bits: 0,
        fraction_bits: width - 1,
        bias: 0,
        signed,
        ignored_bits: 0,
        specials: Specials::Integer,
    }
}

/// 32-bit signed integer: accumulators of integer instructions.
pub const S32: Format = integer("s32", 32, true);
/// 8-bit signed integer.
pub const S8: Format = integer("s8", 8, true);
/// 8-bit unsigned integer.
pub const U8: Format = integer("u8", 8, false);
/// 4-bit signed integer.
pub const S4: Format = integer("s4", 4, true);
/// 4-bit unsigned integer.
pub const U4: Format = integer("u4", 4, false);
/// One bit.
pub const B1: Format = integer("b1", 1, false);

/// A value taken apart. `m` and `e` are as stored: subnormals are not renormalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpacked {
    /// `(-1)^negative * significand * 2^(exponent - p)`; a zero has significand 0 and the smallest exponent.
    Finite {
        /// Sign bit.
        negative: bool,
        /// Integer significand, below `2^(p+1)`.
        significand: u64,
        /// Unnormalised, unbiased exponent.
        exponent: i32,
    },
    /// An infinity.
    Infinite {
        /// Sign bit.
        negative: bool,
    },
    /// Any NaN.
    Nan,
}

impl Unpacked {
    /// True for a zero of either sign.
    #[must_use]
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Finite { significand: 0, .. })
    }

    /// True for a negative number, zero included, or infinity.
    #[must_use]
    pub fn is_negative(self) -> bool {
        matches!(self, Self::Finite { negative: true, .. } | Self::Infinite { negative: true })
    }

    /// True for `-0`.
    #[must_use]
    pub fn is_negative_zero(self) -> bool {
        self.is_zero() && self.is_negative()
    }

    /// True for a NaN.
    #[must_use]
    pub fn is_nan(self) -> bool {
        self == Self::Nan
    }
}

impl Format {
    /// Smallest exponent of a normal number, which subnormals and zero share.
    #[must_use]
    pub const fn min_exponent(&self) -> i32 {
        1 - self.bias
    }

    /// The bit pattern of the largest finite magnitude, ignored low bits excluded (so shifted right by `ignored_bits`).
    #[must_use]
    pub const fn max_magnitude(&self) -> u64 {
        let all = (1_u64 << (self.exponent_bits + self.fraction_bits)) - 1;
        match self.specials {
            Specials::Ieee => (((1 << self.exponent_bits) - 1) << self.fraction_bits) - 1,
            Specials::AllOnesNan | Specials::PowerOfTwo => all - 1,
            Specials::NegativeZeroNan | Specials::None => all,
            Specials::Integer => (1 << (self.width - self.signed as u32)) - 1,
        }
    }

    /// The NaN that NVIDIA units return (`7fffffff`, `7fff`, `7f`): all ones but the sign. `None` for a format without NaN.
    #[must_use]
    pub const fn canonical_nan(&self) -> Option<u64> {
        match self.specials {
            Specials::None | Specials::Integer => None,
            Specials::NegativeZeroNan => Some(1 << (self.exponent_bits + self.fraction_bits)),
            Specials::PowerOfTwo => Some((1 << self.width) - 1),
            Specials::Ieee | Specials::AllOnesNan => {
                Some((1 << (self.exponent_bits + self.fraction_bits + self.ignored_bits)) - 1)
            }
        }
    }

    /// Takes a bit pattern apart. Bits above the container and the ignored low bits do not matter.
    ///
    /// **Bits.** Exact for every pattern. TF32 clears its low 13 bits before anything else, so a NaN whose payload sits only there
    /// becomes an infinity. Checked exhaustively against an independent decoder for every format of at most 16 bits.
    #[must_use]
    pub fn unpack(&self, bits: u64) -> Unpacked {
        if self.specials == Specials::Integer {
            return self.unpack_integer(bits);
        }
        let bits = bits >> self.ignored_bits;
        let fraction = bits & ((1 << self.fraction_bits) - 1);
        let field = (bits >> self.fraction_bits) & ((1 << self.exponent_bits) - 1);
        let negative = self.signed && (bits >> (self.fraction_bits + self.exponent_bits)) & 1 == 1;
        let largest = (1 << self.exponent_bits) - 1;
        match self.specials {
            Specials::Ieee if field == largest => {
                return if fraction == 0 { Unpacked::Infinite { negative } } else { Unpacked::Nan };
            }
            Specials::AllOnesNan if field == largest && fraction == (1 << self.fraction_bits) - 1 => {
                return Unpacked::Nan;
            }
            Specials::NegativeZeroNan if negative && field == 0 && fraction == 0 => return Unpacked::Nan,
            Specials::PowerOfTwo => {
                return if field == largest {
                    Unpacked::Nan
                } else {
                    Unpacked::Finite { negative: false, significand: 1, exponent: field as i32 - self.bias }
                };
            }
            _ => {}
        }
        if field == 0 {
            Unpacked::Finite { negative, significand: fraction, exponent: self.min_exponent() }
        } else {
            Unpacked::Finite {
                negative,
                significand: (1 << self.fraction_bits) | fraction,
                exponent: field as i32 - self.bias,
            }
        }
    }

    fn unpack_integer(&self, bits: u64) -> Unpacked {
        let value = bits & ((1 << self.width) - 1);
        let negative = self.signed && value >> (self.width - 1) == 1;
        let significand = if negative { (1 << self.width) - value } else { value };
        Unpacked::Finite { negative, significand, exponent: self.fraction_bits as i32 }
    }
}

#[cfg(test)]
mod tests;
