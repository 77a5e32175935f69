//! The host's own f32 and f64 arithmetic as a second opinion on round-to-nearest.

use crate::cases::{Random, pair, triple};
use emulator::scalar::{self, F32, F64, Mods};

fn same32(ours: u32, theirs: f32) -> bool {
    ours == if theirs.is_nan() { 0x7fff_ffff } else { theirs.to_bits() }
}

fn same64(ours: u64, theirs: f64) -> bool {
    f64::from_bits(ours).is_nan() && theirs.is_nan() || ours == theirs.to_bits()
}

#[test]
fn f32_agrees_with_the_host() {
    let mut random = Random::new(11);
    for _ in 0..2_000_000 {
        let (a, b, c) = triple::<F32>(&mut random);
        let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
        assert!(same32(scalar::fma::<F32>(a, b, c, Mods::RN), x.mul_add(y, z)), "fma {a:x} {b:x} {c:x}");
        let (a, b) = pair::<F32>(&mut random);
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        assert!(same32(scalar::add::<F32>(a, b, Mods::RN), x + y), "add {a:x} {b:x}");
        assert!(same32(scalar::sub::<F32>(a, b, Mods::RN), x - y), "sub {a:x} {b:x}");
        assert!(same32(scalar::mul::<F32>(a, b, Mods::RN), x * y), "mul {a:x} {b:x}");
        assert!(same32(scalar::div::<F32>(a, b, Mods::RN), x / y), "div {a:x} {b:x}");
        assert!(same32(scalar::rcp::<F32>(a, Mods::RN), 1.0 / x), "rcp {a:x}");
        assert!(same32(scalar::sqrt::<F32>(a, Mods::RN), x.sqrt()), "sqrt {a:x}");
    }
}

#[test]
fn f64_agrees_with_the_host() {
    let mut random = Random::new(12);
    for _ in 0..500_000 {
        let (a, b, c) = triple::<F64>(&mut random);
        let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
        assert!(same64(scalar::fma::<F64>(a, b, c, Mods::RN), x.mul_add(y, z)), "fma {a:x} {b:x} {c:x}");
        assert!(same64(scalar::add::<F64>(a, b, Mods::RN), x + y), "add {a:x} {b:x}");
        assert!(same64(scalar::mul::<F64>(a, b, Mods::RN), x * y), "mul {a:x} {b:x}");
        assert!(same64(scalar::div::<F64>(a, b, Mods::RN), x / y), "div {a:x} {b:x}");
        assert!(same64(scalar::sqrt::<F64>(a, Mods::RN), x.sqrt()), "sqrt {a:x}");
    }
}
