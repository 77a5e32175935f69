//! [`AddSpec`], [`BiasSpec`], [`AllReduceSpec`], [`SiluMulSpec`] and [`SplitKReduceSpec`]: 32 words at a time, in whatever grouping.

use emulator::ieee;
use emulator::scalar::lanes::bf16_rn;
use emulator::simd::Warp;

use super::rows::{each_run, span, views};
use super::warp::{self, LANES, NOTHING, Units, warp};
use super::{Call, Declined, Native, countable};
use crate::device::Arg;
use crate::kernels::{self, AddSpec, AllReduceSpec, BiasSpec, SiluMulSpec, SplitKReduceSpec, Stream};

/// `1.0`, and `-log2(e)`.
const ONE: Warp = [0x3f80_0000; LANES];
const MINUS_LOG2_E: Warp = [0xbfb8_aa3b; LANES];

/// One text of residual addition.
pub(super) struct Add(pub AddSpec);

impl Native for Add {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(x), Arg::Ptr(y), Arg::Ptr(z), Arg::U32(rows)] = call.args else { return Err(Declined) };
        countable(rows, self.0.width)?;
        call.runs_on(self.0.grid(rows))?;
        let words = self.0.width as usize / 2;
        let of = |at| span(at, rows, 4 * words as u64);
        let ([x, y], [z]) = views(call, [of(x), of(y)], [of(z)], true)?;
        let units = Units::new(call.options.simd);
        each_run(call, (rows as usize, words), |run| {
            pieces(run.start * words..run.end * words, |at, count| {
                let sum = add(units, &read(x, at, count), &read(y, at, count));
                z.put(at, &sum[..count]);
            });
        });
        Ok(())
    }
}

/// One text of the addition of a bias.
pub(super) struct Bias(pub BiasSpec);

impl Native for Bias {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(x), Arg::Ptr(b), Arg::U32(rows)] = call.args else { return Err(Declined) };
        countable(rows, self.0.width)?;
        call.runs_on(self.0.grid(rows))?;
        let words = self.0.width as usize / 2;
        let x = span(x, rows, 4 * words as u64);
        let ([from, b], [to]) = views(call, [x, span(b, 1, 4 * words as u64)], [x], true)?;
        let units = Units::new(call.options.simd);
        each_run(call, (rows as usize, words), |run| {
            for row in run {
                pieces(0..words, |at, count| {
                    let sum = add(units, &read(from, row * words + at, count), &read(b, at, count));
                    to.put(row * words + at, &sum[..count]);
                });
            }
        });
        Ok(())
    }
}

/// One text of the sum over ranks.
pub(super) struct AllReduce(pub AllReduceSpec);

impl Native for AllReduce {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(parts), Arg::Ptr(y), Arg::U32(rows)] = call.args else { return Err(Declined) };
        countable(rows, self.0.width)?;
        call.runs_on(self.0.grid(rows))?;
        let words = self.0.width as usize / 2;
        let all = rows as usize * words;
        let parts = span(parts, rows, u64::from(self.0.ranks) * 4 * words as u64);
        let ([parts], [y]) = views(call, [parts], [span(y, rows, 4 * words as u64)], false)?;
        let units = Units::new(call.options.simd);
        each_run(call, (rows as usize, words), |run| {
            pieces(run.start * words..run.end * words, |at, count| {
                let mut sum = units.widen(&read(parts, at, count));
                for rank in 1..self.0.ranks as usize {
                    let part = units.widen(&read(parts, rank * all + at, count));
                    sum = [units.add(&sum[0], &part[0]), units.add(&sum[1], &part[1])];
                }
                y.put(at, &units.pack(&sum)[..count]);
            });
        });
        Ok(())
    }
}

/// One text of `silu(gate) * up`.
pub(super) struct SiluMul(pub SiluMulSpec);

impl Native for SiluMul {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(gate_up), Arg::Ptr(y), Arg::U32(rows)] = call.args else { return Err(Declined) };
        countable(rows, self.0.ffn_pad)?;
        call.runs_on(self.0.grid(rows))?;
        let words = self.0.ffn_pad as usize / 2;
        let row_bytes = 4 * words as u64;
        let ([from], [to]) = views(call, [span(gate_up, rows, 2 * row_bytes)], [span(y, rows, row_bytes)], false)?;
        let (level, units) = (call.options.simd, Units::new(call.options.simd));
        each_run(call, (rows as usize, words), |run| {
            let (mut gate_up, mut out) = (vec![0; 2 * words], vec![0; words]);
            for row in run {
                from.copy(row * 2 * words, &mut gate_up);
                let (gate, up) = gate_up.split_at(words);
                match self.0.units {
                    kernels::Units::Ieee => ieee::silu_mul(level, gate, up, &mut out),
                    kernels::Units::Special => {
                        for ((gate, up), out) in gate.chunks(LANES).zip(up.chunks(LANES)).zip(out.chunks_mut(LANES)) {
                            let y = silu_mul(units, &warp(gate), &warp(up));
                            out.copy_from_slice(&y[..out.len()]);
                        }
                    }
                }
                to.put(row * words, &out);
            }
        });
        Ok(())
    }
}

/// One text of the sum of split-K partials.
pub(super) struct SplitKReduce(pub SplitKReduceSpec);

impl Native for SplitKReduce {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(ws), Arg::Ptr(y), Arg::U32(rows), Arg::U32(splits)] = call.args else { return Err(Declined) };
        countable(rows, self.0.n_pad)?;
        call.runs_on(self.0.grid(rows))?;
        if splits == 0 {
            return Err(Declined);
        }
        let columns = self.0.n_pad as usize;
        let all = rows as usize * columns;
        let stream = self.0.stream.map(|k_pad| Stream::new(self.0.n_pad, k_pad, splits));
        if stream.is_some_and(|stream| !stream.countable(splits)) {
            return Err(Declined);
        }
        let parts = stream.map_or(splits, |stream| stream.segments());
        let bytes = u64::from(parts).checked_mul(all as u64 * 4).ok_or(Declined)?;
        let size = if self.0.f32_out { 4 } else { 2 };
        let ([ws], [y]) = views(call, [(ws, bytes)], [span(y, rows, size * columns as u64)], false)?;
        // Few rows of many columns: the columns are shared. Those of a tile have as many segments.
        let width = if stream.is_some() { Stream::COLUMNS as usize } else { 1024 };
        let per_row = columns.div_ceil(width);
        each_run(call, (rows as usize * per_row, width * parts as usize), |run| {
            let (mut sum, mut part) = (vec![0; width], vec![0; width]);
            for piece in run {
                let (row, column) = (piece / per_row, piece % per_row * width);
                let (at, count) = (row * columns + column, width.min(columns - column));
                let parts = stream.map_or(splits as usize, |stream| stream.cuts(column as u32).len());
                let (sum, part) = (&mut sum[..count], &mut part[..count]);
                ws.copy(at, sum);
                for number in 1..parts {
                    ws.copy(number * all + at, part);
                    sum.iter_mut().zip(&*part).for_each(|(sum, part)| *sum = warp::add(*sum, *part));
                }
                if self.0.f32_out {
                    y.put(at, sum);
                } else {
                    let halves = part.iter_mut().zip(sum.as_chunks::<2>().0);
                    halves.for_each(|(word, pair)| *word = bf16_rn(pair[0]) | bf16_rn(pair[1]) << 16);
                    y.put(at / 2, &part[..count / 2]);
                }
            }
        });
        Ok(())
    }
}

/// Runs of up to 32 of a range.
fn pieces(range: std::ops::Range<usize>, mut work: impl FnMut(usize, usize)) {
    let end = range.end;
    for at in range.step_by(LANES) {
        work(at, LANES.min(end - at));
    }
}

fn read(from: emulator::exec::Words<'_>, at: usize, count: usize) -> Warp {
    let mut out = NOTHING;
    from.copy(at, &mut out[..count]);
    out
}

/// bf16 sums of the bf16 in two words each.
fn add(units: Units, x: &Warp, y: &Warp) -> Warp {
    let (x, y) = (units.widen(x), units.widen(y));
    units.pack(&[units.add(&x[0], &y[0]), units.add(&x[1], &y[1])])
}

/// With the special-function unit, as [`SiluMulSpec`] states it.
fn silu_mul(units: Units, gate: &Warp, up: &Warp) -> Warp {
    let silu = units.widen(gate).map(|g| {
        let e = units.ex2(&units.mul(&g, &MINUS_LOG2_E));
        units.mul(&g, &units.rcp(&units.add(&e, &ONE)))
    });
    let (silu, up) = (units.widen(&units.pack(&silu)), units.widen(up));
    units.pack(&[units.mul(&silu[0], &up[0]), units.mul(&silu[1], &up[1])])
}
