//! What kernels that work row by row have in common: operands looked at, rows shared over threads.

use std::ops::Range;

use emulator::exec::{Words, WordsMut};
use emulator::threads;

use super::{Call, Declined, Span, aligned, apart};

/// Rows that a thread takes at once.
const ROWS: usize = 8;
/// Words that are done with before another thread would have woken.
const WORTH_A_THREAD: usize = 1 << 14;

/// `rows` rows of so many bytes from an address on.
pub(super) fn span(address: u64, rows: u32, bytes: u64) -> Span {
    (address, u64::from(rows) * bytes)
}

/// Views of what is read and of what is written. Declines unless all of it is aligned and in memory, and what is written lies apart from the
/// rest; `in_place`: or is exactly one of the ranges that are read, element by element.
pub(super) fn views<'a, const R: usize, const W: usize>(
    call: &Call<'a>,
    read: [Span; R],
    written: [Span; W],
    in_place: bool,
) -> Result<([Words<'a>; R], [WordsMut<'a>; W]), Declined> {
    aligned(&read)?;
    aligned(&written)?;
    for (i, &to) in written.iter().enumerate() {
        let others: Vec<Span> = read.into_iter().filter(|&from| !(in_place && from == to)).collect();
        apart(to, &others)?;
        apart(to, &written[..i])?;
    }
    // All must be there before any counts as written.
    if written.iter().any(|&(at, bytes)| call.memory.words(at, bytes).is_none()) {
        return Err(Declined);
    }
    let mut from = Vec::with_capacity(R);
    for (at, bytes) in read {
        from.push(call.memory.words(at, bytes).ok_or(Declined)?);
    }
    let mut to = Vec::with_capacity(W);
    for (at, bytes) in written {
        to.push(call.memory.words_mut(at, bytes).ok_or(Declined)?);
    }
    Ok((from.try_into().map_err(|_| Declined)?, to.try_into().map_err(|_| Declined)?))
}

/// Shares rows of so many words over the threads, some at a time.
pub(super) fn each_run(call: &Call<'_>, (rows, words): (usize, usize), work: impl Fn(Range<usize>) + Sync) {
    let runs = (0..rows).step_by(ROWS).map(|first| first..(first + ROWS).min(rows));
    let threads = if rows * words < WORTH_A_THREAD { 1 } else { call.options.threads };
    threads::share(threads.min(rows.div_ceil(ROWS)), runs, work);
}
