//! The `audit-result/v1` document: what an audit found, in a form that is signed, stored and rendered.
//!
//! Source: `docs/spec/audit-result.md`. The document holds no time, no machine fact, no thread count: auditing the same log twice
//! gives the same bytes. Numbers are integers below 2^53; seeds, bit patterns and probabilities are strings.

mod cause;
mod claim;
mod finding;
mod sign;

pub use cause::{Cause, Outcome, TokenFinding, Trial};
pub use claim::{ClaimKind, ClaimResult};
pub use finding::{
    Alternatives, Bits, Cell, CellState, DispatchAlternative, Divergence, GrowthPoint, MarginBin, Margins, MatrixRow,
    StepColumn, StepMatrix,
};
pub use sign::{PREDICATE_TYPE, SignedResult};

use crate::verdict::{Level, Verdict};
use serde::{Deserialize, Serialize};

/// The value of [`AuditResult::schema`].
pub const SCHEMA: &str = "audit-result/v1";

/// What an audit of one log found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// Whose log this is, in the auditor's words.
    pub subject: Subject,
    /// The program that audited.
    pub auditor: Auditor,
    /// How it was audited.
    pub method: Method,
    /// The log as it was received.
    pub log: LogFacts,
    /// Which records were audited, and what that leaves unseen.
    pub sampling: Sampling,
    /// One entry per audited record, in log order.
    pub records: Vec<RecordResult>,
    /// The verdict over all of them.
    pub verdict: Verdict,
    /// The lowest level that every matching record was checked at.
    pub level: Option<Level>,
    /// The finding in one line.
    pub headline: String,
    /// Ways to carry information or work past this audit, each verified or not.
    pub channels: Vec<Channel>,
    /// What this method cannot see.
    pub limitations: Vec<String>,
    /// Commands that repeat the audit without a network.
    pub recheck: Vec<String>,
}

/// Whose log is audited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// A short name for tables.
    pub name: String,
    /// What the operator declares, or what is known about the case; may be empty.
    pub note: String,
}

/// The program that audited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auditor {
    /// Program name.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// Revision of the arithmetic: raised whenever an output bit changes.
    pub numerics_revision: u32,
}

/// How a log was audited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// `emulate`: replay on the emulated device.
    pub replay: String,
    /// `schedule` (the logged steps) or `prefill` (one teacher-forced pass per request).
    pub schedule: String,
    /// Claims that the verdict requires.
    pub required: Vec<ClaimKind>,
    /// How far the search for causes and alternatives goes.
    pub limits: Limits,
}

/// How far the search for causes and alternatives goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Unreported rows are sought from 1 to this many per step.
    pub extra_rows: u32,
    /// Attention and GEMM splits are sought from 1 to this many.
    pub splits: u32,
    /// Seeds are sought from 0 to this minus one, and around the logged one; decimal.
    pub seeds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { extra_rows: 64, splits: 16, seeds: 4096 }
    }
}

/// The log as it was received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogFacts {
    /// Origin line of the log, if it could be read.
    pub origin: Option<String>,
    /// Entries read.
    pub entries: u64,
    /// Sequence number of the first entry.
    pub first: Option<u64>,
    /// Sequence number of the last entry.
    pub last: Option<u64>,
    /// Hash chain value after the last entry, `alg:hex`.
    pub head: Option<String>,
    /// Identifier of the key that the auditor expected signatures from.
    pub key: Option<String>,
    /// Why the log was refused, if it was.
    pub refused: Option<Refusal>,
    /// Copies of receipts that lie beside the log and were not used, by file name.
    pub set_aside: Vec<SetAside>,
}

/// Something that came with a log or a record, is not what it should be, and was not used: it neither helps nor harms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetAside {
    /// Its file name.
    pub name: String,
    /// Why it was not used.
    pub reason: String,
}

/// Something that a record states and this audit did not check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unverified {
    /// Which statement, for example `driver`.
    pub fact: String,
    /// As the record states it; long texts are cut, and say so.
    pub declared: String,
    /// Why it was not checked.
    pub why: String,
}

/// Why a log was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// One of the reasons of `docs/spec/local-log.md`, for example `altered`.
    pub reason: String,
    /// What was seen, and where.
    pub detail: String,
}

/// Which records were audited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// `all`, `challenge` with the beacon that chose, or `chosen` by the auditor.
    pub plan: String,
    /// Randomness that chose, for a challenge.
    pub beacon: Option<String>,
    /// `witnessed` when a witness saw the checkpoint before the beacon was published, `stated` when that is the auditor's word.
    pub order: Option<String>,
    /// The budget that set the size of the sample.
    pub budget: Option<String>,
    /// Records that the checkpoint commits to.
    pub population: u64,
    /// Records appended after it: the sample says nothing of them.
    pub beyond: u64,
    /// Records drawn from all.
    pub uniform: u64,
    /// Records audited.
    pub audited: u64,
    /// The chance of missing every dishonest record, for several numbers of them.
    pub bounds: Vec<MissBound>,
    /// Records drawn beside those from kinds of their own.
    pub strata: Vec<StratumFacts>,
}

/// What was drawn from one kind of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StratumFacts {
    /// The kind.
    pub name: String,
    /// Records of it.
    pub population: u64,
    /// How many of them were drawn.
    pub drawn: u64,
    /// The chance of missing every dishonest record of it.
    pub bounds: Vec<MissBound>,
}

/// A row of the miss-bound table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissBound {
    /// Dishonest records supposed.
    pub dishonest: u64,
    /// Probability that none of them was audited, four significant digits, rounded up.
    pub miss: String,
}

/// What was found in one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordResult {
    /// Sequence number in the log, of the first record.
    pub seq: u64,
    /// Sequence number of the last record: those in which requests go on are audited as one.
    pub last: u64,
    /// Digest of the first record, `alg:hex`.
    pub digest: String,
    /// Digests of the records after it.
    pub further: Vec<String>,
    /// Model, software and hardware, as declared and as found.
    pub identity: Vec<IdentityField>,
    /// What the record states and this audit did not check.
    pub unverified: Vec<Unverified>,
    /// Evidence that was handed over and refused; the audit recomputed without it.
    pub set_aside: Vec<SetAside>,
    /// Requests, steps, rows and sampled tokens that it covers.
    pub size: RecordSize,
    /// The verdict.
    pub verdict: Verdict,
    /// The level the bits were checked at.
    pub level: Option<Level>,
    /// The finding in one line.
    pub headline: String,
    /// One verdict per claim.
    pub claims: Vec<ClaimResult>,
    /// Where the logged bits first leave the claimed computation.
    pub divergence: Option<Divergence>,
    /// How the difference grows through the layers, for the first row that differs.
    pub growth: Vec<GrowthPoint>,
    /// Causes that explain every logged bit, the most probable first; or one that says what is missing to tell.
    pub causes: Vec<Cause>,
    /// Other claims that the same bits support.
    pub alternatives: Alternatives,
    /// Every hypothesis that was tried, with its outcome.
    pub tried: Vec<Trial>,
    /// Requests by steps.
    pub matrix: StepMatrix,
    /// Margins between the two best logits at the sampled positions.
    pub margins: Margins,
}

impl RecordResult {
    /// `record 3`, or `records 3 to 9`.
    pub fn name(&self) -> String {
        if self.seq == self.last {
            format!("record {}", self.seq)
        } else {
            format!("records {} to {}", self.seq, self.last)
        }
    }

    /// True when it covers the record of this sequence number.
    pub fn covers(&self, seq: u64) -> bool {
        (self.seq..=self.last).contains(&seq)
    }
}

/// How much a record covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordSize {
    /// Requests.
    pub requests: u32,
    /// Engine steps.
    pub steps: u32,
    /// Rows over all steps.
    pub rows: u32,
    /// Sampled tokens.
    pub tokens: u32,
}

/// One declared identity and what the auditor has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityField {
    /// For example `model manifest`, `profile`, `kernels`.
    pub field: String,
    /// As the record declares it.
    pub declared: String,
    /// As the auditor found it; absent when there is nothing at hand to compare with.
    pub found: Option<String>,
    /// True when both are the same.
    pub agrees: bool,
}

/// A way to carry information or work past an audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// What could carry it.
    pub channel: String,
    /// `verified` or `uncontrolled`.
    pub state: ChannelState,
    /// Why.
    pub note: String,
}

/// Whether a channel is closed by this audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelState {
    /// The audit leaves no freedom here.
    Verified,
    /// The audit does not see this.
    Uncontrolled,
}

impl ChannelState {
    /// The state in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Uncontrolled => "uncontrolled",
        }
    }
}
