//! Two kernels of the kind that inference runs, for the benchmark and the tests.

use ptx::ast::Kernel;
use ptx::builder::{F32, KernelBuilder, R32, R64};

/// Rows and columns of `Y` of a block: 4 warps of 32 x 32.
pub const TILE: u32 = 64;
/// Depth of a stage, and bytes from row to row of a stage in shared memory (padded against bank conflicts).
const STAGE: u32 = 64;
const ROW: u32 = 2 * STAGE + 16;

/// `Y[m, n] = X[m, k] W[n, k]^T`, all sizes multiples of 64: cp.async double buffering, ldmatrix, mma.m16n8k16.
pub fn gemm() -> Kernel {
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
    k.finish()
}

/// `y = bf16(bf16(x * rsqrt(mean(x^2) + eps)) * w)`, one warp a row of a multiple of 256 columns.
pub fn rms_norm(columns: u32) -> Kernel {
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
    k.finish()
}
