//! Sharing of computed prefixes between requests.

use sha2::{Digest, Sha256};

use super::{Adopted, KvTables, Published, Slot, Source};
use crate::error::{Error, Result};
use crate::kernels::PAGE;

/// Stands for every token from position 0 to the end of a page: `SHA-256(name of the page before || its ids, u32 little-endian)`, and 32
/// zero bytes before the first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageName([u8; 32]);

/// Names of the full pages of `tokens`, pages being of `page` positions.
pub fn page_names(tokens: &[u32], page: u32) -> Vec<PageName> {
    let mut names = Vec::with_capacity(tokens.len() / page as usize);
    extend_page_names(&mut names, tokens, page);
    names
}

/// Adds the names of full pages that `names` does not have yet.
pub(crate) fn extend_page_names(names: &mut Vec<PageName>, tokens: &[u32], page: u32) {
    for ids in tokens.chunks_exact(page as usize).skip(names.len()) {
        let before = names.last().map_or([0; 32], |n| n.0);
        let mut hash = Sha256::new_with_prefix(before);
        for id in ids {
            hash.update(id.to_le_bytes());
        }
        names.push(PageName(hash.finalize().into()));
    }
}

impl KvTables {
    /// Offers the first pages of a slot under these names; `source` says who computed them, and when. A name that is taken already, and a page that has
    /// one, stay as they are.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open or does not hold all those positions.
    pub fn publish(&mut self, slot: Slot, names: &[PageName], source: Source) -> Result<()> {
        let sequence = self.sequence(slot)?;
        if names.len() as u32 * PAGE > sequence.len {
            let detail =
                format!("slot {} holds {} positions, too few for {} full pages", slot.0, sequence.len, names.len());
            return Err(Error::Plan { detail });
        }
        let pages = sequence.pages[..names.len()].to_vec();
        for (page, name) in pages.into_iter().zip(names) {
            let state = &mut self.pages[page as usize];
            if state.published.is_none() && !self.names.contains_key(name) {
                state.published = Some(Published { name: *name, source, idle_since: 0 });
                self.names.insert(*name, page);
            }
        }
        Ok(())
    }

    /// How many of the first of these pages can be adopted.
    pub fn cached(&self, names: &[PageName]) -> u32 {
        names.iter().take_while(|n| self.names.contains_key(*n)).count() as u32
    }

    /// How many of these pages nobody holds: adopting them leaves that many fewer [`KvTables::available`].
    pub fn cached_idle(&self, names: &[PageName]) -> u32 {
        let held = |n: &&PageName| self.names.get(*n).is_some_and(|p| self.pages[*p as usize].holders == 0);
        names.iter().filter(held).count() as u32
    }

    /// Begins an empty slot with published pages; says who computed them.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open or not empty, or a page is not published. Nothing changes then.
    pub fn adopt(&mut self, slot: Slot, names: &[PageName]) -> Result<Vec<Adopted>> {
        let sequence = self.sequence(slot)?;
        if !sequence.pages.is_empty() {
            return Err(Error::Plan { detail: format!("slot {} holds pages; only an empty slot adopts", slot.0) });
        }
        let pages: Option<Vec<u32>> = names.iter().map(|n| self.names.get(n).copied()).collect();
        let pages = pages.ok_or_else(|| Error::Plan { detail: format!("slot {} adopts an unknown page", slot.0) })?;
        let mut adopted: Vec<Adopted> = Vec::new();
        for page in &pages {
            let state = &mut self.pages[*page as usize];
            let Some(published) = state.published else { continue };
            if state.holders == 0 {
                self.idle.remove(&published.idle_since);
            }
            state.holders += 1;
            match adopted.last_mut() {
                Some(last) if last.source == published.source => last.pages += 1,
                _ => adopted.push(Adopted { source: published.source, pages: 1 }),
            }
        }
        if let Some(Some(sequence)) = self.slots.get_mut(slot.0 as usize) {
            sequence.len = pages.len() as u32 * PAGE;
            sequence.pages = pages;
        }
        Ok(adopted)
    }

    /// Withdraws page number `index` of a slot, which is about to be written again.
    pub(super) fn unpublish(&mut self, slot: Slot, index: usize) -> Result<()> {
        let page = self.sequence(slot)?.pages[index];
        let state = &mut self.pages[page as usize];
        if state.holders > 1 {
            return Err(Error::Plan {
                detail: format!("page {page} of slot {} is shared and cannot be written again", slot.0),
            });
        }
        if let Some(published) = state.published.take() {
            self.names.remove(&published.name);
        }
        Ok(())
    }
}
