//! Keys and values of one KV tile and head, packed for products.

use emulator::exec::Memory;
use emulator::format::Elem;
use emulator::gemm::Weights;

use super::plan::{Keys, Plan};
use crate::kernels::{AttentionSpec, KV_TILE, KvType, PAGE};
use crate::kv::e4m3;

/// A KV tile of one key/value head.
pub(super) struct KvTile {
    /// Columns are keys.
    pub keys: Weights,
    /// Columns are dimensions.
    pub values: Weights,
}

impl KvTile {
    /// Reads the pages. Keys beyond the last are zeros, as the kernel fills them. `None` if a page is not in memory.
    pub fn pack(spec: &AttentionSpec, plan: &Plan<'_>, memory: &Memory, tile: &Keys, kv_head: u32) -> Option<Self> {
        let (keys, width) = (KV_TILE as usize, spec.head_pad as usize);
        let [k, v] = plan.caches.map(|cache| rows(spec, memory, cache, tile, kv_head));
        Some(Self {
            keys: Weights::pack(Elem::Bf16, keys, width, &k?).ok()?,
            values: Weights::pack_columns(Elem::Bf16, width, keys, &v?).ok()?,
        })
    }
}

/// The tile's rows of a cache, bf16 `(KV_TILE, head_pad)`.
fn rows(spec: &AttentionSpec, memory: &Memory, cache: u64, tile: &Keys, kv_head: u32) -> Option<Vec<u16>> {
    let line = u64::from(spec.head_pad) * u64::from(spec.kv.bytes());
    let mut out = Vec::with_capacity((KV_TILE * spec.head_pad) as usize);
    for (i, page) in (0..).zip(tile.pages) {
        let count = tile.count.saturating_sub(i * PAGE).min(PAGE);
        let head = u64::from(page) * u64::from(spec.kv_heads) + u64::from(kv_head);
        let address = cache.checked_add(head.checked_mul(u64::from(PAGE) * line)?)?;
        if count > 0 {
            let words = memory.words(address, u64::from(count) * line)?;
            match spec.kv {
                KvType::Bf16 => out.extend(words.halves()),
                KvType::Fp8 => {
                    let codes = |pair: u16| pair.to_le_bytes().map(e4m3::to_bf16);
                    out.extend(words.halves().into_iter().flat_map(codes));
                }
            }
        }
    }
    out.resize((KV_TILE * spec.head_pad) as usize, 0);
    Some(out)
}
