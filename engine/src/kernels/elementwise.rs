//! The element-wise operations of the MLP and of the residual stream.

use ptx::builder::{F32, KernelBuilder, R32};

use super::emit::{CHUNK, THREADS, for_each_unit, narrow8, text, unit_grid, widen8};
use super::units::exp2;
use super::{KernelText, Units};

/// Residual addition.
///
/// Arguments: `x: bf16[rows, width]`, `y` (same), `z` (same, out; may be `x`), `rows: u32`.
///
/// # Bits
/// `z = bf16(add.rn.f32(x, y))`. NaN results are `7fff`; padding (`+0 + +0`) stays `+0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddSpec {
    /// Padded width of a row.
    pub width: u32,
}

impl AddSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let mut k = KernelBuilder::new("add");
        let (x, y, z, rows) = (k.param_ptr("x"), k.param_ptr("y"), k.param_ptr("z"), k.param_u32("rows"));
        for_each_unit(&mut k, rows, self.width / CHUNK, |k, row, unit| {
            // Rows follow each other without a gap, so a chunk's place is its number.
            let chunk = k.mad_lo_u32(row, self.width / CHUNK, unit);
            let (x, y, z) = (k.mad_wide_u32(chunk, 16, x), k.mad_wide_u32(chunk, 16, y), k.mad_wide_u32(chunk, 16, z));
            // Not `.nc`: `z` may be `x`.
            let (a, b): ([R32; 4], [R32; 4]) = (k.ld_global_v(x, 0), k.ld_global_v(y, 0));
            let (a, b) = (widen8(k, a), widen8(k, b));
            let sum = std::array::from_fn(|i| k.add_rn(a[i], b[i]));
            let sum = narrow8(k, sum);
            k.st_global_v(z, 0, sum);
        });
        text(k.finish(), THREADS, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        unit_grid(rows, self.width / CHUNK)
    }
}

/// `silu(gate) * up`.
///
/// Arguments: `gate_up: bf16[rows, 2 * ffn_pad]` (gate columns, then up columns), `y: bf16[rows, ffn_pad]` (out), `rows: u32`.
///
/// # Bits
/// With `g` the gate and `u` the up value, each step rounded to nearest even in f32 unless it says otherwise:
///
/// ```text
/// Special: e = ex2.approx.ftz(g * -log2e);  q = rcp.approx.ftz(1 + e);  t = g * q      log2e = 3fb8aa3b
/// Ieee:    e = 2^(-|g| log2e) as `exp2` of the kernels computes it
///          t = div.rn(g where g >= 0, else g * e;  1 + e)
/// s = bf16(t)                         eager frameworks store silu before the product
/// y = bf16(s * u)
/// ```
///
/// Gates below about `-87` give a zero with the gate's sign (`1 / (1 + e)` with `e >= 2^126`, or `e` itself, is flushed); a gate
/// of `-inf` gives NaN, as `x / (1 + exp(-x))` does. Padding (`g = u = +0`) stays `+0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiluMulSpec {
    /// Padded width of the feed-forward layer.
    pub ffn_pad: u32,
    /// What the exponential and the quotient are computed with.
    pub units: Units,
}

impl SiluMulSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let mut k = KernelBuilder::new(match self.units {
            Units::Special => "silu_mul",
            Units::Ieee => "silu_mul_ieee",
        });
        let (gate_up, y, rows) = (k.param_ptr("gate_up"), k.param_ptr("y"), k.param_u32("rows"));
        let row_bytes = self.ffn_pad * 2;
        for_each_unit(&mut k, rows, self.ffn_pad / CHUNK, |k, row, unit| {
            let from = k.mad_wide_u32(row, 2 * row_bytes, gate_up);
            let from = k.mad_wide_u32(unit, 16, from);
            let to = k.mad_wide_u32(row, row_bytes, y);
            let to = k.mad_wide_u32(unit, 16, to);
            let gate: [R32; 4] = k.ld_global_nc_v(from, 0);
            let up: [R32; 4] = k.ld_global_nc_v(from, i64::from(row_bytes));
            let gate = widen8(k, gate);
            let silu = gate.map(|g| self.silu(k, g));
            let silu = narrow8(k, silu);
            let (silu, up) = (widen8(k, silu), widen8(k, up));
            let product = std::array::from_fn(|i| k.mul_rn(silu[i], up[i]));
            let product = narrow8(k, product);
            k.st_global_v(to, 0, product);
        });
        text(k.finish(), THREADS, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        unit_grid(rows, self.ffn_pad / CHUNK)
    }

    fn silu(&self, k: &mut KernelBuilder, g: F32) -> F32 {
        const LOG2_E: f32 = std::f32::consts::LOG2_E;
        match self.units {
            Units::Special => {
                let scaled = k.mul_rn(g, -LOG2_E);
                let e = k.ex2_approx_ftz(scaled);
                let d = k.add_rn(e, 1.0);
                let q = k.rcp_approx_ftz(d);
                k.mul_rn(g, q)
            }
            Units::Ieee => {
                let size = k.abs_f32(g);
                let below = k.neg_f32(size);
                let e = exp2(k, below, LOG2_E);
                let scaled = k.mul_rn(g, e);
                let positive = k.setp_ge_f32(g, 0.0);
                let numerator = k.selp_f32(g, scaled, positive);
                let d = k.add_rn(e, 1.0);
                k.div_rn(numerator, d)
            }
        }
    }
}
