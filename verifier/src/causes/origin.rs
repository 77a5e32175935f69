//! Once something explains every bit, the operation in which it first shows is found by comparing two replays, op by op.

use crate::error::Error;
use crate::ops::Point;
use crate::replay::{Machine, Row, Splits};
use crate::walk::Context;

/// Every output of a pass, replayed on `machine` with `splits`, after the passes before it as claimed.
///
/// # Errors
/// [`Error`] when the replay fails.
pub fn taps(context: &Context<'_>, machine: &Machine, pass: usize, splits: &Splits) -> Result<Vec<Row>, Error> {
    let mut run = context.replayer.start(machine)?;
    for item in context.plan.items.iter().take(pass) {
        context.replay(&mut *run, item, &item.declared, false)?;
    }
    match context.plan.items.get(pass) {
        Some(item) => context.replay(&mut *run, item, splits, true),
        None => Ok(Vec::new()),
    }
}

/// The first operation, over all rows, in which two replays of a pass differ.
pub fn first_difference(a: &[Row], b: &[Row]) -> Option<Point> {
    let rows = a.iter().zip(b);
    rows.filter_map(|(a, b)| a.outputs.iter().find(|(p, t)| b.outputs.get(p).is_some_and(|u| u != *t)).map(|(p, _)| *p))
        .min()
}
