//! [`RmsNormSpec`] and [`HeadNormSpec`]: a lane of a warp here is a lane of the kernel's warp.

use emulator::ieee;
use emulator::scalar::{self, F32, Mods};
use emulator::simd::Warp;

use super::rows::{each_run, span, views};
use super::warp::{LANES, NOTHING, Units, warp};
use super::{Call, Declined, Native, countable};
use crate::device::Arg;
use crate::kernels::{self, AddNormSpec, HeadNormSpec, RmsNormSpec};

/// Words of a chunk: 8 columns.
const CHUNK: usize = 4;

/// One text of RMSNorm.
pub(super) struct RmsNorm(pub RmsNormSpec);

impl Native for RmsNorm {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(x), Arg::Ptr(w), Arg::Ptr(y), Arg::U32(rows)] = call.args else { return Err(Declined) };
        call.runs_on(self.0.grid(rows))?;
        let (hidden, words) = (self.0.hidden as usize, self.0.hidden_pad as usize / 2);
        if hidden == 0 || hidden.div_ceil(2 * CHUNK) * CHUNK > words {
            return Err(Declined);
        }
        let row_bytes = 4 * words as u64;
        let read = [span(x, rows, row_bytes), span(w, 1, row_bytes)];
        let ([x, w], [y]) = views(call, read, [span(y, rows, row_bytes)], false)?;
        let mut weights = vec![0; words];
        w.copy(0, &mut weights);
        let (level, eps) = (call.options.simd, self.0.eps);
        let mean = Mean { units: Units::new(level), root: self.0.units, hidden, eps };
        each_run(call, (rows as usize, words), |run| {
            let (mut line, mut out) = (vec![0; words], vec![0; words]);
            for row in run {
                x.copy(row * words, &mut line);
                match self.0.units {
                    kernels::Units::Ieee => {
                        ieee::rms_norm(level, &line, &weights, hidden, f32::from_bits(eps), &mut out);
                    }
                    kernels::Units::Special => {
                        mean.normalise(&line, &weights, &mut out);
                        zero_from(hidden, &mut out);
                    }
                }
                y.put(row * words, &out);
            }
        });
        Ok(())
    }
}

/// One text of the residual addition and its norm.
pub(super) struct AddNorm(pub AddNormSpec);

impl Native for AddNorm {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(x), Arg::Ptr(y), Arg::Ptr(z), Arg::Ptr(w), Arg::Ptr(n), Arg::U32(rows)] = call.args else {
            return Err(Declined);
        };
        call.runs_on(self.0.grid(rows))?;
        let RmsNormSpec { hidden, hidden_pad, eps, units: root } = self.0.0;
        let (hidden, words) = (hidden as usize, hidden_pad as usize / 2);
        if hidden == 0 || hidden.div_ceil(2 * CHUNK) * CHUNK > words {
            return Err(Declined);
        }
        let row_bytes = 4 * words as u64;
        let of = |at| span(at, rows, row_bytes);
        let ([x, y, w], [z, n]) = views(call, [of(x), of(y), span(w, 1, row_bytes)], [of(z), of(n)], false)?;
        let mut weights = vec![0; words];
        w.copy(0, &mut weights);
        let units = Units::new(call.options.simd);
        let mean = Mean { units, root, hidden, eps };
        each_run(call, (rows as usize, words), |run| {
            let [mut a, mut b, mut out] = [(); 3].map(|()| vec![0; words]);
            for row in run {
                x.copy(row * words, &mut a);
                y.copy(row * words, &mut b);
                for (a, b) in a.chunks_mut(LANES).zip(b.chunks(LANES)) {
                    let (x, y) = (units.widen(&warp(a)), units.widen(&warp(b)));
                    let sum = units.pack(&[units.add(&x[0], &y[0]), units.add(&x[1], &y[1])]);
                    a.copy_from_slice(&sum[..a.len()]);
                }
                mean.normalise(&a, &weights, &mut out);
                zero_from(hidden, &mut out);
                z.put(row * words, &a);
                n.put(row * words, &out);
            }
        });
        Ok(())
    }
}

/// One text of the norm of q and k heads.
pub(super) struct HeadNorm(pub HeadNormSpec);

impl Native for HeadNorm {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(qkv), Arg::Ptr(q_w), Arg::Ptr(k_w), Arg::U32(rows)] = call.args else { return Err(Declined) };
        let HeadNormSpec { q_heads, kv_heads, head_dim, head_pad, eps, units } = self.0;
        countable(rows, q_heads + 2 * kv_heads)?;
        call.runs_on(self.0.grid(rows))?;
        let (heads, words) = ((q_heads + 2 * kv_heads) as usize, head_pad as usize / 2);
        let line_bytes = 4 * words as u64;
        let qkv = span(qkv, rows, heads as u64 * line_bytes);
        let read = [qkv, span(q_w, 1, line_bytes), span(k_w, 1, line_bytes)];
        let ([from, q_w, k_w], [to]) = views(call, read, [qkv], true)?;
        let hidden = head_dim as usize;
        let weights = [q_w, k_w].map(|w| {
            let mut weights = vec![0; hidden / 2];
            w.copy(0, &mut weights);
            weights
        });
        let mean = Mean { units: Units::new(call.options.simd), root: units, hidden, eps };
        each_run(call, (rows as usize, words), |run| {
            let (mut line, mut out) = (vec![0; hidden / 2], vec![0; hidden / 2]);
            for (row, head) in run.flat_map(|row| (0..(q_heads + kv_heads) as usize).map(move |head| (row, head))) {
                let at = (row * heads + head) * words;
                from.copy(at, &mut line);
                mean.normalise(&line, &weights[usize::from(head >= q_heads as usize)], &mut out);
                to.put(at, &out);
            }
        });
        Ok(())
    }
}

/// How rows are normalised.
#[derive(Clone, Copy)]
struct Mean {
    units: Units,
    /// What the root is computed with.
    root: kernels::Units,
    hidden: usize,
    eps: u32,
}

impl Mean {
    /// `1 / sqrt(mean of squares + eps)`, over whole chunks.
    fn scale(self, x: &[u32]) -> u32 {
        let units = self.units;
        let mut sum = NOTHING;
        let chunks = self.hidden.div_ceil(2 * CHUNK);
        for group in x[..chunks * CHUNK].chunks(LANES * CHUNK) {
            // By word of the chunk, then by lane; a lane without a chunk has zeros.
            let mut columns = [NOTHING; CHUNK];
            for (lane, chunk) in group.as_chunks::<CHUNK>().0.iter().enumerate() {
                for (column, word) in columns.iter_mut().zip(chunk) {
                    column[lane] = *word;
                }
            }
            for half in columns.iter().flat_map(|words| units.widen(words)) {
                sum = units.fma(&half, &half, &sum);
            }
        }
        for distance in [16, 8, 4, 2, 1] {
            let other: Warp = std::array::from_fn(|lane| sum[lane ^ distance]);
            sum = units.add(&sum, &other);
        }
        let mean = units.mul(&sum, &[(1.0 / self.hidden as f32).to_bits(); LANES]);
        let shifted = units.add(&mean, &[self.eps; LANES]);
        match self.root {
            kernels::Units::Special => units.rsqrt(&shifted)[0],
            kernels::Units::Ieee => scalar::rcp::<F32>(scalar::sqrt::<F32>(shifted[0], Mods::RN), Mods::RN),
        }
    }

    /// `bf16(bf16(x * r) * w)` of every column.
    fn normalise(self, x: &[u32], w: &[u32], out: &mut [u32]) {
        let (units, r) = (self.units, [self.scale(x); LANES]);
        for ((x, w), out) in x.chunks(LANES).zip(w.chunks(LANES)).zip(out.chunks_mut(LANES)) {
            let scaled = units.widen(&warp(x)).map(|x| units.mul(&x, &r));
            let (normal, w) = (units.widen(&units.pack(&scaled)), units.widen(&warp(w)));
            let y = units.pack(&[units.mul(&normal[0], &w[0]), units.mul(&normal[1], &w[1])]);
            out.copy_from_slice(&y[..out.len()]);
        }
    }
}

/// Columns from `hidden` on become `+0`.
fn zero_from(hidden: usize, out: &mut [u32]) {
    if !hidden.is_multiple_of(2) {
        out[hidden / 2] &= 0xffff;
    }
    out[hidden.div_ceil(2)..].fill(0);
}
