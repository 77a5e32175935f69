//! The replay record `inference-record/v1`. Specified by `docs/spec/inference-record.md`.
//!
//! A record covers a contiguous range of engine steps and everything that went through them: what was computed,
//! with what, in which schedule, and what came out. Together with the model files it is all a replayer needs.
//! Types are plain data; every member is written, none has a default, unknown members are refused.

mod check;
mod decoding;
mod gate;
mod join;
mod model;
mod request;
mod schedule;
mod stack;

pub use check::{MAX_ID_BYTES, RecordRefusal, RowRef};
pub use decoding::{GREEDY, GUMBEL};
pub use gate::{Gate, RowGate};
pub use join::{JoinRefusal, Mentions, join, runs};
pub use model::{Adapter, FileDigest, Model, Text};
pub use request::{Decode, Finish, Request};
pub use schedule::{
    CachedPages, Dispatch, Event, Execution, OpDispatch, Preemption, RowKind, Rows, Schedule, Step, StepTime,
};
pub use stack::{Collectives, Device, DeviceKind, Engine, Kernel, KvCache, Parallelism, Rope, Scheduler, Stack};

use serde::{Deserialize, Serialize};

use crate::commit::EvidenceLevel;
use crate::digest::{Digest, Tagged, of_json};
use crate::scalar::Fact;
use crate::{Error, canonical};

/// What the `type` member of a record says.
pub const RECORD_TYPE: &str = "inference-record/v1";

/// Most bytes a record may have.
pub const MAX_RECORD_BYTES: usize = 1 << 28;

/// One logged span of inference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`RECORD_TYPE`]; a reader refuses any other.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was run.
    pub model: Model,
    /// How text became token ids.
    pub text: Text,
    /// What ran it.
    pub stack: Stack,
    /// How work was spread over devices.
    pub parallelism: Fact<Parallelism>,
    /// The requests, in the order in which rows refer to them.
    pub requests: Vec<Request>,
    /// The steps, consecutive.
    pub steps: Vec<Step>,
    /// Chain value before the first and after the last step.
    pub chain: ChainSpan,
    /// What the leaves commit to.
    pub evidence: EvidenceLevel,
    /// When.
    pub time: Fact<Time>,
    /// Place in the log.
    pub link: Link,
}

/// Chain values around a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainSpan {
    /// Before the first step: the `after` of the previous record, or the log's genesis value.
    pub before: Digest,
    /// After the last step.
    pub after: Digest,
}

/// Start and end in wall-clock microseconds since 1970-01-01 UTC, as the operator's clock said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Time {
    /// Start.
    pub start_unix_us: u64,
    /// End.
    pub end_unix_us: u64,
}

/// A record's place in its log. [`Log::next`](crate::Log::next) gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The log's name.
    pub origin: String,
    /// Position of the record's entry in the log, from 0.
    pub sequence: u64,
    /// Digest of the previous record; `null` for the first.
    pub previous: Option<Digest>,
    /// Id of the key that signs the entry.
    pub key_id: Digest,
}

impl Record {
    /// The canonical bytes: what is stored, and what [`Record::digest`] hashes.
    ///
    /// # Errors
    /// [`Error::Canonical`] when a string is not NFC or an integer exceeds 2^53-1.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        Ok(canonical::to_bytes(self)?)
    }

    /// Reads canonical bytes. Says nothing about consistency: see [`Record::check`].
    ///
    /// # Errors
    /// [`Error::Canonical`]; [`Error::UnknownType`] for another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        canonical::read_versioned(bytes, MAX_RECORD_BYTES, &[("type", RECORD_TYPE)])
    }

    /// The record digest: `H("lastbit/record/v1" || 0 || canonical bytes)`.
    ///
    /// # Errors
    /// As [`Record::to_bytes`].
    pub fn digest(&self) -> Result<Digest, Error> {
        Ok(digest_of_bytes(&self.to_bytes()?))
    }

    /// JSON pointers of all facts that are `unspecified`, in document order of the canonical form. Each caps an audit.
    ///
    /// # Errors
    /// As [`Record::to_bytes`].
    pub fn unspecified(&self) -> Result<Vec<String>, Error> {
        let value = canonical::read_value(&self.to_bytes()?, MAX_RECORD_BYTES)?;
        let mut found = Vec::new();
        walk(&value, &mut String::new(), &mut found);
        Ok(found)
    }

    /// Digest over the outputs of all requests: the second subject of the log entry.
    ///
    /// `H("lastbit/outputs/v1" || 0 || count u32 || (request id text, output-ids digest) ...)`
    #[must_use]
    pub fn outputs_digest(&self) -> Digest {
        let mut hash = Tagged::new("lastbit/outputs/v1");
        hash.u32(u32::try_from(self.requests.len()).unwrap_or(u32::MAX));
        for request in &self.requests {
            hash.text(&request.id).digest(&request.output_digest());
        }
        hash.finish()
    }
}

impl Model {
    /// Model identity: `H("lastbit/model/v1" || 0 || canonical JSON)`.
    ///
    /// # Errors
    /// [`Error::Canonical`].
    pub fn digest(&self) -> Result<Digest, Error> {
        of_json("lastbit/model/v1", self)
    }
}

impl Stack {
    /// Stack identity: `H("lastbit/stack/v1" || 0 || canonical JSON)`.
    ///
    /// # Errors
    /// [`Error::Canonical`].
    pub fn digest(&self) -> Result<Digest, Error> {
        of_json("lastbit/stack/v1", self)
    }
}

pub(crate) fn digest_of_bytes(canonical_bytes: &[u8]) -> Digest {
    Tagged::new("lastbit/record/v1").bytes(canonical_bytes).finish()
}

fn walk(value: &serde_json::Value, at: &mut String, found: &mut Vec<String>) {
    use serde_json::Value;
    let mut inside = |segment: &str, member: &Value| {
        let length = at.len();
        at.push('/');
        at.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        walk(member, at, found);
        at.truncate(length);
    };
    match value {
        Value::String(text) if text == crate::scalar::UNSPECIFIED => found.push(at.clone()),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| inside(&index.to_string(), item)),
        Value::Object(members) => members.iter().for_each(|(key, member)| inside(key, member)),
        _ => {}
    }
}
