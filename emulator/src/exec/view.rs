//! Global memory as host code sees it that stands in for a kernel.
//!
//! Words stay relaxed atomics, so that several threads may share a view, as blocks share memory.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Words of an allocation, to read. From [`Memory::words`](super::Memory::words).
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(pub(super) &'a [AtomicU32]);

impl<'a> Words<'a> {
    /// Words.
    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// One word.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    #[inline]
    pub fn get(self, at: usize) -> u32 {
        self.0[at].load(Relaxed)
    }

    /// So many words from `at` on.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    #[inline]
    pub fn part(self, at: usize, count: usize) -> Self {
        Self(&self.0[at..at + count])
    }

    /// Copies the words from `at` on.
    ///
    /// # Panics
    /// If there are fewer than `to` holds.
    #[inline]
    pub fn copy(self, at: usize, to: &mut [u32]) {
        let words = &self.0[at..at + to.len()];
        for (to, from) in to.iter_mut().zip(words) {
            *to = from.load(Relaxed);
        }
    }

    /// The words as 16-bit elements, two a word, low half first.
    #[must_use]
    pub fn halves(self) -> Vec<u16> {
        let mut out = vec![0; 2 * self.0.len()];
        for (pair, word) in out.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            let word = word.load(Relaxed);
            *pair = [word as u16, (word >> 16) as u16];
        }
        out
    }
}

/// Words of an allocation, to write. From [`Memory::words_mut`](super::Memory::words_mut).
#[derive(Clone, Copy, Debug)]
pub struct WordsMut<'a>(pub(super) &'a [AtomicU32]);

impl WordsMut<'_> {
    /// Writes one word.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn set(self, at: usize, word: u32) {
        self.0[at].store(word, Relaxed);
    }

    /// Writes the words from `at` on.
    ///
    /// # Panics
    /// If there are fewer than `from` holds.
    #[inline]
    pub fn put(self, at: usize, from: &[u32]) {
        for (to, from) in self.0[at..at + from.len()].iter().zip(from) {
            to.store(*from, Relaxed);
        }
    }
}
