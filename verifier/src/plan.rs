//! The steps to replay, from a record: its own schedule, or one teacher-forced prefill per request.

use crate::gate;
use crate::replay::{Again, Group, Kept, Prefix, PrefixPart, Splits, StepInput};
use record::Record;
use record::inference::{Event, RowGate, RowKind, RowRef, Rows, Schedule};
use std::collections::{BTreeMap, BTreeSet};

/// How the rows of a record are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By the logged steps.
    #[default]
    Schedule,
    /// By one teacher-forced prefill per request: valid where a row's bits depend on its own tokens only (`invariant`, `portable`).
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
    /// A gate had the step run by the reference, whatever its shape.
    pub reference: bool,
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

/// Most rows of one prefill pass: longer requests are replayed in chunks, which in such a mode changes no bit.
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
        let sharing = Sharing::of(record);
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
                input: StepInput {
                    prefixes: sharing.prefixes.get(&step.index).cloned().unwrap_or_default(),
                    groups: groups.collect(),
                    keep: sharing.kept.iter().filter(|k| k.step == step.index).copied().collect(),
                    again: again(&step.schedule),
                },
                reference: gate::runs_reference(record, step),
                declared: declared_splits(record, index),
                rows: step.schedule.each_row().map(|row| (index, row)).collect(),
            }
        });
        Self { items: items.collect() }
    }

    /// Where bits depend on a row's own tokens only, a prefix that another request computed has the bits that the request's own would
    /// have: it is computed here as well, without rows to compare.
    fn by_prefill(record: &Record) -> Self {
        let mut items = Vec::new();
        for request in 0..record.requests.len() as u32 {
            let mut rows: Vec<(usize, RowRef)> = Vec::new();
            for (index, step) in record.steps.iter().enumerate() {
                // Of a row that was verified, the verification counts; of columns that were caught up, the row that was there first.
                let own = step.schedule.each_row().filter(|r| r.request == request && !r.waits);
                let own = own.filter(|r| r.kind != RowKind::Verify || r.logits);
                rows.extend(own.map(|r| (index, r)));
            }
            let mut held = 0;
            // A request that was computed again after a preemption goes through its positions more than once.
            let again = |pair: &[(usize, RowRef)]| pair[0].1.position < pair[1].1.position;
            let ascending: Vec<Vec<(usize, RowRef)>> =
                rows.chunk_by(|a, b| again(&[*a, *b])).map(<[(usize, RowRef)]>::to_vec).collect();
            for rows in ascending {
                let first = rows.first().map_or(0, |(_, row)| row.position);
                while held < first {
                    let tokens: Vec<u32> = (held..first.min(held.saturating_add(PREFILL_CHUNK as u32)))
                        .filter_map(|p| token(record, request, p))
                        .collect();
                    let group = Group { request, start: held, tokens, logits: 0 };
                    held = held.saturating_add(group.tokens.len().max(1) as u32);
                    let input = StepInput { groups: vec![group], ..StepInput::default() };
                    items.push(Item { input, declared: Splits::default(), rows: Vec::new(), reference: false });
                }
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
                    held = chunk[0].1.position + chunk.len() as u32;
                    let input = StepInput { groups: vec![group], ..StepInput::default() };
                    items.push(Item { input, declared: Splits::default(), rows: chunk.to_vec(), reference: false });
                }
            }
        }
        Self { items }
    }
}

/// Which requests begin with columns of others.
#[derive(Default)]
struct Sharing {
    /// By step index.
    prefixes: BTreeMap<u64, Vec<Prefix>>,
    kept: BTreeSet<Kept>,
}

impl Sharing {
    fn of(record: &Record) -> Self {
        let number: BTreeMap<&str, u32> = (0..).zip(&record.requests).map(|(i, r)| (r.id.as_str(), i)).collect();
        let mut all = Self::default();
        for step in &record.steps {
            for event in &step.schedule.events {
                let Event::Admit { request, cached } = event else { continue };
                // A source that is not in the record is refused before anything is planned.
                let part = |c: &record::inference::CachedPages| {
                    let request = *number.get(c.source.as_str())?;
                    Some(PrefixPart { kept: Kept { request, step: c.step }, pages: c.pages })
                };
                let parts: Vec<PrefixPart> = cached.iter().filter_map(part).collect();
                if !parts.is_empty() {
                    all.kept.extend(parts.iter().map(|p| p.kept));
                    all.prefixes.entry(step.index).or_default().push(Prefix { request: *request, parts });
                }
            }
        }
        all
    }
}

/// How the rows of a verification are computed again; none for any other step.
fn again(schedule: &Schedule) -> Option<Again> {
    let replaces = |r: &Rows| !matches!(r.gate, Some(RowGate::Verified { repaired: false, .. }));
    schedule.rows.iter().any(|r| r.kind == RowKind::Verify).then(|| Again {
        padded: u32::try_from(schedule.padded_rows).unwrap_or(u32::MAX),
        replaces: schedule.rows.iter().map(replaces).collect(),
    })
}

fn token(record: &Record, request: u32, position: u32) -> Option<u32> {
    record.requests.get(request as usize)?.token_at(u64::from(position))
}
