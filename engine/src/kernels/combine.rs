//! The second half of split-KV attention.

use ptx::builder::{F32, KernelBuilder, R64};

use super::KernelText;
use super::attention::scale_log2e;
use super::emit::{THREADS, for_each_unit, text, unit_grid};

/// Head dimensions a thread merges: 16 bytes of f32.
const UNIT: u32 = 4;

/// Merges split-KV partials in ascending split order.
///
/// Arguments: `o`, `m`, `l` as [`AttentionSpec`](super::AttentionSpec) leaves them, `out: bf16[rows, q_heads * head_pad]` (out),
/// `rows: u32`, `splits: u32` (not zero).
///
/// # Bits
/// With `c` as in [`AttentionSpec`](super::AttentionSpec), all f32 nearest even:
///
/// ```text
/// M = max over splits of m[s]
/// w[s] = ex2.approx.ftz((m[s] - M) * c)
/// L = l[0] * w[0];  then L = fma(l[s], w[s], L) for s = 1, 2, ...
/// O = o[0] * w[0];  then O = fma(o[s], w[s], O) for s = 1, 2, ...
/// out = bf16(O * rcp.approx.ftz(L))
/// ```
///
/// A split without keys for the row has `m = -inf`, hence weight `+0`. One split gives what the unsplit kernel gives: its weight is
/// `ex2(0) = 1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionCombineSpec {
    /// Query heads.
    pub q_heads: u32,
    /// True head width (sets the scale).
    pub head_dim: u32,
    /// Padded head width.
    pub head_pad: u32,
}

impl AttentionCombineSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let mut k = KernelBuilder::new("attention_combine");
        let (o, m, l) = (k.param_ptr("o"), k.param_ptr("m"), k.param_ptr("l"));
        let (out, rows, splits) = (k.param_ptr("out"), k.param_u32("rows"), k.param_u32("splits"));
        let c = scale_log2e(self.head_dim);
        for_each_unit(&mut k, rows, self.units_per_row(), |k, row, unit| {
            let units = k.mad_lo_u32(row, self.units_per_row(), unit);
            let line = k.div_u32(units, self.head_pad / UNIT);
            // One split further: so many row-heads, each 4 bytes in `m` and `l`, a head in `o`.
            let lines = k.mul_lo_u32(rows, self.q_heads);
            let (state_bytes, o_bytes) = (k.mul_wide_u32(lines, 4), k.mul_wide_u32(lines, self.head_pad * 4));
            let (m, l) = (k.mad_wide_u32(line, 4, m), k.mad_wide_u32(line, 4, l));
            let o = k.mad_wide_u32(units, UNIT * 4, o);

            let top: F32 = k.ld_global_nc(m, 0);
            let at = k.mov_b64(m);
            k.for_u32(1u32, splits, 1u32, |k, _| {
                k.add_u64_into(at, at, state_bytes);
                let m: F32 = k.ld_global_nc(at, 0);
                k.max_f32_into(top, top, m);
            });
            let weight = |k: &mut KernelBuilder, m: R64| {
                let m: F32 = k.ld_global_nc(m, 0);
                let below = k.sub_rn(m, top);
                let scaled = k.mul_rn(below, c);
                k.ex2_approx_ftz(scaled)
            };
            let w = weight(k, m);
            let part: F32 = k.ld_global_nc(l, 0);
            let sum = k.mul_rn(part, w);
            let parts: [F32; 4] = k.ld_global_nc_v(o, 0);
            let acc = parts.map(|part| k.mul_rn(part, w));
            k.for_u32(1u32, splits, 1u32, |k, _| {
                k.add_u64_into(m, m, state_bytes);
                k.add_u64_into(l, l, state_bytes);
                k.add_u64_into(o, o, o_bytes);
                let w = weight(k, m);
                let part: F32 = k.ld_global_nc(l, 0);
                k.fma_rn_into(sum, part, w, sum);
                let parts: [F32; 4] = k.ld_global_nc_v(o, 0);
                for (acc, part) in acc.into_iter().zip(parts) {
                    k.fma_rn_into(acc, part, w, acc);
                }
            });
            let inverse = k.rcp_approx_ftz(sum);
            let v = acc.map(|acc| k.mul_rn(acc, inverse));
            let pairs = [k.cvt_rn_bf16x2_f32(v[1], v[0]), k.cvt_rn_bf16x2_f32(v[3], v[2])];
            let to = k.mad_wide_u32(units, UNIT * 2, out);
            k.st_global_v(to, 0, pairs);
        });
        text(k.finish(), THREADS, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        unit_grid(rows, self.units_per_row())
    }

    fn units_per_row(&self) -> u32 {
        self.q_heads * self.head_pad / UNIT
    }
}
