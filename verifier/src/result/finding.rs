//! Where bits differ, how a difference grows, and the tables that the report draws.

use crate::ops::{Op, Point};
use crate::ranges::Ranges;
use serde::{Deserialize, Serialize};

/// Where the logged bits first leave the claimed computation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Divergence {
    /// Engine step, from 0 within the record.
    pub step: u32,
    /// The request, by its identifier in the record.
    pub request: String,
    /// Position of the row within the request.
    pub position: u32,
    /// The first compared output that differs; absent when only the row's commitment was logged.
    pub op: Option<Op>,
    /// Its layer.
    pub layer: Option<u32>,
    /// Index of the first differing element; absent when only digests were logged.
    pub index: Option<u32>,
    /// Both bit patterns; absent when only digests were logged.
    pub bits: Option<Bits>,
    /// Both digests, when only digests were logged: logged, then replayed.
    pub digests: Option<[String; 2]>,
    /// Elements of this output that differ.
    pub differing: Option<u32>,
    /// Elements of this output.
    pub elements: u32,
    /// Rows of this step whose bits differ, of all its rows.
    pub rows_differing: u32,
    /// Rows of this step.
    pub rows: u32,
    /// The last compared output before it that agrees, as `op of layer n`.
    pub agrees_until: Option<String>,
    /// Operations in which the difference may have arisen, in order; one when it is pinned down.
    pub between: Vec<String>,
    /// The operation it arose in, once a cause that explains every bit pins it down.
    pub origin: Option<String>,
}

impl Divergence {
    /// The compared output, in words.
    pub fn place(&self) -> String {
        self.op.map_or_else(|| "the row's commitment".to_owned(), |op| Point { layer: self.layer, op }.to_string())
    }
}

/// Two bit patterns of one element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bits {
    /// `bf16` or `f32`.
    pub dtype: String,
    /// As logged: lower-case hex of fixed width, without prefix.
    pub logged: String,
    /// As replayed.
    pub replayed: String,
}

/// How large the difference is at one compared output of one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrowthPoint {
    /// The operation.
    pub op: Op,
    /// Its layer.
    pub layer: Option<u32>,
    /// Elements that differ.
    pub differing: u32,
    /// Elements compared.
    pub elements: u32,
    /// Largest distance between the two values, in units in the last place of the format.
    pub max_ulp: u32,
}

/// Other claims that the same bits support.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternatives {
    /// Numbers of extra rows, the same in every decode step, that explain every bit as well, by replay; 0 is the claim itself.
    pub extra_rows: Ranges,
    /// Most extra rows that are known to change no bit of some step, within the search limit: because the step's kernels are the same
    /// with them, or by replay of a sampled step.
    pub hidden_capacity: u32,
    /// Row-steps that are known to fit without a trace in all, within the search limit.
    pub hidden_row_steps: u64,
    /// Profiles other than the claimed one that give the same bits.
    pub profiles: Vec<String>,
    /// Other kernel choices that were replayed and gave the same bits.
    pub dispatch: Vec<DispatchAlternative>,
}

/// Other kernel choices that give the same bits in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DispatchAlternative {
    /// What is chosen: `extra rows`, or the operation that is split.
    pub choice: String,
    /// The values that give the same bits.
    pub values: Ranges,
    /// The steps in which it was replayed and gave the logged bits.
    pub steps: Ranges,
}

/// Requests by steps: what was compared and what came out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepMatrix {
    /// One column per step.
    pub steps: Vec<StepColumn>,
    /// One row per request.
    pub requests: Vec<MatrixRow>,
}

/// A step of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepColumn {
    /// Rows in the step.
    pub rows: u32,
    /// Kernel choices as logged, `name=value`, those that differ from 1 only.
    pub choices: Vec<String>,
}

/// A request of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixRow {
    /// Its identifier.
    pub request: String,
    /// One cell per step.
    pub cells: Vec<Cell>,
}

/// One request in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Rows of the request in the step.
    pub rows: u32,
    /// What the comparison gave.
    pub state: CellState,
}

/// What the comparison of a cell gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// The request has no row in this step.
    Absent,
    /// Every compared bit agrees with the claim.
    Match,
    /// Some bit differs from the claim.
    Mismatch,
    /// The bits agree; the sampled token is not the admissible one.
    Token,
    /// Not compared.
    Unchecked,
}

/// Margins between the best and second logit at sampled positions, by power of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Margins {
    /// Bins `[2^exponent, 2^(exponent+1))`, ascending, without gaps.
    pub bins: Vec<MarginBin>,
    /// Positions whose two best logits are equal.
    pub ties: u32,
    /// Positions counted.
    pub positions: u32,
}

/// One bin of the margin histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarginBin {
    /// Exponent of the lower edge.
    pub exponent: i32,
    /// Positions in it.
    pub count: u32,
}
