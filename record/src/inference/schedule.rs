//! What the scheduler dispatched, step by step, and what the step committed to.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::scalar::Fact;

/// One forward pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Counts the engine's steps; consecutive within a record.
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
}

/// What a group of rows does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// Prompt positions, possibly a chunk of them.
    Prefill,
    /// One position whose token was chosen before.
    Decode,
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
