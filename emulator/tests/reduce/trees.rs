//! Every tree is computed a second time from the top: what a lane holds after a step is a recursion to what it held before,
//! in host f32 additions (which are to nearest even).

use crate::Random;
use emulator::reduce::{
    Accumulate, CubBlock, FlashInferBlock, InThread, Offsets, TorchBlock, TorchReduce, TorchShape, TorchVersion,
    TorchWarpRow, TritonSum, butterfly, lane_quad, mean_factor, sequential, shuffle_down,
};

fn values(seed: u64, n: usize) -> Vec<f32> {
    let mut random = Random(seed);
    (0..n).map(|_| random.normal() * if random.word().is_multiple_of(7) { 64.0 } else { 1.0 }).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Lane `lane` of `v += shfl_down(v, offset)` after the first `step` of `offsets`, over `lanes` lanes.
fn down(leaf: &dyn Fn(usize) -> f32, lanes: usize, offsets: &[usize], step: usize, lane: usize) -> f32 {
    if step == 0 {
        return leaf(lane);
    }
    let before = |lane| down(leaf, lanes, offsets, step - 1, lane);
    let partner = lane + offsets[step - 1];
    if partner < lanes { before(lane) + before(partner) } else { before(lane) }
}

const UP: [usize; 5] = [1, 2, 4, 8, 16];
const DOWN: [usize; 5] = [16, 8, 4, 2, 1];

fn offsets(from: [usize; 5], width: usize) -> Vec<usize> {
    from.into_iter().filter(|&o| o < width).collect()
}

#[test]
fn shuffles_agree_with_the_recursion() {
    for lanes in 1..=32 {
        let v = values(lanes as u64, lanes);
        let leaf = |lane: usize| v[lane];
        for (order, list) in [(Offsets::Ascending, UP), (Offsets::Descending, DOWN)] {
            let expected = down(&leaf, lanes, &list, 5, 0);
            assert_eq!(shuffle_down(&bits(&v), 32, order), expected.to_bits(), "{lanes} {order:?}");
        }
    }
    let v = values(7, 32);
    let xor = |list: [usize; 5]| {
        fn lane(v: &[f32], list: &[usize], step: usize, l: usize) -> f32 {
            if step == 0 { v[l] } else { lane(v, list, step - 1, l) + lane(v, list, step - 1, l ^ list[step - 1]) }
        }
        let all: Vec<f32> = (0..32).map(|l| lane(&v, &list, 5, l)).collect();
        assert!(all.iter().all(|x| x.to_bits() == all[0].to_bits()), "a butterfly leaves all lanes equal");
        all[0]
    };
    assert_eq!(butterfly(&bits(&v), Offsets::Ascending), xor(UP).to_bits());
    assert_eq!(butterfly(&bits(&v), Offsets::Descending), xor(DOWN).to_bits());
    assert_ne!(xor(UP).to_bits(), xor(DOWN).to_bits(), "the order shows");
    let q = [v[0], v[1], v[2], v[3]];
    assert_eq!(lane_quad(q.map(f32::to_bits)), ((v[0] + v[2]) + (v[1] + v[3])).to_bits());
    assert_eq!(sequential(&bits(&v)), v.iter().fold(0.0, |s, x| s + x).to_bits());
    assert_eq!(mean_factor(2560), (1.0_f32 / 2560.0).to_bits());
}

const LATE: TorchVersion = TorchVersion::From2_10;
const EARLY: TorchVersion = TorchVersion::UpTo2_9;

fn torch(version: TorchVersion, length: usize, rows: usize) -> TorchReduce {
    TorchReduce { version, length, rows }
}

fn width(version: TorchVersion, length: usize, rows: usize) -> usize {
    torch(version, length, rows).shape().expect("one block").width
}

/// The figures of `specs/kernel-recipes.md` 6.1.
#[test]
fn launch_shapes_are_those_of_the_table() {
    for version in [EARLY, LATE] {
        for length in [2048, 2560, 4096, 5120] {
            for rows in 1..100 {
                let expected = match rows {
                    1 => 512,
                    2..=3 => 256,
                    4..=7 => 128,
                    8..=15 => 64,
                    _ => 32,
                };
                assert_eq!(width(version, length, rows), expected, "{length} x {rows}");
            }
        }
        for length in [1024, 1536] {
            assert_eq!([1, 3, 4, 7, 8, 16].map(|rows| width(version, length, rows)), [256, 256, 128, 128, 64, 32]);
        }
        assert_eq!([1, 7, 8, 16].map(|rows| width(version, 896, rows)), [128, 128, 64, 32]);
        assert!((1..40).all(|rows| torch(version, 8192, rows).shape().expect("one block").y_split));
    }
    assert!((1..40).all(|rows| width(LATE, 128, rows) == 32));
    let scalar = TorchShape { vectors: false, width: 32, height: 16, y_split: false };
    assert_eq!(torch(EARLY, 128, 16).shape().expect("one block"), scalar);
    assert!(torch(LATE, 128, 16).shape().expect("one block").vectors);
    let error = torch(LATE, 1 << 20, 64).shape().expect_err("several blocks").to_string();
    assert!(error.contains("several blocks") && error.contains("multiprocessors"), "{error}");
}

/// One row's sum from the top.
fn torch_sum(row: &[f32], version: TorchVersion, shape: TorchShape) -> f32 {
    let h = if shape.y_split { shape.height } else { 1 };
    let (w, n) = (shape.width, shape.width * h);
    let partial = move |x: usize, y: usize| -> f32 {
        let t = x + y * w;
        let acc = |i: usize| -> f32 {
            let mut sum = 0.0;
            if shape.vectors {
                let mut j = t;
                while 4 * j + 3 < row.len() {
                    sum += row[4 * j + i];
                    j += n;
                }
                if i == 0 && t < row.len() % 4 {
                    sum += row[row.len() / 4 * 4 + t];
                }
            } else {
                let mut k = t + i * n;
                while k < row.len() {
                    sum += row[k];
                    k += 4 * n;
                }
            }
            sum
        };
        acc(0) + acc(1) + acc(2) + acc(3)
    };
    // The tree along y: element (x, y) once `span` rows are left.
    fn along_y(leaf: &dyn Fn(usize) -> f32, y: usize, span: usize, full: usize) -> f32 {
        if span == full { leaf(y) } else { along_y(leaf, y, 2 * span, full) + along_y(leaf, y + span, 2 * span, full) }
    }
    fn along_x(leaf: &dyn Fn(usize) -> f32, w: usize, list: [usize; 5]) -> f32 {
        let warp = w.min(32);
        let lane = move |x: usize| along_y(leaf, x, warp, w);
        let steps = offsets(list, warp);
        down(&lane, warp, &steps, steps.len(), 0)
    }
    match version {
        EARLY => along_x(&|x| along_y(&|y| partial(x, y), 0, 1, h), w, UP),
        LATE => along_y(&|y| along_x(&|x| partial(x, y), w, DOWN), 0, 1, h),
    }
}

#[test]
fn torch_reductions_agree_with_the_recursion() {
    let mut differ = 0;
    for length in [1, 3, 31, 64, 127, 128, 129, 130, 896, 1024, 1536, 2048, 2560, 4096, 8192, 8195, 14336] {
        let row = values(length as u64, length);
        for rows in [1, 2, 3, 4, 7, 8, 15, 16, 32, 33, 600] {
            let mut sums = [0; 2];
            for (sum, version) in sums.iter_mut().zip([EARLY, LATE]) {
                let reduce = torch(version, length, rows);
                let shape = reduce.shape().expect("one block");
                *sum = reduce.sum(&bits(&row)).expect("one block");
                assert_eq!(*sum, torch_sum(&row, version, shape).to_bits(), "{reduce:?} {shape:?}");
            }
            differ += usize::from(sums[0] != sums[1]);
        }
    }
    assert!(differ > 20, "the two orders give different sums of random rows: {differ}");
}

#[test]
fn softmax_sums_agree_with_the_recursion() {
    for length in [1, 5, 32, 33, 500, 1000, 1024, 1025, 3000, 4096, 4097, 8191, 9000, 131_072] {
        let row = values(100 + length as u64, length);
        for in_registers in [false, true] {
            let block = TorchBlock::for_row(length, in_registers);
            let n = block.threads;
            assert_eq!(n, length.div_ceil(32).min(32) * 32);
            let vectors = if in_registers { 0 } else { length / (4 * n) };
            let partial = |t: usize| {
                let mut sum = 0.0_f32;
                for round in 0..vectors {
                    for i in 0..4 {
                        sum += row[4 * (round * n + t) + i];
                    }
                }
                let mut k = 4 * vectors * n + t;
                while k < length {
                    sum += row[k];
                    k += n;
                }
                sum
            };
            let warp = |w: usize| if 32 * w < n { down(&|l| partial(32 * w + l), 32, &DOWN, 5, 0) } else { 0.0 };
            let expected = down(&warp, 32, &DOWN, 5, 0);
            assert_eq!(block.sum(&bits(&row)), expected.to_bits(), "{block:?} {length}");
        }
        let lanes = length.next_power_of_two().min(32);
        let fold = |l: usize| (l..length).step_by(lanes).fold(0.0_f32, |s, k| s + row[k]);
        // In a butterfly over powers of two lane 0 sees what shfl_down gives it.
        let steps = offsets(DOWN, lanes);
        let expected = down(&fold, lanes, &steps, steps.len(), 0);
        assert_eq!(TorchWarpRow.sum(&bits(&row)), expected.to_bits(), "{length}");
    }
}

fn step(accumulate: Accumulate, acc: f32, x: f32) -> f32 {
    match accumulate {
        Accumulate::Add => acc + x,
        Accumulate::FmaSquare => x.mul_add(x, acc),
        Accumulate::AddSquare => acc + x * x,
    }
}

#[test]
fn block_sums_agree_with_the_recursion() {
    for accumulate in [Accumulate::Add, Accumulate::FmaSquare, Accumulate::AddSquare] {
        for (length, threads, vec) in
            [(2560, 320, 8), (4096, 256, 8), (4096, 512, 8), (1000, 125, 8), (100, 100, 1), (5120, 1024, 4)]
        {
            let row = values(length as u64 + threads as u64, length);
            let partial = |t: usize| {
                let mine = (0..length).filter(|i| i / vec % threads == t);
                mine.fold(0.0_f32, |acc, i| step(accumulate, acc, row[i]))
            };
            let lanes = |w: usize| (threads - 32 * w).min(32);
            let warp = |w: usize| down(&|l| partial(32 * w + l), lanes(w), &UP, 5, 0);
            let expected = (1..threads.div_ceil(32)).fold(warp(0), |sum, w| sum + warp(w));
            let block = CubBlock { threads, vec, accumulate };
            assert_eq!(block.sum(&bits(&row)), expected.to_bits(), "{block:?}");

            let warps = threads.div_ceil(32);
            let partial = |t: usize| {
                let mine = (0..length).filter(|i| i / vec % (32 * warps) == t);
                mine.fold(0.0_f32, |acc, i| step(accumulate, acc, row[i]))
            };
            let warp = |w: usize| if w < warps { down(&|l| partial(32 * w + l), 32, &DOWN, 5, 0) } else { 0.0 };
            let expected = down(&warp, 32, &DOWN, 5, 0);
            let block = FlashInferBlock { warps, vec, accumulate };
            assert_eq!(block.sum(&bits(&row)), expected.to_bits(), "{block:?}");
        }
    }
}

#[test]
fn triton_sums_agree_with_the_recursion() {
    let mut differ = 0;
    for (block, per_thread, warps) in
        [(1024, 4, 4), (1024, 8, 4), (4096, 4, 8), (64, 4, 4), (32, 1, 1), (8, 4, 1), (2048, 1, 4)]
    {
        for length in [block, block - 3, block / 2 + 1] {
            let row = values((block + length) as u64, length);
            let at = |i: usize| row.get(i).copied().unwrap_or(0.0);
            let threads = (32 * warps).min(block / per_thread);
            let rounds = block / (threads * per_thread);
            let mut sums = [0; 2];
            for (sum, in_thread) in sums.iter_mut().zip([InThread::Fold, InThread::Tree]) {
                let register =
                    |t: usize, k: usize| at(k / per_thread * threads * per_thread + t * per_thread + k % per_thread);
                fn tree(leaf: &dyn Fn(usize) -> f32, from: usize, n: usize) -> f32 {
                    if n == 1 { leaf(from) } else { tree(leaf, from, n / 2) + tree(leaf, from + n / 2, n / 2) }
                }
                let count = rounds * per_thread;
                let partial = |t: usize| match in_thread {
                    InThread::Fold => (1..count).fold(register(t, 0), |s, k| s + register(t, k)),
                    InThread::Tree => tree(&|k| register(t, k), 0, count),
                };
                let lanes = threads.min(32);
                let steps = offsets(DOWN, lanes);
                let warp = |w: usize| down(&|l| partial(lanes * w + l), lanes, &steps, steps.len(), 0);
                let groups = threads / lanes;
                let steps = offsets(DOWN, groups);
                let expected = down(&warp, groups, &steps, steps.len(), 0);
                let triton = TritonSum { block, per_thread, warps, in_thread };
                *sum = triton.sum(&bits(&row));
                assert_eq!(*sum, expected.to_bits(), "{triton:?} {length}");
            }
            differ += usize::from(sums[0] != sums[1]);
        }
    }
    assert!(differ > 3, "{differ}");
    let long = values(5, 3000);
    let triton = TritonSum { block: 1024, per_thread: 4, warps: 4, in_thread: InThread::Fold };
    let part = |k: usize| f32::from_bits(triton.sum(&bits(&long[1024 * k..3000.min(1024 * (k + 1))])));
    assert_eq!(triton.looped(&bits(&long)), (part(0) + part(1) + part(2)).to_bits());
}
