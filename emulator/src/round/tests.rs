//! The final conversions against `rustc_apfloat`, and the rules silicon adds.

use super::*;
use rustc_apfloat::ieee::{Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round, StatusAnd};

/// `sum * 2^scale` through binary128, which holds it exactly for |sum| < 2^112.
fn by_apfloat<F: Float>(sum: i64, scale: i32, round: Round) -> F
where
    Quad: FloatConvert<F>,
{
    let exact = Quad::from_i128(i128::from(sum)).value.scalbn(scale);
    let mut loses = false;
    let StatusAnd { value, .. } = exact.convert_r(round, &mut loses);
    value
}

#[test]
fn agree_with_apfloat() {
    let mut state = 1_u64;
    for i in 0..200_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sum = (state as i64) >> (state >> 58);
        let scale = (i % 400) - 230;
        let unsign = |bits: u32, sign: u32| if bits == sign { 0 } else { bits };

        let toward_zero: Single = by_apfloat(sum, scale, Round::TowardZero);
        let largest = toward_zero.to_bits() as u32 & 0x7fff_ffff == 0x7f7f_ffff;
        // Toward zero, apfloat stops at the largest finite number; silicon gives infinity from 2^128 on.
        let overflows = largest && 64 - sum.unsigned_abs().leading_zeros() as i32 + scale > 128;
        let expected = if overflows { u32::from(sum < 0) << 31 | 0x7f80_0000 } else { toward_zero.to_bits() as u32 };
        assert_eq!(rz32(i128::from(sum), scale), unsign(expected, 1 << 31), "{sum} * 2^{scale}");

        let nearest: Single = by_apfloat(sum, scale, Round::NearestTiesToEven);
        assert_eq!(rne32(i128::from(sum), scale), unsign(nearest.to_bits() as u32, 1 << 31));
        let half: Half = by_apfloat(sum, scale / 4, Round::NearestTiesToEven);
        assert_eq!(u32::from(rne16(i128::from(sum), scale / 4)), unsign(half.to_bits() as u32, 1 << 15));
    }
}

#[test]
fn a_fused_result_is_never_negative_zero() {
    assert_eq!(rz32(-1, -200), 0);
    assert_eq!(rne16(-1, -40), 0);
    assert_eq!(rne32(-1, -200), 0);
    assert_eq!(rz32(0, 5), 0);
    assert_eq!(rz32(-1, -149), 0x8000_0001);
}

#[test]
fn toward_zero_overflows_to_infinity() {
    assert_eq!(rz32(1, 128), 0x7f80_0000);
    assert_eq!(rz32((1 << 25) - 1, 103), 0x7f7f_ffff);
    assert_eq!(rz32(-1, 128), 0xff80_0000);
    assert_eq!(rne16(65504 + 16, 0), 0x7c00);
    assert_eq!(rne16(65504 + 15, 0), 0x7bff);
}

#[test]
fn e8m13_keeps_thirteen_fraction_bits() {
    assert_eq!(rz_e8m13(0x7f_ffff, -23), 0x3f7f_fc00);
    assert_eq!(rz_e8m13(-((1 << 14) + 1), 0), 0xc680_0000);
    assert_eq!(rz_e8m13(1, -139), 0x0000_0400);
    assert_eq!(rz_e8m13(1, -140), 0);
}
