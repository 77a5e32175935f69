//! Every arithmetic reference against `rustc_apfloat`, in five roundings and four formats.

use crate::cases::{Random, boundary, operand, pair, triple};
use emulator::scalar::{self, Bf16, F16, F32, F64, Ieee, Int, Mods, Rounding};
use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

/// Those of PTX arithmetic, and ties away from zero, which PTX has for TF32 only.
pub const MODES: [Rounding; 5] =
    [Rounding::NearestEven, Rounding::TowardZero, Rounding::Down, Rounding::Up, Rounding::NearestAway];

pub fn round(rounding: Rounding) -> Round {
    match rounding {
        Rounding::NearestEven => Round::NearestTiesToEven,
        Rounding::NearestAway => Round::NearestTiesToAway,
        Rounding::TowardZero => Round::TowardZero,
        Rounding::Down => Round::TowardNegative,
        Rounding::Up => Round::TowardPositive,
    }
}

/// A format of ours and the same format of the oracle.
pub trait Oracle: Ieee {
    type Float: Float + Copy;

    fn float(bits: Self::Bits) -> Self::Float {
        Self::Float::from_bits(u128::from(Self::widen(bits)))
    }

    /// The oracle's bits, its NaNs replaced by the canonical one.
    fn bits(value: Self::Float) -> u64 {
        if value.is_nan() { Self::NAN } else { value.to_bits() as u64 }
    }
}

impl Oracle for F16 {
    type Float = Half;
}
impl Oracle for Bf16 {
    type Float = BFloat;
}
impl Oracle for F32 {
    type Float = Single;
}
impl Oracle for F64 {
    type Float = Double;
}

/// Our bits with every NaN replaced by the canonical one; narrow formats must already have it.
fn canonical<F: Ieee>(bits: F::Bits) -> u64 {
    let bits = F::widen(bits);
    let is_nan = bits & !F::SIGN > F::INF;
    assert!(!is_nan || F::KEEPS_PAYLOAD || bits == F::NAN, "NaN {bits:x} is not canonical");
    if is_nan { F::NAN } else { bits }
}

fn check2<F: Oracle>(a: F::Bits, b: F::Bits) {
    let (x, y) = (F::float(a), F::float(b));
    for mode in MODES {
        let (mods, r) = (Mods::RN.with_rounding(mode), round(mode));
        let cases = [
            ("add", scalar::add::<F>(a, b, mods), x.add_r(y, r).value),
            ("sub", scalar::sub::<F>(a, b, mods), x.sub_r(y, r).value),
            ("mul", scalar::mul::<F>(a, b, mods), x.mul_r(y, r).value),
            ("div", scalar::div::<F>(a, b, mods), x.div_r(y, r).value),
        ];
        for (name, ours, theirs) in cases {
            assert_eq!(canonical::<F>(ours), F::bits(theirs), "{name} {a:x} {b:x} {mode:?}");
        }
    }
}

fn check3<F: Oracle>(a: F::Bits, b: F::Bits, c: F::Bits) {
    for mode in MODES {
        let ours = scalar::fma::<F>(a, b, c, Mods::RN.with_rounding(mode));
        let theirs = F::float(a).mul_add_r(F::float(b), F::float(c), round(mode)).value;
        assert_eq!(canonical::<F>(ours), F::bits(theirs), "fma {a:x} {b:x} {c:x} {mode:?}");
    }
}

pub fn arithmetic<F: Oracle>(seed: u64, cases: usize) {
    let patterns = boundary::<F>();
    for &a in &patterns {
        for &b in &patterns {
            check2::<F>(a, b);
        }
    }
    let mut random = Random::new(seed);
    for &a in &patterns {
        for &b in &patterns {
            check3::<F>(a, b, patterns[random.below(patterns.len() as u64) as usize]);
        }
    }
    for _ in 0..cases {
        let (a, b) = pair::<F>(&mut random);
        check2::<F>(a, b);
        let (a, b, c) = triple::<F>(&mut random);
        check3::<F>(a, b, c);
    }
}

#[test]
fn f32_arithmetic_agrees() {
    arithmetic::<F32>(1, 150_000);
}

#[test]
fn f16_arithmetic_agrees() {
    arithmetic::<F16>(2, 100_000);
}

#[test]
fn bf16_arithmetic_agrees() {
    arithmetic::<Bf16>(3, 100_000);
}

#[test]
fn f64_arithmetic_agrees() {
    arithmetic::<F64>(4, 100_000);
}

pub fn narrows<S: Oracle, D: Oracle>(a: S::Bits)
where
    S::Float: FloatConvert<D::Float>,
{
    for mode in [Rounding::NearestEven, Rounding::NearestAway, Rounding::TowardZero, Rounding::Down, Rounding::Up] {
        let ours = scalar::convert::<S, D>(a, Mods::RN.with_rounding(mode));
        let theirs = S::float(a).convert_r(round(mode), &mut false).value;
        assert_eq!(canonical::<D>(ours), D::bits(theirs), "cvt {a:x} {mode:?}");
    }
}

#[test]
fn conversions_between_floats_agree() {
    let mut random = Random::new(5);
    let singles = boundary::<F32>().into_iter().chain((0..300_000).map(|_| operand::<F32>(&mut random)));
    for a in singles {
        narrows::<F32, F16>(a);
        narrows::<F32, Bf16>(a);
        narrows::<F32, F64>(a);
    }
    let mut random = Random::new(6);
    for a in boundary::<F64>().into_iter().chain((0..100_000).map(|_| operand::<F64>(&mut random))) {
        narrows::<F64, F32>(a);
        narrows::<F64, F16>(a);
    }
    for a in 0..=u16::MAX {
        narrows::<F16, F32>(a);
        narrows::<Bf16, F32>(a);
        narrows::<F16, Bf16>(a);
        narrows::<Bf16, F16>(a);
    }
}

fn integers<F: Oracle>(a: F::Bits) {
    let x = F::float(a);
    for mode in MODES {
        let integral = scalar::round_to_integral::<F>(a, Mods::RN.with_rounding(mode));
        assert_eq!(canonical::<F>(integral), F::bits(x.round_to_integral(round(mode)).value), "rint {a:x} {mode:?}");
        if x.is_nan() {
            continue; // PTX has its own rule, tested in `rules`
        }
        for int in [Int::S32, Int::U32, Int::S64, Int::U64, Int { bits: 16, signed: true }] {
            let ours = scalar::to_int::<F>(a, int, mode, false);
            let mask = u64::MAX >> (64 - int.bits);
            let theirs = if int.signed {
                x.to_i128_r(int.bits as usize, round(mode), &mut false).value as u64
            } else {
                x.to_u128_r(int.bits as usize, round(mode), &mut false).value as u64
            };
            assert_eq!(ours, theirs & mask, "{a:x} to {int:?} {mode:?}");
        }
    }
}

#[test]
fn conversions_to_integers_agree() {
    let mut random = Random::new(7);
    for a in boundary::<F32>().into_iter().chain((0..100_000).map(|_| operand::<F32>(&mut random))) {
        integers::<F32>(a);
    }
    for a in boundary::<F64>().into_iter().chain((0..50_000).map(|_| operand::<F64>(&mut random))) {
        integers::<F64>(a);
    }
    for a in 0..=u16::MAX {
        integers::<F16>(a);
        integers::<Bf16>(a);
    }
}

#[test]
fn conversions_from_integers_agree() {
    let mut random = Random::new(8);
    let mut values: Vec<u64> = (0..64).flat_map(|i| [1u64 << i, (1 << i) - 1, !(1 << i), (1 << i) + 1]).collect();
    values.extend((0..100_000).map(|_| random.next() >> random.below(64)));
    for value in values {
        for mode in MODES {
            let mods = Mods::RN.with_rounding(mode);
            for (int, exact) in [
                (Int::S32, i128::from(value as i32)),
                (Int::U32, i128::from(value as u32)),
                (Int::S64, i128::from(value as i64)),
                (Int::U64, i128::from(value)),
            ] {
                let single = F32::bits(Single::from_i128_r(exact, round(mode)).value);
                assert_eq!(u64::from(scalar::from_int::<F32>(value, int, mods)), single, "{value:x} {int:?} {mode:?}");
                let half = F16::bits(Half::from_i128_r(exact, round(mode)).value);
                assert_eq!(u64::from(scalar::from_int::<F16>(value, int, mods)), half, "{value:x} {int:?} {mode:?}");
                let double = F64::bits(Double::from_i128_r(exact, round(mode)).value);
                assert_eq!(scalar::from_int::<F64>(value, int, mods), double, "{value:x} {int:?} {mode:?}");
            }
        }
    }
}
