//! T-FDPA of 16-bit and TF32 operands against a second model, written apart from it: values in f64, where every product, every truncated
//! term and every sum is exact, one conversion by `rustc_apfloat`. On data that the committed vectors hardly reach: exponent floors of
//! f16 results, subnormal accumulators, sums at either end of the range, chains of instructions.

use emulator::format::Elem;
use emulator::mma::{Instruction, Operation, Shape, TFdpa, Types, ZeroPolicy};
use emulator::profile::{Conversion, Profile};
use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round, StatusAnd};

/// A value and the exponent it aligns by: that of its leading digit, at least that of the smallest normal number.
fn decode(elem: Elem, bits: u32) -> (f64, i32) {
    let mut exact = false;
    let (double, least): (Double, i32) = match elem {
        Elem::F16 => (Half::from_bits(bits.into()).convert(&mut exact).value, -14),
        Elem::Bf16 => (BFloat::from_bits(bits.into()).convert(&mut exact).value, -126),
        Elem::Tf32 => (Single::from_bits((bits & !0x1fff).into()).convert(&mut exact).value, -126),
        _ => (Single::from_bits(bits.into()).convert(&mut exact).value, -126),
    };
    let value = f64::from_bits(double.to_bits() as u64);
    let leading = ((value.to_bits() >> 52 & 0x7ff) as i32) - 1023;
    (value, if value == 0.0 { -126 } else { leading.max(least) })
}

/// 2^n, exactly.
fn power(n: i32) -> f64 {
    f64::from_bits(((1023 + n) as u64) << 52)
}

fn step(p: &TFdpa, a: &[u32], b: &[u32], c: u32) -> u32 {
    let half = matches!(p.conversion, Conversion::Rne16 | Conversion::Rne16Signed);
    let accumulator = if half { Elem::F16 } else { Elem::F32 };
    let exclude = p.zeros == ZeroPolicy::Exclude;
    let mut terms: Vec<(f64, i32)> = Vec::new();
    let mut plain = 0.0;
    for (&a, &b) in a.iter().zip(b) {
        let ((x, ex), (y, ey)) = (decode(p.a, a), decode(p.b, b));
        plain += x * y;
        terms.push((x * y, ex + ey));
    }
    let (c, ec) = decode(accumulator, c);
    plain += c;
    terms.push((c, ec));
    // IEEE rules tell NaN, infinities and finite sums apart; products of these operands do not overflow f64.
    if plain.is_nan() {
        return if half { 0x7fff } else { 0x7fff_ffff };
    }
    if plain.is_infinite() {
        let sign = u32::from(plain < 0.0);
        return if half { sign << 15 | 0x7c00 } else { sign << 31 | 0x7f80_0000 };
    }
    if exclude {
        terms.retain(|&(value, _)| value != 0.0);
    }
    let Some(largest) = terms.iter().map(|&(_, exponent)| exponent).max() else { return 0 };
    let largest = if exclude { p.floor.map_or(largest, |floor| largest.max(floor)) } else { largest };
    let unit = largest - p.fraction;
    // In two steps: the scale itself may leave f64.
    let scaled = |value: f64| (value * power(-unit / 2) * power(-unit - -unit / 2)).trunc();
    let sum: f64 = terms.iter().map(|&(value, _)| scaled(value)).sum();
    assert!(sum.abs() < (1_u64 << 50) as f64, "sums of terms are exact");
    let exact = Double::from_bits((sum * power(unit / 2) * power(unit - unit / 2)).to_bits().into());
    let mut loses = false;
    if half {
        let StatusAnd { value, .. } = exact.convert_r(Round::NearestTiesToEven, &mut loses);
        let value: Half = value;
        let zero_loses_sign = p.conversion == Conversion::Rne16 || sum == 0.0;
        return if value.is_zero() && zero_loses_sign { 0 } else { value.to_bits() as u32 };
    }
    let StatusAnd { value, .. } = exact.convert_r(Round::TowardZero, &mut loses);
    let value: Single = value;
    let bits = value.to_bits() as u32;
    match bits << 1 {
        0 => 0,
        // Toward zero stops at the largest number; a tensor core goes on to infinity.
        0xfeff_fffe if sum.abs() * power(unit / 2) * power(unit - unit / 2) >= power(127) * 2.0 => bits + 1,
        _ => bits,
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number whose exponent field lies within `spread` of the `at`th of 16 parts of the range; sometimes a zero or a special.
    fn number(&mut self, elem: Elem, at: u64, spread: u64) -> u32 {
        let format = elem.format();
        let (r, fields) = (self.next(), (1_u64 << format.exponent_bits) - 1);
        let field = (at * fields / 16 + (r >> 40) % (spread + 1)).min(fields - 1);
        let field = match r & 63 {
            0 => fields,
            1..6 => 0,
            _ => field,
        };
        let fraction = if r & 0x3f == 3 || r & 0x1c0 == 0 { 0 } else { r >> 9 & ((1 << format.fraction_bits) - 1) };
        let magnitude = field << format.fraction_bits | fraction;
        ((magnitude | (r >> 63) << (format.width - 1 - format.ignored_bits)) << format.ignored_bits) as u32
    }
}

#[test]
fn t_fdpa_agrees_with_a_model_in_f64() {
    let mut random = Random(11);
    let mut counted = 0;
    for name in ["sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"] {
        for policy in [ZeroPolicy::Exclude, ZeroPolicy::SentinelMinus126] {
            let profile = Profile::by_name(name).unwrap().with_zero_policy(policy);
            for (elem, accumulator) in
                [(Elem::F16, Elem::F32), (Elem::F16, Elem::F16), (Elem::Bf16, Elem::F32), (Elem::Tf32, Elem::F32)]
            {
                for k in [4, 8, 16] {
                    let m = if name == "sm_70" { 8 } else { 16 };
                    let instruction = Instruction::mma(Shape::new(m, 8, k), Types::new(elem, accumulator));
                    let Ok(Operation::TFdpa(params)) = profile.mma(&instruction) else { continue };
                    for case in 0..6_000 {
                        let (at, spread) = (case % 16, [0, 3, 12][case as usize / 16 % 3]);
                        let mut side = || (0..k).map(|_| random.number(elem, at, spread)).collect::<Vec<_>>();
                        let (a, b) = (side(), side());
                        // The accumulator of one instruction is that of the next, twice.
                        let mut d = random.number(accumulator, random.0 % 16, 2);
                        for _ in 0..3 {
                            let blocks = a.chunks(params.max_terms).zip(b.chunks(params.max_terms));
                            let expected = blocks.fold(d, |d, (a, b)| step(&params, a, b, d));
                            let found = params.dot(&a, &b, d);
                            assert_eq!(found, expected, "{name} {instruction} {policy:?} {a:x?} {b:x?} {d:x}");
                            d = found;
                            counted += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(counted > 400_000, "{counted}");
}
