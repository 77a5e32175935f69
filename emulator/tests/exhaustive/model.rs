//! The independent model: values of codes, aligned sums in 128-bit integers, one rounding by `rustc_apfloat`.

use emulator::format::Elem;
use rustc_apfloat::ieee::{Double, Float8E4M3FN, Float8E5M2, Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round, Status, StatusAnd};

/// Sums are counted in units of `2^-BASE`.
pub const BASE: i32 = 80;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Nan,
    Infinite {
        negative: bool,
    },
    /// The exponent is that of the leading digit, but never below that of the smallest normal number; of a zero it means nothing.
    Finite {
        value: f64,
        exponent: i32,
    },
}

fn finite(value: f64, least_exponent: i32) -> Number {
    Number::Finite { value, exponent: if value == 0.0 { 0 } else { ilog2(value).max(least_exponent) } }
}

/// The exponent of the leading digit of a normal f64.
pub fn ilog2(value: f64) -> i32 {
    ((value.to_bits() >> 52 & 0x7ff) as i32) - 1023
}

fn exactly<F: Float + FloatConvert<Double>>(bits: u64) -> f64 {
    let mut loses = false;
    let StatusAnd { value, .. } = F::from_bits(u128::from(bits)).convert(&mut loses);
    let value: Double = value;
    f64::from_bits(value.to_bits() as u64)
}

/// The n-th positive number of a format that starts with `steps.len()` runs of `run` numbers, each run with its spacing.
fn spaced(n: usize, run: usize, steps: &[f64]) -> f64 {
    (0..n).map(|i| steps[i / run]).sum()
}

pub fn decode(elem: Elem, bits: u64) -> Number {
    let number = |value: f64, least| {
        if value.is_nan() {
            Number::Nan
        } else if value.is_infinite() {
            Number::Infinite { negative: value < 0.0 }
        } else {
            finite(value, least)
        }
    };
    let signed = |width: u32, magnitude: &dyn Fn(usize) -> f64| {
        let value = magnitude((bits & ((1 << (width - 1)) - 1)) as usize);
        if bits >> (width - 1) == 1 { -value } else { value }
    };
    match elem {
        Elem::E4m3 => number(exactly::<Float8E4M3FN>(bits), -6),
        Elem::E5m2 => number(exactly::<Float8E5M2>(bits), -14),
        // The FNUZ formats are half the OCP ones, code by code, where those are finite; minus zero is the NaN.
        Elem::Fp8Fnuz | Elem::Bf8Fnuz if bits == 0x80 => Number::Nan,
        Elem::Fp8Fnuz if bits & 0x7f == 0x7f => finite(if bits >> 7 == 1 { -240.0 } else { 240.0 }, -7),
        Elem::Fp8Fnuz => number(exactly::<Float8E4M3FN>(bits) / 2.0, -7),
        Elem::Bf8Fnuz if bits & 0x7f >= 0x7c => {
            let magnitude = [32768.0, 40960.0, 49152.0, 57344.0][(bits & 3) as usize];
            finite(if bits >> 7 == 1 { -magnitude } else { magnitude }, -15)
        }
        Elem::Bf8Fnuz => number(exactly::<Float8E5M2>(bits) / 2.0, -15),
        Elem::E2m1 => finite(signed(4, &|n| [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][n]), 0),
        Elem::E2m3 => finite(signed(6, &|n| spaced(n, 8, &[0.125, 0.125, 0.25, 0.5])), 0),
        Elem::E3m2 => finite(signed(6, &|n| spaced(n, 4, &[0.0625, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0])), -2),
        other => panic!("{other} is not a small format"),
    }
}

/// One summand in units of `2^-BASE`, and the exponent it aligns by.
#[derive(Clone, Copy, Debug)]
pub struct Summand {
    pub units: i128,
    pub exponent: i32,
}

/// What a product makes of the result, or the product.
pub fn multiply(a: Number, b: Number) -> Result<Summand, f64> {
    let value = |n| match n {
        Number::Nan => f64::NAN,
        Number::Infinite { negative } => {
            if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Number::Finite { value, .. } => value,
    };
    match (a, b) {
        (Number::Finite { value: x, exponent: ex }, Number::Finite { value: y, exponent: ey }) => {
            Ok(Summand { units: units(x * y), exponent: ex + ey })
        }
        _ => Err(value(a) * value(b)),
    }
}

/// `2^exponent`, for exponents of normal numbers.
pub fn pow2(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// A short number in units, exactly.
pub fn units(value: f64) -> i128 {
    let scaled = value * pow2(BASE);
    assert!(scaled == scaled.trunc() && scaled.abs() < pow2(126), "{value} has no exact units");
    scaled as i128
}

/// f32 bits of a moderate normal number or zero as a summand.
pub fn addend(bits: u32) -> Summand {
    let value = f64::from(f32::from_bits(bits));
    Summand { units: units(value), exponent: if value == 0.0 { 0 } else { ilog2(value) } }
}

/// f16 bits of a normal number or zero as a summand.
pub fn addend16(bits: u16) -> Summand {
    let value = exactly::<Half>(u64::from(bits));
    Summand { units: units(value), exponent: if value == 0.0 { 0 } else { ilog2(value).max(-14) } }
}

/// `x` cut to a multiple of `2^exponent`, toward zero or down.
pub fn cut(x: i128, exponent: i32, down: bool) -> i128 {
    let unit = 1_i128 << (exponent + BASE).clamp(0, 126);
    if down { x.div_euclid(unit) * unit } else { x / unit * unit }
}

/// Terms that are not zero, each cut below the largest exponent, summed.
pub fn truncated_sum(terms: &[Summand], fraction: i32) -> i128 {
    let terms = || terms.iter().filter(|t| t.units != 0);
    let Some(largest) = terms().map(|t| t.exponent).max() else { return 0 };
    terms().map(|t| cut(t.units, largest - fraction, false)).sum()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Final {
    Rz32,
    RzE8m13,
    Rne32,
    Rne16,
}

/// `sum * 2^-BASE` rounded once; a zero is positive.
pub fn finish(sum: i128, to: Final) -> u64 {
    let StatusAnd { value, status } = Quad::from_i128_r(sum, Round::NearestTiesToEven);
    assert_eq!(status, Status::OK, "{sum} is too long for the model");
    let exact = value.scalbn(-BASE);
    let mut loses = false;
    let bits = match to {
        Final::Rne16 => {
            let half: Half = exact.convert_r(Round::NearestTiesToEven, &mut loses).value;
            let bits = half.to_bits() as u64;
            return if bits == 0x8000 { 0 } else { bits };
        }
        Final::Rne32 => {
            let single: Single = exact.convert_r(Round::NearestTiesToEven, &mut loses).value;
            single.to_bits() as u64
        }
        Final::Rz32 | Final::RzE8m13 => {
            let single: Single = exact.convert_r(Round::TowardZero, &mut loses).value;
            let bits = single.to_bits() as u64;
            if to == Final::RzE8m13 { bits & !0x3ff } else { bits }
        }
    };
    if bits == 0x8000_0000 { 0 } else { bits }
}

/// The bits of a special result.
pub fn special(value: f64, to: Final) -> u64 {
    match (to, value.is_nan(), value < 0.0) {
        (Final::Rne16, true, _) => 0x7fff,
        (Final::Rne16, _, negative) => {
            if negative {
                0xfc00
            } else {
                0x7c00
            }
        }
        (_, true, _) => 0x7fff_ffff,
        (_, _, negative) => {
            if negative {
                0xff80_0000
            } else {
                0x7f80_0000
            }
        }
    }
}
