//! The rules of AMD's matrix units against models written for this test: exact sums in 128-bit integers, IEEE steps by `rustc_apfloat`.

use emulator::mma::Instruction;
use emulator::profile::Profile;
use rustc_apfloat::ieee::{Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round, Status, StatusAnd};

/// Sums are counted in units of `2^-BASE`: f16 products reach down to `2^-48`, the accumulators drawn here to `2^-64`.
const BASE: i32 = 64;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }

    /// A finite f16: mostly a few exponents, so that sums cancel; sometimes any, subnormals and zeros included.
    fn f16(&mut self) -> u64 {
        match self.next() % 8 {
            0 => self.next() & 0x83ff,
            1 => (self.next() & 0x8000) | (self.next() % 31) << 10 | (self.next() & 0x3ff),
            2 => self.next() & 0x8000,
            _ => (self.next() & 0x83ff) | (12 + self.next() % 6) << 10,
        }
    }

    /// An f32 between 2^-40 and 2^30, or a zero.
    fn f32(&mut self) -> u32 {
        let sign = (self.next() as u32 & 1) << 31;
        match self.next() % 8 {
            0 => sign,
            1 => sign | (87 + (self.next() % 70) as u32) << 23 | (self.next() as u32 & 0x007f_ffff),
            _ => sign | (117 + (self.next() % 20) as u32) << 23 | (self.next() as u32 & 0x007f_ffff),
        }
    }
}

/// `2^exponent`, for exponents of normal numbers.
fn pow2(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

fn units(value: f64) -> i128 {
    let scaled = value * pow2(BASE);
    assert!(scaled == scaled.trunc() && scaled.abs() < pow2(126), "{value}");
    scaled as i128
}

fn half(bits: u64) -> f64 {
    let mut loses = false;
    let StatusAnd { value, .. } = Half::from_bits(u128::from(bits)).convert(&mut loses);
    let value: Single = value;
    f64::from(f32::from_bits(value.to_bits() as u32))
}

/// The f32 nearest `sum * 2^-BASE`, by quadruple precision.
fn nearest(sum: i128) -> u32 {
    let StatusAnd { value, status } = Quad::from_i128_r(sum, Round::NearestTiesToEven);
    assert_eq!(status, Status::OK);
    let mut loses = false;
    let single: Single = value.scalbn(-BASE).convert_r(Round::NearestTiesToEven, &mut loses).value;
    single.to_bits() as u32
}

fn check(profile: &str, text: &str, rounds: usize, model: impl Fn(&[u64], &[u64], u32) -> u32) {
    let instruction = Instruction::parse("mfma", text).unwrap();
    let operation = Profile::by_name(profile).unwrap().mma(&instruction).unwrap();
    let mut random = Random(0x5eed ^ text.len() as u64);
    for round in 0..rounds {
        let mut draw = || -> Vec<u64> { (0..instruction.shape.k).map(|_| random.f16()).collect() };
        let (a, b) = (draw(), draw());
        let c = random.f32();
        let (found, expected) = (operation.dot(&a, &b, u64::from(c)) as u32, model(&a, &b, c));
        assert_eq!(found, expected, "{profile} {text} {round}: {a:x?} {b:x?} {c:#x}: {found:x}, not {expected:x}");
    }
}

#[test]
fn cdna1_rounds_an_exact_sum_once_for_four_products() {
    let model = |a: &[u64], b: &[u64], c: u32| {
        a.chunks(4).zip(b.chunks(4)).fold(c, |d, (a, b)| {
            let products: i128 = a.iter().zip(b).map(|(&x, &y)| units(half(x) * half(y))).sum();
            // An accumulator of an earlier step may have more digits than the units hold: f32 steps here are at least 2^-40.
            nearest(products + units(f64::from(f32::from_bits(d))))
        })
    };
    check("gfx908", "f32_32x32x8f16", 40_000, model);
    check("gfx908", "f32_4x4x4f16", 40_000, model);
}

fn flushed(x: Single) -> Single {
    if x.is_denormal() { if x.is_negative() { -Single::ZERO } else { Single::ZERO } } else { x }
}

#[test]
fn cdna2_multiplies_and_adds_and_flushes() {
    let operand = |bits: u64| {
        let positive_zero = bits & 0x7c00 == 0 && bits & 0x3ff != 0;
        Single::from_bits(u128::from(if positive_zero { 0 } else { (half(bits) as f32).to_bits() }))
    };
    let model = |a: &[u64], b: &[u64], c: u32| {
        let groups = a.chunks(4).zip(b.chunks(4));
        let sum = groups.fold(Single::from_bits(u128::from(c)), |d, (a, b)| {
            let p: Vec<Single> = a.iter().zip(b).map(|(&x, &y)| flushed((operand(x) * operand(y)).value)).collect();
            let add = |x: Single, y: Single| flushed((x + y).value);
            add(d, add(add(p[0], p[1]), add(p[2], p[3])))
        });
        sum.to_bits() as u32
    };
    check("gfx90a", "f32_32x32x8f16", 40_000, model);
    check("gfx90a", "f32_16x16x16f16", 20_000, model);
}

/// CDNA2 bf16, where products and sums underflow: every step against IEEE f32 with flushing.
#[test]
fn cdna2_bf16_flushes_intermediate_results() {
    for (text, group) in [("f32_32x32x4bf16", 2), ("f32_32x32x8bf16_1k", 4)] {
        let instruction = Instruction::parse("mfma", text).unwrap();
        let operation = Profile::by_name("gfx90a").unwrap().mma(&instruction).unwrap();
        let mut random = Random(99);
        // Exponents around 2^-63, so that products lie around the smallest normal number.
        let draw = |random: &mut Random| {
            let exponent = if random.next().is_multiple_of(6) { random.next() % 3 } else { 58 + random.next() % 10 };
            (random.next() & 0x807f) | exponent << 7
        };
        let mut flushes = 0;
        for round in 0..40_000 {
            let k = instruction.shape.k as usize;
            let a: Vec<u64> = (0..k).map(|_| draw(&mut random)).collect();
            let b: Vec<u64> = (0..k).map(|_| draw(&mut random)).collect();
            let c = (random.next() as u32 & 0x807f_ffff) | ((random.next() % 6) as u32) << 23;
            let operand = |bits: u64| {
                let subnormal = bits & 0x7f80 == 0 && bits & 0x7f != 0;
                Single::from_bits(u128::from(if subnormal { 0 } else { bits << 16 }))
            };
            let c_in = if c & 0x7f80_0000 == 0 && c & 0x007f_ffff != 0 { 0 } else { c };
            let mut step = |x: Single| {
                flushes += usize::from(x.is_denormal());
                flushed(x)
            };
            let mut d = Single::from_bits(u128::from(c_in));
            for (a, b) in a.chunks(group).zip(b.chunks(group)) {
                let p: Vec<Single> = a.iter().zip(b).map(|(&x, &y)| step((operand(x) * operand(y)).value)).collect();
                let mut sum = step((p[0] + p[1]).value);
                if group == 4 {
                    let upper = step((p[2] + p[3]).value);
                    sum = step((sum + upper).value);
                }
                d = step((d + sum).value);
            }
            let found = operation.dot(&a, &b, u64::from(c)) as u32;
            assert_eq!(found, d.to_bits() as u32, "{text} {round}: {a:x?} {b:x?} {c:#x}");
        }
        assert!(flushes > 1_000, "{text}: {flushes}");
    }
}

#[test]
fn cdna3_cuts_products_toward_zero_and_the_sum_down() {
    let exponent = |value: f64, least: i32| (((value.to_bits() >> 52 & 0x7ff) as i32) - 1023).max(least);
    let model = |a: &[u64], b: &[u64], c: u32| {
        a.chunks(8).zip(b.chunks(8)).fold(c, |d, (a, b)| {
            let pairs = a.iter().zip(b).map(|(&x, &y)| (half(x), half(y))).filter(|(x, y)| x * y != 0.0);
            // Unnormalised: the exponent of each operand, not of their product.
            let products: Vec<(i128, i32)> =
                pairs.map(|(x, y)| (units(x * y), exponent(x, -14) + exponent(y, -14))).collect();
            let c = f64::from(f32::from_bits(d));
            let (c, ec) = (units(c), if c == 0.0 { None } else { Some(exponent(c, -126)) });
            let unit = |e: i32| 1_i128 << (e + BASE).max(0);
            let e1 = products.iter().map(|p| p.1).max();
            let Some(e) = e1.max(ec) else { return 0 };
            let sum: i128 = e1.map_or(0, |e1| products.iter().map(|p| p.0 / unit(e1 - 24) * unit(e1 - 24)).sum());
            let down = |x: i128, e: i32| x.div_euclid(unit(e)) * unit(e);
            nearest(down(sum, e - 31) + down(c, e - 24))
        })
    };
    for text in ["f32_32x32x8_f16", "f32_16x16x16_f16", "f32_4x4x4_16b_f16"] {
        check("gfx942", text, 40_000, model);
    }
}

/// bf16 products of magnitude `2^128` and more are infinities on CDNA3, unless a true special decides first.
#[test]
fn cdna3_products_overflow_to_infinity() {
    let operation = |text| {
        let instruction = Instruction::parse("mfma", text).unwrap();
        Profile::by_name("gfx942").unwrap().mma(&instruction).unwrap()
    };
    let bf16 = operation("f32_32x32x4_2b_bf16");
    let dot = |a: [u64; 4], b: [u64; 4], c| bf16.dot(&a, &b, c);
    let is_nan = |bits: u64| f32::from_bits(bits as u32).is_nan();
    assert_eq!(dot([0x6000, 0, 0, 0], [0x5f80, 0, 0, 0], 0), 0x7f80_0000); // 2^65 * 2^64
    assert_eq!(dot([0xdf80, 0, 0, 0], [0x5f80, 0, 0, 0], 0), 0xff80_0000); // -2^128 exactly
    assert_eq!(dot([0x5fff, 0, 0, 0], [0x5f00, 0, 0, 0], 0), 0x7f7f_0000); // just below
    assert!(is_nan(dot([0x6000, 0xe000, 0, 0], [0x5f80, 0x5f80, 0, 0], 0)));
    assert_eq!(dot([0x6000, 0, 0, 0], [0x5f80, 0, 0, 0], 0xff80_0000), 0xff80_0000); // C is a true infinity
}
