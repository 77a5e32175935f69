//! Keys and values of one KV tile and head, packed for products.

use std::collections::HashMap;
use std::sync::Arc;

use emulator::exec::Memory;
use emulator::format::Elem;
use emulator::gemm::Weights;
use emulator::threads;

use super::plan::{Keys, Plan};
use crate::kernels::{AttentionSpec, KV_TILE, KvType, PAGE};
use crate::kv::e4m3;

/// A KV tile of one key/value head.
pub(in super::super) struct KvTile {
    /// Columns are keys.
    pub keys: Weights,
    /// Columns are dimensions.
    pub values: Weights,
}

impl KvTile {
    fn pack(width: usize, [k, v]: &Rows) -> Option<Self> {
        let keys = KV_TILE as usize;
        Some(Self {
            keys: Weights::pack(Elem::Bf16, keys, width, k).ok()?,
            values: Weights::pack_columns(Elem::Bf16, width, keys, v).ok()?,
        })
    }
}

/// Keys and values, bf16 `(KV_TILE, head_pad)` each.
type Rows = [Vec<u16>; 2];

/// Packed tiles of earlier launches, and what they were packed from: one is used again only where memory holds exactly that. So nothing
/// here can be stale, whoever wrote to the cache. Tiles that are not full yet are not kept: the next position changes them.
#[derive(Default)]
pub(in super::super) struct KeptTiles {
    known: HashMap<Place, (Rows, Arc<KvTile>)>,
    /// Elements of what is known.
    elements: usize,
}

/// Caches, pages, head and width of a tile.
type Place = ([u64; 2], [u32; (KV_TILE / PAGE) as usize], u32, u32);

/// Elements that are kept at most: about half a gigabyte with what is made of them.
const MOST: usize = 1 << 26;

impl KeptTiles {
    /// The tiles of a launch, by KV tile and head; `None` if a page is not in memory.
    pub(super) fn of(
        &mut self,
        spec: &AttentionSpec,
        plan: &Plan<'_>,
        memory: &Memory,
        workers: usize,
    ) -> Option<Vec<Arc<KvTile>>> {
        struct Job {
            place: Place,
            full: bool,
            rows: Option<Rows>,
            known: bool,
            tile: Option<Arc<KvTile>>,
        }
        let heads = 0..spec.kv_heads;
        let mut jobs: Vec<(Job, &Keys)> = plan
            .kv_tiles
            .iter()
            .flat_map(|keys| heads.clone().map(move |head| (keys, head)))
            .map(|(keys, head)| {
                let place = (plan.caches, keys.pages, head, spec.head_pad);
                (Job { place, full: keys.count == KV_TILE, rows: None, known: false, tile: None }, keys)
            })
            .collect();
        let known = &self.known;
        threads::share(workers.min(jobs.len()), jobs.iter_mut(), |(job, keys)| {
            let [k, v] = plan.caches.map(|cache| rows(spec, memory, cache, keys, job.place.2));
            let (Some(k), Some(v)) = (k, v) else { return };
            let rows = [k, v];
            let kept = known.get(&job.place).filter(|(from, _)| *from == rows);
            job.known = kept.is_some();
            job.tile = match kept {
                Some((_, tile)) => Some(tile.clone()),
                None => KvTile::pack(spec.head_pad as usize, &rows).map(Arc::new),
            };
            job.rows = Some(rows);
        });
        let mut tiles = Vec::with_capacity(jobs.len());
        for (job, _) in jobs {
            let (rows, tile) = (job.rows?, job.tile?);
            if job.full && !job.known {
                self.keep(job.place, rows, tile.clone());
            }
            tiles.push(tile);
        }
        Some(tiles)
    }

    fn keep(&mut self, place: Place, rows: Rows, tile: Arc<KvTile>) {
        let elements = |rows: &Rows| rows.iter().map(Vec::len).sum::<usize>();
        if self.elements + elements(&rows) > MOST {
            self.known.clear();
            self.elements = 0;
        }
        self.elements += elements(&rows);
        if let Some((old, _)) = self.known.insert(place, (rows, tile)) {
            self.elements -= elements(&old);
        }
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
