//! Warp functions against the scalar references, at every level of this machine.

use crate::cases::{Random, boundary, triple};
use emulator::scalar::lanes::{self, Warp};
use emulator::scalar::{self, Bf16, Compare, F32, Mods};
use emulator::simd::Level;

const COMPARISONS: [Compare; 14] = [
    Compare::Eq,
    Compare::Ne,
    Compare::Lt,
    Compare::Le,
    Compare::Gt,
    Compare::Ge,
    Compare::Equ,
    Compare::Neu,
    Compare::Ltu,
    Compare::Leu,
    Compare::Gtu,
    Compare::Geu,
    Compare::Num,
    Compare::Nan,
];

/// Runs a warp function at every level and compares each lane with the reference.
macro_rules! same {
    ($name:literal, $warp:expr, $lane:expr, $($arg:ident),+) => {
        let expected: Warp = core::array::from_fn(|lane| $lane($($arg[lane]),+));
        for level in Level::available() {
            let mut out = [0; 32];
            $warp(level, $(&$arg,)+ &mut out);
            for lane in 0..32 {
                assert_eq!(out[lane], expected[lane], "{} {:x?} {level:?}", $name, [$($arg[lane]),+]);
            }
        }
    };
}

fn check<const FTZ: bool>(a: Warp, b: Warp, c: Warp) {
    let mods = Mods { ftz: FTZ, ..Mods::RN };
    same!("add", lanes::add_rn::<FTZ>, |x, y| scalar::add::<F32>(x, y, mods), a, b);
    same!("sub", lanes::sub_rn::<FTZ>, |x, y| scalar::sub::<F32>(x, y, mods), a, b);
    same!("mul", lanes::mul_rn::<FTZ>, |x, y| scalar::mul::<F32>(x, y, mods), a, b);
    same!("add", lanes::add_rn::<FTZ>, |x, y| scalar::add::<F32>(x, y, mods), a, c);
    same!("fma", lanes::fma_rn::<FTZ>, |x, y, z| scalar::fma::<F32>(x, y, z, mods), a, b, c);
    same!("max", lanes::max::<FTZ>, |x, y| scalar::max::<F32>(x, y, false, FTZ), a, b);
    same!("min", lanes::min::<FTZ>, |x, y| scalar::min::<F32>(x, y, false, FTZ), a, b);
    same!("abs", lanes::abs::<FTZ>, |x| scalar::abs::<F32>(x, FTZ), a);
    same!("neg", lanes::neg::<FTZ>, |x| scalar::neg::<F32>(x, FTZ), a);
    for op in COMPARISONS {
        let mask = (0..32).fold(0, |m, i| m | u32::from(scalar::compare::<F32>(op, a[i], b[i], FTZ)) << i);
        for level in Level::available() {
            assert_eq!(lanes::compare(level, op, FTZ, &a, &b), mask, "{op:?} {a:x?} {b:x?} {level:?}");
        }
    }
}

fn check_all(a: Warp, b: Warp, c: Warp) {
    check::<false>(a, b, c);
    check::<true>(a, b, c);
    same!("pack", lanes::pack_bf16x2_rn, |x, y| scalar::pack2::<Bf16>(x, y, Mods::RN), a, b);
    same!("low", lanes::widen_bf16_low, |x: u32| (x & 0xffff) << 16, a);
    same!("high", lanes::widen_bf16_high, |x: u32| x >> 16 << 16, a);
}

#[test]
fn boundary_triples_agree() {
    let patterns = boundary::<F32>();
    let count = patterns.len();
    let mut random = Random::new(31);
    for &a in &patterns {
        for start in (0..count).step_by(32) {
            let b = core::array::from_fn(|lane| patterns[(start + lane) % count]);
            let c = core::array::from_fn(|_| patterns[random.below(count as u64) as usize]);
            check_all([a; 32], b, c);
        }
    }
}

#[test]
fn weighted_random_triples_agree() {
    let mut random = Random::new(32);
    for _ in 0..20_000 {
        let triples: [_; 32] = core::array::from_fn(|_| triple::<F32>(&mut random));
        check_all(triples.map(|t| t.0), triples.map(|t| t.1), triples.map(|t| t.2));
    }
}
