//! How a warp touches global memory.
//!
//! As in shared memory, lanes next to one another are moved as one run, any other pattern lane by lane.

use std::sync::PoisonError;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use ptx::ast::{AtomOp, Space};

use super::fault::{Outcome, bad_access};
use super::inst::Slot;
use super::lanes::{FULL, LANES, V32, V64, lanes_in};
use super::memory::{Allocation, Memory};

/// Global memory as one thread of a launch sees it.
#[derive(Debug)]
pub(super) struct Global<'a> {
    memory: &'a Memory,
    allocations: &'a [Allocation],
    /// What the stores of this launch are known by.
    version: u64,
}

/// Remembers the allocation that an instruction met last: it mostly meets it again.
pub(super) type Hint = u32;

impl<'a> Global<'a> {
    pub fn new(memory: &'a Memory) -> Self {
        Global { memory, allocations: memory.allocations(), version: memory.now() }
    }

    /// The allocation that holds `[address, address + bytes)` and the offset there.
    #[inline(always)]
    fn locate(&self, hint: &mut Hint, address: u64, bytes: u64) -> Option<(&'a Allocation, u64)> {
        if let Some(allocation) = self.allocations.get(*hint as usize)
            && let Some(offset) = allocation.offset(address, bytes)
        {
            return Some((allocation, offset));
        }
        let index = self.memory.find(address, bytes)?;
        *hint = index as Hint;
        let allocation = &self.allocations[index];
        Some((allocation, allocation.offset(address, bytes)?))
    }

    /// The allocation and word index of one lane's access.
    #[inline(always)]
    fn lane(&self, hint: &mut Hint, lane: usize, address: u64, bytes: u32) -> Outcome<(&'a Allocation, usize)> {
        match self.locate(hint, address, u64::from(bytes)) {
            Some((allocation, offset)) if address.is_multiple_of(u64::from(bytes)) => {
                Ok((allocation, (offset / 4) as usize))
            }
            _ => bad_access(Space::Global, lane, address, bytes),
        }
    }

    /// The allocation and first word of a run of `step` bytes in every lane, when the lanes form one.
    #[inline(always)]
    fn run(&self, hint: &mut Hint, address: &V64, step: u64, mask: u32) -> Option<(&'a Allocation, usize)> {
        if mask != FULL || !consecutive(address, step) || !address.0[0].is_multiple_of(step.max(4)) {
            return None;
        }
        let (allocation, offset) = self.locate(hint, address.0[0], step * LANES as u64)?;
        Some((allocation, (offset / 4) as usize))
    }

    /// `N` consecutive words per lane, word `j` to register `to[j]`.
    #[inline(always)]
    pub fn load_to<const N: usize>(
        &self,
        hint: &mut Hint,
        address: &V64,
        mask: u32,
        to: [Slot; N],
        regs: &mut [V32],
    ) -> Outcome<()> {
        if let Some((allocation, word)) = self.run(hint, address, 4 * N as u64, mask) {
            let (groups, _) = allocation.words[word..word + LANES * N].as_chunks::<N>();
            for (j, slot) in to.into_iter().enumerate() {
                for (out, group) in regs[slot as usize].0.iter_mut().zip(groups) {
                    *out = group[j].load(Relaxed);
                }
            }
            return Ok(());
        }
        for lane in lanes_in(mask) {
            let (allocation, word) = self.lane(hint, lane, address.0[lane], 4 * N as u32)?;
            let group = &allocation.words[word..word + N];
            for (slot, word) in to.into_iter().zip(group) {
                regs[slot as usize].0[lane] = word.load(Relaxed);
            }
        }
        Ok(())
    }

    /// `N` consecutive words per lane; `out[j]` is word `j`.
    pub fn load<const N: usize>(&self, hint: &mut Hint, address: &V64, mask: u32) -> Outcome<[V32; N]> {
        let mut out = [V32::ZERO; N];
        self.load_to::<N>(hint, address, mask, std::array::from_fn(|j| j as Slot), &mut out)?;
        Ok(out)
    }

    /// One or two bytes per lane, zero-extended.
    #[inline(always)]
    pub fn load_narrow(&self, hint: &mut Hint, address: &V64, bytes: u32, mask: u32) -> Outcome<V32> {
        let mut out = V32::ZERO;
        if bytes == 2
            && let Some((allocation, word)) = self.run(hint, address, 2, mask)
        {
            let run = &allocation.words[word..word + LANES / 2];
            for (out, pair) in out.0.chunks_exact_mut(2).zip(run) {
                let pair = pair.load(Relaxed);
                (out[0], out[1]) = (pair & 0xffff, pair >> 16);
            }
            return Ok(out);
        }
        for lane in lanes_in(mask) {
            let at = address.0[lane];
            let (allocation, word) = self.lane(hint, lane, at, bytes)?;
            let word = allocation.words[word].load(Relaxed);
            out.0[lane] = (word >> (8 * (at & 3) as u32)) & ((1 << (8 * bytes)) - 1);
        }
        Ok(out)
    }

    /// Stores `N` consecutive words per lane.
    #[inline(always)]
    pub fn store<const N: usize>(&self, hint: &mut Hint, address: &V64, values: [&V32; N], mask: u32) -> Outcome<()> {
        if let Some((allocation, word)) = self.run(hint, address, 4 * N as u64, mask) {
            self.mark(allocation);
            let (groups, _) = allocation.words[word..word + LANES * N].as_chunks::<N>();
            for (i, group) in groups.iter().enumerate() {
                for (word, value) in group.iter().zip(values) {
                    word.store(value.0[i], Relaxed);
                }
            }
            return Ok(());
        }
        for lane in lanes_in(mask) {
            let (allocation, word) = self.lane(hint, lane, address.0[lane], 4 * N as u32)?;
            self.mark(allocation);
            for (word, value) in allocation.words[word..word + N].iter().zip(values) {
                word.store(value.0[lane], Relaxed);
            }
        }
        Ok(())
    }

    /// Stores the low one or two bytes of each lane. A lane by itself needs a compare-and-swap: its neighbours in the
    /// word may belong to another block. A run of pairs does not.
    #[inline(always)]
    pub fn store_narrow(&self, hint: &mut Hint, address: &V64, bytes: u32, value: &V32, mask: u32) -> Outcome<()> {
        if bytes == 2
            && let Some((allocation, word)) = self.run(hint, address, 2, mask)
        {
            self.mark(allocation);
            let run = &allocation.words[word..word + LANES / 2];
            for (value, pair) in value.0.chunks_exact(2).zip(run) {
                pair.store(value[0] & 0xffff | value[1] << 16, Relaxed);
            }
            return Ok(());
        }
        for lane in lanes_in(mask) {
            let at = address.0[lane];
            let (allocation, word) = self.lane(hint, lane, at, bytes)?;
            self.mark(allocation);
            let (shift, keep) = (8 * (at & 3) as u32, (1 << (8 * bytes)) - 1);
            let value = (value.0[lane] & keep) << shift;
            // The closure never declines, so the update cannot fail.
            let _ = allocation.words[word].fetch_update(Relaxed, Relaxed, |old| Some(old & !(keep << shift) | value));
        }
        Ok(())
    }

    /// The allocation's 16-byte groups and each lane's index into them, when all lanes' aligned 16 bytes lie in one.
    #[inline(always)]
    pub fn quads(&self, hint: &mut Hint, address: &V64) -> Option<(&'a [[AtomicU32; 4]], [usize; LANES])> {
        let (allocation, _) = self.locate(hint, address.0[0], 16)?;
        let last = allocation.bytes - 16;
        let mut bad = false;
        let mut index = [0; LANES];
        for (index, &at) in index.iter_mut().zip(&address.0) {
            let offset = at.wrapping_sub(allocation.base);
            bad |= (at & 15 != 0) | (offset > last);
            *index = (offset / 16) as usize;
        }
        let (quads, _) = allocation.words.as_chunks::<4>();
        if bad { None } else { Some((quads, index)) }
    }

    /// Copies `bytes` (4, 8 or 16) at an aligned address into words, the first `valid` bytes only and zero after them.
    #[inline(always)]
    pub fn copy(&self, hint: &mut Hint, lane: usize, address: u64, valid: u32, to: &mut [u32]) -> Outcome<()> {
        let bytes = 4 * to.len() as u32;
        if valid < bytes {
            return self.copy_part(hint, lane, address, valid, to);
        }
        let (allocation, word) = self.lane(hint, lane, address, bytes)?;
        for (to, from) in to.iter_mut().zip(&allocation.words[word..]) {
            *to = from.load(Relaxed);
        }
        Ok(())
    }

    fn copy_part(&self, hint: &mut Hint, lane: usize, address: u64, valid: u32, to: &mut [u32]) -> Outcome<()> {
        let bytes = 4 * to.len() as u32;
        to.fill(0);
        if !address.is_multiple_of(u64::from(bytes)) {
            return bad_access(Space::Global, lane, address, bytes);
        }
        if valid == 0 {
            // Nothing is read; the address may point anywhere.
            return Ok(());
        }
        let Some((allocation, offset)) = self.locate(hint, address, u64::from(valid)) else {
            return bad_access(Space::Global, lane, address, bytes);
        };
        for (j, to) in (0..valid.div_ceil(4)).zip(to) {
            let kept = (valid - 4 * j).min(4);
            let word = allocation.words[offset as usize / 4 + j as usize].load(Relaxed);
            *to = if kept == 4 { word } else { word & ((1 << (8 * kept)) - 1) };
        }
        Ok(())
    }

    /// Notes that this launch has stored into the allocation.
    #[inline(always)]
    fn mark(&self, allocation: &Allocation) {
        if allocation.version.load(Relaxed) != self.version {
            allocation.version.store(self.version, Relaxed);
            allocation.stored_unchecked.store(true, Relaxed);
        }
    }

    /// `atom.global` on 32 bits; returns the old values.
    pub fn atom32(
        &self,
        hint: &mut Hint,
        op: AtomOp,
        signed: bool,
        address: &V64,
        (a, b): (&V32, &V32),
        mask: u32,
    ) -> Outcome<V32> {
        let mut old = V32::ZERO;
        for lane in lanes_in(mask) {
            let (allocation, word) = self.lane(hint, lane, address.0[lane], 4)?;
            self.mark(allocation);
            let (a, b) = (a.0[lane], b.0[lane]);
            let update = |x| Some(combine32(op, signed, x, a, b));
            match allocation.words[word].fetch_update(Relaxed, Relaxed, update) {
                Ok(x) | Err(x) => old.0[lane] = x,
            }
        }
        Ok(old)
    }

    /// `atom.global` on 64 bits; returns the old values. Atomic with regard to other 64-bit atomics.
    pub fn atom64(
        &self,
        hint: &mut Hint,
        op: AtomOp,
        signed: bool,
        address: &V64,
        (a, b): (&V64, &V64),
        mask: u32,
    ) -> Outcome<V64> {
        let mut old = V64::ZERO;
        let _guard = self.memory.wide_atomics.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes_in(mask) {
            let (allocation, word) = self.lane(hint, lane, address.0[lane], 8)?;
            self.mark(allocation);
            let (low, high) = (&allocation.words[word], &allocation.words[word + 1]);
            let x = u64::from(low.load(Relaxed)) | u64::from(high.load(Relaxed)) << 32;
            let new = combine64(op, signed, x, a.0[lane], b.0[lane]);
            low.store(new as u32, Relaxed);
            high.store((new >> 32) as u32, Relaxed);
            old.0[lane] = x;
        }
        Ok(old)
    }
}

/// Whether the addresses ascend by `step` from lane to lane.
#[inline(always)]
fn consecutive(address: &V64, step: u64) -> bool {
    let mut differ = 0;
    for i in 0..LANES {
        differ |= address.0[i] ^ address.0[0].wrapping_add(step * i as u64);
    }
    differ == 0
}

/// What an atomic leaves in memory. For `cas`, `a` is the value compared with and `b` the one stored.
pub(super) fn combine32(op: AtomOp, signed: bool, x: u32, a: u32, b: u32) -> u32 {
    match op {
        AtomOp::Add => x.wrapping_add(a),
        AtomOp::Min if signed => (x as i32).min(a as i32) as u32,
        AtomOp::Max if signed => (x as i32).max(a as i32) as u32,
        AtomOp::Min => x.min(a),
        AtomOp::Max => x.max(a),
        AtomOp::And => x & a,
        AtomOp::Or => x | a,
        AtomOp::Xor => x ^ a,
        AtomOp::Exch => a,
        AtomOp::Cas => {
            if x == a {
                b
            } else {
                x
            }
        }
    }
}

/// As [`combine32`], on 64 bits.
pub(super) fn combine64(op: AtomOp, signed: bool, x: u64, a: u64, b: u64) -> u64 {
    match op {
        AtomOp::Add => x.wrapping_add(a),
        AtomOp::Min if signed => (x as i64).min(a as i64) as u64,
        AtomOp::Max if signed => (x as i64).max(a as i64) as u64,
        AtomOp::Min => x.min(a),
        AtomOp::Max => x.max(a),
        AtomOp::And => x & a,
        AtomOp::Or => x | a,
        AtomOp::Xor => x ^ a,
        AtomOp::Exch => a,
        AtomOp::Cas => {
            if x == a {
                b
            } else {
                x
            }
        }
    }
}
