//! Whole kernels: a tensor-core GEMM with an asynchronous pipeline, and RMSNorm, against loops over the scalar references.

use crate::device::{Device, Random, all_options, compile, hopper};
use crate::kernels::{TILE, gemm, rms_norm};
use emulator::exec::Arg;
use emulator::format::{Elem, bf16_to_f32};
use emulator::mma::{Instruction, M16N8K16, Operation, Types};
use emulator::mufu::{self, MufuTables};
use emulator::scalar::{self, F32, Mods};

/// bf16 values: ordinary, and now and then zero, subnormal or large.
fn values(random: &mut Random, count: usize) -> Vec<u16> {
    (0..count)
        .map(|_| match random.below(40) {
            0 => 0,
            1 => 0x8000 | random.below(0x80) as u16,
            2 => 0x4300 | random.below(0x80) as u16,
            _ => ((0x3e00 + random.below(0x200)) | (random.below(2) << 15)) as u16,
        })
        .collect()
}

fn words(values: &[u16]) -> Vec<u32> {
    values.chunks_exact(2).map(|p| u32::from(p[0]) | u32::from(p[1]) << 16).collect()
}

#[test]
fn gemm_chains_the_reference_dot_product_over_k() {
    let program = compile(gemm());
    let (m, n, k) = (128usize, 64, 192);
    let mut random = Random(11);
    let (x, w) = (values(&mut random, m * k), values(&mut random, n * k));
    let instruction = Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32));
    let Operation::TFdpa(reference) = hopper().mma(&instruction).unwrap() else { panic!("{instruction}") };
    let wide = |v: &[u16]| v.iter().map(|&v| u32::from(v)).collect::<Vec<u32>>();
    let mut want = Vec::new();
    for row in x.chunks_exact(k) {
        for column in w.chunks_exact(k) {
            let blocks = row.chunks_exact(16).zip(column.chunks_exact(16));
            want.push(blocks.fold(0, |acc, (a, b)| reference.dot(&wide(a), &wide(b), acc)));
        }
    }
    let mut did = None;
    for options in all_options() {
        let mut device = Device::with(options);
        let (px, pw) = (device.upload(&words(&x)), device.upload(&words(&w)));
        let py = device.memory.alloc(4 * (m * n) as u64).unwrap();
        let args = [px.into(), pw.into(), py.into(), Arg::U32(k as u32), Arg::U32(n as u32)];
        let grid = [n as u32 / TILE, m as u32 / TILE, 1];
        let stats = emulator::exec::launch(&program, grid, [128, 1, 1], &args, &device.memory, &options)
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(stats.mmas as usize, m * n * k / (16 * 8 * 16));
        assert_eq!(*did.get_or_insert(stats), stats, "{options:?}");
        assert!(device.download(py, m * n) == want, "{options:?}");
    }
}

#[test]
fn rms_norm_follows_its_order_of_operations() {
    let (rows, columns) = (6usize, 512usize);
    let program = compile(rms_norm(columns as u32));
    let mut random = Random(12);
    let (x, w) = (values(&mut random, rows * columns), values(&mut random, columns));
    let (add, mul) = (|a, b| scalar::add::<F32>(a, b, Mods::RN), |a, b| scalar::mul::<F32>(a, b, Mods::RN));
    let bf16 = |v: u32| (scalar::pack2::<scalar::Bf16>(0, v, Mods::RN) & 0xffff) as u16;
    let mut want = Vec::new();
    for row in x.chunks_exact(columns) {
        let mut sums: Vec<u32> = (0..32)
            .map(|lane| {
                let own = (0..columns / 256).flat_map(|chunk| row[256 * chunk + 8 * lane..][..8].iter());
                own.fold(0, |sum, &v| scalar::fma::<F32>(bf16_to_f32(v), bf16_to_f32(v), sum, Mods::RN))
            })
            .collect();
        for distance in [16, 8, 4, 2, 1] {
            sums = (0..32).map(|lane| add(sums[lane], sums[lane ^ distance])).collect();
        }
        let mean = mul(sums[0], (1.0 / columns as f32).to_bits());
        let r = mufu::rsq(MufuTables::g80(), add(mean, 1e-5f32.to_bits()));
        for (&v, &w) in row.iter().zip(&w) {
            want.push(bf16(mul(bf16_to_f32(bf16(mul(bf16_to_f32(v), r))), bf16_to_f32(w))));
        }
    }
    for options in all_options() {
        let mut device = Device::with(options);
        let (px, pw) = (device.upload(&words(&x)), device.upload(&words(&w)));
        let py = device.memory.alloc(2 * (rows * columns) as u64).unwrap();
        device.launch(&program, rows as u32, 32, &[px.into(), pw.into(), py.into()]).unwrap_or_else(|e| panic!("{e}"));
        assert!(device.download(py, rows * columns / 2) == words(&want), "{options:?}");
    }
}
