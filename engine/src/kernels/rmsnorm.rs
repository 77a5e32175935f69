//! RMSNorm: one warp a row, so that no row waits for another and nothing but the row's own width shapes the sum.

use ptx::builder::{F32, KernelBuilder, P, R16, R32, R64};

use super::emit::{CHUNK, narrow8, text, widen8};
use super::units::rsqrt;
use super::{KernelText, Units};

/// Threads of a block: one warp.
pub(super) const LANES: u32 = 32;
/// Up to this many chunks a lane, the loop over a row is unrolled.
const UNROLL: u32 = 4;

/// RMSNorm, eager casts: `y = bf16(bf16(x * r) * w)`.
///
/// Arguments: `x: bf16[rows, hidden_pad]`, `w: bf16[hidden_pad]`, `y: bf16[rows, hidden_pad]` (out), `rows: u32`.
///
/// # Bits
/// All f32, nearest even. The row is cut into chunks of 8 columns; lane `l` of 32 owns chunks `l, l + 32, l + 64, ...`.
///
/// ```text
/// lane l:   a = +0; over its chunks and their columns in ascending order: a = fma(x, x, a)
/// butterfly over lane distances 16, 8, 4, 2, 1: a = a + a[lane ^ distance]
/// m = a * rn(1/hidden);  r = rsqrt.approx.ftz(m + eps), or with IEEE units rcp.rn(sqrt.rn(m + eps))
/// y = bf16( bf16(x * r) * w )
/// ```
///
/// Every lane ends the butterfly with the same bits, as addition commutes. Nothing depends on `rows` or on the row's place.
/// Columns `hidden..hidden_pad` of `x` are zeros and leave the sum as it is (`fma(0, 0, a) = a` for `a >= +0`);
/// in `y` they are written as `+0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RmsNormSpec {
    /// Width the mean is taken over.
    pub hidden: u32,
    /// Padded width; columns `hidden..hidden_pad` of `y` are written as zero.
    pub hidden_pad: u32,
    /// Bits of epsilon as f32.
    pub eps: u32,
    /// What the root is computed with.
    pub units: Units,
}

impl RmsNormSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let mut k = KernelBuilder::new(match self.units {
            Units::Special => "rmsnorm",
            Units::Ieee => "rmsnorm_ieee",
        });
        k.max_ntid(LANES, 1, 1);
        let (x, w, y, rows) = (k.param_ptr("x"), k.param_ptr("w"), k.param_ptr("y"), k.param_u32("rows"));
        let row = k.ctaid_x();
        let outside = k.setp_ge_u32(row, rows);
        k.ret_if(outside);
        let lane = k.tid_x();
        let lane_bytes = k.mul_wide_u32(lane, 16);
        let (x, y) = (k.mad_wide_u32(row, self.hidden_pad * 2, x), k.mad_wide_u32(row, self.hidden_pad * 2, y));
        let (x, w, y) = (k.add_u64(x, lane_bytes), k.add_u64(w, lane_bytes), k.add_u64(y, lane_bytes));

        let sum = k.mov_f32(0.0);
        self.over_chunks(&mut k, lane, &[x], |k, at, offset, owns| {
            let chunk = load(k, owns, at[0], offset);
            for v in widen8(k, chunk) {
                k.fma_rn_into(sum, v, v, sum);
            }
        });
        let r = self.scale(&mut k, sum);

        self.over_chunks(&mut k, lane, &[x, w, y], |k, at, offset, owns| {
            let (v, w) = (load(k, owns, at[0], offset), load(k, owns, at[1], offset));
            let normal = scale8(k, v, |k, v, _| k.mul_rn(v, r));
            let w = widen8(k, w);
            let weighted = scale8(k, normal, |k, v, i| k.mul_rn(v, w[i]));
            match owns {
                Some(owns) => k.with_guard(owns, |k| k.st_global_v(at[2], offset, weighted)),
                None => k.st_global_v(at[2], offset, weighted),
            }
        });
        self.zero_padding(&mut k, lane, y);
        text(k.finish(), LANES, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [rows, 1, 1]
    }

    /// `1 / sqrt(mean + eps)` of the lanes' sums of squares.
    pub(super) fn scale(&self, k: &mut KernelBuilder, sum: F32) -> F32 {
        for distance in [16u32, 8, 4, 2, 1] {
            let other = k.shfl_bfly(sum, distance);
            k.add_rn_into(sum, sum, other);
        }
        let mean = k.mul_rn(sum, 1.0 / self.hidden as f32);
        let shifted = k.add_rn(mean, f32::from_bits(self.eps));
        rsqrt(k, self.units, shifted)
    }

    /// Runs `body(pointers, byte offset, owns)` for each chunk of the row that this lane owns, ascending. `pointers` point at the
    /// lane's first chunk. Where some lanes have no chunk left, all go on and `owns` tells who has one: an absent chunk is zeros,
    /// which leave a sum as it is.
    pub(super) fn over_chunks(
        &self,
        k: &mut KernelBuilder,
        lane: R32,
        pointers: &[R64],
        mut body: impl FnMut(&mut KernelBuilder, &[R64], i64, Option<P>),
    ) {
        // A chunk that holds the last columns may reach into the padding, which is there and zero.
        let chunks = self.hidden.div_ceil(CHUNK);
        let (full, rest) = (chunks / LANES, chunks % LANES);
        let step = i64::from(LANES * 16);
        let mut at = pointers.to_vec();
        let mut offset = 0;
        if full <= UNROLL {
            for _ in 0..full {
                body(k, &at, offset, None);
                offset += step;
            }
        } else {
            at = pointers.iter().map(|&p| k.mov_b64(p)).collect();
            k.for_u32(0u32, full, 1u32, |k, _| {
                body(k, &at, 0, None);
                for &p in &at {
                    k.add_u64_into(p, p, LANES * 16);
                }
            });
        }
        if rest != 0 {
            let owns = k.setp_lt_u32(lane, rest);
            body(k, &at, offset, Some(owns));
        }
    }

    /// Writes `+0` to columns `hidden..hidden_pad`. What a chunk wrote there is `0 * r * w`, a zero of `w`'s sign (or NaN when `r`
    /// is not finite); whole chunks of padding were not written at all.
    pub(super) fn zero_padding(&self, k: &mut KernelBuilder, lane: R32, y: R64) {
        let columns = self.hidden_pad - self.hidden;
        if columns == 0 {
            return;
        }
        // The lane that writes a zero here may not be the one that wrote the chunk.
        k.warp_sync();
        let pads = k.setp_lt_u32(lane, columns);
        k.if_(pads, |k| {
            // `y` is 16 bytes a lane into the row; a column is 2.
            let back = k.mul_wide_s32(lane, -14);
            let at = k.add_s64(y, back);
            k.st_global::<R16>(at, i64::from(self.hidden * 2), 0u16);
        });
    }
}

/// A chunk of the row, or zeros in the lanes that own none.
pub(super) fn load(k: &mut KernelBuilder, owns: Option<P>, at: R64, offset: i64) -> [R32; 4] {
    let Some(owns) = owns else { return k.ld_global_nc_v(at, offset) };
    let chunk = std::array::from_fn(|_| k.mov_b32(0));
    k.with_guard(owns, |k| k.ld_global_v_into(chunk, at, offset));
    chunk
}

/// `f(value, index)` of eight bf16, rounded to bf16.
pub(super) fn scale8(
    k: &mut KernelBuilder,
    chunk: [R32; 4],
    mut f: impl FnMut(&mut KernelBuilder, F32, usize) -> F32,
) -> [R32; 4] {
    let wide = widen8(k, chunk);
    let scaled = std::array::from_fn(|i| f(k, wide[i], i));
    narrow8(k, scaled)
}
