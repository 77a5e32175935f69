//! Every pair of 8-, 6- and 4-bit operands through every rule without scales: one product beside zeros, with and without C.

use crate::model::{Final, Number, Summand, addend, addend16, cut, decode, finish, multiply, special, truncated_sum};
use emulator::format::Elem::{self, Bf8Fnuz, E2m1, E2m3, E3m2, E4m3, E5m2, F16, F32, Fp8Fnuz};
use emulator::mma::{Family, Instruction, M16N8K16, M16N8K32, Modifier, Operation, Shape, Types};
use emulator::profile::{Profile, ZeroPolicy};
use rustc_apfloat::Float;
use rustc_apfloat::ieee::{Half, Single};

/// Accumulators of moderate size, so that the model's integers hold every sum.
pub const C32: [u32; 9] =
    [0, 0x3f80_0000, 0xbf80_0001, 0x3580_0003, 0xb2ff_ffff, 0x4b00_0001, 0xcb7f_ffff, 0x4e80_0000, 0xa500_0001];
const C16: [u16; 7] = [0, 0x3c00, 0xbc01, 0x0401, 0x8400, 0x7bff, 0xe801];

type Expected<'a> = &'a dyn Fn(Result<Summand, f64>, u64) -> u64;

/// Compares one product among zeros with `expected(product, c)`, for every pair of codes.
fn every_pair(profile: &str, instruction: Instruction, expected: Expected<'_>) {
    let operations = [ZeroPolicy::Exclude, ZeroPolicy::SentinelMinus126]
        .map(|policy| Profile::by_name(profile).unwrap().with_zero_policy(policy).mma(&instruction).unwrap());
    let class = Profile::by_name(profile)
        .unwrap()
        .nan_is_a_class(Profile::by_name(profile).unwrap().row(&instruction).unwrap());
    let Types { a: ta, b: tb, c: tc, .. } = instruction.types;
    let k = instruction.shape.k as usize;
    let decoded =
        |elem: Elem| -> Vec<Number> { (0..1 << elem.format().width).map(|bits| decode(elem, bits)).collect() };
    let (rows, columns) = (decoded(ta), decoded(tb));
    let (mut a, mut b) = (vec![0; k], vec![0; k]);
    for (x, &xv) in rows.iter().enumerate() {
        for (y, &yv) in columns.iter().enumerate() {
            let position = (x ^ y) % k;
            (a[position], b[position]) = (x as u64, y as u64);
            let turn = x * 31 + y * 7;
            for (c, operation) in [(0, &operations[0]), (turn, &operations[turn % 2])] {
                let c = if tc == F16 { u64::from(C16[c % C16.len()]) } else { u64::from(C32[c % C32.len()]) };
                let found = operation.dot(&a, &b, c);
                let wanted = expected(multiply(xv, yv), c);
                let nan = |bits| instruction.types.d.format().unpack(bits).is_nan();
                assert!(
                    found == wanted || (class && nan(found) && nan(wanted)),
                    "{profile} {instruction}: {x:#x} * {y:#x} + {c:#x} at {position}: {found:x}, not {wanted:x}"
                );
            }
            (a[position], b[position]) = (0, 0);
        }
    }
}

fn c_of(d: Elem, c: u64) -> Summand {
    if d == F16 { addend16(c as u16) } else { addend(c as u32) }
}

/// The truncated fused sum of one product and C.
fn t_fdpa(fraction: i32, to: Final, d: Elem) -> impl Fn(Result<Summand, f64>, u64) -> u64 {
    move |product, c| match product {
        Ok(p) => finish(truncated_sum(&[p, c_of(d, c)], fraction), to),
        Err(value) => special(value, to),
    }
}

fn mixed(family: Family, shape: Shape, (a, b): (Elem, Elem), d: Elem) -> Instruction {
    Instruction { family, shape, types: Types { a, b, c: d, d }, modifier: Modifier::None }
}

const TILE: Shape = Shape::new(64, 8, 32);
const FP8: [(Elem, Elem); 4] = [(E4m3, E4m3), (E4m3, E5m2), (E5m2, E4m3), (E5m2, E5m2)];

#[test]
fn thirteen_fraction_bits() {
    for pair in FP8 {
        for (profile, family, shape) in [("sm_89", Family::Mma, M16N8K32), ("sm_90", Family::Wgmma, TILE)] {
            every_pair(profile, mixed(family, shape, pair, F32), &t_fdpa(13, Final::RzE8m13, F32));
            every_pair(profile, mixed(family, shape, pair, F16), &t_fdpa(13, Final::Rne16, F16));
        }
    }
}

#[test]
fn twenty_five_fraction_bits() {
    let types = [E4m3, E5m2, E3m2, E2m3, E2m1];
    for pair in types.into_iter().flat_map(|a| types.map(|b| (a, b))) {
        for (profile, family, shape) in [("sm_100", Family::Tcgen05, TILE), ("sm_120", Family::Mma, M16N8K32)] {
            every_pair(profile, mixed(family, shape, pair, F32), &t_fdpa(25, Final::Rz32, F32));
            every_pair(profile, mixed(family, shape, pair, F16), &t_fdpa(25, Final::Rne16, F16));
        }
    }
}

/// One product through two f16 steps survives both exactly (or rounds to f16 once); then C is added by IEEE addition.
#[test]
fn fp8_through_f16() {
    let expected = |d: Elem| {
        move |product: Result<Summand, f64>, c: u64| {
            let to = if d == F16 { Final::Rne16 } else { Final::Rz32 };
            let step = product.map_or_else(|value| special(value, to), |p| finish(p.units, to));
            match d {
                F16 => {
                    let sum = (Half::from_bits(step.into()) + Half::from_bits(c.into())).value;
                    if sum.is_nan() { 0x7fff } else { sum.to_bits() as u64 }
                }
                _ => {
                    let sum = (Single::from_bits(step.into()) + Single::from_bits(c.into())).value;
                    if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() as u64 }
                }
            }
        }
    };
    for pair in FP8 {
        for (profile, shape) in [("sm_90", M16N8K32), ("sm_90", M16N8K16), ("sm_100", M16N8K32)] {
            every_pair(profile, mixed(Family::Mma, shape, pair, F32), &expected(F32));
            every_pair(profile, mixed(Family::Mma, shape, pair, F16), &expected(F16));
        }
    }
}

/// CDNA3: the product cut to 31 bits, C to 24, both downward, below the larger exponent; a C 26 binades down is dropped.
#[test]
fn products_rounded_down_beside_c() {
    let expected = |product: Result<Summand, f64>, c: u64| {
        let p = match product {
            Ok(p) => p,
            Err(value) => return special(value, Final::Rne32),
        };
        let c = addend(c as u32);
        let Some(largest) = [p, c].iter().filter(|t| t.units != 0).map(|t| t.exponent).max() else { return 0 };
        let kept = if c.exponent < largest - 25 { 0 } else { cut(c.units, largest - 24, true) };
        finish(cut(p.units, largest - 31, true) + kept, Final::Rne32)
    };
    for pair in [(Fp8Fnuz, Fp8Fnuz), (Fp8Fnuz, Bf8Fnuz), (Bf8Fnuz, Fp8Fnuz), (Bf8Fnuz, Bf8Fnuz)] {
        for shape in [Shape::new(32, 32, 16), Shape::new(16, 16, 32)] {
            every_pair("gfx942", mixed(Family::Mfma, shape, pair, F32), &expected);
        }
    }
}

/// The suite can fail: a model with one fraction bit fewer disagrees somewhere.
#[test]
fn one_fraction_bit_shows() {
    let instruction = mixed(Family::Mma, M16N8K32, (E4m3, E4m3), F32);
    let operation = Profile::by_name("sm_89").unwrap().mma(&instruction).unwrap();
    let Operation::TFdpa(params) = operation else { panic!("{operation:?}") };
    let narrower = emulator::mma::TFdpa { fraction: params.fraction - 1, ..params };
    let differs = (0..256).any(|x| params.dot(&[x], &[0x08], 0x3f80_0000) != narrower.dot(&[x], &[0x08], 0x3f80_0000));
    assert!(differs);
}
