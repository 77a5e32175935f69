//! Inputs: reproducible, of several kinds.

use emulator::format::{E4M3, narrow_f32, widen_to_f32};
use emulator::round::{Overflow, Rounding};
use half::bf16;

/// SplitMix64 (Steele, Lea, Flood 2014): enough for test data.
pub struct Rng(u64);

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

    /// Below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    /// About normal, of standard deviation 1: the sum of twelve uniform numbers.
    pub fn normal(&mut self) -> f32 {
        let sum: f64 = (0..12).map(|_| (self.next() >> 11) as f64 / (1u64 << 53) as f64).sum();
        (sum - 6.0) as f32
    }

    /// `count` bf16, about normal times `scale`.
    pub fn bf16s(&mut self, count: usize, scale: f32) -> Vec<u16> {
        (0..count).map(|_| bf16::from_f32(self.normal() * scale).to_bits()).collect()
    }

    /// `count` bf16 as activations are: some zeros of both signs, some outliers, some tiny.
    pub fn activations(&mut self, count: usize) -> Vec<u16> {
        (0..count)
            .map(|_| {
                let v = self.normal();
                let v = match self.below(32) {
                    0 => 0.0,
                    1 => -0.0,
                    2 => v * 300.0,
                    3 => v * 1e-20,
                    _ => v,
                };
                bf16::from_f32(v).to_bits()
            })
            .collect()
    }

    /// `count` finite bf16 of any exponent between `2^-lo` and `2^hi`.
    pub fn spread(&mut self, count: usize, lo: u32, hi: u32) -> Vec<u16> {
        (0..count)
            .map(|_| {
                let exponent = 127 - lo + self.below(lo + hi);
                let rest = self.next() as u16 & 0x807f;
                rest | (exponent as u16) << 7
            })
            .collect()
    }

    /// Any bf16: NaNs, infinities and subnormals too.
    pub fn anything(&mut self, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.next() as u16).collect()
    }
}

/// A bf16 as e4m3: nearest even, saturating.
pub fn e4m3(bf16: u16) -> u8 {
    narrow_f32(u32::from(bf16) << 16, &E4M3, Rounding::NearestEven, Overflow::Saturate) as u8
}

/// An e4m3 as bf16.
pub fn from_e4m3(code: u8) -> u16 {
    (widen_to_f32(code.into(), &E4M3) >> 16) as u16
}

/// The value of a bf16.
pub fn value(bits: u16) -> f64 {
    f64::from(bf16::from_bits(bits))
}

/// `rows` rows of `width` values, padded with zeros to `padded`.
pub fn pad_rows<T: Copy + Default>(values: &[T], width: usize, padded: usize) -> Vec<T> {
    let mut out = Vec::new();
    for row in values.chunks_exact(width) {
        out.extend_from_slice(row);
        out.resize(out.len() + padded - width, T::default());
    }
    out
}
