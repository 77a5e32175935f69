//! What kernels do with f32, 32 values at a time.
//!
//! Sums, differences and products are the host's: IEEE 754 rounds them to nearest even, subnormals and all, as these instructions do; only
//! which NaN comes out is the instruction's. Everything else is the emulator's warp functions. Tests compare both with interpretation, which
//! computes by integers.

use emulator::mufu::{self, MufuTables};
use emulator::scalar::lanes;
use emulator::simd::{Level, Warp};

/// The scalar and the special function units.
#[derive(Clone, Copy)]
pub(super) struct Units {
    level: Level,
    tables: &'static MufuTables,
}

/// Threads of a warp.
pub(super) const LANES: usize = 32;
pub(super) const NOTHING: Warp = [0; LANES];

impl Units {
    pub fn new(level: Level) -> Self {
        Self { level, tables: MufuTables::g80() }
    }

    /// `add.rn.f32`.
    pub fn add(self, a: &Warp, b: &Warp) -> Warp {
        std::array::from_fn(|lane| add(a[lane], b[lane]))
    }

    /// `sub.rn.f32`.
    pub fn sub(self, a: &Warp, b: &Warp) -> Warp {
        std::array::from_fn(|lane| canonical(f32::from_bits(a[lane]) - f32::from_bits(b[lane])))
    }

    /// `mul.rn.f32`.
    pub fn mul(self, a: &Warp, b: &Warp) -> Warp {
        std::array::from_fn(|lane| canonical(f32::from_bits(a[lane]) * f32::from_bits(b[lane])))
    }

    /// `fma.rn.f32`.
    pub fn fma(self, a: &Warp, b: &Warp, c: &Warp) -> Warp {
        result(|out| lanes::fma_rn::<false>(self.level, a, b, c, out))
    }

    /// `max.f32`.
    pub fn max(self, a: &Warp, b: &Warp) -> Warp {
        result(|out| lanes::max::<false>(self.level, a, b, out))
    }

    /// The largest of all, as `max.f32` has it: NaNs are passed over, and the order does not matter.
    pub fn largest(self, mut values: Warp) -> u32 {
        for distance in [16, 8, 4, 2, 1] {
            let mut other = NOTHING;
            for lane in 0..LANES {
                other[lane] = values[lane ^ distance];
            }
            values = self.max(&values, &other);
        }
        values[0]
    }

    /// `ex2.approx.ftz.f32`.
    pub fn ex2(self, a: &Warp) -> Warp {
        result(|out| mufu::lanes::ex2(self.level, self.tables, a, out))
    }

    /// `rcp.approx.ftz.f32`.
    pub fn rcp(self, a: &Warp) -> Warp {
        result(|out| mufu::lanes::rcp(self.level, self.tables, a, out))
    }

    /// `rsqrt.approx.ftz.f32`.
    pub fn rsqrt(self, a: &Warp) -> Warp {
        result(|out| mufu::lanes::rsq(self.level, self.tables, a, out))
    }

    /// The two bf16 of each word as f32: low halves, high halves.
    pub fn widen(self, words: &Warp) -> [Warp; 2] {
        [
            result(|out| lanes::widen_bf16_low(self.level, words, out)),
            result(|out| lanes::widen_bf16_high(self.level, words, out)),
        ]
    }

    /// `cvt.rn.bf16x2.f32` of low and high halves.
    pub fn pack(self, [low, high]: &[Warp; 2]) -> Warp {
        result(|out| lanes::pack_bf16x2_rn(self.level, high, low, out))
    }

    /// `cvt.rn.bf16x2.f32` of neighbours: 32 values to 16 words.
    pub fn narrow(self, values: &Warp) -> [u32; LANES / 2] {
        let (mut low, mut high) = (NOTHING, NOTHING);
        for (i, pair) in values.as_chunks::<2>().0.iter().enumerate() {
            (low[i], high[i]) = (pair[0], pair[1]);
        }
        let packed = result(|out| lanes::pack_bf16x2_rn(self.level, &high, &low, out));
        std::array::from_fn(|i| packed[i])
    }
}

/// `add.rn.f32` of one lane.
#[inline(always)]
pub(super) fn add(a: u32, b: u32) -> u32 {
    canonical(f32::from_bits(a) + f32::from_bits(b))
}

#[inline(always)]
fn canonical(x: f32) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() }
}

/// Up to 32 words, and zeros.
pub(super) fn warp(words: &[u32]) -> Warp {
    let mut out = NOTHING;
    out[..words.len()].copy_from_slice(words);
    out
}

fn result(compute: impl FnOnce(&mut Warp)) -> Warp {
    let mut out = NOTHING;
    compute(&mut out);
    out
}
