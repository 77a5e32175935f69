//! What a launch of attention asks for, looked at before anything is computed.

use std::collections::HashMap;
use std::ops::Range;

use emulator::exec::{Memory, Words, WordsMut};

use super::super::{Call, Declined, Span, aligned, apart};
use crate::device::Arg;
use crate::kernels::{AttentionSpec, KV_TILE, PAGE, Q_TILE, TILE_WORDS};

/// One query tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueryTile {
    pub slot: u32,
    pub first_row: u32,
    pub count: u32,
    /// Position of its first row.
    pub start: u32,
}

impl QueryTile {
    /// Position of its last row.
    pub fn last(self) -> u32 {
        self.start + self.count - 1
    }

    /// Keys of KV tile `kv_tile` up to its last row; what follows are zeros.
    fn keys(self, kv_tile: u32) -> u32 {
        (self.last() + 1 - kv_tile * KV_TILE).min(KV_TILE)
    }
}

/// Keys and values that some query tile reads, by key/value head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    /// Page numbers.
    pub pages: [u32; (KV_TILE / PAGE) as usize],
    /// Keys that there are, from 1.
    pub count: u32,
}

/// A launch.
pub(super) struct Plan<'a> {
    pub rows: u32,
    pub splits: u32,
    pub query_tiles: Vec<QueryTile>,
    /// The distinct ones.
    pub kv_tiles: Vec<Keys>,
    /// Slot, number and keys of a KV tile, and its place among them.
    places: HashMap<(u32, u32, u32), usize>,
    q: Words<'a>,
    pub caches: [u64; 2],
    /// `out`; or `o`, `m` and `l`.
    outputs: Vec<Span>,
}

impl<'a> Plan<'a> {
    /// Declines what the native code does not cover, data that name no memory among it.
    pub fn new(spec: &AttentionSpec, call: &Call<'a>) -> Result<Self, Declined> {
        let (pointers, outputs, sizes) = match (spec.partial, call.args) {
            (false, [pointers @ .., out, rows, count, pages]) => {
                (pointers, vec![out], [rows, count, pages, &Arg::U32(1)])
            }
            (true, [pointers @ .., o, m, l, rows, count, pages, splits]) => {
                (pointers, vec![o, m, l], [rows, count, pages, splits])
            }
            _ => return Err(Declined),
        };
        let &[Arg::Ptr(q), Arg::Ptr(k), Arg::Ptr(v), Arg::Ptr(tiles), Arg::Ptr(tables)] = pointers else {
            return Err(Declined);
        };
        let [&Arg::U32(rows), &Arg::U32(count), &Arg::U32(max_pages), &Arg::U32(splits)] = sizes else {
            return Err(Declined);
        };
        call.runs_on(spec.grid(count, splits))?;

        // The kernel counts lines of its arrays in 32 bits.
        let lines = splits.checked_mul(rows).and_then(|n| n.checked_mul(spec.q_heads)).ok_or(Declined)?;
        let width = u64::from(spec.head_pad);
        let q = (q, u64::from(rows) * u64::from(spec.q_heads) * width * 2);
        let tiles = (tiles, u64::from(count) * u64::from(TILE_WORDS) * 4);
        let sizes: &[u64] = if spec.partial { &[width * 4, 4, 4] } else { &[width * 2] };
        let span = |(arg, size): (&&Arg, &u64)| match arg {
            Arg::Ptr(address) => Ok((*address, u64::from(lines) * size)),
            Arg::U32(_) => Err(Declined),
        };
        let outputs: Vec<Span> = outputs.iter().zip(sizes).map(span).collect::<Result<_, _>>()?;
        aligned(&[q, tiles, (k, 0), (v, 0), (tables, 0)])?;
        aligned(&outputs)?;
        let query_tiles = query_tiles(call.memory, tiles, rows)?;
        let mut plan = Self {
            rows,
            splits,
            query_tiles,
            kv_tiles: Vec::new(),
            places: HashMap::new(),
            q: call.memory.words(q.0, q.1).ok_or(Declined)?,
            caches: [k, v],
            outputs,
        };
        let mut read = vec![q, tiles];
        plan.look_up(spec, call.memory, (tables, max_pages), &mut read)?;
        for (i, &output) in plan.outputs.iter().enumerate() {
            apart(output, &read)?;
            apart(output, &plan.outputs[..i])?;
        }
        Ok(plan)
    }

    /// Finds the pages of every KV tile, and adds to `read` what is read of them.
    fn look_up(
        &mut self,
        spec: &AttentionSpec,
        memory: &Memory,
        (tables, max_pages): (u64, u32),
        read: &mut Vec<Span>,
    ) -> Result<(), Declined> {
        let page_bytes = spec.kv_heads.checked_mul(PAGE * spec.head_pad * spec.kv.bytes()).ok_or(Declined)?;
        for tile in self.query_tiles.clone() {
            let last_page = tile.last() / PAGE;
            let row = tile.slot.checked_mul(max_pages).ok_or(Declined)?;
            if last_page >= max_pages {
                return Err(Declined);
            }
            let table = (tables + u64::from(row) * 4, u64::from(last_page + 1) * 4);
            let pages = memory.words(table.0, table.1).ok_or(Declined)?;
            read.push(table);
            for kv_tile in 0..=tile.last() / KV_TILE {
                let key = (tile.slot, kv_tile, tile.keys(kv_tile));
                if self.places.contains_key(&key) {
                    continue;
                }
                self.places.insert(key, self.kv_tiles.len());
                let number = |i: usize| pages.get((kv_tile * (KV_TILE / PAGE) + i as u32).min(last_page) as usize);
                let pages = std::array::from_fn(number);
                self.kv_tiles.push(Keys { pages, count: key.2 });
                for (cache, page) in self.caches.into_iter().flat_map(|cache| pages.map(|page| (cache, page))) {
                    let address = u64::from(page).checked_mul(page_bytes.into()).and_then(|at| at.checked_add(cache));
                    read.push((address.ok_or(Declined)?, page_bytes.into()));
                }
            }
        }
        Ok(())
    }

    /// bf16 queries of a tile's rows and of the query heads of a key/value head: `(count, group, head_pad)`.
    pub fn queries(&self, spec: &AttentionSpec, tile: &QueryTile, kv_head: u32) -> Vec<u16> {
        let group = spec.q_heads / spec.kv_heads;
        let words = (group * spec.head_pad / 2) as usize;
        let mut out = Vec::with_capacity(tile.count as usize * words * 2);
        for row in tile.first_row..tile.first_row + tile.count {
            let line = row as usize * spec.q_heads as usize + (kv_head * group) as usize;
            let from = line * spec.head_pad as usize / 2;
            out.extend(self.q.part(from, words).halves());
        }
        out
    }

    /// KV tiles that a split of a query tile covers.
    pub fn range(&self, tile: &QueryTile, split: u32) -> Range<u32> {
        let all = tile.last() / KV_TILE + 1;
        let per = all.div_ceil(self.splits);
        let edge = |split: u32| split.saturating_mul(per).min(all);
        edge(split)..edge(split + 1)
    }

    /// The place among [`Plan::kv_tiles`] of a KV tile as a query tile sees it.
    pub fn kv_tile(&self, tile: &QueryTile, kv_tile: u32) -> usize {
        self.places[&(tile.slot, kv_tile, tile.keys(kv_tile))]
    }
}

/// The tile table. Declines tiles that are none, and rows that two of them would write.
fn query_tiles(memory: &Memory, (address, bytes): Span, rows: u32) -> Result<Vec<QueryTile>, Declined> {
    let words = memory.words(address, bytes).ok_or(Declined)?;
    let mut taken = vec![false; rows as usize];
    let mut tiles = Vec::with_capacity(words.len() / TILE_WORDS as usize);
    for at in (0..words.len()).step_by(TILE_WORDS as usize) {
        let tile = QueryTile {
            slot: words.get(at),
            first_row: words.get(at + 1),
            count: words.get(at + 2),
            start: words.get(at + 3),
        };
        let positions = tile.start.checked_add(Q_TILE + KV_TILE).is_some();
        let end = tile.first_row.checked_add(tile.count).filter(|&end| end <= rows).ok_or(Declined)?;
        let mine = &mut taken[tile.first_row as usize..end as usize];
        if !positions || !(1..=Q_TILE).contains(&tile.count) || mine.iter().any(|&taken| taken) {
            return Err(Declined);
        }
        mine.fill(true);
        tiles.push(tile);
    }
    Ok(tiles)
}

/// Where results go.
#[derive(Clone, Copy)]
pub(super) enum Outputs<'a> {
    /// bf16.
    Whole(WordsMut<'a>),
    /// `o`, `m` and `l`, f32.
    Partial([WordsMut<'a>; 3]),
}

impl<'a> Outputs<'a> {
    pub fn new(spec: &AttentionSpec, plan: &Plan<'_>, memory: &'a Memory) -> Result<Self, Declined> {
        // All must be there before any counts as written.
        if plan.outputs.iter().any(|&(address, bytes)| memory.words(address, bytes).is_none()) {
            return Err(Declined);
        }
        let view = |i: usize| plan.outputs.get(i).and_then(|&(at, bytes)| memory.words_mut(at, bytes)).ok_or(Declined);
        Ok(if spec.partial { Self::Partial([view(0)?, view(1)?, view(2)?]) } else { Self::Whole(view(0)?) })
    }
}
