//! Speed of the interpreter on two kernels of the kind that inference runs: a bf16 GEMM on `mma.sync`, and RMSNorm.
//!
//! `cargo bench -p lastbit-emulator --bench exec [-- LEVEL]`, one thread. Best of several rounds.

use std::time::Instant;

use emulator::exec::{Arg, ExecOptions, LaunchStats, Memory, Program, launch};
use emulator::profile::Profile;
use emulator::simd::Level;
use ptx::ast::Module;
use ptx::builder::{F32, KernelBuilder, R32, R64};

/// Rows and columns of `Y` of a block: 4 warps of 32 x 32.
const TILE: u32 = 64;
/// Depth of a stage, and bytes from row to row of a stage in shared memory (padded against bank conflicts).
const STAGE: u32 = 64;
const ROW: u32 = 2 * STAGE + 16;

/// `Y[m, n] = X[m, k] W[n, k]^T`, all sizes multiples of 64: cp.async double buffering, ldmatrix, mma.m16n8k16.
fn gemm() -> Program {
    let mut k = KernelBuilder::new("gemm");
    let (x, w, y) = (k.param_ptr("x"), k.param_ptr("w"), k.param_ptr("y"));
    let (depth, columns) = (k.param_u32("k"), k.param_u32("n"));
    let (tid, bx, by) = (k.tid_x(), k.ctaid_x(), k.ctaid_y());
    let lane = k.and_b32(tid, 31);
    let warp = k.shr_u32(tid, 5);
    let stage_bytes = 2 * TILE * ROW;
    let smem = k.shared("stages", 16, 2 * stage_bytes);
    let smem = k.shared_addr(smem);

    // Copies: thread t moves 16 bytes of rows t/8, t/8 + 16, ... of both tiles.
    let (copy_row, chunk) = (k.shr_u32(tid, 3), k.and_b32(tid, 7));
    let row_bytes = k.shl_b32(depth, 1);
    let along = k.shl_b32(chunk, 4);
    let source = |k: &mut KernelBuilder, base: R64, block: R32| {
        let row = k.mad_lo_u32(block, TILE, copy_row);
        let from = k.mad_wide_u32(row, row_bytes, base);
        let along = k.cvt_u64_u32(along);
        k.add_u64(from, along)
    };
    let (from_x, from_w) = (source(&mut k, x, by), source(&mut k, w, bx));
    let step = k.mul_wide_u32(row_bytes, 16);
    let to = k.mad_lo_u32(copy_row, ROW, smem);
    let to = k.add_u32(to, along);
    let stage = |k: &mut KernelBuilder, to: R32| {
        for (from, tile) in [(from_x, 0), (from_w, TILE * ROW)] {
            let mut at = from;
            for i in 0..4 {
                if i > 0 {
                    at = k.add_u64(at, step);
                }
                k.cp_async_cg(to, i64::from(tile + i * 16 * ROW), at, 0);
            }
            k.add_u64_into(from, from, u64::from(2 * STAGE));
        }
        k.cp_async_commit();
    };

    // Fragments: ldmatrix.x4 reads rows 0-15 at depth 0, then at depth 8.
    let (down, right) = (k.shr_u32(warp, 1), k.and_b32(warp, 1));
    let row = k.and_b32(lane, 15);
    let half = k.shr_u32(lane, 4);
    let lane_at = k.mad_lo_u32(row, ROW, smem);
    let lane_at = k.mad_lo_u32(half, 16, lane_at);
    let a = k.mad_lo_u32(down, 32 * ROW, lane_at);
    let b = k.mad_lo_u32(right, 32 * ROW, lane_at);
    let b = k.add_u32(b, TILE * ROW);

    let acc: [[[F32; 4]; 4]; 2] =
        std::array::from_fn(|_| std::array::from_fn(|_| std::array::from_fn(|_| k.mov_f32(0.0))));
    let (now, next) = (k.mov_b32(0u32), k.mov_b32(stage_bytes));
    stage(&mut k, to);
    let i = k.mov_b32(0u32);
    k.while_(
        |k| k.setp_lt_u32(i, depth),
        |k| {
            k.cp_async_wait_group(0);
            k.bar_sync(0);
            let after = k.add_u32(i, STAGE);
            k.set(i, after);
            let more = k.setp_lt_u32(i, depth);
            k.if_(more, |k| {
                let to = k.add_u32(to, next);
                stage(k, to);
            });
            let (a, b) = (k.add_u32(a, now), k.add_u32(b, now));
            for block in 0..STAGE / 16 {
                let at = |tile: u32| i64::from(16 * tile * ROW + block * 32);
                let columns: [[R32; 4]; 2] = std::array::from_fn(|pair| k.ldmatrix(false, b, at(pair as u32)));
                for (m, acc) in acc.iter().enumerate() {
                    let rows: [R32; 4] = k.ldmatrix(false, a, at(m as u32));
                    for (n, &acc) in acc.iter().enumerate() {
                        let (pair, odd) = (columns[n / 2], n % 2);
                        k.mma_m16n8k16_bf16_into(acc, rows, [pair[odd], pair[odd + 2]]);
                    }
                }
            }
            k.sub_u32_into(now, stage_bytes, now);
            k.sub_u32_into(next, stage_bytes, next);
        },
    );

    let (g, t) = (k.shr_u32(lane, 2), k.and_b32(lane, 3));
    let row = k.mad_lo_u32(by, TILE, g);
    let row = k.mad_lo_u32(down, 32, row);
    let column = k.mul_lo_u32(bx, TILE);
    let column = k.mad_lo_u32(right, 32, column);
    let column = k.mad_lo_u32(t, 2, column);
    let line = k.shl_b32(columns, 2);
    for (m, acc) in acc.iter().enumerate() {
        for half in 0..2 {
            let row = k.add_u32(row, 16 * m as u32 + 8 * half as u32);
            let at = k.mad_wide_u32(row, line, y);
            let at = k.mad_wide_u32(column, 4, at);
            for (n, acc) in acc.iter().enumerate() {
                k.st_global_v(at, 32 * n as i64, [acc[2 * half], acc[2 * half + 1]]);
            }
        }
    }
    compile(k)
}

/// `y = bf16(bf16(x * rsqrt(mean(x^2) + eps)) * w)`, one warp a row of a multiple of 256 columns.
fn rms_norm(columns: u32) -> Program {
    let mut k = KernelBuilder::new("rms_norm");
    let (x, w, y) = (k.param_ptr("x"), k.param_ptr("w"), k.param_ptr("y"));
    let (row, lane) = (k.ctaid_x(), k.tid_x());
    let along = k.mul_wide_u32(lane, 16);
    let (x, y) = (k.mad_wide_u32(row, 2 * columns, x), k.mad_wide_u32(row, 2 * columns, y));
    let (x, w, y) = (k.add_u64(x, along), k.add_u64(w, along), k.add_u64(y, along));
    let sum = k.mov_f32(0.0);
    let widen = |k: &mut KernelBuilder, pairs: [R32; 4]| pairs.map(|p| k.bf16x2_to_f32(p));
    for chunk in 0..columns / 256 {
        let v = k.ld_global_nc_v(x, i64::from(512 * chunk));
        for (lo, hi) in widen(&mut k, v) {
            k.fma_rn_into(sum, lo, lo, sum);
            k.fma_rn_into(sum, hi, hi, sum);
        }
    }
    for distance in [16u32, 8, 4, 2, 1] {
        let other = k.shfl_bfly(sum, distance);
        k.add_rn_into(sum, sum, other);
    }
    let mean = k.mul_rn(sum, 1.0 / columns as f32);
    let shifted = k.add_rn(mean, 1e-5);
    let r = k.rsqrt_approx_ftz(shifted);
    for chunk in 0..columns / 256 {
        let offset = i64::from(512 * chunk);
        let (v, weights) = (k.ld_global_nc_v(x, offset), k.ld_global_nc_v(w, offset));
        let (v, weights) = (widen(&mut k, v), widen(&mut k, weights));
        let out: [R32; 4] = std::array::from_fn(|i| {
            let (lo, hi) = (k.mul_rn(v[i].0, r), k.mul_rn(v[i].1, r));
            let normal = k.cvt_rn_bf16x2_f32(hi, lo);
            let (lo, hi) = k.bf16x2_to_f32(normal);
            let (lo, hi) = (k.mul_rn(lo, weights[i].0), k.mul_rn(hi, weights[i].1));
            k.cvt_rn_bf16x2_f32(hi, lo)
        });
        k.st_global_v(y, offset, out);
    }
    compile(k)
}

fn compile(k: KernelBuilder) -> Program {
    let kernel = k.finish();
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

fn main() {
    let wanted = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    for level in Level::available().filter(|l| wanted.as_deref().is_none_or(|w| w == l.name())) {
        let options = ExecOptions { threads: 1, simd: level, ..ExecOptions::default() };
        let mut memory = Memory::new();

        let (m, n, depth) = (128, 512, 512);
        let program = gemm();
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
        let program = rms_norm(columns);
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
