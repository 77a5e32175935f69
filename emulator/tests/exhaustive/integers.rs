//! Integer matrix instructions against plain 64-bit sums.

use emulator::format::Elem::{self, B1, S4, S8, S32, U4, U8};
use emulator::mma::{ClampStep, Family, Instruction, Modifier, Operation, Shape, Types};
use emulator::profile::Profile;

fn operation(shape: Shape, a: Elem, b: Elem, modifier: Modifier, clamp: ClampStep) -> Operation {
    let types = Types { a, b, c: S32, d: S32 };
    let instruction = Instruction { family: Family::Mma, shape, types, modifier };
    Profile::by_name("sm_80").unwrap().with_switches(|s| s.clamp.set(clamp)).mma(&instruction).unwrap()
}

fn value(elem: Elem, bits: u64) -> i64 {
    match elem {
        S8 => i64::from(bits as u8 as i8),
        U8 => i64::from(bits as u8),
        S4 => (bits as i64) << 60 >> 60,
        U4 => bits as i64 & 15,
        other => panic!("{other}"),
    }
}

#[test]
fn every_pair_of_integers_wraps_or_clamps() {
    let accumulators = [0_i32, 1, -1, i32::MAX, i32::MIN, i32::MAX - 16_256, i32::MIN + 65_025, 123_456_789];
    for (shape, types) in [(Shape::new(16, 8, 32), [S8, U8]), (Shape::new(16, 8, 64), [S4, U4])] {
        for (ta, tb) in types.into_iter().flat_map(|a| types.map(|b| (a, b))) {
            let wrap = operation(shape, ta, tb, Modifier::None, ClampStep::Instruction);
            let clamp = operation(shape, ta, tb, Modifier::Satfinite, ClampStep::Instruction);
            let k = shape.k as usize;
            let (mut a, mut b) = (vec![0; k], vec![0; k]);
            for x in 0..1_u64 << ta.format().width {
                for y in 0..1_u64 << tb.format().width {
                    let position = (x ^ y) as usize % k;
                    (a[position], b[position]) = (x, y);
                    let c = accumulators[(x * 3 + y) as usize % accumulators.len()];
                    let exact = i64::from(c) + value(ta, x) * value(tb, y);
                    let bits = u64::from(c as u32);
                    assert_eq!(wrap.dot(&a, &b, bits), u64::from(exact as u32), "{ta} {x} {tb} {y} {c}");
                    let clamped = exact.clamp(i32::MIN.into(), i32::MAX.into());
                    assert_eq!(clamp.dot(&a, &b, bits), u64::from(clamped as u32), "{ta} {x} {tb} {y} {c}");
                    (a[position], b[position]) = (0, 0);
                }
            }
        }
    }
}

/// The running sum leaves the range and comes back: the step of the clamp decides.
#[test]
fn the_step_of_satfinite_is_a_switch() {
    let shape = Shape::new(16, 8, 32);
    let mut a = vec![127; 32];
    a[16..].fill(0x81); // -127
    let b = vec![127; 32];
    let c = u64::from(i32::MAX as u32);
    let run = |clamp| operation(shape, S8, S8, Modifier::Satfinite, clamp).dot(&a, &b, c) as u32 as i32;
    assert_eq!(run(ClampStep::Instruction), i32::MAX);
    assert_eq!(run(ClampStep::Products(16)), i32::MAX - 16 * 127 * 127);
    assert_eq!(run(ClampStep::Products(32)), i32::MAX);
    assert_eq!(operation(shape, S8, S8, Modifier::None, ClampStep::Products(1)).dot(&a, &b, c) as u32 as i32, i32::MAX);
}

#[test]
fn sums_of_whole_rows() {
    let mut state = 11_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    for (shape, types) in [(Shape::new(16, 8, 32), [S8, U8]), (Shape::new(16, 8, 64), [S4, U4])] {
        for (ta, tb) in types.into_iter().flat_map(|a| types.map(|b| (a, b))) {
            for _ in 0..500 {
                let mut draw = |elem: Elem| -> Vec<u64> {
                    (0..shape.k).map(|_| next() & ((1 << elem.format().width) - 1)).collect()
                };
                let (a, b) = (draw(ta), draw(tb));
                let c = next() as u32 as i32;
                let exact: i64 =
                    i64::from(c) + a.iter().zip(&b).map(|(&x, &y)| value(ta, x) * value(tb, y)).sum::<i64>();
                let found =
                    operation(shape, ta, tb, Modifier::None, ClampStep::Instruction).dot(&a, &b, u64::from(c as u32));
                assert_eq!(found, u64::from(exact as u32));
            }
        }
    }
}

#[test]
fn one_bit_operands_count_bits() {
    let shape = Shape::new(16, 8, 256);
    let words = [(0x0123_4567_89ab_cdef_u64, 0xfedc_ba98_7654_3210), (u64::MAX, 0), (0xdead_beef, 0xffff_0000_ffff)];
    for (x, y) in words {
        let row = |word: u64| -> Vec<u64> { (0..256).map(|k| word.rotate_left(k / 64 * 5) >> (k % 64) & 1).collect() };
        let (a, b) = (row(x), row(y));
        let count = |op: fn(u64, u64) -> u64| -> u32 {
            (0..4).map(|i| op(x.rotate_left(i * 5), y.rotate_left(i * 5)).count_ones()).sum()
        };
        for (modifier, expected) in [(Modifier::XorPopc, count(|x, y| x ^ y)), (Modifier::AndPopc, count(|x, y| x & y))]
        {
            let found = operation(shape, B1, B1, modifier, ClampStep::Instruction).dot(&a, &b, 0xffff_ffff);
            assert_eq!(found as u32, expected.wrapping_sub(1));
        }
    }
}
