//! What some families do to q, k and v between their projection and the rotary embedding.

use ptx::builder::{F32, KernelBuilder, R32};

use super::emit::{CHUNK, THREADS, for_each_unit, narrow8, text, unit_grid, widen8};
use super::units::rsqrt;
use super::{KernelText, Units};

/// Threads of a block of [`HeadNormSpec`]: one warp.
const LANES: u32 = 32;

/// Adds a bias to every row, in place.
///
/// Arguments: `x: bf16[rows, width]` (in and out), `b: bf16[width]`, `rows: u32`.
///
/// # Bits
/// `x = bf16(add.rn.f32(x, b))`: the projection is rounded to bf16 before the bias is added. NaN results are `7fff`; padding
/// (`+0 + +0`) stays `+0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BiasSpec {
    /// Padded width of a row.
    pub width: u32,
}

impl BiasSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let mut k = KernelBuilder::new("bias");
        let (x, b, rows) = (k.param_ptr("x"), k.param_ptr("b"), k.param_u32("rows"));
        for_each_unit(&mut k, rows, self.width / CHUNK, |k, row, unit| {
            let chunk = k.mad_lo_u32(row, self.width / CHUNK, unit);
            let x = k.mad_wide_u32(chunk, 16, x);
            let b = k.mad_wide_u32(unit, 16, b);
            let (values, bias): ([R32; 4], [R32; 4]) = (k.ld_global_v(x, 0), k.ld_global_nc_v(b, 0));
            let (values, bias) = (widen8(k, values), widen8(k, bias));
            let sum = std::array::from_fn(|i| k.add_rn(values[i], bias[i]));
            let sum = narrow8(k, sum);
            k.st_global_v(x, 0, sum);
        });
        text(k.finish(), THREADS, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        unit_grid(rows, self.width / CHUNK)
    }
}

/// RMSNorm of every q head and every k head, in place; v heads stay.
///
/// Arguments: `qkv: bf16[rows, (q_heads + 2*kv_heads) * head_pad]` (in and out), `q_w: bf16[head_pad]`, `k_w: bf16[head_pad]`,
/// `rows: u32`. One warp a head.
///
/// # Bits
/// That of [`RmsNormSpec`](super::RmsNormSpec) over one head of `head_dim` columns: lane `l` of 32 owns columns `8l..8l+8`, so that at most
/// one chunk is a lane's.
///
/// ```text
/// lane l:   a = +0; over its columns in ascending order: a = fma(x, x, a)
/// butterfly over lane distances 16, 8, 4, 2, 1: a = a + a[lane ^ distance]
/// m = a * rn(1/head_dim);  r = rsqrt.approx.ftz(m + eps), or with IEEE units rcp.rn(sqrt.rn(m + eps))
/// x = bf16( bf16(x * r) * w )
/// ```
///
/// Columns `head_dim..head_pad` are neither read nor written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeadNormSpec {
    /// Query heads.
    pub q_heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// True head width: a multiple of 8, at most 256.
    pub head_dim: u32,
    /// Padded head width.
    pub head_pad: u32,
    /// Bits of epsilon as f32.
    pub eps: u32,
    /// What the root is computed with.
    pub units: Units,
}

impl HeadNormSpec {
    /// The kernel.
    ///
    /// # Panics
    /// When `head_dim` is not a multiple of 8 up to 256: no model configuration that the engine accepts has such heads.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let chunks = self.head_dim / CHUNK;
        assert!(self.head_dim.is_multiple_of(CHUNK) && chunks <= LANES, "heads of {}", self.head_dim);
        let mut k = KernelBuilder::new(match self.units {
            Units::Special => "head_norm",
            Units::Ieee => "head_norm_ieee",
        });
        k.max_ntid(LANES, 1, 1);
        let (qkv, q_w, k_w) = (k.param_ptr("qkv"), k.param_ptr("q_w"), k.param_ptr("k_w"));
        let rows = k.param_u32("rows");
        let index = k.ctaid_x();
        let row = k.div_u32(index, self.normed());
        let outside = k.setp_ge_u32(row, rows);
        k.ret_if(outside);
        let before = k.mul_lo_u32(row, self.normed());
        let head = k.sub_u32(index, before);
        let lane = k.tid_x();
        let line = k.mad_lo_u32(row, self.q_heads + 2 * self.kv_heads, head);
        let at = k.mad_wide_u32(line, self.head_pad * 2, qkv);
        let at = k.mad_wide_u32(lane, 16, at);
        let query = k.setp_lt_u32(head, self.q_heads);
        let w = k.selp_b64(q_w, k_w, query);
        let w = k.mad_wide_u32(lane, 16, w);

        // Lanes beyond the head take part with zeros.
        let owns = k.setp_lt_u32(lane, chunks);
        let load = |k: &mut KernelBuilder, at| -> [F32; 8] {
            let chunk: [R32; 4] = std::array::from_fn(|_| k.mov_b32(0));
            k.with_guard(owns, |k| k.ld_global_v_into(chunk, at, 0));
            widen8(k, chunk)
        };
        let x = load(&mut k, at);
        let w = load(&mut k, w);
        let sum = k.mov_f32(0.0);
        for v in x {
            k.fma_rn_into(sum, v, v, sum);
        }
        for distance in [16u32, 8, 4, 2, 1] {
            let other = k.shfl_bfly(sum, distance);
            k.add_rn_into(sum, sum, other);
        }
        let mean = k.mul_rn(sum, 1.0 / self.head_dim as f32);
        let shifted = k.add_rn(mean, f32::from_bits(self.eps));
        let r = rsqrt(&mut k, self.units, shifted);
        let normal = std::array::from_fn(|i| k.mul_rn(x[i], r));
        let normal = narrow8(&mut k, normal);
        let normal = widen8(&mut k, normal);
        let weighted = std::array::from_fn(|i| k.mul_rn(normal[i], w[i]));
        let weighted = narrow8(&mut k, weighted);
        k.with_guard(owns, |k| k.st_global_v(at, 0, weighted));
        text(k.finish(), LANES, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [rows * self.normed(), 1, 1]
    }

    /// Heads of a row that are normalised.
    fn normed(&self) -> u32 {
        self.q_heads + self.kv_heads
    }
}
