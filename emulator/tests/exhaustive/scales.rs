//! Block scales: every pair of FP8 operands under scales, and every pair of scale codes over FP4 products.

use crate::model::{Final, Number, Summand, addend, decode, finish, ilog2, multiply, special, truncated_sum, units};
use crate::products::C32;
use emulator::format::Elem::{self, E2m1, E2m3, E3m2, E4m3, E5m2, F32, Ue4m3, Ue8m0};
use emulator::mma::{Family, Instruction, M16N8K32, M16N8K64, Modifier, Operation, Scales, Shape, Types};
use emulator::profile::{Profile, ZeroPolicy};

fn operation(profile: &str, family: Family, shape: Shape, (a, b): (Elem, Elem), scale: (u32, Elem)) -> Operation {
    let types = Types { a, b, c: F32, d: F32 };
    let modifier = Modifier::BlockScale { block: scale.0, scale: scale.1 };
    let instruction = Instruction { family, shape, types, modifier };
    Profile::by_name(profile).unwrap().mma(&instruction).unwrap()
}

const TILE32: Shape = Shape::new(128, 8, 32);
const TILE64: Shape = Shape::new(128, 8, 64);

#[test]
fn every_pair_of_operands_under_power_of_two_scales() {
    let types = [E4m3, E5m2, E3m2, E2m3, E2m1];
    let scales: [(u64, u64); 5] = [(127, 127), (128, 125), (121, 130), (133, 131), (0xff, 127)];
    for (profile, family, shape) in [("sm_120", Family::Mma, M16N8K32), ("sm_100", Family::Tcgen05, TILE32)] {
        for (ta, tb) in types.into_iter().flat_map(|a| types.map(|b| (a, b))) {
            let operation = operation(profile, family, shape, (ta, tb), (32, Ue8m0));
            let (mut a, mut b) = ([0; 32], [0; 32]);
            for x in 0..1_u64 << ta.format().width {
                for y in 0..1_u64 << tb.format().width {
                    let position = (x ^ y) as usize % 32;
                    (a[position], b[position]) = (x, y);
                    let turn = (x * 31 + y * 7) as usize;
                    let (c, (sa, sb)) = (C32[turn % C32.len()], scales[turn % scales.len()]);
                    let found = operation.dot_scaled(&a, &b, c.into(), Scales { a: &[sa], b: &[sb] });
                    let shift = sa as i32 + sb as i32 - 254;
                    let scaled = |p: Summand| {
                        let units = if shift < 0 { p.units >> -shift } else { p.units << shift };
                        Summand { units, exponent: p.exponent + shift }
                    };
                    let expected = match multiply(decode(ta, x), decode(tb, y)) {
                        _ if sa == 0xff => special(f64::NAN, Final::Rz32),
                        Ok(p) => finish(truncated_sum(&[scaled(p), addend(c)], 25), Final::Rz32),
                        Err(value) => special(value, Final::Rz32),
                    };
                    assert_eq!(found, expected, "{profile} {ta} {tb}: {x:#x} * {y:#x} * 2^{shift} + {c:#x}");
                    (a[position], b[position]) = (0, 0);
                }
            }
        }
    }
}

/// One group holds a sum of two FP4 products; its scales are every pair of UE4M3 codes.
#[test]
fn every_pair_of_ue4m3_scales() {
    let value = |code: u64| decode(E4m3, code & 0x7f);
    for (profile, family, shape) in [("sm_120", Family::Mma, M16N8K64), ("sm_100", Family::Tcgen05, TILE64)] {
        let operation = operation(profile, family, shape, (E2m1, E2m1), (16, Ue4m3));
        for sa in 0..256_u64 {
            for sb in 0..256_u64 {
                let turn = (sa * 31 + sb * 7) as usize;
                let group = turn % 4;
                let codes = [turn % 16, turn / 16 % 16, turn / 3 % 16, turn / 5 % 16].map(|code| code as u64);
                let (mut a, mut b) = ([0; 64], [0; 64]);
                (a[16 * group], a[16 * group + 9]) = (codes[0], codes[1]);
                (b[16 * group], b[16 * group + 9]) = (codes[2], codes[3]);
                let (mut scales_a, mut scales_b) = ([0x38; 4], [0x38; 4]);
                (scales_a[group], scales_b[group]) = (sa, sb);
                let c = C32[turn % C32.len()];
                let found = operation.dot_scaled(&a, &b, c.into(), Scales { a: &scales_a, b: &scales_b });
                let fp4 = |code| match decode(E2m1, code) {
                    Number::Finite { value, .. } => value,
                    other => panic!("{other:?}"),
                };
                let products = fp4(codes[0]) * fp4(codes[2]) + fp4(codes[1]) * fp4(codes[3]);
                let expected = match (value(sa), value(sb)) {
                    (Number::Finite { value: x, exponent: ex }, Number::Finite { value: y, exponent: ey }) => {
                        let term = Summand { units: units(products * x * y), exponent: ex + ey };
                        finish(truncated_sum(&[term, addend(c)], 35), Final::Rz32)
                    }
                    _ => special(f64::NAN, Final::Rz32),
                };
                assert_eq!(found, expected, "{profile}: {codes:?} scaled {sa:#x} {sb:#x} + {c:#x}");
            }
        }
    }
}

/// UE8M0 scales of FP4 groups, every code of A's with codes of B's that bring the product near one; blocks of 16 and of 32.
#[test]
fn every_ue8m0_scale_of_fp4() {
    for block in [16_usize, 32] {
        let operation = operation("sm_120", Family::Mma, M16N8K64, (E2m1, E2m1), (block as u32, Ue8m0));
        for sa in 0..255_u64 {
            for delta in -12..=12_i64 {
                let Ok(sb @ 0..=254) = u64::try_from(254 - sa as i64 + delta) else { continue };
                let turn = (sa as i64 * 31 + delta + 12) as usize;
                let position = turn % 64;
                let (mut a, mut b) = ([0; 64], [0; 64]);
                (a[position], b[position]) = ((turn % 15 + 1) as u64, (turn / 7 % 15 + 1) as u64);
                let (mut scales_a, mut scales_b) = (vec![127; 64 / block], vec![127; 64 / block]);
                (scales_a[position / block], scales_b[position / block]) = (sa, sb);
                let c = C32[turn % C32.len()];
                let found = operation.dot_scaled(&a, &b, c.into(), Scales { a: &scales_a, b: &scales_b });
                let product = multiply(decode(E2m1, a[position]), decode(E2m1, b[position])).unwrap();
                let units = if delta < 0 { product.units >> -delta } else { product.units << delta };
                // The group aligns by its scales alone.
                let term = Summand { units, exponent: delta as i32 };
                let expected = finish(truncated_sum(&[term, addend(c)], 35), Final::Rz32);
                assert_eq!(found, expected, "block {block}: scales {sa:#x} {sb:#x} at {position} + {c:#x}");
            }
        }
    }
}

#[test]
fn infinite_and_nan_accumulators_and_nan_scales() {
    let operation = operation("sm_120", Family::Mma, M16N8K64, (E2m1, E2m1), (16, Ue4m3));
    let dot =
        |c, sa: u64| operation.dot_scaled(&[7; 64], &[7; 64], c, Scales { a: &[0x38, sa, 0x38, 0x38], b: &[0x38; 4] });
    assert_eq!(dot(0x7f80_0000, 0x38), 0x7f80_0000);
    assert_eq!(dot(0xff80_0000, 0x38), 0xff80_0000);
    for (c, scale) in [(0x7f80_0001, 0x38), (0, 0x7f), (0, 0xff), (0x7f80_0000, 0x7f)] {
        assert_eq!(dot(c, scale), 0x7fff_ffff);
    }
    assert_eq!(ilog2(36.0 * 64.0), 11);
    assert_eq!(dot(0, 0xb8), u64::from((36.0_f32 * 64.0).to_bits())); // the sign bit of a scale is ignored
}

/// Under the sentinel a zero UE4M3 scale aligns with exponent -126; a group of zeros takes part with the exponent of its scales.
#[test]
fn zero_policies_of_scaled_groups() {
    let profile = Profile::by_name("sm_120").unwrap();
    let types = Types { a: E2m1, b: E2m1, c: F32, d: F32 };
    let modifier = Modifier::BlockScale { block: 16, scale: Ue8m0 };
    let instruction = Instruction { family: Family::Mma, shape: M16N8K64, types, modifier };
    // Group 0 holds zeros under scales of 2^100; group 1 holds 1 under 2^0.
    let (mut a, mut b) = ([0; 64], [0; 64]);
    (a[16], b[16]) = (2, 2);
    let scales = Scales { a: &[227, 127, 127, 127], b: &[127; 4] };
    let run = |policy| profile.with_zero_policy(policy).mma(&instruction).unwrap().dot_scaled(&a, &b, 0, scales);
    assert_eq!(run(ZeroPolicy::Exclude), 0x3f80_0000);
    assert_eq!(run(ZeroPolicy::SentinelMinus126), 0);
}
