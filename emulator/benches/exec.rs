//! Speed of the interpreter on two kernels of the kind that inference runs: a bf16 GEMM on `mma.sync`, and RMSNorm.
//!
//! `cargo bench -p lastbit-emulator --bench exec [-- LEVEL]`, one thread. Best of several rounds.

mod kernels;

use std::time::Instant;

use emulator::exec::{Arg, ExecOptions, LaunchStats, Memory, Program, launch};
use emulator::profile::Profile;
use emulator::simd::Level;
use kernels::{TILE, gemm, rms_norm};
use ptx::ast::{Kernel, Module};

fn compile(kernel: Kernel) -> Program {
    let name = kernel.name.clone();
    let hopper = Profile::by_name("sm_90").expect("the profile exists");
    Program::compile(&Module::new(vec![kernel]), &name, hopper).unwrap_or_else(|e| panic!("{e}"))
}

/// bf16 values of ordinary size.
fn values(count: u32, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        ((0x3e80 + (state >> 16 & 0x01ff)) | (state >> 9 & 0x8000)) as u16
    };
    (0..count).flat_map(|_| next().to_le_bytes()).collect()
}

fn buffer(memory: &mut Memory, data: &[u8]) -> Arg {
    let at = memory.alloc(data.len() as u64).expect("the host has the memory");
    memory.upload(at, data).expect("within the allocation");
    Arg::U64(at)
}

/// Seconds of the fastest of `rounds` launches, and what one did.
fn best(rounds: u32, mut run: impl FnMut() -> LaunchStats) -> (f64, LaunchStats) {
    let mut fastest = f64::INFINITY;
    let mut stats = LaunchStats::default();
    for _ in 0..rounds {
        let start = Instant::now();
        stats = run();
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    (fastest, stats)
}

/// What a launch costs apart from its instructions, with a block of four warps and the GEMM's registers and shared memory.
fn overhead() {
    let program = compile(gemm());
    let mut memory = Memory::new();
    let x = buffer(&mut memory, &[0; 2 * 64 * 64]);
    let w = buffer(&mut memory, &[0; 2 * 64 * 64]);
    let y = buffer(&mut memory, &[0; 4 * 64 * 64]);
    for threads in [1, 2] {
        let options = ExecOptions { threads, ..ExecOptions::default() };
        let run = |depth: u32, blocks: u32| {
            let args = [x, w, y, Arg::U32(depth), Arg::U32(0)];
            launch(&program, [1, 1, blocks], [128, 1, 1], &args, &memory, &options).unwrap_or_else(|e| panic!("{e}"))
        };
        for blocks in [1, 2] {
            let (seconds, stats) = best(200, || run(0, blocks));
            println!(
                "launch of {blocks} blocks on {threads} threads: {:.1} us, {} instructions",
                seconds * 1e6,
                stats.instructions
            );
        }
    }
}

fn main() {
    overhead();
    let wanted = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    for level in Level::available().filter(|l| wanted.as_deref().is_none_or(|w| w == l.name())) {
        let options = ExecOptions { threads: 1, simd: level, ..ExecOptions::default() };
        let mut memory = Memory::new();

        let (m, n, depth) = (128, 512, 512);
        let program = compile(gemm());
        let x = buffer(&mut memory, &values(m * depth, 1));
        let w = buffer(&mut memory, &values(n * depth, 2));
        let y = buffer(&mut memory, &vec![0; 4 * (m * n) as usize]);
        let args = [x, w, y, Arg::U32(depth), Arg::U32(n)];
        let grid = [n / TILE, m / TILE, 1];
        let (seconds, stats) = best(15, || {
            launch(&program, grid, [128, 1, 1], &args, &memory, &options).unwrap_or_else(|e| panic!("{e}"))
        });
        let macs = f64::from(m) * f64::from(n) * f64::from(depth);
        println!(
            "{:<8}  gemm {m}x{n}x{depth}: {:6.2} GMAC/s a core, {:5.0} ns a mma, {:4.1} instructions a mma",
            level.name(),
            macs / seconds / 1e9,
            seconds * 1e9 / stats.mmas as f64,
            stats.instructions as f64 / stats.mmas as f64,
        );

        let (rows, columns) = (512, 1024);
        let program = compile(rms_norm(columns));
        let x = buffer(&mut memory, &values(rows * columns, 3));
        let w = buffer(&mut memory, &values(columns, 4));
        let y = buffer(&mut memory, &vec![0; 2 * (rows * columns) as usize]);
        let run = || {
            launch(&program, [rows, 1, 1], [32, 1, 1], &[x, w, y], &memory, &options).unwrap_or_else(|e| panic!("{e}"))
        };
        let (seconds, stats) = best(15, run);
        let elements = f64::from(rows) * f64::from(columns);
        println!(
            "{:<8}  rms_norm {rows}x{columns}: {:6.1} M elements/s a core, {:4.1} ns an instruction",
            level.name(),
            elements / seconds / 1e6,
            seconds * 1e9 / stats.instructions as f64,
        );
    }
}
