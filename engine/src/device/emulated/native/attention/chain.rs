//! [`ChainAttentionSpec`]: attention by fused multiply-adds, whose bits are those of [`emulator::ieee::attention`].

use emulator::exec::{Memory, Words};
use emulator::ieee::attention::{Context, Query, attend};
use emulator::scalar::lanes::bf16_rn;
use emulator::threads;

use super::super::{Call, Declined, Native};
use super::plan::{Outputs, Plan, QueryTile};
use crate::device::Arg;
use crate::kernels::{AttentionSpec, ChainAttentionSpec, KV_TILE, KvType, PAGE, scale_log2e};
use crate::kv::e4m3;

/// One text of attention without tensor cores.
pub(in super::super) struct ChainAttention {
    spec: ChainAttentionSpec,
    /// The kernel on tensor cores that takes the same arguments.
    twin: AttentionSpec,
}

impl ChainAttention {
    /// `None` for heads that no model has.
    pub fn new(spec: &ChainAttentionSpec) -> Option<Self> {
        let &ChainAttentionSpec { q_heads, kv_heads, head_dim, head_pad, kv } = spec;
        let shared = kv_heads > 0 && q_heads.is_multiple_of(kv_heads) && head_pad > 0 && head_pad.is_multiple_of(16);
        let twin = AttentionSpec { q_heads, kv_heads, head_dim, head_pad, partial: false, kv };
        shared.then(|| Self { spec: spec.clone(), twin })
    }

    /// Keys and values of a head up to the last row of a tile.
    fn context(&self, plan: &Plan<'_>, memory: &Memory, tile: &QueryTile, kv_head: u32) -> Option<Context> {
        let width = self.spec.head_pad as usize;
        let line = u64::from(self.spec.head_pad) * u64::from(self.spec.kv.bytes());
        let positions = tile.last() as usize + 1;
        // A page at a time.
        let pages: Vec<[Words<'_>; 2]> = (0..=tile.last() / PAGE)
            .map(|page| {
                let first = page * PAGE;
                let keys = &plan.kv_tiles[plan.kv_tile(tile, first / KV_TILE)];
                let number = u64::from(keys.pages[(first % KV_TILE / PAGE) as usize]);
                let head = number * u64::from(self.spec.kv_heads) + u64::from(kv_head);
                let count = u64::from((tile.last() + 1 - first).min(PAGE));
                let of = |cache: u64| memory.words(cache.checked_add(head * u64::from(PAGE) * line)?, count * line);
                let [k, v] = plan.caches;
                Some([of(k)?, of(v)?])
            })
            .collect::<Option<_>>()?;
        Some(Context::pack(width, positions, |position, key, value| {
            let [keys, values] = pages[position / PAGE as usize];
            let line = position % PAGE as usize;
            for (words, to) in [(keys, key), (values, value)] {
                match self.spec.kv {
                    KvType::Bf16 => words.copy(line * width / 2, to),
                    KvType::Fp8 => widen(words.part(line * width / 4, width / 4), to),
                }
            }
        }))
    }
}

impl Native for ChainAttention {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let [.., Arg::U32(count), _] = *call.args else { return Err(Declined) };
        let [tiles, heads, most] = call.grid;
        call.runs_on(self.spec.grid(tiles, most))?;
        let twin = Call { grid: self.twin.grid(count, 1), packs: &mut *call.packs, ..*call };
        let plan = Plan::new(&self.twin, &twin)?;
        let rows = plan.query_tiles.iter().map(|tile| tile.count).max().unwrap_or(0);
        if (tiles, heads) != (count, self.spec.q_heads) || most < rows {
            return Err(Declined);
        }
        // The last tile of a slot sees the most.
        let mut last: Vec<QueryTile> = Vec::new();
        for tile in &plan.query_tiles {
            match last.iter_mut().find(|known| known.slot == tile.slot) {
                Some(known) if known.last() < tile.last() => *known = *tile,
                Some(_) => {}
                None => last.push(*tile),
            }
        }
        let (threads, kv_heads) = (call.options.threads, self.spec.kv_heads as usize);
        let mut contexts: Vec<Option<Context>> = Vec::new();
        contexts.resize_with(last.len() * kv_heads, || None);
        threads::share(threads, contexts.iter_mut().enumerate(), |(i, context)| {
            *context = self.context(&plan, call.memory, &last[i / kv_heads], (i % kv_heads) as u32);
        });
        let contexts: Vec<Context> = contexts.into_iter().collect::<Option<_>>().ok_or(Declined)?;

        let Outputs::Whole(out) = Outputs::new(&self.twin, &plan, call.memory)? else { return Err(Declined) };
        let (width, level) = (self.spec.head_pad as usize, call.options.simd);
        let group = (self.spec.q_heads / self.spec.kv_heads) as usize;
        let scale = scale_log2e(self.spec.head_dim);
        let jobs = plan.query_tiles.iter().flat_map(|tile| (0..self.spec.kv_heads).map(move |head| (tile, head)));
        threads::share(threads, jobs, |(tile, kv_head)| {
            let at = last.iter().position(|known| known.slot == tile.slot).unwrap_or(0);
            let context = &contexts[at * kv_heads + kv_head as usize];
            let halves = plan.queries(&self.twin, tile, kv_head);
            let words: Vec<u32> =
                halves.as_chunks::<2>().0.iter().map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16).collect();
            let queries: Vec<Query<'_>> = words
                .chunks_exact(width / 2)
                .enumerate()
                .map(|(i, q)| Query { q, sees: tile.start as usize + i / group + 1 })
                .collect();
            let results = attend(level, scale, context, &queries);
            for (i, line) in results.chunks_exact(width).enumerate() {
                let row = tile.first_row as usize + i / group;
                let head = kv_head as usize * group + i % group;
                let pairs: Vec<u32> =
                    line.as_chunks::<2>().0.iter().map(|pair| bf16_rn(pair[0]) | bf16_rn(pair[1]) << 16).collect();
                out.put((row * self.spec.q_heads as usize + head) * width / 2, &pairs);
            }
        });
        Ok(())
    }
}

/// Words of four e4m3 as words of two bf16.
fn widen(codes: Words<'_>, to: &mut [u32]) {
    for (i, pair) in to.iter_mut().enumerate() {
        let [low, high, ..] = (codes.get(i / 2) >> (i % 2 * 16)).to_le_bytes();
        *pair = u32::from(e4m3::to_bf16(low)) | u32::from(e4m3::to_bf16(high)) << 16;
    }
}
