//! The kernels of the engine: one module an operation, each turning a spec into PTX text.
//!
//! Every spec has `build(&self) -> KernelText` and `grid(&self, ...) -> [u32; 3]`; `grid` takes what the grid depends on
//! of the launch: `rows`, or `(rows, splits)`, or `(tile_count, splits)` for attention.
//!
//! A spec holds what is fixed for a model (widths, head counts, epsilon); what changes from step to step (rows, splits)
//! is a launch argument. Hence one text serves every step of a model and a text's SHA-256 names it in a record.
//!
//! # Layout of every buffer
//! Row-major, 16-byte aligned, and padded so that tensor-core tiles need no special case in `K`:
//! * widths (`hidden`, `ffn`, ...) are padded to a multiple of [`PAD`] with zeros; a kernel that writes rows writes the
//!   padding too, as zeros. Padded widths are named `*_pad`.
//! * heads are padded one by one: `head_pad` is `head_dim` rounded up to [`PAD`], and every head-wise array
//!   (`qkv`, `q`, attention output, both caches) uses `head_pad`.
//! * weights are `[n_pad, k_pad]` bf16, row-major, i.e. the transpose that `Y = X W^T` wants.
//! * the K and V caches of a layer are `[pages][kv_heads][PAGE][head_pad]` of a [`KvType`]: bf16 where nothing is said.
//!
//! # Bits
//! Every kernel states its order of operations under **Bits**, down to each rounding. Kernels that need more than IEEE operations have a
//! twin that does not ([`Units`]). Where it says so, a row's bits depend on that
//! row's own inputs alone: not on how many rows a launch has, on the row's place among them, or on the tile. Threads share no sum
//! except in the named orders, so nothing depends on scheduling either.

mod addnorm;
mod allreduce;
mod attention;
mod cache;
mod combine;
mod elementwise;
mod emit;
mod gather;
mod gemm;
mod qkv;
mod rmsnorm;
mod rope;
mod spec;
mod splitk;
mod top2;
mod units;
mod volta;

pub use addnorm::AddNormSpec;
pub use allreduce::AllReduceSpec;
pub use attention::{AttentionSpec, ChainAttentionSpec, KV_TILE, TILE_WORDS, scale_log2e};
pub use cache::KvType;
pub use combine::AttentionCombineSpec;
pub use elementwise::{AddSpec, SiluMulSpec};
pub use gather::{EmbedSpec, GatherSpec};
pub use gemm::{GemmOut, GemmSpec, GemmTile, Stream};
pub use qkv::{BiasSpec, HeadNormSpec};
pub use rmsnorm::RmsNormSpec;
pub use rope::RopeStoreSpec;
pub use spec::KernelSpec;
pub use splitk::SplitKReduceSpec;
pub use top2::{TOP2_WORDS, Top2Spec};
pub use units::Units;
pub use volta::for_volta;

/// Widths and heads are padded to a multiple of this many elements (the K of one `mma.m16n8k16`).
pub const PAD: u32 = 16;
/// Tokens in one page of the KV cache.
pub const PAGE: u32 = 16;
/// Most consecutive rows of one request that one attention tile covers.
pub const Q_TILE: u32 = 16;

/// `n` rounded up to a multiple of [`PAD`].
#[must_use]
pub const fn pad(n: u32) -> u32 {
    n.div_ceil(PAD) * PAD
}

/// A kernel as the device takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelText {
    /// Entry name in the text; also the human-readable part of a kernel id.
    pub name: String,
    /// The PTX, header included.
    pub ptx: String,
    /// Threads in a block.
    pub block: [u32; 3],
    /// What the text was built from. Nobody takes its word: a device that knows another way to compute what the spec says builds the text
    /// again, and compares.
    pub spec: Option<KernelSpec>,
}
