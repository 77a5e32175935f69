//! Once something explains every bit, the operation in which it first shows is found by comparing two replays, op by op.

use crate::error::Error;
use crate::ops::{Op, Point};
use crate::replay::{Elements, Machine, Row, Splits};
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

/// Elements of one operation that are compared at most.
const COMPARED: u32 = 2048;

/// The first matrix product, up to and including `until`, whose f32 sums differ between two profiles, and how many do of those compared.
///
/// A sum that differs in its last bits mostly rounds to the same bf16, so what is logged may show the difference later.
///
/// # Errors
/// [`Error`] when a replay fails.
pub fn first_sums(
    context: &Context<'_>,
    claimed: &Machine,
    other: &str,
    pass: usize,
    until: Option<Point>,
) -> Result<Option<(Point, [u32; 2])>, Error> {
    let Some(item) = context.plan.items.get(pass) else { return Ok(None) };
    let rows = taps(context, claimed, pass, &item.declared)?;
    let points: std::collections::BTreeSet<Point> = rows.iter().flat_map(|r| r.outputs.keys().copied()).collect();
    for point in points.into_iter().filter(|p| until.is_none_or(|until| *p <= until)) {
        let Some(input) = input_of(point) else { continue };
        let (mut differing, mut compared) = (0, 0);
        for row in &rows {
            let (Some(out), Some(x)) = (row.outputs.get(&point), row.outputs.get(&input)) else { continue };
            let Elements::Bf16(x) = &x.bits else { continue };
            for index in 0..(out.len() as u32).min(COMPARED.saturating_sub(compared)) {
                let Some(w) = context.replayer.weights(point, index, 0) else { continue };
                let splits = item.declared.of(point.op.name());
                let ours = context.replayer.dot(&claimed.profile, (point.op, index), x, &w.values, splits)?;
                let theirs = context.replayer.dot(other, (point.op, index), x, &w.values, splits)?;
                differing += u32::from(ours != theirs);
                compared += 1;
            }
        }
        if differing > 0 {
            return Ok(Some((point, [differing, compared])));
        }
    }
    Ok(None)
}

/// The output that a matrix product reads.
pub fn input_of(point: Point) -> Option<Point> {
    let op = match point.op {
        Op::Qkv => Op::AttnNorm,
        Op::OProj => Op::Attention,
        Op::GateUp => Op::MlpNorm,
        Op::Down => Op::SiluMul,
        Op::LmHead => Op::FinalNorm,
        _ => return None,
    };
    Some(Point { op, ..point })
}
