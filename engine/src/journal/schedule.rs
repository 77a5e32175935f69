//! Schedules and kernels in a record's words, and back.

use record::Digest;
use record::inference as rec;

use super::Journal;
use crate::error::{Error, Result};
use crate::kernels::PAGE;
use crate::policy::Dispatch;
use crate::runtime::{Launches, Limits, OpChoice};
use crate::scheduler::{Event, GATED_SCHEDULER, Kind, Preemption, SCHEDULER, Settings};

/// The kernel table of an engine.
pub fn kernel_table(launches: &Launches) -> Vec<rec::Kernel> {
    let kernel =
        |k: &crate::runtime::KernelRef| rec::Kernel { name: k.name.clone(), ptx_sha256: Digest::from_bytes(k.sha256) };
    launches.kernels().iter().map(kernel).collect()
}

/// The schedule of a step of these rows under a dispatch, after these events. Rows of a verification are padded, all others are not.
pub fn schedule(
    launches: &Launches,
    events: Vec<rec::Event>,
    rows: Vec<rec::Rows>,
    padded_rows: u32,
    dispatch: &Dispatch,
) -> rec::Schedule {
    let (count, logits) = launched(&rows, padded_rows.into());
    let op = |c: OpChoice| rec::OpDispatch {
        op: c.op.into(),
        kernels: c.kernels.iter().map(|k| *k as u32).collect(),
        splits: c.splits,
    };
    rec::Schedule {
        events,
        padded_rows: u64::from(padded_rows),
        execution: rec::Execution::Eager,
        dispatch: rec::Dispatch { ops: launches.of(dispatch, count, logits).into_iter().map(op).collect() },
        rows,
    }
}

/// What rows are, in a record's words.
pub(super) fn kind(kind: Kind) -> rec::RowKind {
    match kind {
        Kind::Prefill => rec::RowKind::Prefill,
        Kind::Decode => rec::RowKind::Decode,
        Kind::Verify => rec::RowKind::Verify,
    }
}

impl Journal {
    /// An event in a record's words.
    pub(super) fn event(&mut self, event: &Event) -> rec::Event {
        match event {
            Event::Arrive { request, priority, client } => {
                rec::Event::Arrive { request: self.index(*request), priority: *priority, client: *client }
            }
            Event::Cancel { request } => rec::Event::Cancel { request: self.index(*request) },
            Event::Admit { request, cached } => {
                let pages = cached.iter().map(|c| rec::CachedPages {
                    source: self.id(c.source.request),
                    step: c.source.step,
                    pages: c.pages,
                });
                rec::Event::Admit { cached: pages.collect(), request: self.index(*request) }
            }
            Event::Preempt { request, how } => {
                let how = match how {
                    Preemption::Recompute => rec::Preemption::Recompute,
                    Preemption::Swap => rec::Preemption::Swap,
                };
                rec::Event::Preempt { request: self.index(*request), how }
            }
            Event::Resume { request } => rec::Event::Resume { request: self.index(*request) },
        }
    }
}

/// The scheduling rule of a session on an engine with these limits.
pub fn scheduler(limits: Limits, settings: Settings, gated: bool) -> rec::Scheduler {
    rec::Scheduler {
        rule: if gated { GATED_SCHEDULER } else { SCHEDULER }.into(),
        max_rows: settings.max_rows,
        slots: limits.slots,
        pages: limits.pages,
        chunk: settings.chunk,
        prefix_cache: settings.prefix_cache,
        swap_pages: settings.swap_pages,
    }
}

/// The dispatch that a record's step states, if this engine can execute exactly that: the same operations in the same order, by the same
/// kernel texts. `kernels` is the record's kernel table.
///
/// # Errors
/// [`Error::Dispatch`] naming the first operation or kernel that this engine does not have; never a substitute.
pub fn dispatch(launches: &Launches, kernels: &[rec::Kernel], schedule: &rec::Schedule) -> Result<Dispatch> {
    let refuse = |detail: String| Err(Error::Dispatch { detail });
    let verifies = schedule.rows.iter().any(|r| r.kind == rec::RowKind::Verify);
    let most = if verifies { u64::from(PAGE) } else { 0 };
    if schedule.padded_rows.checked_sub(schedule.row_count()).is_none_or(|padding| padding > most) {
        return refuse(format!(
            "the step was padded to {} rows; this engine pads verifications only, with at most {PAGE}",
            schedule.padded_rows
        ));
    }
    let (count, logits) = launched(&schedule.rows, schedule.padded_rows);
    let ops = &schedule.dispatch.ops;
    let mut found = Dispatch::UNSPLIT;
    for op in ops {
        found.set(&op.op, op.splits)?;
    }
    launches.check(&found)?;
    let expected = launches.of(&found, count, logits);
    if expected.len() != ops.len() {
        return refuse(format!("the step states {} launches, this engine makes {}", ops.len(), expected.len()));
    }
    for (op, own) in ops.iter().zip(&expected) {
        if op.op != own.op || op.kernels.len() != own.kernels.len() {
            return refuse(format!("where the step states `{}`, this engine runs `{}`", op.op, own.op));
        }
        for (stated, own_kernel) in op.kernels.iter().zip(&own.kernels) {
            let own_kernel = &launches.kernels()[*own_kernel];
            let stated = kernels.get(*stated as usize);
            if stated.map(|k| *k.ptx_sha256.as_bytes()) != Some(own_kernel.sha256) {
                let name =
                    stated.map_or_else(|| "an unlisted kernel".into(), |k| format!("{} {}", k.name, k.ptx_sha256));
                return refuse(format!("`{}` ran {name}, which this engine does not have", op.op));
            }
        }
    }
    Ok(found)
}

/// Rows that were launched, and rows with logits; padding has logits.
fn launched(rows: &[rec::Rows], padded: u64) -> (u32, u32) {
    let (n, logits) =
        rows.iter().fold((0_u32, 0_u32), |(n, l), r| (n.saturating_add(r.count), l.saturating_add(r.logits)));
    let padding = u32::try_from(padded).unwrap_or(u32::MAX).saturating_sub(n);
    (n.saturating_add(padding), logits.saturating_add(padding))
}
