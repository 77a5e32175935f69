//! Thirty-two lanes of a register, and how results are written under an execution mask.
//!
//! Everything here is `#[inline(always)]` and branch-free, so that it is compiled with the vector instructions of the
//! run loop it is inlined into. A result is computed for all lanes, then kept for the active ones.

/// Lanes of a warp.
pub(super) const LANES: usize = 32;
/// The mask with every lane active.
pub(super) const FULL: u32 = u32::MAX;

/// A register of up to 32 bits in every lane. Narrower values are zero-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct V32(pub [u32; LANES]);

/// A 64-bit register in every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct V64(pub [u64; LANES]);

impl V32 {
    pub const ZERO: V32 = V32([0; LANES]);

    #[inline(always)]
    pub fn splat(value: u32) -> Self {
        V32([value; LANES])
    }

    /// Takes `new` where `mask` is set.
    #[inline(always)]
    pub fn merge(&mut self, new: &V32, mask: u32) {
        if mask == FULL {
            *self = *new;
        } else {
            for i in 0..LANES {
                self.0[i] = if mask & (1 << i) != 0 { new.0[i] } else { self.0[i] };
            }
        }
    }
}

impl V64 {
    pub const ZERO: V64 = V64([0; LANES]);

    #[inline(always)]
    pub fn splat(value: u64) -> Self {
        V64([value; LANES])
    }

    /// Takes `new` where `mask` is set.
    #[inline(always)]
    pub fn merge(&mut self, new: &V64, mask: u32) {
        if mask == FULL {
            *self = *new;
        } else {
            for i in 0..LANES {
                self.0[i] = if mask & (1 << i) != 0 { new.0[i] } else { self.0[i] };
            }
        }
    }
}

/// `f` of each lane.
#[inline(always)]
pub(super) fn map(a: &V32, f: impl Fn(u32) -> u32) -> V32 {
    let mut out = V32::ZERO;
    for i in 0..LANES {
        out.0[i] = f(a.0[i]);
    }
    out
}

/// `f` of the lanes of two registers.
#[inline(always)]
pub(super) fn map2(a: &V32, b: &V32, f: impl Fn(u32, u32) -> u32) -> V32 {
    let mut out = V32::ZERO;
    for i in 0..LANES {
        out.0[i] = f(a.0[i], b.0[i]);
    }
    out
}

/// `f` of the lanes of three registers.
#[inline(always)]
pub(super) fn map3(a: &V32, b: &V32, c: &V32, f: impl Fn(u32, u32, u32) -> u32) -> V32 {
    let mut out = V32::ZERO;
    for i in 0..LANES {
        out.0[i] = f(a.0[i], b.0[i], c.0[i]);
    }
    out
}

/// `f` of each lane of a 64-bit register.
#[inline(always)]
pub(super) fn map64(a: &V64, f: impl Fn(u64) -> u64) -> V64 {
    let mut out = V64::ZERO;
    for i in 0..LANES {
        out.0[i] = f(a.0[i]);
    }
    out
}

/// `f` of the lanes of two 64-bit registers.
#[inline(always)]
pub(super) fn map64x2(a: &V64, b: &V64, f: impl Fn(u64, u64) -> u64) -> V64 {
    let mut out = V64::ZERO;
    for i in 0..LANES {
        out.0[i] = f(a.0[i], b.0[i]);
    }
    out
}

/// The lanes for which `f` holds, as a mask.
#[inline(always)]
pub(super) fn mask_of(a: &V32, b: &V32, f: impl Fn(u32, u32) -> bool) -> u32 {
    let mut mask = 0;
    for i in 0..LANES {
        mask |= u32::from(f(a.0[i], b.0[i])) << i;
    }
    mask
}

/// The lanes for which `f` holds, as a mask.
#[inline(always)]
pub(super) fn mask_of64(a: &V64, b: &V64, f: impl Fn(u64, u64) -> bool) -> u32 {
    let mut mask = 0;
    for i in 0..LANES {
        mask |= u32::from(f(a.0[i], b.0[i])) << i;
    }
    mask
}

/// The lanes of a mask, in ascending order.
#[inline(always)]
pub(super) fn lanes_in(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let lane = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(lane)
    })
}
