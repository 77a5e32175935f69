//! Forms of the arithmetic: packed, mixed, `.relu`, extended minima, stochastic rounding, atomics, warp reductions.

use crate::cases::{Random, boundary, operand, triple};
use emulator::scalar::{
    self, AtomicOp, AtomicSpace, Bf16, Bf16x2, F16, F16x2, F32, F32x2, F64, Ieee, MinMax, Mods, Packed, ReduxOp,
    Rounding, Signs,
};
use rustc_apfloat::ieee::{BFloat, Half, Single};
use rustc_apfloat::{Float, FloatConvert};

/// The bits of one half.
type Element<P> = <<P as Packed>::Element as Ieee>::Bits;

/// Each half is the scalar operation; the halves do not touch.
fn packed<P: Packed>(seed: u64, join: impl Fn([Element<P>; 2]) -> P::Bits)
where
    P::Bits: PartialEq + core::fmt::Debug,
{
    let mut random = Random::new(seed);
    for _ in 0..50_000 {
        let ((a0, b0, c0), (a1, b1, c1)) = (triple::<P::Element>(&mut random), triple::<P::Element>(&mut random));
        let (a, b, c) = (join([a0, a1]), join([b0, b1]), join([c0, c1]));
        let m = Mods::RN;
        let each = |f: fn(Element<P>, Element<P>, Mods) -> Element<P>| join([f(a0, b0, m), f(a1, b1, m)]);
        assert_eq!(scalar::add_x2::<P>(a, b, m), each(scalar::add::<P::Element>));
        assert_eq!(scalar::sub_x2::<P>(a, b, m), each(scalar::sub::<P::Element>));
        assert_eq!(scalar::mul_x2::<P>(a, b, m), each(scalar::mul::<P::Element>));
        let fma = [scalar::fma::<P::Element>(a0, b0, c0, m), scalar::fma::<P::Element>(a1, b1, c1, m)];
        assert_eq!(scalar::fma_x2::<P>(a, b, c, m), join(fma));
        let min = |x, y| scalar::min::<P::Element>(x, y, true, false);
        assert_eq!(scalar::min_x2::<P>(a, b, true, false), join([min(a0, b0), min(a1, b1)]));
        let max = |x, y| scalar::max::<P::Element>(x, y, false, false);
        assert_eq!(scalar::max_x2::<P>(a, b, false, false), join([max(a0, b0), max(a1, b1)]));
        let neg = |x| scalar::neg::<P::Element>(x, false);
        assert_eq!(scalar::map::<P>(a, neg), join([neg(a0), neg(a1)]));
    }
}

#[test]
fn packed_forms_act_on_each_half() {
    let pair = |[low, high]: [u16; 2]| u32::from(low) + 0x1_0000 * u32::from(high);
    packed::<F16x2>(61, pair);
    packed::<Bf16x2>(62, pair);
    packed::<F32x2>(63, |[low, high]| u64::from(low) + 0x1_0000_0000 * u64::from(high));
}

#[test]
fn mixed_precision_agrees_with_apfloat() {
    let bits = |x: Single| if x.is_nan() { 0x7fff_ffff } else { x.to_bits() as u32 };
    let mut random = Random::new(64);
    for _ in 0..100_000 {
        let (a, b, c) = (operand::<F16>(&mut random), operand::<F16>(&mut random), operand::<F32>(&mut random));
        let (d, e) = (operand::<Bf16>(&mut random), operand::<Bf16>(&mut random));
        let wide = |x: u16| -> Single { Half::from_bits(x.into()).convert(&mut false).value };
        let wide_b = |x: u16| -> Single { BFloat::from_bits(x.into()).convert(&mut false).value };
        let z = Single::from_bits(c.into());
        for mode in crate::apfloat::MODES {
            let (m, r) = (Mods::RN.with_rounding(mode), crate::apfloat::round(mode));
            assert_eq!(scalar::fma_mixed::<F16>(a, b, c, m), bits(wide(a).mul_add_r(wide(b), z, r).value));
            assert_eq!(scalar::fma_mixed::<Bf16>(d, e, c, m), bits(wide_b(d).mul_add_r(wide_b(e), z, r).value));
            assert_eq!(scalar::add_mixed::<F16>(a, c, m), bits(wide(a).add_r(z, r).value));
            assert_eq!(scalar::sub_mixed::<Bf16>(d, c, m), bits(wide_b(d).sub_r(z, r).value));
        }
    }
}

#[test]
fn relu_of_every_16_bit_value() {
    for a in 0..=u16::MAX {
        let (x, y) = (half::f16::from_bits(a), half::bf16::from_bits(a));
        let f16 = if x.is_nan() {
            0x7fff
        } else if x.is_sign_negative() {
            0
        } else {
            a
        };
        let bf16 = if y.is_nan() {
            0x7fff
        } else if y.is_sign_negative() {
            0
        } else {
            a
        };
        assert_eq!((scalar::relu::<F16>(a), scalar::relu::<Bf16>(a)), (f16, bf16), "{a:04x}");
    }
}

#[test]
fn abs_and_neg_of_every_16_bit_value() {
    for a in 0..=u16::MAX {
        let (x, y) = (half::f16::from_bits(a), half::bf16::from_bits(a));
        let expected = |nan: bool, bits: u16| if nan { 0x7fff } else { bits };
        assert_eq!(scalar::neg::<F16>(a, false), expected(x.is_nan(), (-x).to_bits()), "{a:04x}");
        assert_eq!(scalar::neg::<Bf16>(a, false), expected(y.is_nan(), (-y).to_bits()), "{a:04x}");
        assert_eq!(scalar::abs::<F16>(a, false), expected(x.is_nan(), a & 0x7fff), "{a:04x}");
        assert_eq!(scalar::abs::<Bf16>(a, false), expected(y.is_nan(), a & 0x7fff), "{a:04x}");
        // .ftz takes the fraction of what has no exponent, and nothing else.
        let flushed = if x.is_normal() || x.is_infinite() { a } else { a & 0x8000 };
        assert_eq!(scalar::neg::<F16>(a, true), expected(x.is_nan(), flushed ^ 0x8000), "{a:04x}");
    }
}

/// The manual's rules by value, in f64, for all pairs of boundary patterns of f32 and f16.
fn minima<F: Ieee>(value: impl Fn(F::Bits) -> f64) {
    let patterns = boundary::<F>();
    for &a in &patterns {
        for &b in &patterns {
            for signs in [Signs::Kept, Signs::Ignored, Signs::Xored] {
                for nan in [false, true] {
                    let mods = MinMax { nan, ftz: false, signs };
                    let (x, y) = (value(a), value(b));
                    let (x, y) = if signs == Signs::Kept { (x, y) } else { (x.abs(), y.abs()) };
                    // total_cmp puts -0 below +0.
                    let pick = |larger: bool| match (x.is_nan(), y.is_nan()) {
                        (true, true) => None,
                        (true, false) => (!nan).then_some(y),
                        (false, true) => (!nan).then_some(x),
                        _ if x.total_cmp(&y).is_lt() == larger => Some(y),
                        _ => Some(x),
                    };
                    let expected = |larger| {
                        pick(larger).map(|v: f64| {
                            let flip = signs == Signs::Xored && (F::widen(a) ^ F::widen(b)) & F::SIGN != 0;
                            if flip { -v } else { v }
                        })
                    };
                    for (ours, theirs) in [
                        (scalar::min_with::<F>(a, b, mods), expected(false)),
                        (scalar::max_with::<F>(a, b, mods), expected(true)),
                    ] {
                        match theirs {
                            None => assert_eq!(F::widen(ours), F::NAN, "{a:x} {b:x} {mods:?}"),
                            Some(v) => assert!(value(ours).total_cmp(&v).is_eq(), "{a:x} {b:x} {mods:?}: {ours:x} {v}"),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn minima_and_maxima_follow_the_manual() {
    minima::<F32>(|a| f64::from(f32::from_bits(a)));
    minima::<F16>(|a| half::f16::from_bits(a).to_f64());
    minima::<Bf16>(|a| half::bf16::from_bits(a).to_f64());
}

#[test]
fn three_operands_do_not_depend_on_their_order() {
    let mut random = Random::new(65);
    let mods = [MinMax::default(), MinMax { nan: true, ..MinMax::default() }];
    for _ in 0..100_000 {
        let (a, b, c) = triple::<F32>(&mut random);
        for m in mods {
            let min = scalar::min3::<F32>(a, b, c, m);
            let max = scalar::max3::<F32>(a, b, c, m);
            for (x, y, z) in [(a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a)] {
                assert_eq!((scalar::min3::<F32>(x, y, z, m), scalar::max3::<F32>(x, y, z, m)), (min, max));
            }
        }
    }
}

/// Stochastic rounding gives one of the two neighbours, more random bits never less, and each carry where it must be.
#[test]
fn stochastic_rounding_carries_when_the_random_bits_say_so() {
    let mut random = Random::new(66);
    let mode = |r| Mods::RN.with_rounding(r);
    for _ in 0..200_000 {
        let a = operand::<F32>(&mut random);
        let magnitude = a & 0x7fff_ffff;
        let noise = random.next() as u32;
        let toward = scalar::convert::<F32, Bf16>(a, mode(Rounding::TowardZero));
        let away = scalar::convert::<F32, Bf16>(a, mode(if a >> 31 == 1 { Rounding::Down } else { Rounding::Up }));
        let carries = (magnitude & 0xffff) + (noise & 0xffff) > 0xffff;
        let ours = scalar::convert_stochastic::<Bf16>(a, noise, false).expect("bf16 has no open corner");
        assert_eq!(ours, if carries && magnitude < 0x7f80_0000 { away } else { toward }, "{a:08x} {noise:04x}");

        let Ok(ours) = scalar::convert_stochastic::<F16>(a, noise, false) else {
            let exact = scalar::convert::<F16, F32>(scalar::convert::<F32, F16>(a, Mods::RN), Mods::RN) == a;
            assert!(magnitude < 0x3880_0000 && !exact, "{a:08x} is refused");
            continue;
        };
        let toward = scalar::convert::<F32, F16>(a, mode(Rounding::TowardZero));
        let away = scalar::convert::<F32, F16>(a, mode(if a >> 31 == 1 { Rounding::Down } else { Rounding::Up }));
        let carries = (magnitude & 0x1fff) + (noise & 0x1fff) > 0x1fff;
        // Beyond the range there is one answer.
        let expected = if magnitude >= 0x4780_0000 || carries { away } else { toward };
        assert_eq!(ours, expected, "{a:08x} {noise:04x}");
    }
    assert_eq!(scalar::convert_stochastic::<F16>(0x477f_ffff, 0x1fff, true).ok(), Some(0x7bff));
    assert_eq!(scalar::convert_stochastic::<F16>(0xff80_0000, 0, true).ok(), Some(0xfbff));
    assert_eq!(scalar::convert_stochastic::<F16>(0x7f80_0001, 0, true).ok(), Some(0x7fff));
    assert_eq!(scalar::convert_stochastic::<F16>(0x3380_0000, 0, false).ok(), Some(1), "an exact subnormal");
    let error = scalar::convert_stochastic::<F16>(0x3380_0001, 0, false).expect_err("open").to_string();
    assert!(error.contains("cvt.rs") && error.contains("would settle"), "{error}");
}

#[test]
fn atomics_flush_in_global_memory_only() {
    let sum = |space, values: &[u32]| scalar::accumulate::<F32>(AtomicOp::Add, space, 0, values.iter().copied());
    assert_eq!(sum(AtomicSpace::Global, &[1, 1]), 0);
    assert_eq!(sum(AtomicSpace::Shared, &[1, 1]), 2);
    assert_eq!(sum(AtomicSpace::Global, &[0x0080_0001, 0x8080_0000]), 0);
    assert_eq!(sum(AtomicSpace::Shared, &[0x0080_0001, 0x8080_0000]), 1);
    // 1 + 2^-24 + 2^-24 in either order: the order is the caller's.
    let (one, small) = (0x3f80_0000, 0x3380_0000);
    assert_eq!(sum(AtomicSpace::Global, &[one, small, small]), one);
    assert_eq!(sum(AtomicSpace::Global, &[small, small, one]), one + 1);
    let f16 = scalar::accumulate::<F16>(AtomicOp::Add, AtomicSpace::Global, 0, [1, 1]);
    assert_eq!(f16, 2, ".noftz");
    let f64 = scalar::accumulate::<F64>(AtomicOp::Add, AtomicSpace::Global, 0, [1, 1]);
    assert_eq!(f64, 2);
    assert_eq!(scalar::atomic::<F16>(AtomicOp::Min, AtomicSpace::Global, 0x7fff, 0x8000), 0x8000);
    assert_eq!(scalar::atomic::<F16>(AtomicOp::Max, AtomicSpace::Global, 0x8000, 0), 0);
}

#[test]
fn warp_reductions_see_members_only() {
    let mut random = Random::new(67);
    for _ in 0..2_000 {
        let values: [u32; 32] = std::array::from_fn(|_| random.next() as u32);
        let mask = random.next() as u32;
        let members: Vec<u32> = (0..32).filter(|lane| mask >> lane & 1 == 1).map(|lane| values[lane]).collect();
        let sum = members.iter().fold(0_u64, |sum, &v| sum + u64::from(v)) as u32;
        assert_eq!(scalar::redux(ReduxOp::Add, &values, mask), (!members.is_empty()).then_some(sum));
        assert_eq!(scalar::redux(ReduxOp::MaxU32, &values, mask), members.iter().copied().max());
        let signed = members.iter().map(|&v| v as i32).min().map(|v| v as u32);
        assert_eq!(scalar::redux(ReduxOp::MinS32, &values, mask), signed);
        assert_eq!(scalar::redux(ReduxOp::Xor, &values, mask), members.iter().copied().reduce(|a, b| a ^ b));
    }
    let mut values = [0x7fc0_0000_u32; 32];
    assert_eq!(scalar::redux_f32(true, false, false, &values, u32::MAX), Some(0x7fff_ffff));
    values[3] = 0x8000_0000;
    assert_eq!(scalar::redux_f32(true, false, false, &values, u32::MAX), Some(0x8000_0000));
    values[9] = 0;
    assert_eq!(scalar::redux_f32(true, false, false, &values, u32::MAX), Some(0), "+0 > -0");
    assert_eq!(scalar::redux_f32(false, false, false, &values, u32::MAX), Some(0x8000_0000));
    assert_eq!(scalar::redux_f32(false, false, true, &values, u32::MAX), Some(0x7fff_ffff), ".NaN");
    values[4] = 0xc000_0000;
    assert_eq!(scalar::redux_f32(true, true, false, &values, u32::MAX), Some(0x4000_0000), ".abs");
    assert_eq!(scalar::redux_f32(true, true, false, &values, 0), None);
}
