//! Seeded pseudo-random numbers for probes and resampling: SplitMix64 (Steele, Lea, Flood 2014).

/// A stream of numbers that its seed determines on every platform.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own for each name.
    #[must_use]
    pub fn named(seed: u64, name: &str) -> Self {
        let mut own = Self(seed);
        for byte in name.bytes() {
            own.0 ^= u64::from(byte);
            own.0 = own.bits();
        }
        own
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is at least 1. The bias is below `n / 2^64`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n.max(1) as u128) >> 64) as usize
    }

    /// A number in [0, 1), a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * libm::ldexp(1.0, -53)
    }

    /// Two independent standard normal numbers' first (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Puts a list into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs for seed 1234567, as the authors' C program prints them.
    #[test]
    fn published_outputs() {
        let mut r = Random::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([r.bits(), r.bits(), r.bits()], expected);
    }

    #[test]
    fn numbers_stay_in_range() {
        let mut r = Random::named(3, "x");
        assert!((0..1000).all(|_| r.below(7) < 7 && (0.0..1.0).contains(&r.unit()) && r.normal().is_finite()));
        assert_eq!(r.below(1), 0);
        let mut list: Vec<u32> = (0..20).collect();
        r.shuffle(&mut list);
        let mut sorted = list.clone();
        sorted.sort_unstable();
        assert!(sorted == (0..20).collect::<Vec<_>>() && list != sorted);
        assert_ne!(Random::named(3, "x").bits(), Random::named(3, "y").bits());
    }
}
