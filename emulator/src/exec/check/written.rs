//! Which bytes hold a value.

use std::ops::Range;

use crate::exec::memory::Written;

/// One bit a byte; absent when all are set.
#[derive(Debug)]
pub(super) struct WrittenBytes {
    bits: Option<Vec<u64>>,
    bytes: u64,
}

impl WrittenBytes {
    /// Nothing written.
    pub fn none(bytes: u64) -> Self {
        WrittenBytes { bits: Some(vec![0; bytes.div_ceil(64) as usize]), bytes }
    }

    pub fn new(written: &Written, bytes: u64) -> Self {
        match written {
            Written::All => WrittenBytes { bits: None, bytes },
            Written::Ranges(ranges) => {
                let mut this = Self::none(bytes);
                for range in ranges {
                    this.add(range.clone());
                }
                this
            }
        }
    }

    pub fn add(&mut self, range: Range<u64>) {
        let Some(bits) = &mut self.bits else { return };
        for word in range.start / 64..range.end.div_ceil(64) {
            let (from, to) = (range.start.max(64 * word) - 64 * word, range.end.min(64 * word + 64) - 64 * word);
            bits[word as usize] |= (u64::MAX >> (64 - (to - from))) << from;
        }
    }

    /// The first byte of the range that holds no value.
    pub fn first_unwritten(&self, range: Range<u64>) -> Option<u64> {
        let bits = self.bits.as_ref()?;
        range.into_iter().find(|&byte| bits[byte as usize / 64] >> (byte % 64) & 1 == 0)
    }

    /// The ranges that hold a value.
    pub fn into_ranges(self) -> Written {
        let Some(bits) = self.bits else { return Written::All };
        let mut written = Written::Ranges(Vec::new());
        let mut at = 0;
        for (&word, base) in bits.iter().zip((0..).step_by(64)) {
            let mut rest = word;
            while rest != 0 {
                let from = base + u64::from(rest.trailing_zeros());
                let length = u64::from((rest >> rest.trailing_zeros()).trailing_ones());
                written.add(from..from + length, self.bytes);
                at = from + length;
                rest = if at - base >= 64 { 0 } else { rest >> (at - base) << (at - base) };
            }
        }
        debug_assert!(at <= self.bytes);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_survive_the_bitmap() {
        let mut state = 3u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..500 {
            let bytes = 1 + random(300);
            let mut written = Written::Ranges(Vec::new());
            let mut model = vec![false; bytes as usize];
            let mut map = WrittenBytes::none(bytes);
            for _ in 0..random(6) {
                let from = random(bytes);
                let to = from + 1 + random(bytes - from);
                written.add(from..to, bytes);
                map.add(from..to);
                model[from as usize..to as usize].fill(true);
            }
            for from in 0..bytes {
                let want = model[from as usize..].iter().position(|w| !w).map(|i| from + i as u64);
                assert_eq!(map.first_unwritten(from..bytes), want);
            }
            assert_eq!(WrittenBytes::new(&written, bytes).into_ranges(), written);
            assert_eq!(map.into_ranges(), written);
        }
    }
}
