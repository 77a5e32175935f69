//! The tensor core: every level, kind of data, type and unit.

use super::*;
use crate::Error;
use crate::gemm::{At, Piece, Workspace};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

/// Around the edges of tiles, panels, groups and chunks; both kernels.
const SHAPES: [[usize; 3]; 6] = [[1, 33, 80], [3, 16, 48], [8, 64, 40], [13, 65, 33], [5, 17, 272], [17, 31, 300]];

fn compare(seeds: std::ops::Range<u64>, shapes: &[[usize; 3]]) {
    for subject in SUBJECTS {
        for seed in seeds.clone() {
            let policy = if seed.is_multiple_of(2) { ZeroPolicy::Exclude } else { ZeroPolicy::SentinelMinus126 };
            let tested = Subject::new(subject, policy);
            for (i, kind) in Kind::ALL.into_iter().enumerate() {
                let shape = shapes[(i + seed as usize) % shapes.len()];
                let data = tested.data(kind, shape, seed);
                let c = !(seed / 2 + i as u64).is_multiple_of(3);
                let expected = tested.expected(&data, shape, c);
                for level in Level::available() {
                    for mutation in [Mutation::Production, Mutation::AlwaysTracking] {
                        let found = tested.run(&data, shape, c, level, mutation).d;
                        let wrong = (0..expected.len()).find(|&i| found[i] != expected[i]);
                        if let Some(i) = wrong {
                            let (row, column) = (i / shape[1], i % shape[1]);
                            panic!(
                                "{subject:?} {policy:?} {kind:?} {shape:?} seed {seed} C {c} {level:?} {mutation:?}: \
                                 [{row}, {column}] is {:08x}, should be {:08x}",
                                found[i], expected[i]
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_level_gives_the_bits_of_the_reference() {
    compare(0..6, &SHAPES);
}

#[test]
#[ignore = "deep: a minute optimised"]
fn every_level_gives_the_bits_of_the_reference_on_many_products() {
    let mut shapes: Vec<[usize; 3]> = (1..34).map(|m| [m, 1 + m * 7 % 66, 1 + m * 37 % 290]).collect();
    shapes.extend([[12, 96, 512], [9, 128, 520], [24, 64, 1024]]);
    compare(6..60, &shapes);
}

/// A suite in which everything falls back proves nothing: this is who computed what.
#[test]
fn ordinary_products_stay_on_the_fast_path_and_the_others_test_leaving_it() {
    for (subject, few) in SUBJECTS.into_iter().flat_map(|subject| [(subject, true), (subject, false)]) {
        let tested = Subject::new(subject, ZeroPolicy::Exclude);
        let shape = if few { [4, 64, 320] } else { [16, 64, 320] };
        for kind in Kind::ALL {
            let (mut steps, mut careful) = (0, 0);
            for seed in 0..8 {
                let data = tested.data(kind, shape, seed);
                let product = tested.run(&data, shape, false, Level::detect(), Mutation::Production);
                (steps, careful) = (steps + product.steps, careful + product.careful);
            }
            let wide = |elem: Elem| matches!(elem, Bf16 | Tf32);
            let all_wide = tested.types.into_iter().all(wide);
            println!("{subject:?} few {few} {kind:?}: {careful} of {steps} steps left the fast path");
            assert!(steps > 0);
            match kind {
                // Sums that f16 accumulators do not hold, or might not: then the alignment of every block is looked at.
                Kind::Boundary | Kind::Outliers | Kind::ZeroRows if tested.accumulator == F16 => {}
                Kind::Normal | Kind::Outliers | Kind::Cancelling | Kind::Boundary | Kind::Sparse | Kind::ZeroRows => {
                    assert!(careful * 50 <= steps, "{subject:?} {kind:?}: {careful} of {steps}");
                }
                Kind::Huge | Kind::Tiny if all_wide => assert!(careful * 2 >= steps, "{subject:?} {kind:?}"),
                Kind::Bits | Kind::Restless if all_wide => {
                    assert!(careful > 0 && careful < steps || kind == Kind::Bits, "{subject:?} {kind:?}");
                }
                Kind::Special => assert!(careful > 0, "{subject:?}"),
                _ => {}
            }
        }
    }
}

#[test]
fn threads_change_nothing() {
    let tested = Subject::new(SUBJECTS[0], ZeroPolicy::Exclude);
    for shape in [[2, 300, 64], [40, 30, 64], [70, 200, 64], [1, 1, 16]] {
        let data = tested.data(Kind::Restless, shape, 3);
        let (x, w) = tested.pack(&data, shape);
        let one = tested.gemm.run(&x, &w, Some(&data.c)).unwrap();
        assert_eq!(one.d, tested.expected(&data, shape, true));
        for threads in [2, 3, 7] {
            assert_eq!(tested.gemm.threads(threads).run(&x, &w, Some(&data.c)).unwrap(), one);
        }
    }
}

/// Ranges of K are products of their own, from the same packed operands.
#[test]
fn a_range_of_k_is_the_product_of_its_part() {
    let subjects = SUBJECTS.into_iter().filter(|(.., types, k, _)| *types == [Bf16; 2] && *k == 16);
    for (subject, (i, kind)) in subjects.flat_map(|s| Kind::ALL.into_iter().enumerate().map(move |kind| (s, kind))) {
        let tested = Subject::new(subject, ZeroPolicy::Exclude);
        let [m, n, k] = [[1, 40, 128], [3, 70, 144], [13, 65, 304], [33, 64, 1_000]][i % 4];
        let data = tested.data(kind, [m, n, k], 7);
        let (x, w) = tested.pack(&data, [m, n, k]);
        let ranges = [0..k, 16..64, 64..k, k..k, 48..48, 80..96, 0..16];
        for (level, threads) in Level::available().flat_map(|level| [(level, 1), (level, 3)]) {
            let found = Mutex::new(vec![None; ranges.len() * m * n]);
            let out = |at: At, values: &[u32]| {
                assert!(values.len() == 16 && at.column + 16 <= n || at.column + values.len() == n);
                for (i, value) in values.iter().enumerate() {
                    let place = &mut found.lock().unwrap()[(at.range * m + at.row) * n + at.column + i];
                    assert_eq!(place.replace(*value), None, "handed out twice");
                }
            };
            tested.gemm.level(level).threads(threads).ranges(&x, &w, &ranges, out).unwrap();
            let found = found.into_inner().unwrap();
            for (range, found) in ranges.iter().zip(found.chunks_exact(m * n)) {
                let part = |words: &[u32]| words.chunks(k).flat_map(|row| row[range.clone()].to_vec()).collect();
                let part = Data { a: part(&data.a), b: part(&data.b), c: Vec::new() };
                let expected = match range.len() {
                    0 => vec![0; m * n],
                    k => tested.expected(&part, [m, n, k], false),
                };
                let found: Vec<u32> = found.iter().map(|word| word.unwrap()).collect();
                assert_eq!(found, expected, "{subject:?} {kind:?} {range:?} {level:?}");
            }
        }
    }
}

/// Columns that are cut each in its own way have what ranges of all columns have.
#[test]
fn pieces_are_the_products_of_their_ranges() {
    let tested = Subject::new(SUBJECTS[0], ZeroPolicy::Exclude);
    for (m, kind) in [1, 5, 40].into_iter().zip(Kind::ALL) {
        let [n, k] = [150, 96];
        let data = tested.data(kind, [m, n, k], 8);
        let (x, w) = tested.pack(&data, [m, n, k]);
        let piece = |range, columns: Range<usize>, k: Range<usize>| Piece { range, columns, k };
        let pieces = [
            piece(0, 0..64, 0..32),
            piece(1, 0..64, 32..96),
            piece(0, 64..128, 0..96),
            piece(0, 128..150, 0..16),
            piece(1, 128..150, 16..64),
            piece(2, 128..150, 64..96),
        ];
        for (level, threads) in Level::available().flat_map(|level| [(level, 1), (level, 3)]) {
            let gemm = tested.gemm.level(level).threads(threads);
            let found = Mutex::new(BTreeMap::new());
            let out = |at: At, values: &[u32]| {
                let place = (at.range, at.row, at.column);
                assert_eq!(found.lock().unwrap().insert(place, values.to_vec()), None, "handed out twice");
            };
            gemm.pieces(&x, &w, &pieces, out).unwrap();
            let mut found = found.into_inner().unwrap();
            for p in &pieces {
                let all = Mutex::new(BTreeMap::new());
                let out =
                    |at: At, values: &[u32]| drop(all.lock().unwrap().insert((at.row, at.column), values.to_vec()));
                gemm.ranges(&x, &w, std::slice::from_ref(&p.k), out).unwrap();
                for ((row, column), values) in all.into_inner().unwrap() {
                    if p.columns.contains(&column) {
                        assert_eq!(found.remove(&(p.range, row, column)), Some(values), "{p:?} {level:?}");
                    }
                }
            }
            assert!(found.is_empty(), "{found:?}");
        }
        for bad in [0..32, 32..64, 64..100, 128..192] {
            let refused = tested.gemm.pieces(&x, &w, &[piece(0, bad, 0..96)], |_, _| {});
            assert!(refused.unwrap_err().to_string().contains("columns"));
        }
    }
}

/// One product from accumulators, in place; and weights given by columns.
#[test]
fn accumulating_in_place_and_weights_by_columns_are_the_same_product() {
    let mut space = Workspace::default();
    for (i, kind) in Kind::ALL.into_iter().enumerate() {
        for subject in [SUBJECTS[i % 2], SUBJECTS[6], SUBJECTS[7]] {
            let tested = Subject::new(subject, ZeroPolicy::Exclude);
            let [m, n, k] = [[1, 64, 32], [3, 70, 32], [16, 64, 64], [13, 65, 40]][i % 4];
            let data = tested.data(kind, [m, n, k], 9);
            let (x, w) = tested.pack(&data, [m, n, k]);
            let expected = tested.expected(&data, [m, n, k], true);
            let by_columns: Vec<u32> = (0..k * n).map(|i| data.b[i % n * k + i / n]).collect();
            let columns = match tested.types[1].format().width {
                32 => Weights::pack_columns(tested.types[1], n, k, &by_columns),
                _ => {
                    let halves: Vec<u16> = by_columns.iter().map(|&word| word as u16).collect();
                    Weights::pack_columns(tested.types[1], n, k, &halves)
                }
            };
            for w in [w, columns.unwrap()] {
                let mut d = data.c.clone();
                tested.gemm.accumulate(&mut space, &x, &w, &mut d).unwrap();
                assert_eq!(d, expected, "{subject:?} {kind:?}");
            }
        }
    }
}

/// Nothing but zeros on one side, whose misstated exponents a huge partner carries beyond the window.
#[test]
fn zeros_beside_huge_numbers_give_zero() {
    for subject in [SUBJECTS[0], SUBJECTS[1]] {
        let tested = Subject::new(subject, ZeroPolicy::Exclude);
        for (m, huge) in [1, 3, 8, 17].into_iter().flat_map(|m| [0x4b00, 0x5f00, 0x7b52, 0x7f7f].map(|huge| (m, huge)))
        {
            let (zeros, huge) = (vec![0x8000_u16; 33 * 32], vec![huge; 33 * 32]);
            for (a, b) in [(&zeros, &huge), (&huge, &zeros)] {
                let x = Rows::pack(Bf16, m, 32, &a[..m * 32]).unwrap();
                let w = Weights::pack(Bf16, 33, 32, b).unwrap();
                for level in Level::available() {
                    let product = tested.gemm.level(level).run(&x, &w, None).unwrap();
                    assert!(product.d.iter().all(|&d| d == 0), "{subject:?} {m} rows, {level:?}");
                }
            }
        }
    }
}

#[test]
fn ranges_that_cut_an_instruction_are_refused() {
    let tested = Subject::new(SUBJECTS[0], ZeroPolicy::Exclude);
    let x = Rows::pack(Bf16, 1, 40, &[0_u16; 40]).unwrap();
    let w = Weights::pack(Bf16, 1, 40, &[0_u16; 40]).unwrap();
    let run = |range| tested.gemm.ranges(&x, &w, &[0..16, range], |_, _| {});
    #[allow(clippy::reversed_empty_ranges)]
    for bad in [0..8, 8..16, 0..48, 32..16, 48..48] {
        let message = run(bad.clone()).unwrap_err().to_string();
        assert!(message.contains("ranges") && message.contains(&format!("{bad:?}")), "{message}");
    }
    for good in [0..40, 32..40, 16..32, 16..16] {
        run(good).unwrap();
    }
}

#[test]
fn empty_products_are_empty_or_the_accumulators() {
    let tested = Subject::new(SUBJECTS[0], ZeroPolicy::Exclude);
    for [m, n, k] in [[0, 5, 16], [5, 0, 16], [2, 3, 0]] {
        let none = vec![0_u16; m.max(n) * k];
        let x = Rows::pack(Bf16, m, k, &none[..m * k]).unwrap();
        let w = Weights::pack(Bf16, n, k, &none[..n * k]).unwrap();
        let c = vec![0x3f80_0000; m * n];
        assert_eq!(tested.gemm.run(&x, &w, Some(&c)).unwrap().d, c);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_name() {
    let tested = Subject::new(SUBJECTS[0], ZeroPolicy::Exclude);
    let gemm = tested.gemm;
    let x = Rows::pack(Bf16, 1, 16, &[0_u16; 16]).unwrap();
    let w = Weights::pack(Bf16, 1, 16, &[0_u16; 16]).unwrap();
    let message = |error: Error| error.to_string();
    assert!(message(Rows::pack(Bf16, 1, 16, &[0_u16; 15]).unwrap_err()).contains("15 were given"));
    assert!(message(Rows::pack(Bf16, 1, 4, &[0_u32; 4]).unwrap_err()).contains("16 bits"));
    assert!(Weights::pack(Bf16, usize::MAX, 2, &[0_u16; 2]).is_err());
    let short = Weights::pack(Bf16, 1, 8, &[0_u16; 8]).unwrap();
    assert!(message(gemm.run(&x, &short, None).unwrap_err()).contains("K is 16"));
    let f16 = Weights::pack(F16, 1, 16, &[0_u16; 16]).unwrap();
    assert!(message(gemm.run(&x, &f16, None).unwrap_err()).contains("bf16"));
    assert!(message(gemm.run(&x, &w, Some(&[])).unwrap_err()).contains("accumulators"));

    let hopper = Profile::by_name("sm_90").unwrap();
    let shape = |k| Shape { m: 16, n: 8, k };
    let fp8 = Instruction::mma(shape(16), Types::new(E4m3, F32));
    assert!(message(Gemm::new(hopper, &fp8).unwrap_err()).contains("no packed product"));
    // A floor inside the window would be missed by it.
    let floor = |e| hopper.with_switches(|s| s.f32_floor.set(Some(e)));
    let bf16 = Instruction::mma(shape(16), Types::new(Bf16, F32));
    assert!(matches!(Gemm::new(&floor(-100), &bf16), Err(Error::UnsupportedGemm { .. })));
    assert!(Gemm::new(&floor(-101), &bf16).is_ok());
    let fp8 = Gemm::new(hopper, &Instruction::mma(shape(32), Types::new(E4m3, F32))).unwrap();
    assert!(fp8.promoted(128).is_err());
    let wgmma = Gemm::new(hopper, &bf16).unwrap();
    assert!(wgmma.promoted(24).is_err() && wgmma.promoted(512).is_err() && wgmma.promoted(128).is_ok());
}
