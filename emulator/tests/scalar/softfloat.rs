//! Berkeley SoftFloat as a second oracle for f32, f16 and f64, and the only one for square roots in every rounding.
#![allow(unsafe_code)]

use crate::apfloat::MODES;
use crate::cases::{Random, boundary, operand, pair, triple};
use emulator::scalar::{self, F16, F32, F64, Mods, Rounding};
use softfloat_rs as sf;

/// Runs `op` with the library's rounding mode set.
fn with_mode<T>(mode: Rounding, op: impl FnOnce() -> T) -> T {
    let code = match mode {
        Rounding::NearestEven => sf::softfloat_round_near_even,
        Rounding::NearestAway => sf::softfloat_round_near_maxMag,
        Rounding::TowardZero => sf::softfloat_round_minMag,
        Rounding::Down => sf::softfloat_round_min,
        Rounding::Up => sf::softfloat_round_max,
    };
    // SAFETY: writes one thread-local byte of the library; its functions are pure but for this and the flags.
    unsafe { sf::softfloat_roundingMode_write_helper(code) };
    op()
}

fn canonical(bits: u64, sign: u64, inf: u64) -> u64 {
    if bits & !sign > inf { sign - 1 } else { bits }
}

fn f32_bits(x: sf::float32_t) -> u64 {
    canonical(u64::from(x.v), 1 << 31, 0x7f80_0000)
}

fn f16_bits(x: sf::float16_t) -> u64 {
    canonical(u64::from(x.v), 1 << 15, 0x7c00)
}

fn f64_bits(x: sf::float64_t) -> u64 {
    canonical(x.v, 1 << 63, 0x7ff0_0000_0000_0000)
}

#[test]
fn f32_agrees_with_softfloat() {
    single(21, 200_000);
}

#[test]
fn f16_agrees_with_softfloat() {
    half(22, 150_000);
}

#[test]
fn f64_agrees_with_softfloat() {
    double(24, 60_000);
}

pub fn double(seed: u64, cases: usize) {
    let mut random = Random::new(seed);
    for _ in 0..cases {
        let (a, b, c) = triple::<F64>(&mut random);
        let (x, y, z) = (sf::float64_t { v: a }, sf::float64_t { v: b }, sf::float64_t { v: c });
        for mode in MODES {
            let mods = Mods::RN.with_rounding(mode);
            // SAFETY: plain C functions of plain values.
            let theirs = with_mode(mode, || unsafe {
                [sf::f64_add(x, z), sf::f64_mul(x, y), sf::f64_div(x, y), sf::f64_mulAdd(x, y, z), sf::f64_sqrt(x)]
            });
            let ours = [
                scalar::add::<F64>(a, c, mods),
                scalar::mul::<F64>(a, b, mods),
                scalar::div::<F64>(a, b, mods),
                scalar::fma::<F64>(a, b, c, mods),
                scalar::sqrt::<F64>(a, mods),
            ];
            let ours = ours.map(|v| f64_bits(sf::float64_t { v }));
            assert_eq!(ours, theirs.map(f64_bits), "{a:x} {b:x} {c:x} {mode:?}");
        }
    }
}

pub fn single(seed: u64, cases: usize) {
    let mut random = Random::new(seed);
    for round in 0..cases {
        let (a, b, c) = if round % 2 == 0 {
            triple::<F32>(&mut random)
        } else {
            let (a, b) = pair::<F32>(&mut random);
            (a, b, operand::<F32>(&mut random))
        };
        let (x, y, z) = (sf::float32_t { v: a }, sf::float32_t { v: b }, sf::float32_t { v: c });
        for mode in MODES {
            let mods = Mods::RN.with_rounding(mode);
            // SAFETY: plain C functions of plain values.
            let theirs = with_mode(mode, || unsafe {
                [sf::f32_add(x, y), sf::f32_mul(x, y), sf::f32_div(x, y), sf::f32_mulAdd(x, y, z), sf::f32_sqrt(x)]
            });
            let ours = [
                scalar::add::<F32>(a, b, mods),
                scalar::mul::<F32>(a, b, mods),
                scalar::div::<F32>(a, b, mods),
                scalar::fma::<F32>(a, b, c, mods),
                scalar::sqrt::<F32>(a, mods),
            ];
            assert_eq!(ours.map(u64::from), theirs.map(f32_bits), "{a:x} {b:x} {c:x} {mode:?}");
        }
    }
}

pub fn half(seed: u64, cases: usize) {
    let mut random = Random::new(seed);
    for _ in 0..cases {
        let (a, b, c) = triple::<F16>(&mut random);
        let (x, y, z) = (sf::float16_t { v: a }, sf::float16_t { v: b }, sf::float16_t { v: c });
        for mode in MODES {
            let mods = Mods::RN.with_rounding(mode);
            // SAFETY: plain C functions of plain values.
            let theirs = with_mode(mode, || unsafe {
                [sf::f16_add(x, y), sf::f16_mul(x, y), sf::f16_div(x, y), sf::f16_mulAdd(x, y, z)]
            });
            let ours = [
                scalar::add::<F16>(a, b, mods),
                scalar::mul::<F16>(a, b, mods),
                scalar::div::<F16>(a, b, mods),
                scalar::fma::<F16>(a, b, c, mods),
            ];
            assert_eq!(ours.map(u64::from), theirs.map(f16_bits), "{a:x} {b:x} {c:x} {mode:?}");
        }
    }
}

#[test]
fn every_f16_square_root_agrees() {
    for a in 0..=u16::MAX {
        let x = sf::float16_t { v: a };
        for mode in MODES {
            let mods = Mods::RN.with_rounding(mode);
            // SAFETY: plain C functions of plain values.
            let root = with_mode(mode, || unsafe { sf::f16_sqrt(x) });
            assert_eq!(u64::from(scalar::sqrt::<F16>(a, mods)), f16_bits(root), "sqrt {a:x} {mode:?}");
        }
    }
}

#[test]
fn f64_square_roots_agree() {
    let mut random = Random::new(23);
    for a in boundary::<F64>().into_iter().chain((0..100_000).map(|_| operand::<F64>(&mut random))) {
        for mode in MODES {
            // SAFETY: a plain C function of plain values.
            let root = with_mode(mode, || unsafe { sf::f64_sqrt(sf::float64_t { v: a }) });
            let ours = scalar::sqrt::<F64>(a, Mods::RN.with_rounding(mode));
            let (sign, inf) = (1 << 63, 0x7ff0_0000_0000_0000);
            assert_eq!(canonical(ours, sign, inf), canonical(root.v, sign, inf), "sqrt {a:x} {mode:?}");
        }
    }
}
