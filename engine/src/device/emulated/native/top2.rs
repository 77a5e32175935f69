//! [`Top2Spec`]: comparisons, whose order does not matter.

use emulator::scalar::{self, F32, Mods};
use emulator::threads;

use super::rows::{span, views};
use super::{Call, Declined, Native, countable};
use crate::device::Arg;
use crate::kernels::{TOP2_WORDS, Top2Spec};

/// Logits that are looked at together before any of them is looked at alone.
const BLOCK: usize = 64;
const NEG_INFINITY: u32 = 0xff80_0000;
const INFINITY: u32 = 0x7f80_0000;
const SIGN: u32 = 0x8000_0000;
/// The id that stands for "no second logit".
const NONE: u32 = u32::MAX;

/// One text of the two largest logits.
pub(super) struct Top2(pub Top2Spec);

impl Native for Top2 {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(logits), Arg::Ptr(out), Arg::U32(rows)] = call.args else { return Err(Declined) };
        call.runs_on(self.0.grid(rows))?;
        let Top2Spec { vocab, vocab_pad } = self.0;
        if vocab == 0 || vocab > vocab_pad {
            return Err(Declined);
        }
        countable(rows, TOP2_WORDS)?;
        let (vocab, width) = (vocab as usize, vocab_pad as usize);
        let read = [span(logits, rows, 4 * width as u64)];
        let ([logits], [out]) = views(call, read, [span(out, rows, 4 * u64::from(TOP2_WORDS))], false)?;
        let rows = 0..rows as usize;
        threads::share(call.options.threads.min(rows.len()), rows, |row| {
            let mut line = vec![0; vocab];
            logits.copy(row * width, &mut line);
            let (first, second) = largest(&line);
            let logit = |id: u32| line.get(id as usize).copied().unwrap_or(NEG_INFINITY);
            let margin = scalar::sub::<F32>(logit(first), logit(second), Mods::RN);
            out.put(row * TOP2_WORDS as usize, &[first, logit(first), second, logit(second), margin]);
        });
        Ok(())
    }
}

/// Orders as logits do: NaNs are above everything and equal, `-0` equals `+0`; 0 is below every logit.
#[inline(always)]
fn key(logit: u32) -> u32 {
    let size = logit & !SIGN;
    let canonical = if size > INFINITY { 0x7fff_ffff } else { logit };
    let canonical = if size == 0 { 0 } else { canonical };
    canonical ^ ((canonical as i32 >> 31) as u32 | SIGN)
}

/// Ids of the two largest; ids ascend, so only a larger key displaces.
fn largest(logits: &[u32]) -> (u32, u32) {
    let (mut first, mut second) = ((0, NONE), (0, NONE));
    for (block, from) in logits.chunks(BLOCK).zip((0_u32..).step_by(BLOCK)) {
        let most = block.iter().fold(0, |most, logit| most.max(key(*logit)));
        if most <= second.0 {
            continue;
        }
        for (logit, id) in block.iter().zip(from..) {
            let key = key(*logit);
            if key > first.0 {
                second = std::mem::replace(&mut first, (key, id));
            } else if key > second.0 {
                second = (key, id);
            }
        }
    }
    (first.1, second.1)
}
