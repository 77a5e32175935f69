//! [`SiluMulSpec`] and [`RmsNormSpec`] with IEEE units: row by row, by [`emulator::ieee`].

use emulator::exec::{Words, WordsMut};
use emulator::ieee;
use emulator::threads;

use super::{Call, Declined, Native, Span, aligned, apart};
use crate::device::Arg;
use crate::kernels::{RmsNormSpec, SiluMulSpec, Units};

/// Rows that a thread takes at once.
const ROWS: usize = 8;

/// One text of `silu(gate) * up`.
pub(super) struct SiluMul(SiluMulSpec);

impl SiluMul {
    /// `None` for kernels that use the special-function unit.
    pub fn new(spec: &SiluMulSpec) -> Option<Self> {
        (spec.units == Units::Ieee).then(|| Self(spec.clone()))
    }
}

impl Native for SiluMul {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(gate_up), Arg::Ptr(y), Arg::U32(rows)] = call.args else { return Err(Declined) };
        call.runs_on(self.0.grid(rows))?;
        let words = self.0.ffn_pad as usize / 2;
        let (from, to) = views(call, (gate_up, rows, 4 * words as u64 * 2), (y, rows, 4 * words as u64))?;
        let level = call.options.simd;
        each_run(call, rows, |run| {
            let (mut gate_up, mut out) = (vec![0; 2 * words], vec![0; words]);
            for row in run {
                from.copy(row * 2 * words, &mut gate_up);
                let (gate, up) = gate_up.split_at(words);
                ieee::silu_mul(level, gate, up, &mut out);
                to.put(row * words, &out);
            }
        });
        Ok(())
    }
}

/// One text of RMSNorm.
pub(super) struct RmsNorm(RmsNormSpec);

impl RmsNorm {
    /// `None` for kernels that use the special-function unit.
    pub fn new(spec: &RmsNormSpec) -> Option<Self> {
        let sized = spec.hidden > 0 && spec.hidden <= spec.hidden_pad;
        (spec.units == Units::Ieee && sized).then(|| Self(spec.clone()))
    }
}

impl Native for RmsNorm {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(x), Arg::Ptr(w), Arg::Ptr(y), Arg::U32(rows)] = call.args else { return Err(Declined) };
        call.runs_on(self.0.grid(rows))?;
        let words = self.0.hidden_pad as usize / 2;
        let weight = (w, 4 * words as u64);
        aligned(&[weight])?;
        apart((y, u64::from(rows) * 4 * words as u64), &[weight])?;
        let mut weights = vec![0; words];
        call.memory.words(weight.0, weight.1).ok_or(Declined)?.copy(0, &mut weights);
        let (from, to) = views(call, (x, rows, 4 * words as u64), (y, rows, 4 * words as u64))?;
        let (level, hidden, eps) = (call.options.simd, self.0.hidden as usize, f32::from_bits(self.0.eps));
        each_run(call, rows, |run| {
            let (mut x, mut out) = (vec![0; words], vec![0; words]);
            for row in run {
                from.copy(row * words, &mut x);
                ieee::rms_norm(level, &x, &weights, hidden, eps, &mut out);
                to.put(row * words, &out);
            }
        });
        Ok(())
    }
}

/// Rows to read and rows to write: address, number, bytes of one.
fn views<'a>(
    call: &Call<'a>,
    (from, rows, from_bytes): (u64, u32, u64),
    (to, _, to_bytes): (u64, u32, u64),
) -> Result<(Words<'a>, WordsMut<'a>), Declined> {
    let [from, to]: [Span; 2] = [(from, from_bytes), (to, to_bytes)].map(|(at, bytes)| (at, u64::from(rows) * bytes));
    aligned(&[from, to])?;
    apart(to, &[from])?;
    let from = call.memory.words(from.0, from.1).ok_or(Declined)?;
    Ok((from, call.memory.words_mut(to.0, to.1).ok_or(Declined)?))
}

/// Shares the rows over the threads, some at a time.
fn each_run(call: &Call<'_>, rows: u32, work: impl Fn(std::ops::Range<usize>) + Sync) {
    let rows = rows as usize;
    let runs = (0..rows).step_by(ROWS).map(|first| first..(first + ROWS).min(rows));
    threads::share(call.options.threads, runs, work);
}
