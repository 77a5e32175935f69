//! The device's global memory: allocations at 64-bit addresses that blocks on many threads read and write.
//!
//! Words are relaxed atomics, so that blocks may run in parallel without `unsafe`; on the usual machines such an access
//! costs what a plain one does. Addresses are a pure function of the sequence of allocations: an allocation starts on a
//! 4 GiB boundary, with at least as much unmapped space before it, and no address is given out twice. Hence an index
//! that runs away, or a pointer kept after [`Memory::free`], meets no other allocation.
//!
//! Not modelled: caches, volatile and release/acquire orders (a launch is the only synchronisation between blocks),
//! and atomicity of 64-bit plain accesses under a race.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::{ExecError, Nearest};
use super::view::{Words, WordsMut};

/// Allocations start at multiples of this many bytes.
const STRIDE: u64 = 1 << 32;

/// Global memory of one device.
#[derive(Debug)]
pub struct Memory {
    /// In ascending order of address.
    allocations: Vec<Allocation>,
    next: u64,
    /// The version of what is written now; it moves on with every upload and every launch.
    now: AtomicU64,
    /// Held by 64-bit atomics, whose two words cannot be changed in one step.
    pub(super) wide_atomics: Mutex<()>,
}

/// One allocation.
#[derive(Debug)]
pub(super) struct Allocation {
    pub base: u64,
    pub bytes: u64,
    /// `ceil(bytes / 4)` little-endian words.
    pub words: Box<[AtomicU32]>,
    /// Which bytes have been written, as far as is known.
    pub written: Mutex<Written>,
    /// Set by every store of a launch without checker, which keeps no account of bytes.
    pub stored_unchecked: AtomicBool,
    /// [`Memory::now`] of the latest write.
    pub version: AtomicU64,
}

/// Bytes of an allocation that hold a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// All of them.
    All,
    /// These disjoint ranges, ascending, never adjacent.
    Ranges(Vec<std::ops::Range<u64>>),
}

impl Written {
    /// Adds a range.
    pub fn add(&mut self, range: std::ops::Range<u64>, bytes: u64) {
        let Written::Ranges(ranges) = self else { return };
        if range.is_empty() {
            return;
        }
        let from = ranges.partition_point(|r| r.end < range.start);
        let to = ranges.partition_point(|r| r.start <= range.end);
        let mut merged = range;
        if from < to {
            merged = merged.start.min(ranges[from].start)..merged.end.max(ranges[to - 1].end);
        }
        ranges.splice(from..to, [merged]);
        if ranges[0] == (0..bytes) {
            *self = Written::All;
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// A device with nothing allocated.
    #[must_use]
    pub fn new() -> Self {
        Memory { allocations: Vec::new(), next: STRIDE, now: AtomicU64::new(0), wide_atomics: Mutex::new(()) }
    }

    /// Allocates `bytes` without a value: they read as zero, and the checker refuses to read them before a write.
    ///
    /// # Errors
    /// [`ExecError::OutOfMemory`].
    pub fn alloc(&mut self, bytes: u64) -> Result<u64, ExecError> {
        let refused = || ExecError::OutOfMemory { bytes };
        let count = usize::try_from(bytes.div_ceil(4)).map_err(|_| refused())?;
        let base = self.next;
        let next = bytes.checked_next_multiple_of(STRIDE).and_then(|b| base.checked_add(b)?.checked_add(STRIDE));
        let mut words = Vec::new();
        let (Some(next), Ok(())) = (next, words.try_reserve_exact(count)) else { return Err(refused()) };
        words.resize_with(count, AtomicU32::default);
        self.next = next;
        self.allocations.push(Allocation {
            base,
            bytes,
            words: words.into_boxed_slice(),
            written: Mutex::new(if bytes == 0 { Written::All } else { Written::Ranges(Vec::new()) }),
            stored_unchecked: AtomicBool::new(false),
            version: AtomicU64::new(0),
        });
        Ok(base)
    }

    /// Allocates `bytes` that are zero and count as written.
    ///
    /// # Errors
    /// [`ExecError::OutOfMemory`].
    pub fn alloc_zeroed(&mut self, bytes: u64) -> Result<u64, ExecError> {
        let base = self.alloc(bytes)?;
        if let Some(last) = self.allocations.last_mut() {
            *last.written.get_mut().unwrap_or_else(PoisonError::into_inner) = Written::All;
        }
        Ok(base)
    }

    /// Frees the allocation that starts at `base`.
    ///
    /// # Errors
    /// [`ExecError::HostAccess`] when none does.
    pub fn free(&mut self, base: u64) -> Result<(), ExecError> {
        match self.allocations.binary_search_by_key(&base, |a| a.base) {
            Ok(index) => {
                self.allocations.remove(index);
                Ok(())
            }
            Err(_) => Err(ExecError::HostAccess { address: base, bytes: 0, nearest: self.nearest(base) }),
        }
    }

    /// Copies `data` to the device.
    ///
    /// # Errors
    /// [`ExecError::HostAccess`] when the bytes are not all within one allocation.
    pub fn upload(&mut self, address: u64, data: &[u8]) -> Result<(), ExecError> {
        let index = self.host_range(address, data.len())?;
        let now = self.advance();
        let allocation = &mut self.allocations[index];
        *allocation.version.get_mut() = now;
        let offset = address - allocation.base;
        let written = allocation.written.get_mut().unwrap_or_else(PoisonError::into_inner);
        written.add(offset..offset + data.len() as u64, allocation.bytes);
        // `host_range` has shown that offsets fit the words, hence a usize.
        let mut at = offset as usize;
        let mut rest = data;
        while !rest.is_empty() {
            let word = allocation.words[at / 4].get_mut();
            if at.is_multiple_of(4)
                && let Some((chunk, tail)) = rest.split_first_chunk::<4>()
            {
                *word = u32::from_le_bytes(*chunk);
                rest = tail;
                at += 4;
            } else {
                let mut bytes = word.to_le_bytes();
                bytes[at % 4] = rest[0];
                *word = u32::from_le_bytes(bytes);
                rest = &rest[1..];
                at += 1;
            }
        }
        Ok(())
    }

    /// Copies bytes of the device to `out`.
    ///
    /// # Errors
    /// [`ExecError::HostAccess`] when the bytes are not all within one allocation.
    pub fn download(&self, address: u64, out: &mut [u8]) -> Result<(), ExecError> {
        let allocation = &self.allocations[self.host_range(address, out.len())?];
        let mut at = (address - allocation.base) as usize;
        let mut rest = out;
        while !rest.is_empty() {
            let word = allocation.words[at / 4].load(Ordering::Relaxed).to_le_bytes();
            let from = at % 4;
            let count = rest.len().min(4 - from);
            let (head, tail) = rest.split_at_mut(count);
            head.copy_from_slice(&word[from..from + count]);
            rest = tail;
            at += count;
        }
        Ok(())
    }

    /// Whole words from `address` on, to be read by host code that stands in for a kernel. `None` unless address and length are multiples of
    /// 4 and all bytes lie within one allocation.
    #[must_use]
    pub fn words(&self, address: u64, bytes: u64) -> Option<Words<'_>> {
        self.aligned(address, bytes).map(|(_, words)| Words(words))
    }

    /// The same, to be written. The allocation counts as written to from here on, so a view must not be kept beyond the launch it was made for.
    #[must_use]
    pub fn words_mut(&self, address: u64, bytes: u64) -> Option<WordsMut<'_>> {
        let (allocation, words) = self.aligned(address, bytes)?;
        allocation.version.store(self.advance(), Ordering::Relaxed);
        allocation.stored_unchecked.store(true, Ordering::Relaxed);
        Some(WordsMut(words))
    }

    /// A number that changes whenever anything in the allocation of `address` may have been written: by an upload, a launch, or through
    /// [`Memory::words_mut`]. What was computed from the allocation's bytes at one version holds for as long as it has that version. (No
    /// address is given out twice, so a freed allocation's is never that of another.) `None` where nothing is allocated.
    #[must_use]
    pub fn version(&self, address: u64) -> Option<u64> {
        self.find(address, 0).map(|index| self.allocations[index].version.load(Ordering::Relaxed))
    }

    fn aligned(&self, address: u64, bytes: u64) -> Option<(&Allocation, &[AtomicU32])> {
        if !address.is_multiple_of(4) || !bytes.is_multiple_of(4) {
            return None;
        }
        let allocation = &self.allocations[self.find(address, bytes)?];
        let first = (address - allocation.base) / 4;
        Some((allocation, &allocation.words[first as usize..(first + bytes / 4) as usize]))
    }

    /// Moves on to a version that nothing has been written in.
    pub(super) fn advance(&self) -> u64 {
        self.now.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The version that stores of the launch now running belong to.
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Bytes allocated now.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.allocations.iter().map(|a| a.bytes).sum()
    }

    /// The allocations, in ascending order of address.
    pub(super) fn allocations(&self) -> &[Allocation] {
        &self.allocations
    }

    /// The index of the allocation that holds all of `[address, address + bytes)`.
    pub(super) fn find(&self, address: u64, bytes: u64) -> Option<usize> {
        let index = self.allocations.partition_point(|a| a.base <= address).checked_sub(1)?;
        self.allocations[index].offset(address, bytes).map(|_| index)
    }

    /// Where `address` lies relative to the allocation nearest to it.
    pub(super) fn nearest(&self, address: u64) -> Nearest {
        let after = self.allocations.partition_point(|a| a.base <= address);
        let above = self.allocations.get(after).map(|a| (a.base - address, a));
        let below = after.checked_sub(1).map(|i| &self.allocations[i]);
        if let Some(a) = below {
            let offset = address - a.base;
            if offset < a.bytes {
                return Nearest::Inside { base: a.base, bytes: a.bytes, offset };
            }
            let distance = offset - a.bytes;
            if above.is_none_or(|(gap, _)| distance <= gap) {
                return Nearest::After { base: a.base, bytes: a.bytes, distance };
            }
        }
        match above {
            Some((distance, a)) => Nearest::Before { base: a.base, bytes: a.bytes, distance },
            None => Nearest::Nothing,
        }
    }

    fn host_range(&self, address: u64, bytes: usize) -> Result<usize, ExecError> {
        let bytes = bytes as u64;
        self.find(address, bytes).ok_or_else(|| ExecError::HostAccess {
            address,
            bytes,
            nearest: self.nearest(address),
        })
    }
}

impl Allocation {
    /// What has been written; the account is left to the caller until [`Allocation::put_written`].
    pub fn take_written(&self) -> Written {
        if self.stored_unchecked.swap(false, Ordering::Relaxed) {
            // A launch without checker stored somewhere here: nothing is known to be unwritten.
            return Written::All;
        }
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the account back after a checked launch.
    pub fn put_written(&self, written: Written) {
        self.stored_unchecked.store(false, Ordering::Relaxed);
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = written;
    }

    /// The offset of `address`, when all of `[address, address + bytes)` lies inside.
    #[inline(always)]
    pub fn offset(&self, address: u64, bytes: u64) -> Option<u64> {
        // An address below the base wraps to an offset beyond every length.
        let offset = address.wrapping_sub(self.base);
        (offset <= self.bytes && self.bytes - offset >= bytes).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_at_any_alignment() {
        let mut memory = Memory::new();
        let base = memory.alloc(37).unwrap();
        let data: Vec<u8> = (1..=37).collect();
        memory.upload(base, &data).unwrap();
        memory.upload(base + 5, &[0xaa, 0xbb, 0xcc]).unwrap();
        for from in 0..9 {
            for to in from..37 {
                let mut out = vec![0; to - from];
                memory.download(base + from as u64, &mut out).unwrap();
                let mut want = data.clone();
                want[5..8].copy_from_slice(&[0xaa, 0xbb, 0xcc]);
                assert_eq!(out, want[from..to]);
            }
        }
    }

    #[test]
    fn a_host_access_outside_names_the_nearest_allocation() {
        let mut memory = Memory::new();
        assert!(matches!(memory.upload(16, &[0]), Err(ExecError::HostAccess { nearest: Nearest::Nothing, .. })));
        let a = memory.alloc(10).unwrap();
        let b = memory.alloc(20).unwrap();
        let fault = |address, bytes: usize| match memory.download(address, &mut vec![0; bytes]) {
            Err(ExecError::HostAccess { nearest, .. }) => nearest,
            other => panic!("{other:?}"),
        };
        assert_eq!(fault(a + 8, 3), Nearest::Inside { base: a, bytes: 10, offset: 8 });
        assert_eq!(fault(a + 11, 1), Nearest::After { base: a, bytes: 10, distance: 1 });
        assert_eq!(fault(b - 1, 1), Nearest::Before { base: b, bytes: 20, distance: 1 });
        assert_eq!(fault(a - 1, 1), Nearest::Before { base: a, bytes: 10, distance: 1 });
        assert_eq!(fault(u64::MAX, 1), Nearest::After { base: b, bytes: 20, distance: u64::MAX - b - 20 });
        memory.free(a).unwrap();
        assert!(memory.free(a).is_err());
        assert!(memory.download(a, &mut [0]).is_err());
        assert_eq!(memory.allocated_bytes(), 20);
    }

    #[test]
    fn views_are_of_whole_words_of_one_allocation_and_writing_changes_its_version() {
        let mut memory = Memory::new();
        let (a, b) = (memory.alloc(10).unwrap(), memory.alloc(64).unwrap());
        memory.upload(a, &(1..=10).collect::<Vec<u8>>()).unwrap();
        let words = memory.words(a + 4, 4).unwrap();
        assert_eq!((words.len(), words.get(0)), (1, 0x0807_0605));
        // The last two bytes of `a` are no word; nor is what is not aligned, or reaches out.
        for (address, bytes) in [(a + 8, 4), (a, 6), (a + 2, 4), (b + 60, 8), (b - 4, 4), (b, u64::MAX - 3)] {
            assert!(memory.words(address, bytes).is_none(), "{address:#x} {bytes}");
            assert!(memory.words_mut(address, bytes).is_none(), "{address:#x} {bytes}");
        }
        assert_eq!(memory.version(b + 64), memory.version(b));
        assert_eq!(memory.version(b + 65), None);
        let before = [memory.version(a), memory.version(b)];
        memory.words_mut(b + 8, 8).unwrap().set(1, 7);
        assert_eq!(memory.words(b + 12, 4).unwrap().get(0), 7);
        assert_eq!(memory.version(a), before[0]);
        assert_ne!(memory.version(b), before[1]);
        let before = memory.version(b);
        memory.upload(b + 1, &[1]).unwrap();
        assert_ne!(memory.version(b), before);
    }

    #[test]
    fn an_impossible_allocation_is_refused() {
        let mut memory = Memory::new();
        assert!(matches!(memory.alloc(u64::MAX), Err(ExecError::OutOfMemory { bytes: u64::MAX })));
        assert!(matches!(memory.alloc(1 << 62), Err(ExecError::OutOfMemory { .. })));
    }

    #[test]
    fn written_ranges_merge() {
        let mut w = Written::Ranges(Vec::new());
        w.add(10..20, 100);
        w.add(30..40, 100);
        w.add(20..25, 100);
        assert_eq!(w, Written::Ranges(vec![10..25, 30..40]));
        w.add(0..50, 100);
        assert!(matches!(&w, Written::Ranges(r) if r.len() == 1 && r[0] == (0..50)));
        w.add(50..100, 100);
        assert_eq!(w, Written::All);
    }
}
