//! Exhaustive checks of decoding, and of conversions against `rustc_apfloat`.

use super::*;
use crate::round::{Overflow, Rounding, pack};
use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round, Status, StatusAnd};

/// `value` as an f64, exactly: products of small integers and powers of two that f64 holds.
fn to_f64(format: &Format, value: Unpacked) -> f64 {
    match value {
        Unpacked::Nan => f64::NAN,
        Unpacked::Infinite { negative } => {
            if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Unpacked::Finite { negative, significand, exponent } => {
            let scale = exponent - format.fraction_bits as i32;
            let magnitude = significand as f64 * f64::from_bits(((1023 + scale) as u64) << 52);
            if negative { -magnitude } else { magnitude }
        }
    }
}

fn apfloat_to_f64<F: Float + FloatConvert<Double>>(bits: u128) -> f64 {
    let mut loses = false;
    let StatusAnd { value, .. } = F::from_bits(bits).convert(&mut loses);
    let value: Double = value;
    f64::from_bits(value.to_bits() as u64)
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

fn decodes_like<F: Float + FloatConvert<Double>>(format: &Format) {
    for bits in 0..1_u64 << format.width {
        let ours = to_f64(format, format.unpack(bits));
        let theirs = apfloat_to_f64::<F>(u128::from(bits));
        assert!(same(ours, theirs), "{} {bits:#x}: {ours} {theirs}", format.name);
    }
}

#[test]
fn every_pattern_decodes_as_apfloat_says() {
    decodes_like::<Half>(&F16);
    decodes_like::<BFloat>(&BF16);
    decodes_like::<Float8E5M2>(&E5M2);
    decodes_like::<Float8E4M3FN>(&E4M3);
}

#[test]
fn values_of_the_small_formats() {
    let values = |format: &Format, codes: &[u64]| -> Vec<f64> {
        codes.iter().map(|&c| to_f64(format, format.unpack(c))).collect()
    };
    assert_eq!(values(&E2M1, &[0, 1, 2, 3, 4, 5, 6, 7, 9]), [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.5]);
    assert_eq!(values(&E2M3, &[0x1f, 0x01]), [7.5, 0.125]);
    assert_eq!(values(&E3M2, &[0x1f, 0x01, 0x3f]), [28.0, 0.0625, -28.0]);
    assert_eq!(values(&FP8_FNUZ, &[0x7f, 0x01, 0xff]), [240.0, 1.0 / 1024.0, -240.0]);
    assert_eq!(values(&BF8_FNUZ, &[0x7f]), [57344.0]);
    assert_eq!(
        values(&UE8M0, &[127, 0, 254]),
        [1.0, f64::from_bits((1023 - 127) << 52), f64::from_bits((1023 + 127) << 52)]
    );
    assert_eq!(values(&UE4M3, &[0x38, 0xb8, 0x7e]), [1.0, 1.0, 448.0]);
    for (format, nan) in [(&FP8_FNUZ, 0x80), (&BF8_FNUZ, 0x80), (&UE8M0, 0xff), (&UE4M3, 0x7f), (&UE4M3, 0xff)] {
        assert!(format.unpack(nan).is_nan(), "{}", format.name);
    }
}

#[test]
fn tf32_ignores_its_low_bits_specials_included() {
    assert_eq!(TF32.unpack(0x7f80_0001), Unpacked::Infinite { negative: false });
    assert_eq!(TF32.unpack(0x3f80_1fff), TF32.unpack(0x3f80_0000));
    assert!(TF32.unpack(0x0000_1fff).is_zero());
}

/// Hand-picked boundaries and weighted random f32 patterns.
fn samples() -> Vec<u32> {
    let mut out = Vec::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for exponent in 0..=255_u32 {
        for _ in 0..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let r = (state >> 33) as u32;
            // Fractions with long runs of zeros and ones sit on rounding boundaries.
            let fraction = match r & 3 {
                0 => r >> 4,
                1 => !0 << (r >> 4 & 31),
                2 => 1 << (r >> 4 & 31),
                _ => (1 << (r >> 4 & 31)) | 1,
            };
            out.push(exponent << 23 | (fraction & 0x007f_ffff) | (r & 4) << 29);
        }
    }
    out
}

fn narrows_like<F: Float>(format: &Format)
where
    Single: FloatConvert<F>,
{
    let modes = [
        (Rounding::NearestEven, Round::NearestTiesToEven),
        (Rounding::NearestAway, Round::NearestTiesToAway),
        (Rounding::TowardZero, Round::TowardZero),
        (Rounding::Down, Round::TowardNegative),
        (Rounding::Up, Round::TowardPositive),
    ];
    for bits in samples() {
        for (ours, theirs) in modes {
            let mut loses = false;
            let StatusAnd { value, status } = Single::from_bits(u128::from(bits)).convert_r(theirs, &mut loses);
            let value: F = value;
            let expected = if value.is_nan() { format.canonical_nan().unwrap() } else { value.to_bits() as u64 };
            let _: Status = status;
            assert_eq!(
                narrow_f32(bits, format, ours, Overflow::ByRounding),
                expected,
                "{bits:#x} to {} {ours:?}",
                format.name
            );
        }
    }
}

#[test]
fn narrowing_agrees_with_apfloat_in_five_modes() {
    narrows_like::<Half>(&F16);
    narrows_like::<BFloat>(&BF16);
    narrows_like::<Float8E5M2>(&E5M2);
}

#[test]
fn narrowing_to_tf32_is_rounding_at_bit_13() {
    assert_eq!(f32_to_tf32(0x3f80_1000, Rounding::NearestAway), 0x3f80_2000);
    assert_eq!(f32_to_tf32(0x3f80_1000, Rounding::NearestEven), 0x3f80_0000);
    assert_eq!(f32_to_tf32(0xbf80_3000, Rounding::NearestEven), 0xbf80_4000);
    assert_eq!(f32_to_tf32(0x3f80_1fff, Rounding::TowardZero), 0x3f80_0000);
}

#[test]
fn overflow_says_what_it_wants() {
    let big = |overflow| narrow_f32(0x47ff_ffff, &E4M3, Rounding::NearestEven, overflow);
    assert_eq!(big(Overflow::Saturate), 0x7e);
    assert_eq!(big(Overflow::ByRounding), 0x7f); // E4M3 has no infinity: NaN
    assert_eq!(narrow_f32(0xc7ff_ffff, &E2M1, Rounding::NearestEven, Overflow::ByRounding), 0xf);
    assert_eq!(narrow_f32(0x7fc0_0000, &E2M1, Rounding::NearestEven, Overflow::Saturate), 0x7);
}

#[test]
fn every_small_pattern_survives_a_round_trip() {
    for format in [&F16, &BF16, &E5M2, &E4M3, &E3M2, &E2M3, &E2M1, &FP8_FNUZ, &BF8_FNUZ] {
        for bits in 0..1_u64 << format.width {
            if let Unpacked::Finite { negative, significand, exponent } = format.unpack(bits) {
                let scale = exponent - format.fraction_bits as i32;
                for rounding in [Rounding::NearestEven, Rounding::TowardZero] {
                    assert_eq!(
                        pack(format, negative, u128::from(significand), scale, rounding, Overflow::Saturate),
                        bits
                    );
                }
                assert_eq!(narrow_f32(widen_to_f32(bits, format), format, Rounding::Up, Overflow::Saturate), bits);
            }
        }
    }
}
