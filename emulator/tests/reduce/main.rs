//! Reductions and GEMM walks against slow evaluators written from the same sections, and against published figures.

mod trees;
mod walks;

/// A small generator with a fixed seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// About normal, mean 0, deviation 1: a sum of twelve uniforms.
    pub(crate) fn normal(&mut self) -> f32 {
        let sum: f64 = (0..12).map(|_| (self.word() >> 11) as f64 / 9_007_199_254_740_992.0).sum();
        (sum - 6.0) as f32
    }
}
