//! Conversions to and from the narrow formats: every operand of 16 and 8 bits, against a search for the nearest value.
//!
//! The search knows a format only as the list of its values, computed in f64 from sign, exponent and fraction.

use crate::cases::{Random, operand};
use emulator::scalar::{self, Bf16, F16, F32, Mods, Narrow, ScaleRounding};
use rustc_apfloat::ieee::{Float8E4M3FN, Float8E5M2, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

/// Exponent bits, fraction bits, bias, and the largest finite code.
fn shape(format: Narrow) -> (u32, u32, i32, u8) {
    match format {
        Narrow::E4m3 => (4, 3, 7, 0x7e),
        Narrow::E5m2 => (5, 2, 15, 0x7b),
        Narrow::E3m2 => (3, 2, 3, 0x1f),
        Narrow::E2m3 => (2, 3, 1, 0x1f),
        Narrow::E2m1 => (2, 1, 1, 0x07),
    }
}

/// The values of the codes `0..=largest`, ascending.
fn values(format: Narrow) -> Vec<f64> {
    let (_, fraction_bits, bias, largest) = shape(format);
    (0..=largest)
        .map(|code| {
            let (field, fraction) = (i32::from(code >> fraction_bits), f64::from(code & ((1 << fraction_bits) - 1)));
            let unit = libm::ldexp(1.0, -(fraction_bits as i32));
            match field {
                0 => libm::ldexp(fraction * unit, 1 - bias),
                _ => libm::ldexp(1.0 + fraction * unit, field - bias),
            }
        })
        .collect()
}

fn sign_bit(format: Narrow) -> u8 {
    let (exponent_bits, fraction_bits, ..) = shape(format);
    1 << (exponent_bits + fraction_bits)
}

/// The code nearest `x`, ties to the even code, saturating.
fn nearest(format: Narrow, values: &[f64], x: f32) -> u8 {
    if x.is_nan() {
        return match format {
            Narrow::E4m3 | Narrow::E5m2 => 0x7f,
            _ => shape(format).3,
        };
    }
    let magnitude = f64::from(x).abs();
    let above = values.iter().position(|&v| v >= magnitude).unwrap_or(values.len() - 1);
    let code = match above {
        0 => 0,
        _ if magnitude >= values[above] => above,
        _ => {
            // Exact: the values have few bits, and f64 holds differences of an f32 to them.
            let (down, up) = (magnitude - values[above - 1], values[above] - magnitude);
            if down < up || (down == up && (above - 1) % 2 == 0) { above - 1 } else { above }
        }
    };
    code as u8 | if x.is_sign_negative() { sign_bit(format) } else { 0 }
}

#[test]
fn every_16_bit_operand_gives_the_nearest_value() {
    for format in Narrow::ALL {
        let values = values(format);
        for a in 0..=u16::MAX {
            for (ours, x) in [
                (scalar::half_to_narrow::<F16>(a, format, false), half::f16::from_bits(a).to_f32()),
                (scalar::half_to_narrow::<Bf16>(a, format, false), half::bf16::from_bits(a).to_f32()),
            ] {
                assert_eq!(ours, nearest(format, &values, x), "{a:04x} = {x} to {format:?}");
            }
            let (relu, plain) =
                (scalar::half_to_narrow::<F16>(a, format, true), scalar::half_to_narrow::<F16>(a, format, false));
            let negative = a > 0x8000 && a <= 0xfc00;
            assert_eq!(relu, if negative || a == 0x8000 { 0 } else { plain }, "relu {a:04x}");
        }
    }
}

/// f32 operands around every value and every midpoint, and weighted random ones.
#[test]
fn f32_operands_give_the_nearest_value() {
    for format in Narrow::ALL {
        let values = values(format);
        let check = |x: f32| {
            for x in [x, -x] {
                assert_eq!(
                    scalar::to_narrow(x.to_bits(), format, false),
                    nearest(format, &values, x),
                    "{x} to {format:?}"
                );
            }
        };
        for pair in values.windows(2) {
            for edge in [pair[0], (pair[0] + pair[1]) / 2.0, pair[1]] {
                let bits = (edge as f32).to_bits();
                (bits.saturating_sub(2)..=bits + 2).for_each(|bits| check(f32::from_bits(bits)));
            }
        }
        let mut random = Random::new(51);
        for _ in 0..200_000 {
            check(f32::from_bits(operand::<F32>(&mut random)));
        }
        check(f32::INFINITY);
        check(f32::MAX);
    }
}

/// The two FP8 formats have a second oracle.
#[test]
fn fp8_agrees_with_apfloat() {
    let mut random = Random::new(52);
    let every: Vec<u32> = (0..=u16::MAX).map(|a| u32::from(a) << 16).collect();
    for a in every.into_iter().chain((0..200_000).map(|_| operand::<F32>(&mut random))) {
        let x = Single::from_bits(u128::from(a));
        let e4m3: Float8E4M3FN = x.convert_r(Round::NearestTiesToEven, &mut false).value;
        let e5m2: Float8E5M2 = x.convert_r(Round::NearestTiesToEven, &mut false).value;
        let sign = (a >> 24) as u8 & 0x80;
        // The oracle does not saturate.
        let e4m3 = match e4m3.is_nan() {
            true if x.is_nan() => 0x7f,
            true => 0x7e | sign,
            false => e4m3.to_bits() as u8,
        };
        let e5m2 = match (x.is_nan(), e5m2.is_infinite()) {
            (true, _) => 0x7f,
            (_, true) => 0x7b | sign,
            _ => e5m2.to_bits() as u8,
        };
        assert_eq!(scalar::to_narrow(a, Narrow::E4m3, false), e4m3, "{a:08x}");
        assert_eq!(scalar::to_narrow(a, Narrow::E5m2, false), e5m2, "{a:08x}");
    }
}

#[test]
fn every_narrow_code_widens_to_its_value() {
    for format in Narrow::ALL {
        let (values, sign) = (values(format), sign_bit(format));
        for code in 0..=u8::MAX {
            if code >= sign << 1 && sign != 0x80 {
                continue; // bits above the format
            }
            let (negative, magnitude) = (code & sign != 0, code & (sign - 1));
            let expected = match values.get(usize::from(magnitude)) {
                Some(&v) => (if negative { -v } else { v }) as f32,
                None if format == Narrow::E5m2 && magnitude == 0x7c => {
                    if negative {
                        f32::NEG_INFINITY
                    } else {
                        f32::INFINITY
                    }
                }
                None => f32::NAN,
            };
            let (f16, bf16) = (scalar::narrow_to_f16(code, format), scalar::narrow_to_bf16(code, format));
            if expected.is_nan() {
                assert_eq!((f16, bf16), (0x7fff, 0x7fff), "{code:02x} {format:?}");
                continue;
            }
            assert_eq!(half::f16::from_bits(f16).to_f32().to_bits(), expected.to_bits(), "{code:02x} {format:?}");
            assert_eq!(half::bf16::from_bits(bf16).to_f32().to_bits(), expected.to_bits(), "{code:02x} {format:?}");
            assert_eq!(
                scalar::half_to_narrow::<F16>(f16, format, false),
                if expected.is_infinite() { code - 1 } else { code }
            );
        }
    }
}

#[test]
fn pairs_have_the_first_source_high() {
    assert_eq!(scalar::pack_narrow(Narrow::E4m3, 0x12, 0x34), 0x1234);
    assert_eq!(scalar::pack_narrow(Narrow::E3m2, 0x3f, 0x01), 0x3f01);
    assert_eq!(scalar::pack_narrow(Narrow::E2m1, 0xa, 0x5), 0xa5);
    for format in Narrow::ALL {
        let mask = ((u16::from(sign_bit(format)) << 1) - 1) as u8;
        for (first, second) in [(0x5a, 0xa5), (0xff, 0), (0, 0xff), (0x13, 0x31)] {
            let (first, second) = (first & mask, second & mask);
            assert_eq!(scalar::unpack_narrow(format, scalar::pack_narrow(format, first, second)), [first, second]);
        }
    }
}

/// Scales by search: the largest power of two not above, or the smallest not below.
#[test]
fn every_bf16_scale_is_the_power_of_two() {
    let powers: Vec<f64> = (0..255).map(|code| libm::ldexp(1.0, code - 127)).collect();
    for a in 0..=u16::MAX {
        let x = f64::from(half::bf16::from_bits(a).to_f32()).abs();
        let down = powers.iter().rposition(|&p| p <= x).unwrap_or(0) as u8;
        let up = powers.iter().position(|&p| p >= x).map_or(0xff, |code| code as u8);
        let up_finite = up.min(0xfe);
        let nan = x.is_nan();
        let to = |rounding, satfinite| scalar::bf16_to_ue8m0(a, rounding, satfinite);
        assert_eq!(to(ScaleRounding::TowardZero, true), if nan { 0xff } else { down }, "{a:04x}");
        assert_eq!(to(ScaleRounding::Up, true), if nan { 0xff } else { up_finite }, "{a:04x}");
        assert_eq!(to(ScaleRounding::Up, false), if nan { 0xff } else { up }, "{a:04x}");
    }
    for code in 0..=0xfe_u8 {
        let x = half::bf16::from_bits(scalar::ue8m0_to_bf16(code)).to_f32();
        assert_eq!(f64::from(x), powers[usize::from(code)]);
        assert_eq!(scalar::to_ue8m0(x.to_bits(), ScaleRounding::Up, false), code);
        assert_eq!(scalar::to_ue8m0(x.to_bits() + 1, ScaleRounding::TowardZero, false), code);
    }
    assert_eq!(scalar::ue8m0_to_bf16(0xff), 0x7fff);
}

/// The `half` crate as a further opinion on the 16-bit formats, its NaNs made canonical.
#[test]
fn sixteen_bit_conversions_agree_with_half() {
    let same = |ours: u16, theirs: u16, nan: bool| ours == if nan { 0x7fff } else { theirs };
    let mut random = Random::new(53);
    let halves = (0..=u16::MAX).map(|a| u32::from(a) << 16);
    for a in halves.chain((0..400_000).map(|_| operand::<F32>(&mut random))) {
        let x = f32::from_bits(a);
        let (f16, bf16) = (half::f16::from_f32(x).to_bits(), half::bf16::from_f32(x).to_bits());
        assert!(same(scalar::convert::<F32, F16>(a, Mods::RN), f16, x.is_nan()), "{a:08x}");
        assert!(same(scalar::convert::<F32, Bf16>(a, Mods::RN), bf16, x.is_nan()), "{a:08x}");
    }
    for a in 0..=u16::MAX {
        let (x, y) = (half::f16::from_bits(a).to_f32(), half::bf16::from_bits(a).to_f32());
        let canonical = |x: f32| if x.is_nan() { 0x7fff_ffff } else { x.to_bits() };
        assert_eq!(scalar::widen_f16(a), canonical(x), "{a:04x}");
        assert_eq!(scalar::widen_bf16(a), canonical(y), "{a:04x}");
    }
}
