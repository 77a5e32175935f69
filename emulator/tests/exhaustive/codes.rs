//! Every pattern of the small formats, decoded and encoded.

use crate::model::{Number, decode, pow2};
use emulator::format::{Elem, Unpacked, narrow_f32, widen_to_f32};
use emulator::round::{Overflow, Rounding};

const SMALL: [Elem; 7] = [Elem::E4m3, Elem::E5m2, Elem::Fp8Fnuz, Elem::Bf8Fnuz, Elem::E3m2, Elem::E2m3, Elem::E2m1];

#[test]
fn every_pattern_decodes_to_the_value_of_its_code() {
    for elem in SMALL {
        let format = elem.format();
        for bits in 0..1_u64 << format.width {
            let ours = format.unpack(bits);
            match decode(elem, bits) {
                Number::Nan => assert_eq!(ours, Unpacked::Nan, "{elem} {bits:#x}"),
                Number::Infinite { negative } => assert_eq!(ours, Unpacked::Infinite { negative }, "{elem} {bits:#x}"),
                Number::Finite { value, exponent } => {
                    let Unpacked::Finite { negative, significand, exponent: e } = ours else {
                        panic!("{elem} {bits:#x}: {ours:?}");
                    };
                    let magnitude = significand as f64 * pow2(e - format.fraction_bits as i32);
                    assert_eq!(if negative { -magnitude } else { magnitude }, value, "{elem} {bits:#x}");
                    assert!(value == 0.0 || e == exponent, "{elem} {bits:#x}: exponent {e}, not {exponent}");
                }
            }
        }
    }
}

#[test]
fn every_scale_decodes() {
    for code in 0..256_u64 {
        match Elem::Ue8m0.format().unpack(code) {
            Unpacked::Nan => assert_eq!(code, 255),
            unpacked => {
                let expected = Unpacked::Finite { negative: false, significand: 1, exponent: code as i32 - 127 };
                assert_eq!(unpacked, expected);
            }
        }
        // A UE4M3 scale is an E4M3 number without its sign.
        match (Elem::Ue4m3.format().unpack(code), decode(Elem::E4m3, code & 0x7f)) {
            (Unpacked::Nan, Number::Nan) => {}
            (Unpacked::Finite { negative: false, significand, exponent }, Number::Finite { value, .. }) => {
                assert_eq!(significand as f64 * pow2(exponent - 3), value);
            }
            (ours, theirs) => panic!("{code:#x}: {ours:?} {theirs:?}"),
        }
    }
}

/// To nearest even by search among all codes; beyond the largest number, the largest.
fn nearest(codes: &[(u64, f64)], x: f64) -> u64 {
    let at = codes.partition_point(|&(_, value)| value < x);
    let Some(&(above, high)) = codes.get(at) else { return codes[codes.len() - 1].0 };
    if high == x || at == 0 {
        return above;
    }
    let (below, low) = codes[at - 1];
    // Differences of these short numbers are exact.
    match (x - low).total_cmp(&(high - x)) {
        std::cmp::Ordering::Less => below,
        std::cmp::Ordering::Greater => above,
        std::cmp::Ordering::Equal => {
            if below & 1 == 0 {
                below
            } else {
                above
            }
        }
    }
}

#[test]
fn every_half_precision_number_encodes_to_the_nearest_code() {
    for elem in SMALL {
        let format = elem.format();
        let sign = 1 << (format.width - 1);
        let mut codes: Vec<(u64, f64)> = (0..sign)
            .filter_map(|bits| match decode(elem, bits) {
                Number::Finite { value, .. } => Some((bits, value)),
                _ => None,
            })
            .collect();
        codes.sort_by(|a, b| a.1.total_cmp(&b.1));
        for from in [Elem::F16, Elem::Bf16] {
            for bits in 0..1_u64 << 15 {
                let wide = widen_to_f32(bits, from.format());
                let x = f64::from(f32::from_bits(wide));
                let encode = |bits| narrow_f32(bits, format, Rounding::NearestEven, Overflow::Saturate);
                if x.is_nan() {
                    assert_eq!(encode(wide), format.canonical_nan().unwrap_or(format.max_magnitude()));
                    continue;
                }
                let expected = nearest(&codes, x);
                assert_eq!(encode(wide), expected, "{x} to {elem}");
                // The formats without negative zero have one zero.
                let no_negative_zero = matches!(elem, Elem::Fp8Fnuz | Elem::Bf8Fnuz) && expected == 0;
                let negative = if no_negative_zero { 0 } else { expected | sign };
                assert_eq!(encode(wide | 1 << 31), negative, "-{x} to {elem}");
            }
        }
    }
}
