//! What PTX rules beyond IEEE 754: NaN, `.ftz`, `.sat`, signed zeros, clamping, min/max, tf32.

use crate::cases::{Random, operand, pair, triple};
use emulator::scalar::{self, Bf16, Compare, F16, F32, F64, Int, Mods, Rounding};

const ONE: u32 = 0x3f80_0000;
const MINUS_ONE: u32 = 0xbf80_0000;
const MINUS_ZERO: u32 = 0x8000_0000;
const INF: u32 = 0x7f80_0000;
const NAN: u32 = 0x7fff_ffff;
const TINY: u32 = 0x0000_0001;
const MIN_NORMAL: u32 = 0x0080_0000;
const SAT: Mods = Mods { sat: true, ..Mods::RN };

fn mode(rounding: Rounding) -> Mods {
    Mods::RN.with_rounding(rounding)
}

#[test]
fn an_exact_zero_sum_is_negative_only_toward_minus_infinity() {
    for rounding in [Rounding::NearestEven, Rounding::TowardZero, Rounding::Up] {
        assert_eq!(scalar::sub::<F32>(ONE, ONE, mode(rounding)), 0);
        assert_eq!(scalar::add::<F32>(0, MINUS_ZERO, mode(rounding)), 0);
        assert_eq!(scalar::fma::<F32>(ONE, ONE, MINUS_ONE, mode(rounding)), 0);
    }
    assert_eq!(scalar::sub::<F32>(ONE, ONE, mode(Rounding::Down)), MINUS_ZERO);
    assert_eq!(scalar::fma::<F32>(ONE, ONE, MINUS_ONE, mode(Rounding::Down)), MINUS_ZERO);
    assert_eq!(scalar::add::<F32>(MINUS_ZERO, MINUS_ZERO, Mods::RN), MINUS_ZERO);
    assert_eq!(scalar::fma::<F32>(MINUS_ZERO, ONE, MINUS_ZERO, Mods::RN), MINUS_ZERO);
}

#[test]
fn nan_results_are_canonical() {
    assert_eq!(scalar::add::<F32>(0xffc1_2345, ONE, Mods::RN), NAN);
    assert_eq!(scalar::sub::<F32>(INF, INF, Mods::RN), NAN);
    assert_eq!(scalar::mul::<F32>(0, INF, Mods::RN), NAN);
    assert_eq!(scalar::fma::<F32>(0, INF, NAN, Mods::RN), NAN);
    assert_eq!(scalar::sqrt::<F32>(MINUS_ONE, Mods::RN), NAN);
    assert_eq!(scalar::div::<F32>(0, 0, Mods::RN), NAN);
    assert_eq!(scalar::add::<F16>(0x7c01, 0x3c00, Mods::RN), 0x7fff);
    assert_eq!(scalar::convert::<F32, Bf16>(0xff80_0001, Mods::RN), 0x7fff);
    assert_eq!(scalar::neg::<F32>(NAN, false), NAN);
    assert_eq!(scalar::abs::<F32>(0xff80_0001, false), NAN);
}

#[test]
fn f64_keeps_the_first_payload() {
    let (payload, other) = (0xfff0_0000_0000_1234, 0x7ff8_0000_0000_0001);
    assert_eq!(scalar::add::<F64>(payload, other, Mods::RN), payload | 0x0008_0000_0000_0000);
    assert_eq!(scalar::neg::<F64>(other, false), other | 1 << 63);
    assert_eq!(scalar::sub::<F64>(F64_INF, F64_INF, Mods::RN), 0xfff8_0000_0000_0000);
}
const F64_INF: u64 = 0x7ff0_0000_0000_0000;

#[test]
fn ftz_flushes_operands_and_rounded_results() {
    assert_eq!(scalar::add::<F32>(TINY, MINUS_ZERO | TINY, Mods::RN_FTZ), 0);
    assert_eq!(scalar::add::<F32>(MIN_NORMAL + 1, MINUS_ZERO | MIN_NORMAL, Mods::RN_FTZ), 0);
    assert_eq!(scalar::sub::<F32>(MIN_NORMAL, MIN_NORMAL + 1, Mods::RN_FTZ), MINUS_ZERO);
    assert_eq!(scalar::mul::<F32>(0x807f_ffff, INF, Mods::RN_FTZ), NAN);
    // (1 - 2^-24) * 2^-126 rounds up to the smallest normal number: tested after rounding, it stays.
    assert_eq!(scalar::mul::<F32>(MIN_NORMAL, 0x3f7f_ffff, Mods::RN_FTZ), MIN_NORMAL);
    assert_eq!(scalar::mul::<F32>(MIN_NORMAL, 0x3f7f_ffff, Mods { rounding: Rounding::TowardZero, ..Mods::RN_FTZ }), 0);
    assert_eq!(scalar::neg::<F32>(TINY, true), MINUS_ZERO);
    assert_eq!(scalar::rcp::<F32>(0x7f00_0000, Mods::RN_FTZ), 0);
    assert_eq!(scalar::rcp::<F32>(0x7f00_0000, Mods::RN), 0x0040_0000);
    assert!(scalar::compare::<F32>(Compare::Eq, TINY, 0, true));
    assert!(!scalar::compare::<F32>(Compare::Eq, TINY, 0, false));
}

/// `.ftz` is flushing the operands, computing, flushing the result; in that order and no more.
#[test]
fn ftz_is_flush_compute_flush() {
    let flush = |x: u32| if x & 0x7f80_0000 == 0 { x & MINUS_ZERO } else { x };
    let mut random = Random::new(41);
    for _ in 0..200_000 {
        let (a, b, c) = triple::<F32>(&mut random);
        for rounding in [Rounding::NearestEven, Rounding::TowardZero, Rounding::Down, Rounding::Up] {
            let (keep, ftz) = (mode(rounding), Mods { ftz: true, ..mode(rounding) });
            let (x, y, z) = (flush(a), flush(b), flush(c));
            assert_eq!(scalar::fma::<F32>(a, b, c, ftz), flush(scalar::fma::<F32>(x, y, z, keep)));
            assert_eq!(scalar::add::<F32>(a, c, ftz), flush(scalar::add::<F32>(x, z, keep)));
            assert_eq!(scalar::mul::<F32>(a, b, ftz), flush(scalar::mul::<F32>(x, y, keep)));
            assert_eq!(scalar::div::<F32>(a, b, ftz), flush(scalar::div::<F32>(x, y, keep)));
        }
    }
}

#[test]
fn sat_clamps_to_the_unit_interval() {
    let half = 0x3f00_0000;
    assert_eq!(scalar::add::<F32>(ONE, half, SAT), ONE);
    assert_eq!(scalar::add::<F32>(INF, half, SAT), ONE);
    assert_eq!(scalar::add::<F32>(half, 0, SAT), half);
    assert_eq!(scalar::add::<F32>(MINUS_ONE, 0, SAT), 0);
    assert_eq!(scalar::add::<F32>(MINUS_ZERO, MINUS_ZERO, SAT), 0);
    assert_eq!(scalar::add::<F32>(NAN, ONE, SAT), 0);
    assert_eq!(scalar::mul::<F32>(0, INF, SAT), 0);
    assert_eq!(scalar::convert::<F32, F16>(0x40a0_0000, SAT), 0x3c00);
}

#[test]
fn min_and_max_prefer_numbers_and_order_zeros() {
    assert_eq!(scalar::min::<F32>(0, MINUS_ZERO, false, false), MINUS_ZERO);
    assert_eq!(scalar::max::<F32>(MINUS_ZERO, 0, false, false), 0);
    assert_eq!(scalar::min::<F32>(NAN, ONE, false, false), ONE);
    assert_eq!(scalar::max::<F32>(ONE, 0xff80_0001, false, false), ONE);
    assert_eq!(scalar::max::<F32>(ONE, 0xff80_0001, true, false), NAN);
    assert_eq!(scalar::min::<F32>(0xffff_ffff, 0x7f80_0001, false, false), NAN);
    assert_eq!(scalar::max::<F32>(TINY, MINUS_ONE, false, true), 0);
    let mut random = Random::new(42);
    for _ in 0..200_000 {
        let (a, b) = pair::<F32>(&mut random);
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        if x.partial_cmp(&y).is_some_and(core::cmp::Ordering::is_ne) {
            assert_eq!(scalar::min::<F32>(a, b, true, false), x.min(y).to_bits());
            assert_eq!(scalar::max::<F32>(a, b, true, false), x.max(y).to_bits());
        }
    }
}

#[test]
fn comparisons_agree_with_the_host() {
    let mut random = Random::new(43);
    for _ in 0..300_000 {
        let (a, b) = pair::<F32>(&mut random);
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        let unordered = x.is_nan() || y.is_nan();
        for (ordered, or_unordered, expected) in [
            (Compare::Eq, Compare::Equ, x == y),
            (Compare::Ne, Compare::Neu, x.partial_cmp(&y).is_some_and(core::cmp::Ordering::is_ne)),
            (Compare::Lt, Compare::Ltu, x < y),
            (Compare::Le, Compare::Leu, x <= y),
            (Compare::Gt, Compare::Gtu, x > y),
            (Compare::Ge, Compare::Geu, x >= y),
            (Compare::Num, Compare::Nan, !unordered),
        ] {
            assert_eq!(scalar::compare::<F32>(ordered, a, b, false), expected, "{ordered:?} {a:x} {b:x}");
            let loose = if or_unordered == Compare::Nan { unordered } else { expected || unordered };
            assert_eq!(scalar::compare::<F32>(or_unordered, a, b, false), loose, "{or_unordered:?} {a:x} {b:x}");
        }
    }
}

#[test]
fn nan_to_integer_depends_on_the_widths() {
    assert_eq!(scalar::to_int::<F32>(NAN, Int::S32, Rounding::TowardZero, false), 0);
    assert_eq!(scalar::to_int::<F16>(0x7fff, Int::U32, Rounding::NearestEven, false), 0);
    assert_eq!(scalar::to_int::<F32>(NAN, Int::S64, Rounding::TowardZero, false), 1 << 63);
    assert_eq!(scalar::to_int::<F64>(u64::MAX >> 1, Int::S32, Rounding::TowardZero, false), 1 << 31);
    assert_eq!(scalar::to_int::<F32>(INF, Int::S32, Rounding::TowardZero, false), 0x7fff_ffff);
    assert_eq!(scalar::to_int::<F32>(MINUS_ONE, Int::U32, Rounding::TowardZero, false), 0);
    assert_eq!(scalar::to_int::<F32>(MINUS_ONE, Int::S32, Rounding::TowardZero, false), 0xffff_ffff);
    assert_eq!(scalar::to_int::<F32>(TINY, Int::S32, Rounding::Up, false), 1);
    assert_eq!(scalar::to_int::<F32>(TINY, Int::S32, Rounding::Up, true), 0);
}

#[test]
fn satfinite_stops_at_the_largest_finite_number() {
    assert_eq!(scalar::convert_satfinite::<F32, F16>(0x477f_f000, Mods::RN), 0x7bff);
    assert_eq!(scalar::convert_satfinite::<F32, F16>(INF | MINUS_ZERO, Mods::RN), 0xfbff);
    assert_eq!(scalar::convert_satfinite::<F32, Bf16>(0x7f7f_ffff, Mods::RN), 0x7f7f);
    assert_eq!(scalar::convert_satfinite::<F32, F16>(NAN, Mods::RN), 0x7fff);
    assert_eq!(scalar::convert::<F32, F16>(0x477f_f000, Mods::RN), 0x7c00);
    assert_eq!(scalar::convert::<F32, F16>(0x477f_f000, mode(Rounding::TowardZero)), 0x7bff);
}

#[test]
fn packing_puts_the_first_source_high() {
    assert_eq!(scalar::pack2::<Bf16>(ONE, MINUS_ONE, Mods::RN), 0x3f80_bf80);
    assert_eq!(scalar::pack2::<F16>(ONE, MINUS_ONE, Mods::RN), 0x3c00_bc00);
}

#[test]
fn narrow_formats_widen_exactly_and_come_back() {
    for a in 0..=u16::MAX {
        let half = scalar::widen_f16(a);
        let back = scalar::convert::<F32, F16>(half, Mods::RN);
        assert_eq!(back, if a & 0x7fff > 0x7c00 { 0x7fff } else { a });
        let brain = scalar::widen_bf16(a);
        assert_eq!(brain, if a & 0x7fff > 0x7f80 { NAN } else { u32::from(a) << 16 });
        assert_eq!(scalar::convert::<F32, Bf16>(brain, Mods::RN), if a & 0x7fff > 0x7f80 { 0x7fff } else { a });
    }
}

#[test]
fn tf32_rounds_to_eleven_significant_bits() {
    let mut random = Random::new(44);
    for _ in 0..500_000 {
        let a = operand::<F32>(&mut random);
        if a & 0x7fff_ffff > INF {
            assert_eq!(scalar::f32_to_tf32(a, Rounding::NearestAway), NAN);
            continue;
        }
        let (down, low) = (a >> 13 << 13, a & 0x1fff);
        let away = if low == 0 { a } else { down + 0x2000 };
        let nearest_away = if low >= 0x1000 { away } else { down };
        let tie_to_even = if (down >> 13) & 1 == 1 { away } else { down };
        let nearest_even = if low == 0x1000 { tie_to_even } else { nearest_away };
        assert_eq!(scalar::f32_to_tf32(a, Rounding::NearestAway), nearest_away);
        assert_eq!(scalar::f32_to_tf32(a, Rounding::NearestEven), nearest_even);
        assert_eq!(scalar::f32_to_tf32(a, Rounding::TowardZero), down);
        assert_eq!(scalar::f32_to_tf32(a, Rounding::Up), if a >> 31 == 0 { away } else { down });
        assert_eq!(scalar::f32_to_tf32(a, Rounding::Down), if a >> 31 == 0 { down } else { away });
    }
    assert_eq!(scalar::f32_to_tf32(0x7f7f_ffff, Rounding::NearestAway), INF);
    assert_eq!(scalar::f32_to_tf32(0x7f80_0001, Rounding::TowardZero), NAN);
}
