//! The residual addition and the norm after it in one launch.

use ptx::builder::{KernelBuilder, P, R32, R64};

use super::emit::{narrow8, text, widen8};
use super::rmsnorm::{LANES, load, scale8};
use super::{KernelText, RmsNormSpec};

/// [`AddSpec`](super::AddSpec), then [`RmsNormSpec`] of its result.
///
/// Arguments: `x: bf16[rows, hidden_pad]`, `y` (same), `z` (same, out: their sum), `w: bf16[hidden_pad]`, `n: bf16[rows, hidden_pad]`
/// (out: the norm of `z`), `rows: u32`.
///
/// # Bits
/// Those of the two kernels one after the other: the sum is rounded to bf16 before it is squared. The weight of columns `hidden..hidden_pad` does
/// not matter; they are `+0` in `z` as in `x` and `y`, and in `n`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddNormSpec(pub RmsNormSpec);

impl AddNormSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let norm = &self.0;
        let mut k = KernelBuilder::new("add_rmsnorm");
        k.max_ntid(LANES, 1, 1);
        let (x, y, z) = (k.param_ptr("x"), k.param_ptr("y"), k.param_ptr("z"));
        let (w, n, rows) = (k.param_ptr("w"), k.param_ptr("n"), k.param_u32("rows"));
        let row = k.ctaid_x();
        let outside = k.setp_ge_u32(row, rows);
        k.ret_if(outside);
        let lane = k.tid_x();
        let lane_bytes = k.mul_wide_u32(lane, 16);
        let [x, y, z, n] = [x, y, z, n].map(|base| {
            let line = k.mad_wide_u32(row, norm.hidden_pad * 2, base);
            k.add_u64(line, lane_bytes)
        });
        let w = k.add_u64(w, lane_bytes);

        let sum = k.mov_f32(0.0);
        norm.over_chunks(&mut k, lane, &[x, y, z], |k, at, offset, owns| {
            let (a, b) = (load(k, owns, at[0], offset), load(k, owns, at[1], offset));
            let (a, b) = (widen8(k, a), widen8(k, b));
            let added = std::array::from_fn(|i| k.add_rn(a[i], b[i]));
            let added = narrow8(k, added);
            store(k, owns, at[2], offset, added);
            for v in widen8(k, added) {
                k.fma_rn_into(sum, v, v, sum);
            }
        });
        let r = norm.scale(&mut k, sum);
        norm.over_chunks(&mut k, lane, &[z, w, n], |k, at, offset, owns| {
            // What this lane has just stored: not by way of the read-only cache.
            let v = match owns {
                None => k.ld_global_v(at[0], offset),
                Some(_) => load(k, owns, at[0], offset),
            };
            let w = load(k, owns, at[1], offset);
            let normal = scale8(k, v, |k, v, _| k.mul_rn(v, r));
            let w = widen8(k, w);
            let weighted = scale8(k, normal, |k, v, i| k.mul_rn(v, w[i]));
            store(k, owns, at[2], offset, weighted);
        });
        self.columns_without_chunk(&mut k, lane, [x, y, z]);
        norm.zero_padding(&mut k, lane, n);
        text(k.finish(), LANES, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        self.0.grid(rows)
    }

    /// The sums of whole chunks of padding, which the norm does not look at.
    fn columns_without_chunk(&self, k: &mut KernelBuilder, lane: R32, [x, y, z]: [R64; 3]) {
        let (seen, all) = (self.0.hidden.div_ceil(8), self.0.hidden_pad / 8);
        if seen == all {
            return;
        }
        // At most one: widths are padded to 16.
        let owner = k.setp_eq_u32(lane, seen % LANES);
        let offset = i64::from(seen / LANES * LANES * 16);
        k.if_(owner, |k| {
            let (a, b): ([R32; 4], [R32; 4]) = (k.ld_global_v(x, offset), k.ld_global_v(y, offset));
            let (a, b) = (widen8(k, a), widen8(k, b));
            let added = std::array::from_fn(|i| k.add_rn(a[i], b[i]));
            let added = narrow8(k, added);
            k.st_global_v(z, offset, added);
        });
    }
}

fn store(k: &mut KernelBuilder, owns: Option<P>, at: R64, offset: i64, chunk: [R32; 4]) {
    match owns {
        Some(owns) => k.with_guard(owns, |k| k.st_global_v(at, offset, chunk)),
        None => k.st_global_v(at, offset, chunk),
    }
}
