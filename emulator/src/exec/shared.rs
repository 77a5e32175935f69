//! A block's shared memory, and the ways a warp touches it.
//!
//! Lanes that lie next to one another, as they mostly do, are moved as one run; any other pattern lane by lane. Stores
//! of several lanes to one address: the highest lane wins (PTX says only that one of them does; the checker refuses
//! differing values).

use ptx::ast::Space;

use super::fault::{Outcome, bad_access};
use super::lanes::{FULL, LANES, V32, lanes_in};

/// Shared memory of one block, as little-endian words.
#[derive(Debug)]
pub(super) struct Shared {
    words: Vec<u32>,
    bytes: u32,
}

impl Shared {
    pub fn new(bytes: u32) -> Self {
        Shared { words: vec![0; bytes.div_ceil(4) as usize], bytes }
    }

    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Zeroes everything: a block finds no trace of the one before it.
    pub fn clear(&mut self) {
        self.words.fill(0);
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

    /// `N` consecutive words per lane; `out[j]` is word `j`.
    #[inline(always)]
    pub fn load<const N: usize>(&self, address: &V32, mask: u32) -> Outcome<[V32; N]> {
        let mut out = [V32::ZERO; N];
        let step = 4 * N as u32;
        let first = address.0[0];
        if mask == FULL && consecutive(address, step) && first.is_multiple_of(step) {
            let from = first as usize / 4;
            if u64::from(first) + u64::from(step) * LANES as u64 <= u64::from(self.bytes)
                && let Some(run) = self.words.get(from..from + LANES * N)
            {
                for i in 0..LANES {
                    for j in 0..N {
                        out[j].0[i] = run[i * N + j];
                    }
                }
                return Ok(out);
            }
        }
        for lane in lanes_in(mask) {
            let word = self.word(lane, address.0[lane], step)?;
            for (j, out) in out.iter_mut().enumerate() {
                out.0[lane] = self.words[word + j];
            }
        }
        Ok(out)
    }

    /// One or two bytes per lane, zero-extended.
    #[inline(always)]
    pub fn load_narrow(&self, address: &V32, bytes: u32, mask: u32) -> Outcome<V32> {
        let mut out = V32::ZERO;
        for lane in lanes_in(mask) {
            let at = address.0[lane];
            let word = self.words[self.word(lane, at, bytes)?];
            out.0[lane] = (word >> (8 * (at & 3))) & ((1 << (8 * bytes)) - 1);
        }
        Ok(out)
    }

    /// Stores `N` consecutive words per lane.
    #[inline(always)]
    pub fn store<const N: usize>(&mut self, address: &V32, values: &[&V32; N], mask: u32) -> Outcome<()> {
        let step = 4 * N as u32;
        let first = address.0[0];
        if mask == FULL && consecutive(address, step) && first.is_multiple_of(step) {
            let from = first as usize / 4;
            if u64::from(first) + u64::from(step) * LANES as u64 <= u64::from(self.bytes)
                && let Some(run) = self.words.get_mut(from..from + LANES * N)
            {
                for i in 0..LANES {
                    for j in 0..N {
                        run[i * N + j] = values[j].0[i];
                    }
                }
                return Ok(());
            }
        }
        for lane in lanes_in(mask) {
            let word = self.word(lane, address.0[lane], step)?;
            for (j, value) in values.iter().enumerate() {
                self.words[word + j] = value.0[lane];
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
            let word = &mut self.words[word];
            *word = *word & !(keep << shift) | (value.0[lane] & keep) << shift;
        }
        Ok(())
    }

    /// The 16 bytes at each address of the lanes `8 * matrix ..`: the rows of one 8x8 matrix of 16-bit elements.
    #[inline(always)]
    pub fn rows(&self, address: &V32, matrix: usize) -> Outcome<[u32; LANES]> {
        let mut rows = [0; LANES];
        for row in 0..8 {
            let lane = 8 * matrix + row;
            let at = address.0[lane];
            if at.is_multiple_of(16)
                && at <= self.bytes.saturating_sub(16)
                && let Some(run) = self.words.get(at as usize / 4..at as usize / 4 + 4)
            {
                rows[4 * row..4 * row + 4].copy_from_slice(run);
            } else {
                return bad_access(Space::Shared, lane, u64::from(at), 16);
            }
        }
        Ok(rows)
    }

    /// `words.len()` words at an aligned address, for one lane.
    #[inline(always)]
    pub fn slice_mut(&mut self, lane: usize, address: u32, words: usize) -> Outcome<&mut [u32]> {
        let word = self.word(lane, address, 4 * words as u32)?;
        Ok(&mut self.words[word..word + words])
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
