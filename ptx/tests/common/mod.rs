//! Kernels the integration tests share.

#![allow(dead_code)] // each test binary uses some of them

pub mod forms;

use ptx::ast::{AtomOp, Kernel, Module};
use ptx::builder::{F32, KernelBuilder, R16, R32, R64};

/// `y[i] = a * x[i] + y[i]`, one element a thread.
pub fn saxpy() -> Kernel {
    let mut k = KernelBuilder::new("saxpy");
    let (x, y) = (k.param_ptr("x"), k.param_ptr("y"));
    let (a, n) = (k.param_f32("a"), k.param_u32("n"));
    let (cta, ntid, tid) = (k.ctaid_x(), k.ntid_x(), k.tid_x());
    let i = k.mad_lo_u32(cta, ntid, tid);
    let inside = k.setp_lt_u32(i, n);
    k.if_(inside, |k| {
        let (px, py) = (k.mad_wide_u32(i, 4, x), k.mad_wide_u32(i, 4, y));
        let vx: F32 = k.ld_global_nc(px, 0);
        let vy: F32 = k.ld_global(py, 0);
        let r = k.fma_rn(a, vx, vy);
        k.st_global(py, 0, r);
    });
    k.finish()
}

/// Root-mean-square normalisation of one row of bf16 a block of four warps, with a fixed reduction order.
pub fn rmsnorm() -> Kernel {
    let mut k = KernelBuilder::new("rmsnorm");
    k.max_ntid(128, 1, 1);
    let (x, y) = (k.param_ptr("x"), k.param_ptr("y"));
    let (n, eps) = (k.param_u32("n"), k.param_f32("eps"));
    let partial = k.shared("partial", 16, 16);
    let (row, tid) = (k.ctaid_x(), k.tid_x());
    let (lane, warp) = (k.and_b32(tid, 31), k.shr_u32(tid, 5));
    let start = k.mul_lo_u32(row, n);
    let (from, to) = (k.mad_wide_u32(start, 2, x), k.mad_wide_u32(start, 2, y));
    let sum = k.mov_f32(0.0);
    k.for_u32(tid, n, 128, |k, i| {
        let p = k.mad_wide_u32(i, 2, from);
        let v = k.ld_global_bf16(p, 0);
        k.fma_rn_into(sum, v, v, sum);
    });
    let mut total = sum;
    for mask in [16, 8, 4, 2, 1] {
        let other = k.shfl_bfly(total, mask);
        total = k.add_rn(total, other);
    }
    let first = k.setp_eq_u32(lane, 0);
    k.if_(first, |k| {
        let base = k.shared_addr(partial);
        let slot = k.mad_lo_u32(warp, 4, base);
        k.st_shared(slot, 0, total);
    });
    k.bar_sync(0);
    let [p0, p1, p2, p3]: [F32; 4] = k.ld_shared_v(partial, 0);
    let (a, b) = (k.add_rn(p0, p1), k.add_rn(p2, p3));
    let all = k.add_rn(a, b);
    let count = k.cvt_rn_f32_u32(n);
    let mean = k.div_rn(all, count);
    let shifted = k.add_rn(mean, eps);
    let r = k.rsqrt_approx_ftz(shifted);
    k.for_u32(tid, n, 128, |k, i| {
        let (p, q) = (k.mad_wide_u32(i, 2, from), k.mad_wide_u32(i, 2, to));
        let v = k.ld_global_bf16(p, 0);
        let v = k.mul_rn(v, r);
        k.st_global_bf16(q, 0, v);
    });
    k.finish()
}

/// One warp multiplies a 16 x K by an 8 x K tile (both bf16, K a multiple of 16), staged through
/// shared memory with asynchronous copies.
pub fn gemm_tile() -> Kernel {
    let mut k = KernelBuilder::new("gemm_tile");
    k.max_ntid(32, 1, 1);
    let (a, b, d) = (k.param_ptr("a"), k.param_ptr("b"), k.param_ptr("d"));
    let depth = k.param_u32("k");
    let (ta, tb) = (k.shared("tile_a", 16, 512), k.shared("tile_b", 16, 256));
    let lane = k.tid_x();
    let (row, half) = (k.and_b32(lane, 15), k.shr_u32(lane, 4));
    let half = k.and_b32(half, 1);
    let (base_a, base_b) = (k.shared_addr(ta), k.shared_addr(tb));
    let line = k.mad_lo_u32(row, 32, base_a);
    let to_a = k.mad_lo_u32(half, 16, line);
    let small = k.setp_lt_u32(row, 8);
    let line = k.mad_lo_u32(row, 32, base_b);
    let to_b = k.mad_lo_u32(half, 16, line);
    let acc: [F32; 4] = std::array::from_fn(|_| k.mov_f32(0.0));
    k.for_u32(0, depth, 16, |k, at| {
        let column = k.mad_lo_u32(half, 8, at);
        let element = k.mad_lo_u32(row, depth, column);
        let (from_a, from_b) = (k.mad_wide_u32(element, 2, a), k.mad_wide_u32(element, 2, b));
        k.cp_async_cg(to_a, 0, from_a, 0);
        k.with_guard(small, |k| k.cp_async_cg(to_b, 0, from_b, 0));
        k.cp_async_commit();
        k.cp_async_wait_group(0);
        k.bar_sync(0);
        let fa: [R32; 4] = k.ldmatrix(false, to_a, 0);
        let seven = k.and_b32(lane, 7);
        let line = k.mad_lo_u32(seven, 32, base_b);
        let part = k.bfe_u32(lane, 3, 1);
        let addr = k.mad_lo_u32(part, 16, line);
        let fb: [R32; 2] = k.ldmatrix(false, addr, 0);
        k.mma_m16n8k16_bf16_into(acc, fa, fb);
        k.bar_sync(0);
    });
    let (r, c) = (k.shr_u32(lane, 2), k.and_b32(lane, 3));
    let index = k.shl_b32(r, 3);
    let index = k.mad_lo_u32(c, 2, index);
    let out = k.mad_wide_u32(index, 4, d);
    k.st_global_v(out, 0, [acc[0], acc[1]]);
    k.st_global_v(out, 256, [acc[2], acc[3]]);
    k.finish()
}

/// Every instruction the builder can write, at least once, with well-defined operands.
pub fn every_op() -> Kernel {
    let mut k = KernelBuilder::new("every_op");
    k.max_ntid(64, 1, 1);
    let (src, dst) = (k.param_ptr("src"), k.param_ptr("dst"));
    let (n, s) = (k.param_u32("n"), k.param_s32("s"));
    let (wide, scale) = (k.param_u64("wide"), k.param_f32("scale"));
    let tile = k.shared("tile", 128, 4096);
    let base = k.shared_addr(tile);
    every_special(&mut k, dst);
    every_int(&mut k, dst, n, s, wide);
    every_float(&mut k, dst, scale);
    every_convert(&mut k, dst, n, wide, scale);

    // Comparisons and selection.
    let p = k.setp_lt_u32(n, 7);
    let q = k.setp_ge_s32(s, -7);
    let all = [
        k.setp_eq_u32(n, 1),
        k.setp_ne_u32(n, 1),
        k.setp_le_u32(n, 1),
        k.setp_gt_u32(n, 1),
        k.setp_ge_u32(n, 1),
        k.setp_lt_s32(s, 1),
        k.setp_le_s32(s, 1),
        k.setp_gt_s32(s, 1),
        k.setp_eq_u64(wide, 1),
        k.setp_ne_u64(wide, 1),
        k.setp_lt_u64(wide, 1),
        k.setp_ge_u64(wide, 1),
        k.setp_eq_f32(scale, 1.0),
        k.setp_ne_f32(scale, 1.0),
        k.setp_lt_f32(scale, 1.0),
        k.setp_le_f32(scale, 1.0),
        k.setp_gt_f32(scale, 1.0),
        k.setp_ge_f32(scale, 1.0),
        k.setp_neu_f32(scale, 1.0),
        k.setp_gtu_f32(scale, 1.0),
        k.setp_num_f32(scale, 1.0),
        k.setp_nan_f32(scale, 1.0),
    ];
    for next in all {
        k.and_pred_into(p, p, next);
    }
    let both = k.or_pred(p, q);
    let either = k.xor_pred(both, q);
    let p = k.not_pred(either);
    let h = k.cvt_u16_u32(n);
    let picks = (k.selp_b16(h, 3, p), k.selp_b32(n, 3, p), k.selp_b64(wide, 3, p), k.selp_f32(scale, 3.0, p));
    k.st_global(dst, 0, picks.0);
    k.st_global(dst, 4, picks.1);
    k.st_global(dst, 8, picks.2);
    k.st_global(dst, 16, picks.3);

    // Control flow.
    let i = k.mov_b32(0);
    k.while_(|k| k.setp_lt_u32(i, n), |k| k.add_u32_into(i, i, 1));
    k.do_while(|k| {
        k.sub_u32_into(i, i, 1);
        k.setp_gt_u32(i, 0)
    });
    k.loop_(|k, done| {
        k.add_u32_into(i, i, 3);
        let stop = k.setp_ge_u32(i, 9);
        k.bra_if(stop, done);
    });
    k.if_else(p, |k| k.set(i, 5), |k| k.set(i, n));
    k.unless(q, |k| k.set(i, 6));
    k.with_guard(p, |k| k.set(i, 7));
    k.with_guard_not(p, |k| k.set(i, 8));
    k.st_global(dst, 0, i);

    every_memory(&mut k, src, dst, tile, base, n);
    every_warp(&mut k, dst, tile, n, scale);
    let end = k.setp_eq_u32(n, 0);
    k.ret_if(end);
    k.finish()
}

fn every_special(k: &mut KernelBuilder, dst: R64) {
    let all = [
        k.tid_x(),
        k.tid_y(),
        k.tid_z(),
        k.ntid_x(),
        k.ntid_y(),
        k.ntid_z(),
        k.ctaid_x(),
        k.ctaid_y(),
        k.ctaid_z(),
        k.nctaid_x(),
        k.nctaid_y(),
        k.nctaid_z(),
        k.lane_id(),
    ];
    for v in all {
        k.st_global(dst, 0, v);
    }
}

fn every_int(k: &mut KernelBuilder, dst: R64, n: R32, s: R32, wide: R64) {
    let half: R16 = k.mov_b16(0x3f80);
    let narrow = [
        k.add_u32(n, 1),
        k.add_s32(s, -1),
        k.sub_u32(n, 1),
        k.sub_s32(s, 1),
        k.mul_lo_u32(n, 3),
        k.mul_lo_s32(s, -3),
        k.mul_hi_u32(n, 3),
        k.mul_hi_s32(s, 3),
        k.div_u32(n, 3),
        k.div_s32(s, 3),
        k.rem_u32(n, 3),
        k.rem_s32(s, 3),
        k.min_u32(n, 3),
        k.min_s32(s, 3),
        k.max_u32(n, 3),
        k.max_s32(s, 3),
        k.and_b32(n, 0xffff_0000_u32),
        k.or_b32(n, 3),
        k.xor_b32(n, -1),
        k.shl_b32(n, 3),
        k.shr_u32(n, 3),
        k.shr_s32(s, 3),
        k.not_b32(n),
        k.neg_s32(s),
        k.abs_s32(s),
        k.popc_b32(n),
        k.clz_b32(n),
        k.brev_b32(n),
        k.mad_lo_u32(n, 3, n),
        k.mad_lo_s32(s, 3, s),
        k.prmt(n, s, 0x5410),
        k.bfe_u32(n, 3, 5),
        k.bfe_s32(s, 3, 5),
        k.mov_b32(12_usize),
    ];
    for v in narrow {
        k.st_global(dst, 0, v);
    }
    let long = [
        k.add_u64(wide, 1),
        k.add_s64(wide, -1),
        k.sub_u64(wide, 1),
        k.mul_lo_u64(wide, 3),
        k.mul_hi_u64(wide, 3),
        k.mul_wide_u32(n, 3),
        k.mul_wide_s32(s, 3),
        k.div_u64(wide, 3),
        k.rem_u64(wide, 3),
        k.min_u64(wide, 3),
        k.max_u64(wide, 3),
        k.and_b64(wide, u64::MAX),
        k.or_b64(wide, 3),
        k.xor_b64(wide, 3),
        k.shl_b64(wide, 3),
        k.shr_u64(wide, 3),
        k.shr_s64(wide, 3),
        k.not_b64(wide),
        k.mad_lo_u64(wide, 3, wide),
        k.mad_wide_u32(n, 4, wide),
        k.mad_wide_s32(s, 4, wide),
        k.mov_b64(12_usize),
    ];
    for v in long {
        k.st_global(dst, 0, v);
    }
    let short = [k.and_b16(half, 0x7fff), k.or_b16(half, 1), k.xor_b16(half, 1), k.not_b16(half)];
    for v in short {
        k.st_global(dst, 0, v);
    }
}

fn every_float(k: &mut KernelBuilder, dst: R64, scale: F32) {
    let all = [
        k.add_rn(scale, 1.5),
        k.sub_rn(scale, 1.5),
        k.mul_rn(scale, 1.5),
        k.div_rn(scale, 1.5),
        k.add_rz(scale, 1.5),
        k.mul_rz(scale, 1.5),
        k.min_f32(scale, 1.5),
        k.max_f32(scale, 1.5),
        k.fma_rn(scale, 1.5, -0.0),
        k.neg_f32(scale),
        k.abs_f32(scale),
        k.rcp_rn(scale),
        k.sqrt_rn(scale),
        k.rcp_approx_ftz(scale),
        k.rsqrt_approx_ftz(scale),
        k.ex2_approx_ftz(scale),
        k.lg2_approx_ftz(scale),
        k.mov_f32(f32::NEG_INFINITY),
    ];
    for v in all {
        k.st_global(dst, 0, v);
    }
}

fn every_convert(k: &mut KernelBuilder, dst: R64, n: R32, wide: R64, scale: F32) {
    let half = k.cvt_u16_u32(n);
    let words = [
        k.cvt_u32_u16(half),
        k.cvt_s32_s16(half),
        k.cvt_u32_u64(wide),
        k.cvt_rzi_u32_f32(scale),
        k.cvt_rzi_s32_f32(scale),
        k.cvt_rni_s32_f32(scale),
        k.cvt_rna_tf32_f32(scale),
        k.cvt_rn_bf16x2_f32(scale, 1.0),
        k.cvt_rn_f16x2_f32(scale, 1.0),
        k.pack_b16x2(half, half),
        k.bits_of_f32(scale),
    ];
    for v in words {
        k.st_global(dst, 0, v);
    }
    let longs = [k.cvt_u64_u32(n), k.cvt_s64_s32(n), k.pack_b32x2(n, n)];
    for v in longs {
        k.st_global(dst, 0, v);
    }
    let floats = [
        k.cvt_rn_f32_u32(n),
        k.cvt_rn_f32_s32(n),
        k.cvt_rni_f32_f32(scale),
        k.cvt_rmi_f32_f32(scale),
        k.cvt_f32_f16(half),
        k.round_to_bf16(scale),
        k.f32_of_bits(n),
    ];
    for v in floats {
        k.st_global(dst, 0, v);
    }
    let (lo, hi) = k.bf16x2_to_f32(n);
    k.st_global_v(dst, 0, [lo, hi]);
    let halves = [k.cvt_rn_bf16_f32(scale), k.cvt_rn_f16_f32(scale)];
    for v in halves {
        k.st_global(dst, 0, v);
    }
    let (lo, hi) = k.unpack_b16x2(n);
    k.st_global_v(dst, 0, [lo, hi]);
    let (lo, hi) = k.unpack_b32x2(wide);
    k.st_global_v(dst, 0, [lo, hi]);
}

fn every_memory(k: &mut KernelBuilder, src: R64, dst: R64, tile: ptx::builder::SharedRef, base: R32, n: R32) {
    let v4: [R32; 4] = k.ld_global_v(src, 16);
    k.st_global_v(dst, -16, v4);
    let v2: [F32; 2] = k.ld_global_nc_v(src, 0);
    k.ld_global_v_into(v2, src, 8);
    k.st_shared_v(tile, 8, v2);
    k.ld_global_into(v2[0], src, 4);
    let v2: [R64; 2] = k.ld_shared_v(tile, 32);
    k.st_shared_v(base, 0, v2);
    let byte = k.ld_global_u8(src, 3);
    k.st_shared(base, 4, byte);
    let word: R32 = k.ld_shared(base, 8);
    k.ld_shared_into(word, tile, 12);
    k.st_shared::<R32>(tile, 0, 0);
    k.st_global::<F32>(dst, 0, 1.0);
    k.st_global(dst, 0, word);
    for bytes in [4, 8, 16] {
        k.cp_async_ca(bytes, tile, 64, src, 0);
        k.cp_async_ca_zfill(bytes, base, 128, src, 16, n);
    }
    k.cp_async_cg(base, 16, src, 32);
    k.cp_async_cg_zfill(tile, 16, src, 32, 0);
    k.cp_async_commit();
    k.cp_async_wait_group(1);
    k.cp_async_wait_all();
    for op in [AtomOp::Add, AtomOp::Min, AtomOp::Max, AtomOp::And, AtomOp::Or, AtomOp::Xor, AtomOp::Exch] {
        let old = k.atom_global_u32(op, dst, 4, n);
        let old = k.atom_shared_u32(op, tile, 4, old);
        k.st_global(dst, 8, old);
    }
    let old = k.atom_global_cas_b32(dst, 0, 1, n);
    k.st_global(dst, 8, old);
}

fn every_warp(k: &mut KernelBuilder, dst: R64, tile: ptx::builder::SharedRef, n: R32, scale: F32) {
    k.bar_sync(0);
    k.bar_sync(1);
    k.warp_sync();
    let moved = [k.shfl_bfly(n, 1), k.shfl_idx(n, 0), k.shfl_down(n, 2), k.shfl_up(n, 3), k.shfl_bfly(n, n)];
    for v in moved {
        k.st_global(dst, 0, v);
    }
    let f = k.shfl_bfly(scale, 16);
    k.st_global(dst, 0, f);
    let p = k.setp_lt_u32(n, 9);
    let (all, any, ballot) = (k.vote_all(p), k.vote_any(p), k.vote_ballot(p));
    let both = k.and_pred(all, any);
    let picked = k.selp_b32(ballot, 0, both);
    k.st_global(dst, 0, picked);
    let a: [R32; 4] = k.ldmatrix(false, tile, 0);
    let b: [R32; 2] = k.ldmatrix(true, tile, 512);
    let [x]: [R32; 1] = k.ldmatrix(true, tile, 16);
    let zero: [F32; 4] = std::array::from_fn(|_| k.mov_f32(0.0));
    let (a2, b1) = ([a[0], a[1]], [x]);
    let mut acc = k.mma_m16n8k16_bf16(a, b, zero);
    acc = k.mma_m16n8k8_bf16(a2, b1, acc);
    acc = k.mma_m16n8k16_f16(a, b, acc);
    acc = k.mma_m16n8k8_f16(a2, b1, acc);
    acc = k.mma_m16n8k8_tf32(a, b, acc);
    acc = k.mma_m16n8k4_tf32(a2, b1, acc);
    k.mma_m16n8k16_bf16_into(acc, a, b);
    k.st_global_v(dst, 0, acc);
}

/// All of the above in one module.
pub fn all() -> Module {
    Module::new(vec![saxpy(), rmsnorm(), gemm_tile(), every_op()])
}
