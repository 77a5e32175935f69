//! Inputs: reproducible, ordinary ones and edges.

use half::bf16;

/// SplitMix64 (Steele, Lea, Flood 2014): enough for cases.
pub(super) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    /// About normal, of standard deviation 1: the sum of twelve uniform numbers.
    pub fn normal(&mut self) -> f32 {
        let sum: f64 = (0..12).map(|_| (self.next() >> 11) as f64 / (1u64 << 53) as f64).sum();
        (sum - 6.0) as f32
    }

    /// Zero to `n - 1` in no order.
    pub fn shuffled(&mut self, n: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (0..n).collect();
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i as u32 + 1) as usize);
        }
        all
    }

    /// bf16 as weights and activations are: about normal, with zeros of both signs, outliers and tiny ones.
    pub fn bf16s(&mut self, count: usize, scale: f32) -> Vec<u16> {
        let mut one = || {
            let v = self.normal() * scale;
            match self.below(32) {
                0 => 0.0,
                1 => -0.0,
                2 => v * 300.0,
                3 => v * 1e-20,
                _ => v,
            }
        };
        (0..count).map(|_| bf16::from_f32(one()).to_bits()).collect()
    }

    /// f32, about normal.
    pub fn f32s(&mut self, count: usize, scale: f32) -> Vec<u32> {
        (0..count).map(|_| (self.normal() * scale).to_bits()).collect()
    }

    /// Any bits: NaNs, infinities and subnormals too.
    pub fn any16(&mut self, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.next() as u16).collect()
    }

    /// Any bits.
    pub fn any32(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.next() as u32).collect()
    }
}

/// Rows of `width` values, padded with zeros to `padded`.
pub(super) fn padded<T: Copy + Default>(values: &[T], width: usize, padded: usize) -> Vec<T> {
    let mut out = Vec::new();
    for row in values.chunks_exact(width) {
        out.extend_from_slice(row);
        out.resize(out.len() + padded - width, T::default());
    }
    out
}

/// Little-endian bytes.
pub(super) fn bytes16(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Little-endian bytes.
pub(super) fn bytes32(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
