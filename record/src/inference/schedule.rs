//! What the scheduler dispatched, step by step, and what the step committed to.

use serde::{Deserialize, Serialize};

use super::gate::RowGate;
use crate::digest::Digest;
use crate::scalar::Fact;

/// One forward pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Counts the session's steps; consecutive within a record. Step 0 is an engine with an empty cache and no request.
    pub index: u64,
    /// What was dispatched. Its digest enters the chain.
    pub schedule: Schedule,
    /// One leaf a row, in row order.
    pub leaves: Vec<Digest>,
    /// RFC 6962 root of the leaves.
    pub root: Digest,
    /// Chain value after this step.
    pub chain: Digest,
    /// When it ran.
    pub time: Fact<StepTime>,
}

/// Monotonic microseconds since the operator's engine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepTime {
    /// First launch.
    pub start_us: u64,
    /// Results read.
    pub end_us: u64,
}

/// Everything about a step that selects a kernel or a reduction tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// What happened to requests since the step before, in order.
    pub events: Vec<Event>,
    /// Groups of consecutive rows, in the order in which they lie in the batch.
    pub rows: Vec<Rows>,
    /// Rows the step was padded to; equal to the row count when nothing was padded.
    pub padded_rows: u64,
    /// Eager launches or a captured graph.
    pub execution: Execution,
    /// Kernels and splits, by operation.
    pub dispatch: Dispatch,
}

impl Schedule {
    /// Number of rows, padding not counted.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.rows.iter().map(|rows| u64::from(rows.count)).sum()
    }
}

/// What the scheduler did with a request before a step. `request` is an index into the record's requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase", deny_unknown_fields)]
pub enum Event {
    /// It came.
    Arrive {
        /// Which.
        request: u32,
        /// Larger goes first.
        priority: i32,
        /// Whose it is; numbers have no meaning beyond being equal or not.
        client: u32,
    },
    /// It was withdrawn.
    Cancel {
        /// Which.
        request: u32,
    },
    /// It got a place in the cache, and begins with pages that other requests computed, or itself before it was preempted.
    Admit {
        /// Which.
        request: u32,
        /// Where its first pages come from, in order of position.
        cached: Vec<CachedPages>,
    },
    /// It lost its place.
    Preempt {
        /// Which.
        request: u32,
        /// What became of its pages.
        how: Preemption,
    },
    /// It got a place again, with the positions it had.
    Resume {
        /// Which.
        request: u32,
    },
}

impl Event {
    /// The request it is about.
    #[must_use]
    pub fn request(&self) -> u32 {
        match self {
            Event::Arrive { request, .. }
            | Event::Cancel { request }
            | Event::Admit { request, .. }
            | Event::Preempt { request, .. }
            | Event::Resume { request } => *request,
        }
    }

    pub(super) fn request_mut(&mut self) -> &mut u32 {
        match self {
            Event::Arrive { request, .. }
            | Event::Cancel { request }
            | Event::Admit { request, .. }
            | Event::Preempt { request, .. }
            | Event::Resume { request } => request,
        }
    }
}

/// Full pages taken from the prefix cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachedPages {
    /// Id of the request that computed them, of this record or an earlier one of the same session.
    pub source: String,
    /// Index of the step after which they were published: their columns are those of `source` as that step left them.
    pub step: u64,
    /// How many pages: positions that both requests have in common.
    pub pages: u32,
}

/// What becomes of a preempted request's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preemption {
    /// They are dropped and computed again.
    Recompute,
    /// They are kept outside the device and copied back; no bit changes.
    Swap,
}

/// Consecutive positions of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Index into the record's requests.
    pub request: u32,
    /// First position.
    pub start: u32,
    /// Number of positions.
    pub count: u32,
    /// Prefill or decode.
    pub kind: RowKind,
    /// For how many of these rows, counted from the last, logits were computed.
    pub logits: u32,
    /// What the gate decided for the last row. Left out where no logits were computed or no gate is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<RowGate>,
}

/// What a group of rows does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// Prompt positions, possibly a chunk of them.
    Prefill,
    /// One position whose token was chosen before.
    Decode,
    /// The request's last position once more, by the reference: its token replaces what the row before would have chosen.
    Verify,
}

/// How launches reached the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Execution {
    /// One by one.
    Eager,
    /// As a captured graph.
    Graph,
}

/// The dispatch decisions of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// One entry an operation, in execution order; an operation inside a block stands for that operation of every block.
    pub ops: Vec<OpDispatch>,
}

/// How one operation ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpDispatch {
    /// Name of the operation, for example `qkv`.
    pub op: String,
    /// Indices into the kernel table, in launch order (a split GEMM launches its reduction too).
    pub kernels: Vec<u32>,
    /// Split-K of a GEMM, KV splits of attention; 1 elsewhere.
    pub splits: u32,
}
