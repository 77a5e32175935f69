//! All 2^32 operands of RCP, RSQ and EX2 against a slow model that shares no code with the unit: it reads the committed
//! text itself, squares bit by bit, tabulates one period of the function as f64 values, and extends it by exact
//! multiplications with powers of two.

use emulator::mufu::{self, MufuTables};

const PROFILE: &str = include_str!("../../data/mufu-g80.txt");

/// The rows of a function, from the text.
fn rows(name: &str) -> Vec<[i128; 3]> {
    let mut lines = PROFILE.lines().skip_while(|line| line.split(' ').next() != Some(name));
    let count: usize = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a size").parse().expect("a number");
    let numbers = |line: &str| -> Vec<i128> { line.split(' ').map(|n| n.parse().expect("a number")).collect() };
    lines.take(count).map(|line| numbers(line).try_into().expect("three numbers")).collect()
}

/// The truncated squarer as the specification writes it.
fn sq(r: u32) -> i128 {
    let mut acc = 0_u32;
    for i in 0..17 {
        if r & (1 << i) != 0 {
            acc += r >> (18 - i);
        }
    }
    i128::from(acc >> 1)
}

/// Significands in units of 2^-24 for every fraction: 6.2 to 6.4 of the specification.
fn significands(name: &str, fractions: u32, sum: impl Fn([i128; 3], u32) -> i128, bits: u32) -> Vec<f64> {
    let rows = rows(name);
    (0..fractions).map(|g| libm::ldexp(sum(rows[(g >> bits) as usize], g & ((1 << bits) - 1)) as f64, -24)).collect()
}

/// An exact value as the unit packs it: subnormals to zero, overflow to infinity.
fn packed(value: f64) -> u32 {
    let magnitude = value.abs();
    let sign = u32::from(value.is_sign_negative()) << 31;
    if magnitude < f64::from(f32::MIN_POSITIVE) {
        sign
    } else if magnitude > f64::from(f32::MAX) {
        sign | 0x7f80_0000
    } else {
        (value as f32).to_bits()
    }
}

/// 2^n, exactly.
fn power(n: i32) -> f64 {
    f64::from_bits(((1023 + n) as u64) << 52)
}

/// Compares every operand, on all cores.
fn every(name: &str, unit: fn(&MufuTables, u32) -> u32, slow: impl Fn(u32) -> u32 + Sync) {
    let tables = MufuTables::g80();
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = (1_u64 << 32).div_ceil(threads);
    std::thread::scope(|scope| {
        for t in 0..threads {
            let slow = &slow;
            scope.spawn(move || {
                for x in t * share..((t + 1) * share).min(1 << 32) {
                    let x = x as u32;
                    let (ours, theirs) = (unit(tables, x), slow(x));
                    assert!(ours == theirs, "{name}({x:08x}) = {ours:08x}, the slow model says {theirs:08x}");
                }
            });
        }
    });
}

#[test]
#[ignore = "deep: all 2^32 operands"]
fn every_reciprocal_agrees() {
    // Significand of 2/x for x in [1, 2), so halved here.
    let table =
        significands("rcp", 1 << 23, |[a, b, c], r| (a * 8192 + b * i128::from(r) + c * sq(2 * r) + 0x47e7) >> 15, 16);
    every("rcp", mufu::rcp, |x| {
        let v = f32::from_bits(x);
        if v.is_nan() {
            0x7fff_ffff
        } else if v == 0.0 || v.is_subnormal() {
            0x7f80_0000 | x & 0x8000_0000
        } else if v.is_infinite() {
            x & 0x8000_0000
        } else {
            let e = ((x >> 23) & 0xff) as i32 - 127;
            let y = table[(x & 0x7f_ffff) as usize] * power(-e);
            packed(if v < 0.0 { -y } else { y })
        }
    });
}

#[test]
#[ignore = "deep: all 2^32 operands"]
fn every_reciprocal_root_agrees() {
    let sum = |[a, b, c]: [i128; 3], r: u32| (a * 16384 + b * i128::from(r) + 4 * c * sq(r) + 0x7fff) >> 16;
    let mut table = significands("rsq", 1 << 24, sum, 17);
    table[0] = 1.0; // powers of four are exact
    every("rsq", mufu::rsq, |x| {
        let v = f32::from_bits(x);
        if v.is_nan() {
            0x7fff_ffff
        } else if v == 0.0 || v.is_subnormal() {
            0x7f80_0000 | x & 0x8000_0000
        } else if v < 0.0 {
            0x7fff_ffff
        } else if v.is_infinite() {
            0
        } else {
            let e = (x >> 23) as i32 - 127;
            let odd = e & 1;
            packed(table[(odd as usize) << 23 | (x & 0x7f_ffff) as usize] * power(-(e - odd) / 2))
        }
    });
}

#[test]
#[ignore = "deep: all 2^32 operands"]
fn every_exponential_agrees() {
    let table =
        significands("ex2", 1 << 23, |[a, b, c], r| (a * 8192 + b * i128::from(r) + c * sq(r) + 0x77e2) >> 15, 17);
    every("ex2", mufu::ex2, |x| {
        let v = f32::from_bits(x);
        if v.is_nan() {
            0x7fff_ffff
        } else if v >= 128.0 {
            0x7f80_0000
        } else if v <= -128.0 {
            0
        } else {
            // Steps of 2^-23 from zero; a negative operand that is not whole lands one step lower.
            let steps = (f64::from(v.abs()) * 8_388_608.0) as i64;
            let steps = match (v < 0.0, steps % 8_388_608) {
                (false, _) => steps,
                (true, 0) => -steps,
                (true, _) => -steps - 1,
            };
            let (n, g) = (steps.div_euclid(8_388_608), steps.rem_euclid(8_388_608));
            packed(2.0 * table[g as usize] * power(n as i32))
        }
    });
}
