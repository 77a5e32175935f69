//! A block's shared memory, and the ways a warp touches it.
//!
//! Lanes that lie next to one another, as they mostly do, are moved as one run; any other pattern lane by lane. Stores
//! of several lanes to one address: the highest lane wins (PTX says only that one of them does; the checker refuses
//! differing values).

use ptx::ast::Space;

use super::fault::{Outcome, bad_access};
use super::inst::Slot;
use super::lanes::{FULL, LANES, V32, lanes_in};

/// Shared memory of one block, as little-endian words in groups of 16 bytes.
#[derive(Debug)]
pub(super) struct Shared {
    quads: Vec<[u32; 4]>,
    bytes: u32,
}

impl Shared {
    pub fn new(bytes: u32) -> Self {
        Shared { quads: vec![[0; 4]; bytes.div_ceil(16) as usize], bytes }
    }

    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Zeroes everything: a block finds no trace of the one before it.
    pub fn clear(&mut self) {
        self.quads.fill([0; 4]);
    }

    #[inline(always)]
    fn words(&self) -> &[u32] {
        self.quads.as_flattened()
    }

    #[inline(always)]
    fn words_mut(&mut self) -> &mut [u32] {
        self.quads.as_flattened_mut()
    }

    /// The word index of an aligned access that lies inside.
    #[inline(always)]
    fn word(&self, lane: usize, address: u32, bytes: u32) -> Outcome<usize> {
        if address.is_multiple_of(bytes) && u64::from(address) + u64::from(bytes) <= u64::from(self.bytes) {
            Ok(address as usize / 4)
        } else {
            bad_access(Space::Shared, lane, u64::from(address), bytes)
        }
    }

    /// The words of all lanes, when they form one aligned run of `N` each that lies inside.
    #[inline(always)]
    fn run<const N: usize>(&self, address: &V32, mask: u32) -> Option<std::ops::Range<usize>> {
        let step = 4 * N as u32;
        let first = address.0[0];
        let inside = u64::from(first) + u64::from(step) * LANES as u64 <= u64::from(self.bytes);
        let from = first as usize / 4;
        (mask == FULL && inside && first.is_multiple_of(step) && consecutive(address, step))
            .then_some(from..from + LANES * N)
    }

    /// `N` consecutive words per lane, word `j` to register `to[j]`.
    #[inline(always)]
    pub fn load_to<const N: usize>(&self, address: &V32, mask: u32, to: [Slot; N], regs: &mut [V32]) -> Outcome<()> {
        if let Some(run) = self.run::<N>(address, mask) {
            let (groups, _) = self.words()[run].as_chunks::<N>();
            for (j, slot) in to.into_iter().enumerate() {
                for (out, group) in regs[slot as usize].0.iter_mut().zip(groups) {
                    *out = group[j];
                }
            }
            return Ok(());
        }
        for lane in lanes_in(mask) {
            let word = self.word(lane, address.0[lane], 4 * N as u32)?;
            let group = &self.words()[word..word + N];
            for (slot, word) in to.into_iter().zip(group) {
                regs[slot as usize].0[lane] = *word;
            }
        }
        Ok(())
    }

    /// `N` consecutive words per lane; `out[j]` is word `j`.
    pub fn load<const N: usize>(&self, address: &V32, mask: u32) -> Outcome<[V32; N]> {
        let mut out = [V32::ZERO; N];
        self.load_to::<N>(address, mask, std::array::from_fn(|j| j as Slot), &mut out)?;
        Ok(out)
    }

    /// One or two bytes per lane, zero-extended.
    #[inline(always)]
    pub fn load_narrow(&self, address: &V32, bytes: u32, mask: u32) -> Outcome<V32> {
        let mut out = V32::ZERO;
        for lane in lanes_in(mask) {
            let at = address.0[lane];
            let word = self.words()[self.word(lane, at, bytes)?];
            out.0[lane] = (word >> (8 * (at & 3))) & ((1 << (8 * bytes)) - 1);
        }
        Ok(out)
    }

    /// Stores `N` consecutive words per lane.
    #[inline(always)]
    pub fn store<const N: usize>(&mut self, address: &V32, values: [&V32; N], mask: u32) -> Outcome<()> {
        if let Some(run) = self.run::<N>(address, mask) {
            let (groups, _) = self.words_mut()[run].as_chunks_mut::<N>();
            for (i, group) in groups.iter_mut().enumerate() {
                *group = values.map(|v| v.0[i]);
            }
            return Ok(());
        }
        for lane in lanes_in(mask) {
            let word = self.word(lane, address.0[lane], 4 * N as u32)?;
            for (j, value) in values.iter().enumerate() {
                self.words_mut()[word + j] = value.0[lane];
            }
        }
        Ok(())
    }

    /// Stores the low one or two bytes of each lane.
    #[inline(always)]
    pub fn store_narrow(&mut self, address: &V32, bytes: u32, value: &V32, mask: u32) -> Outcome<()> {
        for lane in lanes_in(mask) {
            let at = address.0[lane];
            let word = self.word(lane, at, bytes)?;
            let (shift, keep) = (8 * (at & 3), (1 << (8 * bytes)) - 1);
            let word = &mut self.words_mut()[word];
            *word = *word & !(keep << shift) | (value.0[lane] & keep) << shift;
        }
        Ok(())
    }

    /// Fails unless the first `lanes` lanes give the addresses of aligned groups of 16 bytes that lie inside.
    #[inline(always)]
    pub fn check_quads(&self, address: &V32, lanes: usize) -> Outcome<()> {
        let last = i64::from(self.bytes) - 16;
        let mut bad = false;
        for &at in &address.0[..lanes] {
            bad |= (at & 15 != 0) | (i64::from(at) > last);
        }
        if bad {
            for (lane, &at) in address.0[..lanes].iter().enumerate() {
                self.word(lane, at, 16)?;
            }
        }
        Ok(())
    }

    /// The 16 bytes at an address that [`Shared::check_quads`] has passed.
    #[inline(always)]
    pub fn quad(&self, address: u32) -> [u32; 4] {
        self.quads[address as usize / 16]
    }

    /// The 16-byte groups, when all of the aligned 16 bytes at every lane's address lie inside.
    #[inline(always)]
    pub fn quads_mut(&mut self, address: &V32) -> Option<&mut [[u32; 4]]> {
        let last = i64::from(self.bytes) - 16;
        let mut bad = false;
        for &at in &address.0 {
            bad |= (at & 15 != 0) | (i64::from(at) > last);
        }
        if bad { None } else { Some(&mut self.quads) }
    }

    /// `words.len()` words at an aligned address, for one lane.
    #[inline(always)]
    pub fn slice_mut(&mut self, lane: usize, address: u32, words: usize) -> Outcome<&mut [u32]> {
        let word = self.word(lane, address, 4 * words as u32)?;
        Ok(&mut self.words_mut()[word..word + words])
    }
}

/// Whether the addresses ascend by `step` from lane to lane.
#[inline(always)]
fn consecutive(address: &V32, step: u32) -> bool {
    let mut differ = 0;
    for i in 0..LANES {
        differ |= address.0[i] ^ address.0[0].wrapping_add(step * i as u32);
    }
    differ == 0
}
