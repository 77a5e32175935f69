//! The steps to replay, from a record: its own schedule, or one teacher-forced prefill per request.

use crate::replay::{Group, Splits, StepInput};
use record::{Record, inference::RowRef};

/// How the rows of a record are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By the logged steps.
    #[default]
    Schedule,
    /// By one teacher-forced prefill per request: valid where a row's bits depend on its own tokens only (`invariant`).
    Prefill,
}

impl Mode {
    /// The stored word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Prefill => "prefill",
        }
    }
}

/// One forward pass of the replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its rows.
    pub input: StepInput,
    /// The splits that the record claims for it.
    pub declared: Splits,
    /// Where each row stands in the record: step (from 0 within the record) and row.
    pub rows: Vec<(usize, RowRef)>,
}

/// Forward passes in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The passes.
    pub items: Vec<Item>,
}

/// The splits that a step claims.
pub fn declared_splits(record: &Record, step: usize) -> Splits {
    let ops = record.steps.get(step).map(|s| s.schedule.dispatch.ops.as_slice()).unwrap_or_default();
    Splits::new(ops.iter().map(|op| (op.op.clone(), op.splits)))
}

/// Most rows of one prefill pass: longer requests are replayed in chunks, which in an `invariant` mode changes no bit.
const PREFILL_CHUNK: usize = 256;

impl Plan {
    /// The passes of a record that [`Record::check`] accepts.
    pub fn new(record: &Record, mode: Mode) -> Self {
        match mode {
            Mode::Schedule => Self::by_schedule(record),
            Mode::Prefill => Self::by_prefill(record),
        }
    }

    fn by_schedule(record: &Record) -> Self {
        let items = record.steps.iter().enumerate().map(|(index, step)| {
            let groups = step.schedule.rows.iter().map(|rows| Group {
                request: rows.request,
                start: rows.start,
                tokens: (0..rows.count)
                    .filter_map(|i| token(record, rows.request, rows.start.saturating_add(i)))
                    .collect(),
                logits: rows.logits,
            });
            Item {
                input: StepInput { groups: groups.collect() },
                declared: declared_splits(record, index),
                rows: step.schedule.each_row().map(|row| (index, row)).collect(),
            }
        });
        Self { items: items.collect() }
    }

    fn by_prefill(record: &Record) -> Self {
        let mut items = Vec::new();
        for request in 0..record.requests.len() as u32 {
            let mut rows: Vec<(usize, RowRef)> = Vec::new();
            for (index, step) in record.steps.iter().enumerate() {
                rows.extend(step.schedule.each_row().filter(|r| r.request == request).map(|r| (index, r)));
            }
            rows.sort_by_key(|(_, row)| row.position);
            // The inner rows of a prompt have no logits: they are passes of their own.
            let prompt = rows.iter().position(|(_, row)| row.logits).unwrap_or(rows.len());
            let (prompt, rest) = rows.split_at(prompt);
            for chunk in prompt.chunks(PREFILL_CHUNK).chain(rest.chunks(PREFILL_CHUNK)) {
                let first_logits = chunk.iter().position(|(_, row)| row.logits).unwrap_or(chunk.len());
                let group = Group {
                    request,
                    start: chunk[0].1.position,
                    tokens: chunk.iter().filter_map(|(_, row)| token(record, request, row.position)).collect(),
                    logits: (chunk.len() - first_logits) as u32,
                };
                let input = StepInput { groups: vec![group] };
                items.push(Item { input, declared: Splits::default(), rows: chunk.to_vec() });
            }
        }
        Self { items }
    }
}

fn token(record: &Record, request: u32, position: u32) -> Option<u32> {
    record.requests.get(request as usize)?.token_at(u64::from(position))
}
