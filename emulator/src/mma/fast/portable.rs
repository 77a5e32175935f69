//! The lanes in plain Rust, for any target. LLVM vectorises the loops with what the target guarantees.

use super::careful;
use super::lanes::Lanes;

/// Needs nothing.
#[derive(Clone, Copy)]
pub(super) struct Portable;

type V = [u32; 16];

#[inline(always)]
fn map(a: V, f: impl Fn(u32) -> u32) -> V {
    let mut out = [0; 16];
    for i in 0..16 {
        out[i] = f(a[i]);
    }
    out
}

#[inline(always)]
fn zip(a: V, b: V, f: impl Fn(u32, u32) -> u32) -> V {
    let mut out = [0; 16];
    for i in 0..16 {
        out[i] = f(a[i], b[i]);
    }
    out
}

#[inline(always)]
fn halves(f: impl Fn(u16) -> u16, word: u32) -> u32 {
    u32::from(f(word as u16)) | u32::from(f((word >> 16) as u16)) << 16
}

#[inline(always)]
fn mask(f: impl Fn(usize) -> bool) -> u16 {
    let mut out = 0;
    for i in 0..16 {
        out |= u16::from(f(i)) << i;
    }
    out
}

impl Lanes for Portable {
    type V = V;

    #[inline(always)]
    fn load(self, from: &[u32; 16]) -> V {
        *from
    }
    #[inline(always)]
    fn store(self, v: V, to: &mut [u32; 16]) {
        *to = v;
    }
    #[inline(always)]
    fn splat(self, word: u32) -> V {
        [word; 16]
    }
    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        zip(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        zip(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn and(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn overflow(self, p: V, c: V, t: V) -> V {
        let mut out = [0; 16];
        for i in 0..16 {
            out[i] = (p[i] ^ t[i]) & (c[i] ^ t[i]);
        }
        out
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: V) -> V {
        map(a, |a| a << N)
    }
    #[inline(always)]
    fn shr<const N: u32>(self, a: V) -> V {
        map(a, |a| a >> N)
    }
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        zip(a, b, |a, b| (a as i32).max(b as i32) as u32)
    }
    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        zip(a, b, |a, b| (a as i32).min(b as i32) as u32)
    }
    #[inline(always)]
    fn add_where_nonzero(self, test: V, otherwise: V, a: V, b: V) -> V {
        let mut out = [0; 16];
        for i in 0..16 {
            out[i] = if test[i] != 0 { a[i].wrapping_add(b[i]) } else { otherwise[i] };
        }
        out
    }
    #[inline(always)]
    fn shl_halves<const N: u32>(self, a: V) -> V {
        let keep = 0xffff_u32 << N & 0xffff;
        map(a, |a| a << N & (keep | keep << 16))
    }
    #[inline(always)]
    fn shr_halves<const N: u32>(self, a: V) -> V {
        let keep = 0xffff_u32 >> N;
        map(a, |a| a >> N & (keep | keep << 16))
    }
    #[inline(always)]
    fn max_halves(self, a: V, b: V) -> V {
        zip(a, b, |a, b| (a & 0xffff).max(b & 0xffff) | (a & 0xffff_0000).max(b & 0xffff_0000))
    }
    #[inline(always)]
    fn add_where_nonzero_halves(self, test: V, otherwise: V, a: V, b: V) -> V {
        let mut out = [0; 16];
        for i in 0..16 {
            let nonzero = halves(|half| if half != 0 { 0xffff } else { 0 }, test[i]);
            out[i] = nonzero & a[i].wrapping_add(b[i]) | !nonzero & otherwise[i];
        }
        out
    }
    #[inline(always)]
    fn gt_unsigned(self, a: V, b: V) -> u16 {
        mask(|i| a[i] > b[i])
    }
    #[inline(always)]
    fn lt_signed(self, a: V, b: V) -> u16 {
        mask(|i| (a[i] as i32) < b[i] as i32)
    }
    #[inline(always)]
    fn signs(self, a: V) -> u16 {
        mask(|i| a[i] >> 31 == 1)
    }
    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        zip(a, b, |a, b| (f32::from_bits(a) * f32::from_bits(b)).to_bits())
    }
    #[inline(always)]
    fn truncate(self, a: V) -> V {
        map(a, |a| f32::from_bits(a) as i32 as u32)
    }
    #[inline(always)]
    fn to_float_toward_zero(self, a: V) -> V {
        map(a, |a| {
            let magnitude = (a as i32).unsigned_abs();
            // Keeping the top 24 bits makes the conversion exact.
            let excess = 8_u32.saturating_sub(magnitude.leading_zeros());
            let kept = magnitude >> excess << excess;
            (kept as f32).to_bits() | a & 0x8000_0000
        })
    }
    #[cfg(test)]
    fn to_float_nearest(self, a: V) -> V {
        map(a, |a| (a as i32 as f32).to_bits())
    }
    #[inline(always)]
    fn widen_f16(self, a: V) -> (V, V) {
        /// Normal numbers move their fields; subnormals are multiples of 2^-24, which f32 holds; specials become specials.
        #[inline(always)]
        fn widen(half: u32) -> u32 {
            let magnitude = half & 0x7fff;
            let normal = (magnitude << 13) + (112 << 23);
            let subnormal = (magnitude as f32 * f32::from_bits((127 - 24) << 23)).to_bits();
            let special = magnitude << 13 | 0x7f80_0000;
            let chosen = if magnitude < 0x400 {
                subnormal
            } else if magnitude < 0x7c00 {
                normal
            } else {
                special
            };
            chosen | (half & 0x8000) << 16
        }
        (map(a, |a| widen(a & 0xffff)), map(a, |a| widen(a >> 16)))
    }
    #[inline(always)]
    fn pack_pairs(self, a: V) -> V {
        let mut out = [0; 16];
        for i in 0..8 {
            out[2 * i] = a[2 * i] | a[2 * i + 1] << 16;
        }
        out
    }
    #[inline(always)]
    fn transpose(self, rows: [V; 4]) -> [V; 4] {
        let mut out = [[0; 16]; 4];
        for (column, out) in out.iter_mut().enumerate() {
            for (row, out) in out.iter_mut().enumerate() {
                *out = rows[row / 4][row % 4 * 4 + column];
            }
        }
        out
    }
    #[inline(always)]
    fn transpose_back(self, columns: [V; 4]) -> [V; 4] {
        let mut out = [[0; 16]; 4];
        for row in 0..16 {
            for column in 0..4 {
                out[row / 4][row % 4 * 4 + column] = columns[column][row];
            }
        }
        out
    }
    fn careful(self, work: &mut careful::Work<'_>) {
        careful::column(work);
    }
}
