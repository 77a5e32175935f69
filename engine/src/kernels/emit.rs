//! Pieces that several kernels are made of.

use ptx::ast::{Kernel, Module};
use ptx::builder::{F32, KernelBuilder, R32};

use super::{KernelSpec, KernelText};

/// Threads of a block of an element-wise kernel.
pub(super) const THREADS: u32 = 128;
/// bf16 elements in the 16 bytes that one thread moves at a time.
pub(super) const CHUNK: u32 = 8;

/// The text of a module that holds this one kernel, built from `spec`.
pub(super) fn text(kernel: Kernel, threads: u32, spec: impl Into<KernelSpec>) -> KernelText {
    let name = kernel.name.clone();
    let ptx = ptx::print(&Module::new(vec![kernel]));
    KernelText { name, ptx, block: [threads, 1, 1], spec: Some(spec.into()) }
}

/// Blocks that [`for_each_unit`] needs.
pub(super) const fn unit_grid(rows: u32, units_per_row: u32) -> [u32; 3] {
    [(rows * units_per_row).div_ceil(THREADS), 1, 1]
}

/// One thread a unit of work: runs `body(row, unit)` in the threads whose unit exists.
/// Launched with [`unit_grid`] blocks of [`THREADS`] threads.
pub(super) fn for_each_unit(
    k: &mut KernelBuilder,
    rows: R32,
    units_per_row: u32,
    body: impl FnOnce(&mut KernelBuilder, R32, R32),
) {
    k.max_ntid(THREADS, 1, 1);
    let (cta, tid) = (k.ctaid_x(), k.tid_x());
    let index = k.mad_lo_u32(cta, THREADS, tid);
    let units = k.mul_lo_u32(rows, units_per_row);
    let inside = k.setp_lt_u32(index, units);
    k.if_(inside, |k| {
        let row = k.div_u32(index, units_per_row);
        let before = k.mul_lo_u32(row, units_per_row);
        let unit = k.sub_u32(index, before);
        body(k, row, unit);
    });
}

/// Eight bf16 as f32, in order: exact.
pub(super) fn widen8(k: &mut KernelBuilder, chunk: [R32; 4]) -> [F32; 8] {
    let mut wide = Vec::with_capacity(8);
    for pair in chunk {
        let (lo, hi) = k.bf16x2_to_f32(pair);
        wide.extend([lo, hi]);
    }
    std::array::from_fn(|i| wide[i])
}

/// Eight f32 rounded to bf16 (nearest even), in order.
pub(super) fn narrow8(k: &mut KernelBuilder, wide: [F32; 8]) -> [R32; 4] {
    std::array::from_fn(|i| k.cvt_rn_bf16x2_f32(wide[2 * i + 1], wide[2 * i]))
}
