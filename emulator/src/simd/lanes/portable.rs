//! The lanes in plain Rust, for any target. LLVM vectorises the loops with what the target guarantees.

use super::{Kernel, Lanes};

/// Needs nothing.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

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

/// `value` as f32 by the rules of the final conversion.
#[inline(always)]
fn narrow(value: f64) -> u32 {
    let bits = value.to_bits();
    let magnitude = bits << 1 >> 1;
    let field = (magnitude >> 52) as i64;
    // Dropping bits is truncation: of a normal number, or of the significand in units of 2^-149.
    let normal = (magnitude.wrapping_sub((1023 - 127) << 52) >> 29) as u32;
    let significand = bits & ((1 << 52) - 1) | 1 << 52;
    let subnormal = (significand >> (926 - field).clamp(0, 63)) as u32;
    let finite = if field > 1023 - 127 { normal } else { subnormal };
    let clamped = if field >= 1023 + 128 { 0x7f80_0000 } else { finite };
    let sign = if clamped == 0 { 0 } else { (bits >> 63 << 31) as u32 };
    if magnitude > 2047 << 52 { 0x7fff_ffff } else { sign | clamped }
}

/// IEEE 754's fusedMultiplyAdd of f32 without an instruction for it: the product is exact in f64, the sum there is rounded to odd (to
/// the neighbour whose last bit is set, unless exact), which leaves the one rounding to f32 what it would be from the exact sum.
#[inline(always)]
fn fma(a: u32, b: u32, c: u32) -> u32 {
    let product = f64::from(f32::from_bits(a)) * f64::from(f32::from_bits(b));
    let c = f64::from(f32::from_bits(c));
    let sum = product + c;
    // What the sum lost, exactly (Knuth's TwoSum; nothing overflows or underflows in f64). NaN for specials, which need no mending.
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    // Up or down by one in the bits, where the sum is inexact and its last bit is clear.
    let inexact = (lost > 0.0) | (lost < 0.0);
    let away = (lost > 0.0) == (sum > 0.0);
    let step = if away { 1 } else { u64::MAX };
    let odd = if inexact & (bits & 1 == 0) { bits.wrapping_add(step) } else { bits };
    (f64::from_bits(odd) as f32).to_bits()
}

/// f32 to f16, to nearest even, by integers: one bit below the result's last, whether anything lies below that, and the last bit decide.
/// Adding the rounded significand to the exponent's place carries as it must.
#[inline(always)]
fn narrow_f16(a: u32) -> u32 {
    let magnitude = a & 0x7fff_ffff;
    // Subnormal results share the exponent of the smallest normal ones. What is below half of the smallest becomes 0 or is a tie with it.
    let exponent = (magnitude >> 23).max(127 - 14);
    let implied = if magnitude < 0x0080_0000 { 0 } else { 0x0080_0000 };
    let shift = (exponent - (magnitude >> 23)).min(25);
    let significand = magnitude & 0x007f_ffff | implied;
    // Aligned to the shared exponent, what falls off kept as one bit.
    let aligned = significand >> shift | u32::from(significand & ((1 << shift) - 1) != 0);
    let rounded = (aligned + 0x0fff + (aligned >> 13 & 1)) >> 13;
    // The implied bit of a normal number is one in the exponent's place.
    let bits = ((exponent - (127 - 14)) << 10) + rounded;
    let special = if magnitude > 0x7f80_0000 { 0x7fff } else { 0x7c00 };
    (a >> 16 & 0x8000) | if bits >= 0x7c00 { special } else { bits }
}

impl Lanes for Portable {
    type V = V;
    type D = [f64; 16];
    const ROWS: usize = 4;
    const PARTS: usize = 1;

    #[inline(always)]
    fn part<const PART: usize>(self, _: V, from: V) -> V {
        from
    }

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
    fn max_unsigned(self, a: V, b: V) -> V {
        zip(a, b, u32::max)
    }
    #[inline(always)]
    fn min_unsigned(self, a: V, b: V) -> V {
        zip(a, b, u32::min)
    }
    #[inline(always)]
    fn clear(self, a: V, lanes: u16) -> V {
        let mut out = a;
        for i in 0..16 {
            out[i] &= u32::from(lanes >> i & 1).wrapping_sub(1);
        }
        out
    }
    #[inline(always)]
    fn add_where_nonzero_halves(self, test: V, a: V, b: V) -> V {
        let mut out = [0; 16];
        for i in 0..16 {
            let nonzero = halves(|half| if half != 0 { 0xffff } else { 0 }, test[i]);
            out[i] = nonzero & a[i].wrapping_add(b[i]);
        }
        out
    }
    #[inline(always)]
    fn gt_unsigned(self, a: V, b: V) -> u16 {
        mask(|i| a[i] > b[i])
    }
    #[inline(always)]
    fn nonzero(self, a: V) -> u16 {
        mask(|i| a[i] != 0)
    }
    #[inline(always)]
    fn max_bytes(self, a: V, b: V) -> V {
        let mut out = [0; 16];
        for i in 0..16 {
            let (a, b) = (a[i].to_le_bytes(), b[i].to_le_bytes());
            out[i] = u32::from_le_bytes([a[0].max(b[0]), a[1].max(b[1]), a[2].max(b[2]), a[3].max(b[3])]);
        }
        out
    }
    #[inline(always)]
    fn max_halves(self, a: V, b: V) -> V {
        zip(a, b, |a, b| (a & 0xffff).max(b & 0xffff) | (a & 0xffff_0000).max(b & 0xffff_0000))
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
    fn fma(self, a: V, b: V, c: V) -> V {
        let mut out = [0; 16];
        for i in 0..16 {
            out[i] = fma(a[i], b[i], c[i]);
        }
        out
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
    fn narrow_f16(self, a: V) -> V {
        map(a, narrow_f16)
    }
    #[inline(always)]
    fn round_f16(self, a: V) -> V {
        self.widen_f16(self.narrow_f16(a)).0
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
    #[inline(always)]
    fn widen(self, a: V) -> [f64; 16] {
        let mut out = [0.0; 16];
        for i in 0..16 {
            out[i] = f64::from(f32::from_bits(a[i]));
        }
        out
    }
    #[inline(always)]
    fn power(self, a: V) -> [f64; 16] {
        let mut out = [0.0; 16];
        for i in 0..16 {
            out[i] = f64::from_bits(u64::from(a[i].wrapping_add(1023)) << 52);
        }
        out
    }
    #[inline(always)]
    fn splat_f64(self, value: f64) -> [f64; 16] {
        [value; 16]
    }
    #[inline(always)]
    fn mul_f64(self, a: [f64; 16], b: [f64; 16]) -> [f64; 16] {
        let mut out = [0.0; 16];
        for i in 0..16 {
            out[i] = a[i] * b[i];
        }
        out
    }
    #[inline(always)]
    fn add_f64(self, a: [f64; 16], b: [f64; 16]) -> [f64; 16] {
        let mut out = [0.0; 16];
        for i in 0..16 {
            out[i] = a[i] + b[i];
        }
        out
    }
    #[inline(always)]
    fn truncate_f64(self, a: [f64; 16]) -> [f64; 16] {
        let mut out = [0.0; 16];
        for i in 0..16 {
            // Not `f64::trunc`: without an instruction for it, that is a call. Drops the bits below one.
            let bits = a[i].to_bits();
            let exponent = (bits >> 52 & 0x7ff) as i64 - 1023;
            let below_one = (52 - exponent).clamp(0, 53) as u32;
            let kept = if exponent < 0 { 1 << 63 } else { !0 << below_one };
            out[i] = f64::from_bits(bits & kept);
        }
        out
    }
    #[inline(always)]
    fn narrow_toward_zero(self, a: [f64; 16]) -> V {
        let mut out = [0; 16];
        for i in 0..16 {
            out[i] = narrow(a[i]);
        }
        out
    }
    #[inline(always)]
    fn narrow_to_odd(self, a: [f64; 16]) -> V {
        let mut out = [0; 16];
        for i in 0..16 {
            let bits = a[i].to_bits();
            let magnitude = bits << 1 >> 1;
            let cut = (magnitude.wrapping_sub((1023 - 127) << 52) >> 29) as u32 | u32::from(magnitude << 35 != 0);
            let special = if magnitude > 2047 << 52 { 0x7fc0_0000 } else { 0x7f80_0000 };
            let finite = if magnitude == 0 { 0 } else { cut };
            out[i] = (bits >> 63 << 31) as u32 | if magnitude >= 2047 << 52 { special } else { finite };
        }
        out
    }
    #[cfg(test)]
    #[inline(always)]
    fn store_f64(self, a: [f64; 16], to: &mut [f64; 16]) {
        *to = a;
    }
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        zip(a, b, |a, b| (a as i32).max(b as i32) as u32)
    }
    #[inline(always)]
    fn where_nonzero(self, test: V, a: V, otherwise: V) -> V {
        let mut out = [0; 16];
        for i in 0..16 {
            out[i] = if test[i] != 0 { a[i] } else { otherwise[i] };
        }
        out
    }
    #[inline(always)]
    fn prefetch(self, _: *const u32) {}
    #[inline(never)]
    fn outlined<K: Kernel>(self, call: &mut K::Call<'_>) {
        K::run(self, call);
    }
}
