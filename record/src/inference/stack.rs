//! What ran the model: engine, device, kernels, and how work was spread.

use serde::{Deserialize, Serialize};

use super::gate::Gate;
use crate::digest::Digest;
use crate::scalar::{F32Bits, Fact};

/// Everything below the model that can decide a bit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// The engine.
    pub engine: Engine,
    /// Where its kernels ran.
    pub device: Device,
    /// Numerics mode: `invariant`, `throughput` or `gated`; a verifier refuses names it does not know.
    pub mode: String,
    /// Rule by which dispatch was chosen from the shape of a step, for example `throughput/1`.
    pub dispatch_policy: String,
    /// Rule by which requests were put into steps, and what it depends on.
    pub scheduler: Fact<Scheduler>,
    /// The kernel table; steps refer to it by index.
    pub kernels: Vec<Kernel>,
    /// Key-value cache.
    pub kv: KvCache,
    /// Rotary position table; `null` for a model without one.
    pub rope: Fact<Option<Rope>>,
    /// How the gate decides. Left out by every mode but `gated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
}

/// A scheduling rule. Decides no bit of a row by itself, but every shape; a declared rule leaves the operator no choice of
/// schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Name and version, for example `continuous/1`.
    pub rule: String,
    /// Rows of a step, at most.
    pub max_rows: u32,
    /// Requests in flight, at most.
    pub slots: u32,
    /// Pages of the key-value cache.
    pub pages: u32,
    /// Most prompt tokens of one request in one step; `null` for whole prompts.
    pub chunk: Option<u32>,
    /// Computed prefixes are shared.
    pub prefix_cache: bool,
    /// Pages of host memory for preempted requests.
    pub swap_pages: u32,
}

/// The engine and its build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Name.
    pub name: String,
    /// Release version.
    pub version: String,
    /// Counts changes of any output bit; a verifier replays only revisions it implements.
    pub numerics_revision: u64,
    /// Commit it was built from; `null` for a build outside version control.
    pub commit: Fact<Option<String>>,
    /// Compiler and flags; for engines whose kernels are recorded by digest this cannot decide a bit on the device.
    pub build: Fact<String>,
}

/// Where kernels ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Emulated or a GPU behind the CUDA driver.
    pub kind: DeviceKind,
    /// The arithmetic that is claimed, for example `sm_90`.
    pub profile: String,
    /// Digest of the arithmetic profile (zero policy, exponent floor, special-function tables): what an emulated device computes by, and
    /// what a GPU is claimed to.
    pub profile_digest: Fact<Digest>,
    /// GPU model as the driver names it; `null` for an emulated device.
    pub gpu_model: Fact<Option<String>>,
    /// Driver version; `null` for an emulated device.
    pub driver: Fact<Option<String>>,
}

/// Kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DeviceKind {
    /// The PTX interpreter.
    Emulated,
    /// A GPU.
    Cuda,
}

/// One kernel, named by the text it was compiled from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Entry name.
    pub name: String,
    /// Plain SHA-256 of the PTX text.
    pub ptx_sha256: Digest,
}

/// The key-value cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KvCache {
    /// Element type, for example `bf16`.
    pub dtype: String,
    /// Tokens a page.
    pub page_size: u32,
    /// How pages enter the arithmetic; `position-order/1`: attention visits positions in ascending order whatever
    /// pages hold them, so page ids decide no bit and are not logged.
    pub layout: Fact<String>,
}

/// Rotary position embedding tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rope {
    /// Tensor digest of the f32 table as uploaded to the device.
    pub table: Digest,
    /// Base, as f32 bits.
    pub theta: F32Bits,
}

/// How work was spread over devices; all ones for a single device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parallelism {
    /// Tensor-parallel ranks.
    pub tensor: u32,
    /// Pipeline stages.
    pub pipeline: u32,
    /// Expert-parallel ranks.
    pub expert: u32,
    /// Data-parallel replicas that share a step.
    pub data: u32,
    /// Sequence-parallel ranks.
    pub sequence: u32,
    /// Rank order and collectives; `null` when every size is one.
    pub collectives: Option<Collectives>,
}

impl Parallelism {
    /// One device.
    #[must_use]
    pub fn single() -> Self {
        Self { tensor: 1, pipeline: 1, expert: 1, data: 1, sequence: 1, collectives: None }
    }
}

/// How partial results of several ranks are combined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collectives {
    /// Order of ranks.
    pub rank_order: Vec<u32>,
    /// Algorithm, for example `ring`.
    pub algorithm: Fact<String>,
    /// Protocol.
    pub protocol: Fact<String>,
    /// Channels.
    pub channels: Fact<u32>,
    /// Whether a collective is fused with the operation after it.
    pub fused: Fact<bool>,
}
