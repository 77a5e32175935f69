//! The host's view of the paged KV cache: which page holds which positions of which request.
//!
//! Pages are handed out lowest number first, so the layout is a function of the calls made. Where a column lies never
//! changes its bits; the layout is still determinate, since the device's memory should not depend on a hash seed.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::kernels::PAGE;

/// A request's place in the cache; also its row of the block table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

#[derive(Clone, Debug, Default)]
struct Sequence {
    pages: Vec<u32>,
    len: u32,
}

/// Block allocator and block tables.
#[derive(Clone, Debug)]
pub struct KvTables {
    free: BTreeSet<u32>,
    slots: Vec<Option<Sequence>>,
    max_positions: u32,
}

impl KvTables {
    /// A cache of `pages` pages for up to `slots` requests of at most `max_positions` positions.
    pub fn new(pages: u32, slots: u32, max_positions: u32) -> Self {
        Self { free: (0..pages).collect(), slots: vec![None; slots as usize], max_positions }
    }

    /// Pages in one row of the block table.
    pub fn max_pages(&self) -> u32 {
        self.max_positions.div_ceil(PAGE)
    }

    /// Takes the lowest free slot.
    ///
    /// # Errors
    /// [`Error::CacheFull`].
    pub fn open(&mut self) -> Result<Slot> {
        let at = self.slots.iter().position(Option::is_none);
        let at = at.ok_or_else(|| Error::CacheFull { detail: format!("all {} slots are in use", self.slots.len()) })?;
        self.slots[at] = Some(Sequence::default());
        Ok(Slot(at as u32))
    }

    /// Gives a slot and its pages back.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open.
    pub fn close(&mut self, slot: Slot) -> Result<()> {
        self.truncate(slot, 0)?;
        self.slots[slot.0 as usize] = None;
        Ok(())
    }

    /// Positions held.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open.
    pub fn len(&self, slot: Slot) -> Result<u32> {
        self.sequence(slot).map(|s| s.len)
    }

    /// Drops positions `len..` and gives back the pages that no longer hold any.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open or holds fewer positions.
    pub fn truncate(&mut self, slot: Slot, len: u32) -> Result<()> {
        let held = self.len(slot)?;
        if len > held {
            return Err(Error::Plan { detail: format!("slot {} holds {held} positions, not {len}", slot.0) });
        }
        if let Some(Some(sequence)) = self.slots.get_mut(slot.0 as usize) {
            sequence.len = len;
            let dropped = sequence.pages.split_off(len.div_ceil(PAGE) as usize);
            self.free.extend(dropped);
        }
        Ok(())
    }

    /// Makes room for positions up to `len`. Nothing changes when it fails.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open or `len` is beyond the limit, [`Error::CacheFull`] without enough pages.
    pub fn extend(&mut self, slot: Slot, len: u32) -> Result<()> {
        if len > self.max_positions {
            let detail = format!("slot {} would hold {len} positions; the limit is {}", slot.0, self.max_positions);
            return Err(Error::Plan { detail });
        }
        let held = self.sequence(slot)?.pages.len() as u32;
        let wanted = len.div_ceil(PAGE).saturating_sub(held) as usize;
        if wanted > self.free.len() {
            return Err(Error::CacheFull { detail: format!("{wanted} pages wanted, {} are free", self.free.len()) });
        }
        if let Some(Some(sequence)) = self.slots.get_mut(slot.0 as usize) {
            for _ in 0..wanted {
                sequence.pages.extend(self.free.pop_first());
            }
            sequence.len = sequence.len.max(len);
        }
        Ok(())
    }

    /// Where a position's column lies: `page * PAGE + offset`.
    ///
    /// # Errors
    /// [`Error::Plan`] if the position is not held.
    pub fn column(&self, slot: Slot, position: u32) -> Result<u32> {
        let sequence = self.sequence(slot)?;
        if position >= sequence.len {
            return Err(Error::Plan { detail: format!("slot {} holds no position {position}", slot.0) });
        }
        Ok(sequence.pages[(position / PAGE) as usize] * PAGE + position % PAGE)
    }

    /// The block table, `(slots, max_pages)`; entries beyond a request's pages are 0 and never read by a kernel.
    pub fn block_table(&self) -> Vec<u32> {
        let width = self.max_pages() as usize;
        let mut table = vec![0; self.slots.len() * width];
        for (row, slot) in table.chunks_exact_mut(width.max(1)).zip(&self.slots) {
            if let Some(sequence) = slot {
                row[..sequence.pages.len()].copy_from_slice(&sequence.pages);
            }
        }
        table
    }

    fn sequence(&self, slot: Slot) -> Result<&Sequence> {
        self.slots
            .get(slot.0 as usize)
            .and_then(Option::as_ref)
            .ok_or_else(|| Error::Plan { detail: format!("slot {} is not open", slot.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_lowest_first_and_go_back() {
        let mut kv = KvTables::new(4, 2, 40);
        let (a, b) = (kv.open().unwrap(), kv.open().unwrap());
        assert!(matches!(kv.open(), Err(Error::CacheFull { .. })));
        kv.extend(a, 16).unwrap();
        kv.extend(b, 1).unwrap();
        kv.extend(a, 17).unwrap();
        assert_eq!(kv.column(a, 16).unwrap(), 2 * PAGE);
        assert_eq!(kv.column(b, 0).unwrap(), PAGE);
        assert_eq!(kv.block_table(), [0, 2, 0, 1, 0, 0]);
        kv.truncate(a, 3).unwrap();
        assert!(kv.column(a, 3).is_err());
        kv.extend(b, 33).unwrap();
        assert_eq!(kv.block_table()[3..], [1, 2, 3]);
        kv.close(b).unwrap();
        kv.extend(a, 33).unwrap();
        assert_eq!(kv.column(a, 32).unwrap(), 2 * PAGE);
    }

    #[test]
    fn a_failed_call_changes_nothing() {
        let mut kv = KvTables::new(2, 1, 100);
        let a = kv.open().unwrap();
        kv.extend(a, 5).unwrap();
        let before = format!("{kv:?}");
        assert!(matches!(kv.extend(a, 33), Err(Error::CacheFull { .. })));
        assert!(matches!(kv.extend(a, 101), Err(Error::Plan { .. })));
        assert!(matches!(kv.truncate(a, 6), Err(Error::Plan { .. })));
        assert!(matches!(kv.extend(Slot(1), 1), Err(Error::Plan { .. })));
        assert_eq!(format!("{kv:?}"), before);
    }
}
