//! The host's view of the paged KV cache: which page holds which positions of which request.
//!
//! Pages are handed out lowest number first, so the layout is a function of the calls made. Where a column lies never
//! changes its bits; the layout is still determinate, since schedules depend on how many pages are left.
//!
//! A full page can be *published* under a name that stands for all tokens up to its end ([`PageName`]). Other requests whose
//! tokens begin the same way then *adopt* it instead of computing it again. Published pages outlive their request until
//! their room is needed; the one unused for longest goes first.

pub(crate) mod e4m3;
mod prefix;

pub(crate) use prefix::extend_page_names;
pub use prefix::{PageName, page_names};

use std::collections::{BTreeMap, BTreeSet};

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

/// What is known of a page.
#[derive(Clone, Debug, Default)]
struct Page {
    /// Sequences that hold it.
    holders: u32,
    /// Set while it can be adopted.
    published: Option<Published>,
}

#[derive(Clone, Copy, Debug)]
struct Published {
    name: PageName,
    /// Who computed it, and when.
    source: Source,
    /// Place in the order of last use; meaningful while nobody holds the page.
    idle_since: u64,
}

/// Where a published page comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The request that computed it.
    pub request: u64,
    /// The step after which it was published. A request that is computed again after a preemption may leave other bits.
    pub step: u64,
}

/// Consecutive pages of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Where they come from.
    pub source: Source,
    /// How many.
    pub pages: u32,
}

/// Block allocator, block tables and prefix cache.
#[derive(Clone, Debug)]
pub struct KvTables {
    free: BTreeSet<u32>,
    pages: Vec<Page>,
    /// Published pages that nobody holds, by when they were last held.
    idle: BTreeMap<u64, u32>,
    names: BTreeMap<PageName, u32>,
    clock: u64,
    slots: Vec<Option<Sequence>>,
    max_positions: u32,
}

impl KvTables {
    /// A cache of `pages` pages for up to `slots` requests of at most `max_positions` positions.
    pub fn new(pages: u32, slots: u32, max_positions: u32) -> Self {
        Self {
            free: (0..pages).collect(),
            pages: vec![Page::default(); pages as usize],
            idle: BTreeMap::new(),
            names: BTreeMap::new(),
            clock: 0,
            slots: vec![None; slots as usize],
            max_positions,
        }
    }

    /// Closes every slot and forgets every page.
    pub fn reset(&mut self) {
        *self = Self::new(self.pages.len() as u32, self.slots.len() as u32, self.max_positions);
    }

    /// Pages in one row of the block table.
    pub fn max_pages(&self) -> u32 {
        self.max_positions.div_ceil(PAGE)
    }

    /// Pages that can be handed out: free ones, and published ones that nobody holds.
    pub fn available(&self) -> u32 {
        (self.free.len() + self.idle.len()) as u32
    }

    /// Slots, open or not.
    pub fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Slots that can be opened.
    pub fn open_slots(&self) -> u32 {
        self.slots.iter().filter(|s| s.is_none()).count() as u32
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

    /// Gives a slot and its pages back. Published pages stay until their room is needed.
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

    /// The pages of a slot, in order of position; the last may have room for more positions than are held.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open.
    pub fn pages(&self, slot: Slot) -> Result<&[u32]> {
        self.sequence(slot).map(|s| s.pages.as_slice())
    }

    /// Drops positions `len..` and gives back the pages that no longer hold any.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open or holds fewer positions, or if `len` lies inside a page that others hold too: what is
    /// written there next would be theirs as well. Nothing changes then.
    pub fn truncate(&mut self, slot: Slot, len: u32) -> Result<()> {
        let held = self.len(slot)?;
        if len > held {
            return Err(Error::Plan { detail: format!("slot {} holds {held} positions, not {len}", slot.0) });
        }
        if len < held && !len.is_multiple_of(PAGE) {
            self.unpublish(slot, (len / PAGE) as usize)?;
        }
        if let Some(Some(sequence)) = self.slots.get_mut(slot.0 as usize) {
            sequence.len = len;
            // Last page first: of a prefix that nobody holds, the far end should go before the beginning.
            for page in sequence.pages.split_off(len.div_ceil(PAGE) as usize).into_iter().rev() {
                self.release(page);
            }
        }
        Ok(())
    }

    /// Can [`KvTables::reserve`] make this much room?
    pub fn has_room(&self, slot: Slot, positions: u32) -> bool {
        positions <= self.max_positions
            && self.sequence(slot).is_ok_and(|s| positions.div_ceil(PAGE) <= s.pages.len() as u32 + self.available())
    }

    /// Takes pages for positions up to `positions`, without holding the positions yet. Nothing changes when it fails.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open or `positions` is beyond the limit, [`Error::CacheFull`] without enough pages.
    pub fn reserve(&mut self, slot: Slot, positions: u32) -> Result<()> {
        if positions > self.max_positions {
            let detail =
                format!("slot {} would hold {positions} positions; the limit is {}", slot.0, self.max_positions);
            return Err(Error::Plan { detail });
        }
        let held = self.sequence(slot)?.pages.len() as u32;
        let wanted = positions.div_ceil(PAGE).saturating_sub(held);
        if wanted > self.available() {
            return Err(Error::CacheFull { detail: format!("{wanted} pages wanted, {} are free", self.available()) });
        }
        for _ in 0..wanted {
            let page = self.take();
            if let Some(Some(sequence)) = self.slots.get_mut(slot.0 as usize) {
                sequence.pages.extend(page);
            }
        }
        Ok(())
    }

    /// Makes room for positions up to `len` and holds them. Nothing changes when it fails.
    ///
    /// # Errors
    /// As [`KvTables::reserve`].
    pub fn extend(&mut self, slot: Slot, len: u32) -> Result<()> {
        self.reserve(slot, len)?;
        if let Some(Some(sequence)) = self.slots.get_mut(slot.0 as usize) {
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

    /// A page for one holder: the lowest free one, otherwise the published one unused for longest.
    fn take(&mut self) -> Option<u32> {
        let page = self.free.pop_first().or_else(|| {
            let (_, page) = self.idle.pop_first()?;
            if let Some(old) = self.pages[page as usize].published.take() {
                self.names.remove(&old.name);
            }
            Some(page)
        })?;
        self.pages[page as usize].holders = 1;
        Some(page)
    }

    fn release(&mut self, page: u32) {
        let state = &mut self.pages[page as usize];
        state.holders -= 1;
        if state.holders > 0 {
            return;
        }
        match &mut state.published {
            None => {
                self.free.insert(page);
            }
            Some(published) => {
                self.clock += 1;
                published.idle_since = self.clock;
                self.idle.insert(self.clock, page);
            }
        }
    }
}

#[cfg(test)]
mod tests;
