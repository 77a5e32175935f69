//! The kernels of the engine: one module an operation, each turning a spec into PTX text.
//!
//! Every spec has `build(&self) -> KernelText` and `grid(&self, ...) -> [u32; 3]`; `grid` takes what the grid depends on
//! of the launch: `rows`, or `(rows, splits)`, or `(tile_count, splits)` for attention.
//!
//! A spec holds what is fixed for a model (widths, head counts, epsilon); what changes from step to step (rows, splits)
//! is a launch argument. Hence one text serves every step of a model and a text's SHA-256 names it in a record.
//!
//! # Layout of every buffer
//! Row-major, and padded so that tensor-core tiles need no special case in `K`:
//! * widths (`hidden`, `ffn`, ...) are padded to a multiple of [`PAD`] with zeros; a kernel that writes rows writes the
//!   padding too, as zeros. Padded widths are named `*_pad`.
//! * heads are padded one by one: `head_pad` is `head_dim` rounded up to [`PAD`], and every head-wise array
//!   (`qkv`, `q`, attention output, both caches) uses `head_pad`.
//! * weights are `[n_pad, k_pad]` bf16, row-major, i.e. the transpose that `Y = X W^T` wants.
//! * the K and V caches of a layer are bf16 `[pages][kv_heads][PAGE][head_pad]`.

/// Widths and heads are padded to a multiple of this many elements (the K of one `mma.m16n8k16`).
pub const PAD: u32 = 16;
/// Tokens in one page of the KV cache.
pub const PAGE: u32 = 16;
/// Most consecutive rows of one request that one attention tile covers.
pub const Q_TILE: u32 = 16;
/// `u32` words in one entry of the attention tile table: request slot, first row, rows, position of the first row.
pub const TILE_WORDS: u32 = 4;
/// `u32` words that [`Top2Spec`]'s kernel writes per row: first id, bits of its logit, second id, bits of its logit,
/// bits of the margin `first - second` (`sub.rn.f32`).
pub const TOP2_WORDS: u32 = 5;

/// `n` rounded up to a multiple of [`PAD`].
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
}

/// Token embedding.
///
/// Arguments: `ids: u32[rows]`, `table: bf16[vocab, hidden_pad]`, `x: bf16[rows, hidden_pad]` (out), `rows: u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EmbedSpec {
    /// Padded width of the residual stream.
    pub hidden_pad: u32,
}

/// Copies rows (to the LM head, which runs on some of them only).
///
/// Arguments: `index: u32[count]`, `x: bf16[rows, width]`, `y: bf16[count, width]` (out), `count: u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GatherSpec {
    /// Padded width of a row.
    pub width: u32,
}

/// RMSNorm, eager casts: `y = bf16(bf16(x * r) * w)`.
///
/// Arguments: `x: bf16[rows, hidden_pad]`, `w: bf16[hidden_pad]`, `y: bf16[rows, hidden_pad]` (out), `rows: u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RmsNormSpec {
    /// Width the mean is taken over.
    pub hidden: u32,
    /// Padded width; columns `hidden..hidden_pad` of `y` are written as zero.
    pub hidden_pad: u32,
    /// Bits of epsilon as f32.
    pub eps: u32,
}

/// What a GEMM leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GemmOut {
    /// `bf16[rows, n_pad]`, rounded once to nearest even.
    Bf16,
    /// `f32[rows, n_pad]`, the accumulator itself.
    F32,
    /// `f32[splits, rows, n_pad]`: partial sums for [`SplitKReduceSpec`].
    Partial,
}

/// `Y[rows, n] = X[rows, k] W[n, k]^T` on `mma.sync.m16n8k16` bf16, K ascending.
///
/// Arguments: `x: bf16[rows, k_pad]`, `w: bf16[n_pad, k_pad]`, `y` (out, see [`GemmOut`]), `rows: u32`, and for
/// [`GemmOut::Partial`] also `splits: u32`; slice `s` covers the 16-blocks `[s*c, min(nb, (s+1)*c))`, `c = ceil(nb/splits)`.
/// A slice with no block writes `+0.0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GemmSpec {
    /// Padded output width.
    pub n_pad: u32,
    /// Padded depth.
    pub k_pad: u32,
    /// Kind of output.
    pub out: GemmOut,
}

/// Adds split-K partials in ascending slice order with `add.rn.f32`, starting from slice 0.
///
/// Arguments: `ws: f32[splits, rows, n_pad]`, `y: [rows, n_pad]` (out, bf16 or f32), `rows: u32`, `splits: u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SplitKReduceSpec {
    /// Padded output width.
    pub n_pad: u32,
    /// True for an f32 output (the LM head), false for bf16.
    pub f32_out: bool,
}

/// Rotary embedding of q and k (half-split pairs `i`, `i + head_dim/2`), and the store of k and v into the paged cache.
///
/// Arguments: `qkv: bf16[rows, (q_heads + 2*kv_heads) * head_pad]` (q heads, then k heads, then v heads),
/// `cos: f32[max_pos, head_dim/2]`, `sin` (same), `positions: u32[rows]`, `slots: u32[rows]` (`page * PAGE + offset`),
/// `k_cache`, `v_cache` (one layer's), `q: bf16[rows, q_heads * head_pad]` (out), `rows: u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RopeStoreSpec {
    /// Query heads.
    pub q_heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// True head width.
    pub head_dim: u32,
    /// Padded head width.
    pub head_pad: u32,
}

/// Causal attention over the paged cache, online softmax over KV tiles in ascending order.
///
/// Arguments: `q: bf16[rows, q_heads * head_pad]`, `k_cache`, `v_cache` (one layer's), `tiles: u32[tile_count, TILE_WORDS]`,
/// `block_tables: u32[request slots, max_pages]`, then
/// * `partial == false`: `out: bf16[rows, q_heads * head_pad]` (out), `rows: u32`, `tile_count: u32`, `max_pages: u32`;
/// * `partial == true`: `o: f32[splits, rows, q_heads * head_pad]`, `m: f32[splits, rows, q_heads]`, `l: f32[splits, rows, q_heads]`
///   (out: unnormalised sum, running maximum, running sum), `rows: u32`, `tile_count: u32`, `max_pages: u32`, `splits: u32`.
///
/// A tile attends positions `0..=start + i` for its row `i`; its KV tiles (`ceil((start + rows)/kv_tile)`) are divided
/// over the splits in contiguous ranges of `ceil(tiles/splits)`. An empty range leaves `o = 0, m = -inf, l = 0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionSpec {
    /// Query heads.
    pub q_heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// True head width (sets the scale).
    pub head_dim: u32,
    /// Padded head width.
    pub head_pad: u32,
    /// True for the first half of split-KV.
    pub partial: bool,
}

/// Merges split-KV partials in ascending split order.
///
/// Arguments: `o`, `m`, `l` as [`AttentionSpec`] leaves them, `out: bf16[rows, q_heads * head_pad]` (out), `rows: u32`, `splits: u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionCombineSpec {
    /// Query heads.
    pub q_heads: u32,
    /// Padded head width.
    pub head_pad: u32,
}

/// `silu(gate) * up`, f32 arithmetic, bf16 result.
///
/// Arguments: `gate_up: bf16[rows, 2 * ffn_pad]` (gate columns, then up columns), `y: bf16[rows, ffn_pad]` (out), `rows: u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiluMulSpec {
    /// Padded width of the feed-forward layer.
    pub ffn_pad: u32,
}

/// Residual addition: `bf16(add.rn.f32(x, y))`.
///
/// Arguments: `x: bf16[rows, width]`, `y` (same), `z` (same, out; may be `x`), `rows: u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddSpec {
    /// Padded width of a row.
    pub width: u32,
}

/// The two largest logits of each row; the lowest id wins ties. A NaN logit makes the first logit of the row NaN.
///
/// Arguments: `logits: f32[rows, vocab_pad]`, `out: u32[rows, TOP2_WORDS]` (out), `rows: u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Top2Spec {
    /// Vocabulary size; padded columns are not looked at.
    pub vocab: u32,
    /// Padded width of a logits row.
    pub vocab_pad: u32,
}
