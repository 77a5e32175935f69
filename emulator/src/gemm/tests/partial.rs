//! Partial sums: FP8 that is issued as two f16 steps, and slow accumulation, against the integer references.

use super::*;
use crate::mma::{M16N8K32, Operation};
use crate::scalar::{self, Mods};

const SHAPES: [[usize; 3]; 5] = [[1, 33, 96], [3, 16, 32], [9, 65, 300], [17, 31, 520], [8, 64, 40]];

fn compare(expected: &[u32], found: &[u32], what: &str) {
    let wrong = (0..expected.len()).find(|&i| found[i] != expected[i]);
    if let Some(i) = wrong {
        panic!("{what}: output {i} is {:08x}, should be {:08x}", found[i], expected[i]);
    }
}

/// Rows of K padded to whole instructions.
fn padded(rows: &[u32], k: usize, to: usize) -> Vec<Vec<u64>> {
    let row = |row: &[u32]| row.iter().map(|&x| u64::from(x)).chain(std::iter::repeat(0)).take(to).collect();
    rows.chunks(k).map(row).collect()
}

#[test]
fn fp8_through_f16_gives_the_bits_of_the_reference() {
    for (types, accumulator) in [([E4m3; 2], F32), ([E4m3, E5m2], F32), ([E5m2, E4m3], F16), ([E5m2; 2], F16)] {
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            for seed in 0..2 {
                let policy = if seed == 0 { ZeroPolicy::Exclude } else { ZeroPolicy::SentinelMinus126 };
                let tested = Subject::new(("sm_90", Family::Mma, types, 32, accumulator), policy);
                let shape @ [m, n, k] = SHAPES[(i + seed as usize) % SHAPES.len()];
                let data = tested.data(kind, shape, seed);
                let profile = Profile::by_name("sm_90").unwrap().with_zero_policy(policy);
                let [a, b] = types;
                let instruction = Instruction::mma(M16N8K32, Types { a, b, c: accumulator, d: accumulator });
                let operation: Operation = profile.mma(&instruction).unwrap();
                let to = k.next_multiple_of(32);
                let (rows, columns) = (padded(&data.a, k, to), padded(&data.b, k, to));
                let dot = |i: usize| {
                    let steps = rows[i / n].chunks(32).zip(columns[i % n].chunks(32));
                    steps.fold(u64::from(data.c[i]), |c, (a, b)| operation.dot(a, b, c)) as u32
                };
                let expected: Vec<u32> = (0..m * n).map(dot).collect();
                for level in Level::available() {
                    for mutation in [Mutation::Production, Mutation::AlwaysTracking] {
                        let found = tested.run(&data, shape, true, level, mutation).d;
                        compare(
                            &expected,
                            &found,
                            &format!("{types:?} {accumulator:?} {kind:?} {shape:?} {level:?} {mutation:?}"),
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn slow_accumulation_adds_partial_sums_in_f32() {
    let cases = [
        ("sm_90", Family::Wgmma, [E4m3; 2], 32, F32),
        ("sm_89", Family::Mma, [E4m3, E5m2], 32, F32),
        ("sm_90", Family::Mma, [Bf16; 2], 16, F32),
    ];
    for case in cases {
        let tested = Subject::new(case, ZeroPolicy::Exclude);
        for every in [32, 128, 256] {
            for (i, kind) in Kind::ALL.into_iter().enumerate() {
                let shape @ [m, n, k] = SHAPES[i % SHAPES.len()];
                let data = tested.data(kind, shape, 5);
                let gemm = tested.gemm.promoted(every).unwrap();
                let to = k.next_multiple_of(tested.k);
                let pad = |rows: &[u32]| -> Vec<Vec<u32>> {
                    padded(rows, k, to).iter().map(|row| row.iter().map(|&x| x as u32).collect()).collect()
                };
                let (rows, columns) = (pad(&data.a), pad(&data.b));
                let dot = |i: usize| {
                    let pieces = rows[i / n].chunks(every).zip(columns[i % n].chunks(every));
                    pieces.fold(data.c[i], |d, (a, b)| {
                        scalar::add::<scalar::F32>(gemm.params().dot_by(tested.k, a, b, 0), d, Mods::RN)
                    })
                };
                let expected: Vec<u32> = (0..m * n).map(dot).collect();
                let (x, w) = tested.pack(&data, shape);
                for level in Level::available() {
                    let found = gemm.level(level).run(&x, &w, Some(&data.c)).unwrap().d;
                    compare(&expected, &found, &format!("{case:?} every {every} {kind:?} {shape:?} {level:?}"));
                }
            }
        }
    }
}
