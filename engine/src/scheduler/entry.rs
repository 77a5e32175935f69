//! A request in the scheduler's books.

use super::Arrival;
use crate::kernels::PAGE;
use crate::kv::{PageName, Slot, extend_page_names};

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Without pages: it has just come, or is to be computed again.
    Waiting,
    /// Its pages are in host memory.
    Swapped {
        /// How many.
        pages: u32,
    },
    /// On the device.
    Running(Slot),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub arrival: Arrival,
    /// Prompt, then the tokens chosen so far.
    pub tokens: Vec<u32>,
    /// Positions computed and kept.
    pub fed: u32,
    /// Positions from the beginning on whose columns are the reference's, over columns of which that is true as well.
    pub clean: u32,
    pub state: State,
    /// It had a slot before, and lost it.
    pub preempted: bool,
    names: Vec<PageName>,
}

impl Entry {
    pub fn new(arrival: Arrival) -> Self {
        let tokens = arrival.prompt.clone();
        Self { arrival, tokens, fed: 0, clean: 0, state: State::Waiting, preempted: false, names: Vec::new() }
    }

    /// Names of all full pages of its tokens.
    pub fn names(&mut self) -> &[PageName] {
        extend_page_names(&mut self.names, &self.tokens, PAGE);
        &self.names
    }

    /// Names of the pages it may adopt: at least one token is left to compute, so that there are logits to choose from.
    pub fn adoptable(&mut self) -> &[PageName] {
        let most = (self.tokens.len() - 1) / PAGE as usize;
        self.names();
        &self.names[..most]
    }

    /// The reference left columns of positions `start..end`. They are its own only where those before them are.
    pub fn cleaned(&mut self, start: u32, end: u32) {
        if start <= self.clean {
            self.clean = self.clean.max(end);
        }
    }

    /// Tokens not computed yet.
    pub fn left(&self) -> u32 {
        self.tokens.len() as u32 - self.fed
    }

    /// Only the token chosen last is left.
    pub fn decodes(&self) -> bool {
        self.left() == 1 && self.fed as usize >= self.arrival.prompt.len()
    }
}
