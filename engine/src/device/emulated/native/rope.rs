//! [`RopeStoreSpec`]: pairs of a head 64 at a time, then the stores.

use emulator::exec::{Words, WordsMut};

use super::rows::{each_run, span, views};
use super::warp::{LANES, NOTHING, Units, warp};
use super::{Call, Declined, Native, Span, countable};
use crate::device::Arg;
use crate::kernels::{KvType, PAGE, RopeStoreSpec};
use crate::kv::e4m3;

/// One text of the rotary embedding and the store.
pub(super) struct RopeStore(pub RopeStoreSpec);

/// What a row needs.
struct Tables<'a> {
    qkv: Words<'a>,
    cos: Words<'a>,
    sin: Words<'a>,
    positions: Vec<u32>,
    slots: Vec<u32>,
}

impl Native for RopeStore {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[qkv, cos, sin, positions, slots, k_cache, v_cache, q, Arg::U32(rows)] = call.args else {
            return Err(Declined);
        };
        let pointer = |arg| if let Arg::Ptr(address) = arg { Ok(address) } else { Err(Declined) };
        let RopeStoreSpec { q_heads, kv_heads, head_dim, head_pad, kv } = self.0;
        let heads = q_heads + 2 * kv_heads;
        countable(rows, heads.checked_mul(head_pad).ok_or(Declined)?)?;
        call.runs_on(self.0.grid(rows))?;
        let [at_positions, at_slots] = [span(pointer(positions)?, rows, 4), span(pointer(slots)?, rows, 4)];
        let [positions, slots] = [numbers(call, at_positions)?, numbers(call, at_slots)?];
        let mut sorted = slots.clone();
        sorted.sort_unstable();
        // Rows with one place: which of them is stored last is not said.
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Declined);
        }
        let most = |of: &[u32]| of.iter().copied().max().unwrap_or(0);
        let pages = most(&slots) / PAGE + 1;
        countable(pages, kv_heads.checked_mul(PAGE).ok_or(Declined)?)?;
        let line = u64::from(head_pad) * u64::from(kv.bytes());
        let cache = u64::from(pages * kv_heads * PAGE) * line;
        let table = (u64::from(most(&positions)) + 1) * u64::from(head_dim) * 2;
        let row_bytes = |heads: u32| u64::from(heads) * u64::from(head_pad) * 2;
        let read = [
            span(pointer(qkv)?, rows, row_bytes(heads)),
            (pointer(cos)?, table),
            (pointer(sin)?, table),
            at_positions,
            at_slots,
        ];
        let written =
            [(pointer(k_cache)?, cache), (pointer(v_cache)?, cache), span(pointer(q)?, rows, row_bytes(q_heads))];
        let ([qkv, cos, sin, ..], [k_cache, v_cache, q]) = views(call, read, written, false)?;
        let tables = Tables { qkv, cos, sin, positions, slots };
        let units = Units::new(call.options.simd);
        let words = heads as usize * head_pad as usize / 2;
        each_run(call, (rows as usize, words), |run| {
            run.for_each(|row| self.row(units, &tables, row, [k_cache, v_cache], q))
        });
        Ok(())
    }
}

impl RopeStore {
    fn row(&self, units: Units, tables: &Tables<'_>, row: usize, caches: [WordsMut<'_>; 2], q: WordsMut<'_>) {
        let RopeStoreSpec { q_heads, kv_heads, head_dim, head_pad, kv } = self.0;
        let (q_heads, kv_heads) = (q_heads as usize, kv_heads as usize);
        let (half, words) = (head_dim as usize / 2, head_pad as usize / 2);
        let (page, offset) = (tables.slots[row] / PAGE, tables.slots[row] % PAGE);
        let mut line = vec![0; words];
        for head in 0..q_heads + 2 * kv_heads {
            line.fill(0);
            tables.qkv.copy((row * (q_heads + 2 * kv_heads) + head) * words, &mut line[..half]);
            if head < q_heads + kv_heads {
                self.turn(units, tables, tables.positions[row] as usize * half, &mut line[..half]);
            }
            let Some(other) = head.checked_sub(q_heads) else {
                q.put((row * q_heads + head) * words, &line);
                continue;
            };
            let (cache, kv_head) = (caches[usize::from(other >= kv_heads)], other % kv_heads);
            let place = (page as usize * kv_heads + kv_head) * PAGE as usize + offset as usize;
            match kv {
                KvType::Bf16 => cache.put(place * words, &line),
                KvType::Fp8 => {
                    let codes: Vec<u32> = line.as_chunks::<2>().0.iter().map(narrow).collect();
                    cache.put(place * words / 2, &codes);
                }
            }
        }
    }

    /// Turns the pairs of a head, whose low half is the first half of its words.
    fn turn(&self, units: Units, tables: &Tables<'_>, at: usize, head: &mut [u32]) {
        let (low, high) = head.split_at_mut(head.len() / 2);
        let pieces = low.chunks_mut(LANES).zip(high.chunks_mut(LANES)).enumerate();
        for (i, (low, high)) in pieces {
            // Of even and of odd pairs.
            let of = |table: Words<'_>| {
                let mut both = [NOTHING; 2];
                for j in 0..2 * low.len() {
                    both[j % 2][j / 2] = table.get(at + 2 * LANES * i + j);
                }
                both
            };
            let (c, s) = (of(tables.cos), of(tables.sin));
            let (lo, hi) = (units.widen(&warp(low)), units.widen(&warp(high)));
            let turned = [0, 1].map(|j| units.sub(&units.mul(&lo[j], &c[j]), &units.mul(&hi[j], &s[j])));
            let other = [0, 1].map(|j| units.add(&units.mul(&hi[j], &c[j]), &units.mul(&lo[j], &s[j])));
            low.copy_from_slice(&units.pack(&turned)[..low.len()]);
            high.copy_from_slice(&units.pack(&other)[..high.len()]);
        }
    }
}

/// Two words of two bf16 each as a word of four e4m3.
fn narrow(pairs: &[u32; 2]) -> u32 {
    let [a, b] = pairs.map(|pair| [pair as u16, (pair >> 16) as u16].map(e4m3::from_bf16));
    u32::from_le_bytes([a[0], a[1], b[0], b[1]])
}

fn numbers(call: &Call<'_>, (address, bytes): Span) -> Result<Vec<u32>, Declined> {
    let words = call.memory.words(address, bytes).ok_or(Declined)?;
    Ok((0..words.len()).map(|i| words.get(i)).collect())
}
