//! Who touched which bytes last, and whether the next access is ordered after that.
//!
//! Order within a launch comes from three things only: a thread's own program order, `bar.sync` for the threads of a block, and
//! `bar.warp.sync` for the lanes of a warp. Blocks are never ordered. Hence "before" is a comparison of two counters (of
//! barriers passed by the block, and of synchronisations of the warp), and a few marks per cell are enough to find a
//! conflict if there is one:
//! * the last plain write; whatever is ordered after it is ordered after all earlier ones;
//! * of reads, and of atomics, since then, either two by threads no later access can be ordered after both of, or all of one warp.
//!
//! A cell is a word until an access of one or two bytes splits its page into bytes.

use std::collections::HashMap;

use crate::exec::error::AccessKind;

/// The whole warp, or several of its lanes, instead of one lane.
pub(super) const MANY: u8 = 32;

/// An access: by whom, where in the program, and after how many synchronisations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub block: u32,
    pub pc: u32,
    /// Barriers the block had passed.
    pub epoch: u32,
    /// Barriers and `bar.warp.sync`s the warp had passed.
    pub warp_epoch: u32,
    pub warp: u8,
    /// Lane, or [`MANY`].
    pub lane: u8,
}

impl Mark {
    /// Whether every effect of this access is ordered before `later`.
    pub fn before(&self, later: &Mark) -> bool {
        self.block == later.block
            && (self.epoch < later.epoch
                || (self.warp == later.warp
                    && (self.warp_epoch < later.warp_epoch || (self.lane == later.lane && self.lane != MANY))))
    }
}

/// Accesses that do not conflict with one another, as few of them as can stand for all.
#[derive(Clone, Copy, Debug, Default)]
struct Witnesses([Option<Mark>; 2]);

impl Witnesses {
    /// One of them that is not ordered before `later`.
    fn unordered(&self, later: &Mark) -> Option<Mark> {
        self.0.iter().flatten().find(|m| !m.before(later)).copied()
    }

    fn add(&mut self, new: Mark) {
        let [first, second] = &mut self.0;
        match (first, &second) {
            (slot @ None, _) => *slot = Some(new),
            // Two blocks, or two warps since the last barrier: nothing later can be ordered after both.
            (Some(a), Some(b)) if a.block != b.block => {}
            (Some(a), _) if a.block != new.block => *second = Some(new),
            (Some(a), _) if a.epoch != new.epoch => self.0 = [Some(new), None],
            (Some(_), Some(_)) => {}
            (Some(a), None) if a.warp != new.warp => *second = Some(new),
            (Some(a), None) if a.warp_epoch != new.warp_epoch => *a = new,
            (Some(a), None) if a.lane != new.lane => a.lane = MANY,
            (Some(_), None) => {}
        }
    }
}

/// The accesses to one word or byte that later ones may conflict with.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    write: Option<Mark>,
    reads: Witnesses,
    atomics: Witnesses,
    /// The asynchronous copy that may be writing here, plus one.
    copy: u32,
}

/// An access that is not ordered after an earlier one it conflicts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// With an access of the program.
    Access { first: Mark, before: AccessKind },
    /// With the asynchronous copy of this number.
    Copy(u32),
}

impl Cell {
    fn conflict(&self, kind: AccessKind, now: &Mark) -> Option<Conflict> {
        if self.copy != 0 {
            return Some(Conflict::Copy(self.copy - 1));
        }
        let found = |before: AccessKind| move |first: Mark| Conflict::Access { first, before };
        let write = || self.write.filter(|w| !w.before(now)).map(found(AccessKind::Write));
        let reads = || self.reads.unordered(now).map(found(AccessKind::Read));
        let atomics = || self.atomics.unordered(now).map(found(AccessKind::Atomic));
        match kind {
            AccessKind::Read => write().or_else(atomics),
            AccessKind::Atomic => write().or_else(reads),
            AccessKind::Write => write().or_else(reads).or_else(atomics),
        }
    }

    fn record(&mut self, kind: AccessKind, now: Mark) {
        match kind {
            AccessKind::Read => self.reads.add(now),
            AccessKind::Atomic => self.atomics.add(now),
            // Whatever conflicts with an access before this write conflicts with the write.
            AccessKind::Write => *self = Cell { write: Some(now), copy: self.copy, ..Cell::default() },
        }
    }
}

const PAGE: u64 = 1024;

#[derive(Debug)]
struct Page {
    /// One a word, or one a byte.
    cells: Vec<Cell>,
}

impl Page {
    fn new() -> Self {
        Page { cells: vec![Cell::default(); PAGE as usize / 4] }
    }

    fn is_fine(&self) -> bool {
        self.cells.len() == PAGE as usize
    }

    fn split(&mut self) {
        if !self.is_fine() {
            self.cells = self.cells.iter().flat_map(|&cell| [cell; 4]).collect();
        }
    }
}

/// The shadow of an address space.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    pages: HashMap<u64, Page>,
}

impl Shadow {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.pages.clear();
    }

    /// The cells of an aligned access of 1 to 16 bytes.
    fn cells(&mut self, address: u64, bytes: u32) -> (u64, u64, &mut [Cell]) {
        let page = self.pages.entry(address / PAGE).or_insert_with(Page::new);
        if bytes < 4 {
            page.split();
        }
        let unit = if page.is_fine() { 1 } else { 4 };
        let from = (address % PAGE / unit) as usize;
        let count = (u64::from(bytes) / unit) as usize;
        (address, unit, &mut page.cells[from..from + count])
    }

    /// Checks an access and records it. On a conflict, gives its address too.
    pub fn access(&mut self, address: u64, bytes: u32, kind: AccessKind, now: Mark) -> Result<(), (u64, Conflict)> {
        let (address, unit, cells) = self.cells(address, bytes);
        for (i, cell) in (0..).zip(cells) {
            if let Some(conflict) = cell.conflict(kind, &now) {
                return Err((address + i * unit, conflict));
            }
            cell.record(kind, now);
        }
        Ok(())
    }

    /// Checks the write of copy number `copy` and bars the bytes until it has landed.
    pub fn start_copy(&mut self, address: u64, bytes: u32, now: Mark, copy: u32) -> Result<(), (u64, Conflict)> {
        let (address, unit, cells) = self.cells(address, bytes);
        for (i, cell) in (0..).zip(cells) {
            if let Some(conflict) = cell.conflict(AccessKind::Write, &now) {
                return Err((address + i * unit, conflict));
            }
            cell.copy = copy + 1;
        }
        Ok(())
    }

    /// The copy to these bytes has landed; they count as written by `now`.
    pub fn land_copy(&mut self, address: u64, bytes: u32, now: Mark) -> Result<(), (u64, Conflict)> {
        let (_, _, cells) = self.cells(address, bytes);
        for cell in cells {
            cell.copy = 0;
        }
        self.access(address, bytes, AccessKind::Write, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(block: u32, warp: u8, lane: u8, epoch: u32, warp_epoch: u32) -> Mark {
        Mark { block, pc: 0, epoch, warp_epoch, warp, lane }
    }

    /// Every history of a few accesses, against the definition: two accesses conflict unless both read or both are
    /// atomic, and race unless one is before the other.
    #[test]
    fn finds_a_race_exactly_when_some_pair_races() {
        let mut state = 7u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let (mut racy, mut clean) = (0, 0);
        for _ in 0..200_000 {
            // Counters only grow with time, as they do in a run.
            let (mut epoch, mut warp_epoch) = ([0u32; 2], [[0u32; 2]; 2]);
            let mut shadow = Shadow::default();
            let mut history: Vec<(AccessKind, Mark)> = Vec::new();
            let readers = random(3) == 0;
            for _ in 0..6 {
                let (block, warp) = ((random(4) == 0) as usize, random(2) as usize);
                match random(3) {
                    0 => {
                        epoch[block] += 1;
                        warp_epoch[block].iter_mut().for_each(|e| *e += 1);
                    }
                    1 => warp_epoch[block][warp] += 1,
                    _ => {}
                }
                let lane = random(2) as u8;
                let kind = match random(if readers { 8 } else { 3 }) {
                    0 => AccessKind::Write,
                    1 => AccessKind::Atomic,
                    _ => AccessKind::Read,
                };
                let now = mark(block as u32, warp as u8, lane, epoch[block], warp_epoch[block][warp]);
                let want = history.iter().any(|(before, first)| {
                    let harmless = *before == kind && kind != AccessKind::Write;
                    !harmless && !first.before(&now)
                });
                let got = shadow.access(64, 4, kind, now).is_err();
                assert_eq!(got, want, "{history:?} then {kind:?} {now:?}");
                if got {
                    racy += 1;
                    break;
                }
                clean += 1;
                history.push((kind, now));
            }
        }
        assert!(racy > 10_000 && clean > 10_000, "{racy} racy, {clean} clean");
    }

    #[test]
    fn bytes_of_a_word_are_separate_once_accessed_separately() {
        let mut shadow = Shadow::default();
        let write = AccessKind::Write;
        shadow.access(0, 2, write, mark(0, 0, 0, 0, 0)).unwrap();
        shadow.access(2, 2, write, mark(1, 0, 0, 0, 0)).unwrap();
        assert!(shadow.access(0, 1, write, mark(1, 0, 0, 0, 0)).is_err());
        // A word written whole keeps its history when its page is split later.
        shadow.access(8, 4, write, mark(0, 0, 0, 0, 0)).unwrap();
        assert!(shadow.access(10, 2, AccessKind::Read, mark(1, 0, 0, 0, 0)).is_err());
    }
}
