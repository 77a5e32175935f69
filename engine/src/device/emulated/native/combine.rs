//! [`AttentionCombineSpec`]: weights of 32 row-heads at a time, then their outputs.

use emulator::exec::Words;
use emulator::simd::Warp;

use super::rows::{each_run, views};
use super::warp::{LANES, NOTHING, Units};
use super::{Call, Declined, Native, countable};
use crate::device::Arg;
use crate::kernels::{AttentionCombineSpec, scale_log2e};

/// One text of the merge of split-KV partials.
pub(super) struct AttentionCombine(pub AttentionCombineSpec);

impl Native for AttentionCombine {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(o), Arg::Ptr(m), Arg::Ptr(l), Arg::Ptr(out), Arg::U32(rows), Arg::U32(splits)] = call.args
        else {
            return Err(Declined);
        };
        let AttentionCombineSpec { q_heads, head_dim, head_pad } = self.0;
        let width = q_heads.checked_mul(head_pad).ok_or(Declined)?;
        countable(rows, width)?;
        call.runs_on(self.0.grid(rows))?;
        let (lines, width) = (rows as usize * q_heads as usize, head_pad as usize);
        let all = u64::from(splits).checked_mul(lines as u64 * 4).ok_or(Declined)?;
        if splits == 0 {
            return Err(Declined);
        }
        let outputs = all.checked_mul(width as u64).ok_or(Declined)?;
        let read = [(o, outputs), (m, all), (l, all)];
        let ([o, m, l], [out]) = views(call, read, [(out, (lines * width * 2) as u64)], false)?;
        let units = Units::new(call.options.simd);
        let scale = [scale_log2e(head_dim).to_bits(); LANES];
        let splits = splits as usize;
        each_run(call, (lines.div_ceil(LANES), LANES * width * splits), |run| {
            for first in (run.start * LANES..(run.end * LANES).min(lines)).step_by(LANES) {
                let count = LANES.min(lines - first);
                let of = |words: Words<'_>, split: usize| {
                    let mut part = NOTHING;
                    words.copy(split * lines + first, &mut part[..count]);
                    part
                };
                let top = (1..splits).fold(of(m, 0), |top, split| units.max(&top, &of(m, split)));
                let weight = |split| units.ex2(&units.mul(&units.sub(&of(m, split), &top), &scale));
                let weights: Vec<Warp> = (0..splits).map(weight).collect();
                let sum = units.mul(&of(l, 0), &weights[0]);
                let sum = (1..splits).fold(sum, |sum, split| units.fma(&of(l, split), &weights[split], &sum));
                let inverse = units.rcp(&sum);
                for lane in 0..count {
                    for column in (0..width).step_by(LANES) {
                        let columns = LANES.min(width - column);
                        let of = |split: usize| {
                            let mut part = NOTHING;
                            o.copy((split * lines + first + lane) * width + column, &mut part[..columns]);
                            part
                        };
                        let acc = units.mul(&of(0), &[weights[0][lane]; LANES]);
                        let acc = (1..splits)
                            .fold(acc, |acc, split| units.fma(&of(split), &[weights[split][lane]; LANES], &acc));
                        let words = units.narrow(&units.mul(&acc, &[inverse[lane]; LANES]));
                        out.put(((first + lane) * width + column) / 2, &words[..columns / 2]);
                    }
                }
            }
        });
        Ok(())
    }
}
