//! The special functions over the 32 lanes of a warp.
//!
//! The same datapath as the references, without branches: both sides of every case are computed and one is selected.
//! Three reformulations make it fit 32-bit vectors. The squarer's 17 truncated partial products are one small square and
//! seven shifts. The sum is shifted before its constant term is added, since that term's low bits are zero. And adding
//! `significand - 2^23` to the exponent field lets a carry renormalise by itself.
//!
//! # Bits
//! Equal to [`rcp`](super::rcp()), [`rsq`](super::rsq()), [`ex2`](super::ex2()) and [`lg2`](super::lg2()), bit-compared
//! at every level over whole binades, boundary patterns and random operands.

use super::datapath::{Datapath, EX2, LG2, RCP, RSQ};
use super::ex2::LIMIT;
use super::lg2::FIXED_BITS;
use super::{FRACTION, INF, LEADING, MufuTables, NAN, ONE, Rows, SIGN, Unit};
use crate::simd::{Level, Warp, warp_fn};

/// `rcp.approx.ftz.f32` of a warp.
///
/// # Bits
/// [`mufu::rcp`](super::rcp()) in every lane.
pub fn rcp(level: Level, tables: &MufuTables, x: &Warp, out: &mut Warp) {
    match &tables.rcp {
        Unit::Interpolated(rows) => rcp_warp(level, rows, x, out),
        Unit::Listed(_) => *out = x.map(|x| super::rcp(tables, x)),
    }
}

/// `rsqrt.approx.ftz.f32` of a warp.
///
/// # Bits
/// [`mufu::rsq`](super::rsq()) in every lane.
pub fn rsq(level: Level, tables: &MufuTables, x: &Warp, out: &mut Warp) {
    match &tables.rsq {
        Unit::Interpolated(rows) => rsq_warp(level, rows, x, out),
        Unit::Listed(_) => *out = x.map(|x| super::rsq(tables, x)),
    }
}

/// `ex2.approx.ftz.f32` of a warp.
///
/// # Bits
/// [`mufu::ex2`](super::ex2()) in every lane.
pub fn ex2(level: Level, tables: &MufuTables, x: &Warp, out: &mut Warp) {
    match &tables.ex2 {
        Unit::Interpolated(rows) => ex2_warp(level, rows, x, out),
        Unit::Listed(_) => *out = x.map(|x| super::ex2(tables, x)),
    }
}

/// `lg2.approx.ftz.f32` of a warp.
///
/// # Bits
/// [`mufu::lg2`](super::lg2()) in every lane.
pub fn lg2(level: Level, tables: &MufuTables, x: &Warp, out: &mut Warp) {
    lg2_warp(level, &tables.lg2, x, out);
}

warp_fn! {
    fn rcp_warp[rows: &Rows<128>](x) = |x| rcp_lane(rows, x);
}
warp_fn! {
    fn rsq_warp[rows: &Rows<128>](x) = |x| rsq_lane(rows, x);
}
warp_fn! {
    fn ex2_warp[rows: &Rows<64>](x) = |x| ex2_lane(rows, x);
}
warp_fn! {
    fn lg2_warp[rows: &Rows<64>](x) = |x| lg2_lane(rows, x);
}

#[inline(always)]
fn rcp_lane(rows: &Rows<128>, x: u32) -> u32 {
    let (sign, magnitude) = (x & SIGN, x & !SIGN);
    let exponent = 253 - (magnitude >> 23) as i32;
    let finite = join(exponent, significand(&RCP, rows, magnitude & FRACTION));
    let finite = if magnitude < LEADING { INF } else { finite };
    let finite = if magnitude == INF { 0 } else { finite };
    if magnitude > INF { NAN } else { sign | finite }
}

#[inline(always)]
fn rsq_lane(rows: &Rows<128>, x: u32) -> u32 {
    let (sign, magnitude) = (x & SIGN, x & !SIGN);
    let power = (magnitude >> 23) as i32 - 127;
    let fraction = magnitude & FRACTION | (power as u32 & 1) << 23;
    let value = significand(&RSQ, rows, fraction);
    let value = if fraction == 0 { 2 * LEADING as i32 } else { value };
    let finite = join(126 - (power >> 1), value);
    let finite = if sign != 0 { NAN } else { finite };
    let finite = if x == INF { 0 } else { finite };
    let finite = if magnitude < LEADING { sign | INF } else { finite };
    if magnitude > INF { NAN } else { finite }
}

#[inline(always)]
fn ex2_lane(rows: &Rows<64>, x: u32) -> u32 {
    let magnitude = x & !SIGN;
    let exponent = (magnitude >> 23) as i32 - 127;
    let left = exponent.clamp(0, 7) as u32;
    let right = (-exponent).clamp(0, 31) as u32;
    let fixed = ((magnitude & FRACTION | LEADING) << left) >> right;
    // One's complement, but a whole number is negated exactly.
    let negated = (!fixed).wrapping_add(u32::from(fixed & FRACTION == 0));
    let fixed = if x & SIGN != 0 { negated } else { fixed };
    let finite = join((fixed as i32 >> 23) + 127, significand(&EX2, rows, fixed & FRACTION));
    let limit = if x & SIGN != 0 { 0 } else { INF };
    let finite = if magnitude >= LIMIT { limit } else { finite };
    if magnitude > INF { NAN } else { finite }
}

#[inline(always)]
fn lg2_lane(rows: &Rows<64>, x: u32) -> u32 {
    let magnitude = x & !SIGN;
    let (segment, r) = ((magnitude & FRACTION) >> 17, magnitude & 0x1_ffff);
    let i = segment as usize & 63;
    let sum = (i64::from(rows.a[i]) << LG2.a_shift)
        + i64::from(rows.b[i]) * i64::from(r)
        + i64::from(rows.c[i] * ((square(r) << LG2.c_shift) as i32))
        + LG2.bias;
    let fixed = (sum >> LG2.shift) + ((i64::from(magnitude >> 23) - 127) << FIXED_BITS);
    let fixed = if x == ONE { 0 } else { fixed };
    let negative = fixed >> 63;
    let positive = (fixed ^ negative) as u64;
    let zeros = positive.leading_zeros();
    // Leading one to bit 63; the 23 bits below it are the fraction.
    let fraction = (positive << (u64::from(zeros) & 63) >> 40) as u32 & FRACTION;
    let finite = (127 + 63 - FIXED_BITS - zeros) << 23 | fraction;
    let finite = if positive == 0 { 0 } else { finite };
    let finite = finite | negative as u32 & SIGN;
    let finite = if x == INF { INF } else { finite };
    let finite = if x & SIGN != 0 { NAN } else { finite };
    let finite = if magnitude < LEADING { SIGN | INF } else { finite };
    if magnitude > INF { NAN } else { finite }
}

/// Sign-less result of a significand in `[2^23, 2^24]`: flushed to zero, or saturated, outside the normal range.
#[inline(always)]
fn join(exponent: i32, significand: i32) -> u32 {
    let joined = (exponent << 23) + (significand - LEADING as i32);
    if joined < LEADING as i32 { 0 } else { (joined as u32).min(INF) }
}

/// The interpolated significand, as [`Datapath::interpolate`], in 32 bits.
///
/// `S = a * 2^a_shift + T`, so `S >> shift` is `(a + (T >> a_shift)) >> (shift - a_shift)`. Of `T = b * r + c * q + bias`
/// the part `b * r` may need 34 bits: the low three bits of `r` are multiplied apart.
#[inline(always)]
fn significand<const N: usize>(path: &Datapath, rows: &Rows<N>, fraction: u32) -> i32 {
    let i = (fraction >> path.remainder_bits) as usize & (N - 1);
    let r = fraction & ((1 << path.remainder_bits) - 1);
    let (a, b, c) = (rows.a[i], rows.b[i], rows.c[i]);
    let quadratic = (square(r << path.square_shift) << path.c_shift) as i32;
    let low = b * (r & 7) as i32 + c * quadratic + path.bias as i32;
    let rest = (b * (r >> 3) as i32 + (low >> 3)) >> (path.a_shift - 3);
    ((a + rest) >> (path.shift - path.a_shift)).clamp(LEADING as i32, 2 * LEADING as i32)
}

/// The truncated squarer, as [`square`](super::datapath::square).
///
/// The bits of `v` at positions `i` and `j` contribute `2^(i + j - 18)` if `i + j >= 18`. Split `v` at bit 9 into `h`
/// and `l`: pairs within `h` make exactly `h * h`, pairs within `l` nothing, and the mixed pairs, counted twice, a
/// truncated product of `h` and `l`.
#[inline(always)]
fn square(v: u32) -> u32 {
    let (h, l) = (v >> 9, v & 0x1ff);
    let mut mixed = 0;
    for p in 1..8 {
        mixed += (l >> (9 - p)) & (h >> p & 1).wrapping_neg();
    }
    (h * h + 2 * mixed) >> 1
}

#[cfg(test)]
mod tests {
    use super::super::datapath;
    use super::square;

    #[test]
    fn the_squarer_is_the_truncated_one() {
        for v in 0..1 << 17 {
            assert_eq!(square(v), datapath::square(v), "{v:x}");
        }
    }
}
