//! Integer, bit and comparison instructions over 32 lanes.
//!
//! Source: PTX ISA 7.0, sections 9.7.1 (integer arithmetic), 9.7.5 (comparison and selection), 9.7.7 (logic and shift).
//! Shift counts beyond the width act as the width. Division by zero is not here: the caller refuses it first.

use ptx::ast::{Cmp, IntOp, IntUnary};

use super::inst::Ext;
use super::lanes::{LANES, V32, V64, map, map2, map64, map64x2, mask_of, mask_of64};

/// `op` on 32-bit lanes. `MulWide` is not an operation within 32 bits and gives the low half.
#[inline(always)]
pub(super) fn binary32(op: IntOp, signed: bool, a: &V32, b: &V32) -> V32 {
    match (op, signed) {
        (IntOp::Add, _) => map2(a, b, u32::wrapping_add),
        (IntOp::Sub, _) => map2(a, b, u32::wrapping_sub),
        (IntOp::MulLo | IntOp::MulWide, _) => map2(a, b, u32::wrapping_mul),
        (IntOp::MulHi, false) => map2(a, b, |x, y| ((u64::from(x) * u64::from(y)) >> 32) as u32),
        (IntOp::MulHi, true) => map2(a, b, |x, y| ((i64::from(x as i32) * i64::from(y as i32)) >> 32) as u32),
        (IntOp::Div, false) => map2(a, b, |x, y| x.checked_div(y).unwrap_or(u32::MAX)),
        (IntOp::Div, true) => {
            map2(a, b, |x, y| if y == 0 { u32::MAX } else { (x as i32).wrapping_div(y as i32) as u32 })
        }
        (IntOp::Rem, false) => map2(a, b, |x, y| x.checked_rem(y).unwrap_or(x)),
        (IntOp::Rem, true) => map2(a, b, |x, y| if y == 0 { x } else { (x as i32).wrapping_rem(y as i32) as u32 }),
        (IntOp::Min, false) => map2(a, b, u32::min),
        (IntOp::Min, true) => map2(a, b, |x, y| (x as i32).min(y as i32) as u32),
        (IntOp::Max, false) => map2(a, b, u32::max),
        (IntOp::Max, true) => map2(a, b, |x, y| (x as i32).max(y as i32) as u32),
        (IntOp::And, _) => map2(a, b, |x, y| x & y),
        (IntOp::Or, _) => map2(a, b, |x, y| x | y),
        (IntOp::Xor, _) => map2(a, b, |x, y| x ^ y),
        (IntOp::Shl, _) => map2(a, b, |x, y| if y > 31 { 0 } else { x << (y & 31) }),
        (IntOp::Shr, false) => map2(a, b, |x, y| if y > 31 { 0 } else { x >> (y & 31) }),
        (IntOp::Shr, true) => map2(a, b, |x, y| ((x as i32) >> y.min(31)) as u32),
    }
}

/// `op` on 16-bit lanes, by the 32-bit operation on extended operands.
#[inline(always)]
pub(super) fn binary16(op: IntOp, signed: bool, a: &V32, b: &V32) -> V32 {
    let ext = if signed { Ext::S16 } else { Ext::U16 };
    // Shift counts are u32 whatever the type of what is shifted.
    let (x, y) = (extend32(a, ext), if matches!(op, IntOp::Shl | IntOp::Shr) { *b } else { extend32(b, ext) });
    let wide =
        if op == IntOp::MulHi { map2(&x, &y, |p, q| p.wrapping_mul(q) >> 16) } else { binary32(op, signed, &x, &y) };
    map(&wide, |v| v & 0xffff)
}

/// `op` on 64-bit lanes, except shifts.
#[inline(always)]
pub(super) fn binary64(op: IntOp, signed: bool, a: &V64, b: &V64) -> V64 {
    match (op, signed) {
        (IntOp::Add, _) => map64x2(a, b, u64::wrapping_add),
        (IntOp::Sub, _) => map64x2(a, b, u64::wrapping_sub),
        (IntOp::MulLo | IntOp::MulWide, _) => map64x2(a, b, u64::wrapping_mul),
        (IntOp::MulHi, false) => map64x2(a, b, |x, y| ((u128::from(x) * u128::from(y)) >> 64) as u64),
        (IntOp::MulHi, true) => map64x2(a, b, |x, y| ((i128::from(x as i64) * i128::from(y as i64)) >> 64) as u64),
        (IntOp::Div, false) => map64x2(a, b, |x, y| x.checked_div(y).unwrap_or(u64::MAX)),
        (IntOp::Div, true) => {
            map64x2(a, b, |x, y| if y == 0 { u64::MAX } else { (x as i64).wrapping_div(y as i64) as u64 })
        }
        (IntOp::Rem, false) => map64x2(a, b, |x, y| x.checked_rem(y).unwrap_or(x)),
        (IntOp::Rem, true) => map64x2(a, b, |x, y| if y == 0 { x } else { (x as i64).wrapping_rem(y as i64) as u64 }),
        (IntOp::Min, false) => map64x2(a, b, u64::min),
        (IntOp::Min, true) => map64x2(a, b, |x, y| (x as i64).min(y as i64) as u64),
        (IntOp::Max, false) => map64x2(a, b, u64::max),
        (IntOp::Max, true) => map64x2(a, b, |x, y| (x as i64).max(y as i64) as u64),
        (IntOp::And, _) => map64x2(a, b, |x, y| x & y),
        (IntOp::Or, _) => map64x2(a, b, |x, y| x | y),
        (IntOp::Xor, _) => map64x2(a, b, |x, y| x ^ y),
        (IntOp::Shl | IntOp::Shr, _) => *a,
    }
}

/// The low 64 bits of products.
#[inline(always)]
pub(super) fn mul64(a: &V64, b: &V64) -> V64 {
    map64x2(a, b, u64::wrapping_mul)
}

/// 64-bit sums.
#[inline(always)]
pub(super) fn add64(a: &V64, b: &V64) -> V64 {
    map64x2(a, b, u64::wrapping_add)
}

/// Whether the operation divides.
#[inline(always)]
pub(super) fn divides(op: IntOp) -> bool {
    matches!(op, IntOp::Div | IntOp::Rem)
}

/// `and`, `or`, `xor` of predicates, one bit a lane.
#[inline(always)]
pub(super) fn logic(op: IntOp, a: u32, b: u32) -> u32 {
    match op {
        IntOp::And => a & b,
        IntOp::Or => a | b,
        _ => a ^ b,
    }
}

/// `shl` and `shr` on 64-bit lanes; counts are 32-bit.
#[inline(always)]
pub(super) fn shift64(op: IntOp, signed: bool, a: &V64, b: &V32) -> V64 {
    let mut out = V64::ZERO;
    for i in 0..LANES {
        let (x, y) = (a.0[i], b.0[i]);
        out.0[i] = match (op, signed) {
            (IntOp::Shl, _) => {
                if y > 63 {
                    0
                } else {
                    x << (y & 63)
                }
            }
            (_, false) => {
                if y > 63 {
                    0
                } else {
                    x >> (y & 63)
                }
            }
            (_, true) => ((x as i64) >> y.min(63)) as u64,
        };
    }
    out
}

/// 16 x 16 -> 32 bits.
#[inline(always)]
pub(super) fn wide16(signed: bool, a: &V32, b: &V32) -> V32 {
    let ext = if signed { Ext::S16 } else { Ext::U16 };
    map2(&extend32(a, ext), &extend32(b, ext), u32::wrapping_mul)
}

/// 32 x 32 -> 64 bits.
#[inline(always)]
pub(super) fn wide32(signed: bool, a: &V32, b: &V32) -> V64 {
    let mut out = V64::ZERO;
    for i in 0..LANES {
        out.0[i] = if signed {
            (i64::from(a.0[i] as i32) * i64::from(b.0[i] as i32)) as u64
        } else {
            u64::from(a.0[i]) * u64::from(b.0[i])
        };
    }
    out
}

/// One-operand instructions on 32-bit lanes.
#[inline(always)]
pub(super) fn unary32(op: IntUnary, a: &V32) -> V32 {
    match op {
        IntUnary::Not => map(a, |x| !x),
        IntUnary::Neg => map(a, u32::wrapping_neg),
        IntUnary::Abs => map(a, |x| (x as i32).wrapping_abs() as u32),
        IntUnary::Popc => map(a, u32::count_ones),
        IntUnary::Clz => map(a, u32::leading_zeros),
        IntUnary::Brev => map(a, u32::reverse_bits),
    }
}

/// One-operand instructions on 16-bit lanes (`not`, `neg`, `abs`).
#[inline(always)]
pub(super) fn unary16(op: IntUnary, a: &V32) -> V32 {
    map(&unary32(op, &extend32(a, Ext::S16)), |v| v & 0xffff)
}

/// One-operand instructions on 64-bit lanes; `popc` and `clz`, whose result is 32 bits wide, are [`count64`].
#[inline(always)]
pub(super) fn unary64(op: IntUnary, a: &V64) -> V64 {
    match op {
        IntUnary::Neg => map64(a, u64::wrapping_neg),
        IntUnary::Abs => map64(a, |x| (x as i64).wrapping_abs() as u64),
        IntUnary::Brev => map64(a, u64::reverse_bits),
        IntUnary::Not | IntUnary::Popc | IntUnary::Clz => map64(a, |x| !x),
    }
}

/// `popc.b64` and `clz.b64`.
#[inline(always)]
pub(super) fn count64(leading: bool, a: &V64) -> V32 {
    let mut out = V32::ZERO;
    for i in 0..LANES {
        out.0[i] = if leading { a.0[i].leading_zeros() } else { a.0[i].count_ones() };
    }
    out
}

/// Integer comparison of 32-bit lanes. The float-only relations hold nowhere; the decoder refuses them.
#[inline(always)]
pub(super) fn compare32(cmp: Cmp, signed: bool, a: &V32, b: &V32) -> u32 {
    match (cmp, signed) {
        (Cmp::Eq, _) => mask_of(a, b, |x, y| x == y),
        (Cmp::Ne, _) => mask_of(a, b, |x, y| x != y),
        (Cmp::Lt, false) => mask_of(a, b, |x, y| x < y),
        (Cmp::Le, false) => mask_of(a, b, |x, y| x <= y),
        (Cmp::Gt, false) => mask_of(a, b, |x, y| x > y),
        (Cmp::Ge, false) => mask_of(a, b, |x, y| x >= y),
        (Cmp::Lt, true) => mask_of(a, b, |x, y| (x as i32) < y as i32),
        (Cmp::Le, true) => mask_of(a, b, |x, y| x as i32 <= y as i32),
        (Cmp::Gt, true) => mask_of(a, b, |x, y| x as i32 > y as i32),
        (Cmp::Ge, true) => mask_of(a, b, |x, y| x as i32 >= y as i32),
        _ => 0,
    }
}

/// Integer comparison of 16-bit lanes.
#[inline(always)]
pub(super) fn compare16(cmp: Cmp, signed: bool, a: &V32, b: &V32) -> u32 {
    let ext = if signed { Ext::S16 } else { Ext::U16 };
    compare32(cmp, signed, &extend32(a, ext), &extend32(b, ext))
}

/// Integer comparison of 64-bit lanes.
#[inline(always)]
pub(super) fn compare64(cmp: Cmp, signed: bool, a: &V64, b: &V64) -> u32 {
    match (cmp, signed) {
        (Cmp::Eq, _) => mask_of64(a, b, |x, y| x == y),
        (Cmp::Ne, _) => mask_of64(a, b, |x, y| x != y),
        (Cmp::Lt, false) => mask_of64(a, b, |x, y| x < y),
        (Cmp::Le, false) => mask_of64(a, b, |x, y| x <= y),
        (Cmp::Gt, false) => mask_of64(a, b, |x, y| x > y),
        (Cmp::Ge, false) => mask_of64(a, b, |x, y| x >= y),
        (Cmp::Lt, true) => mask_of64(a, b, |x, y| (x as i64) < y as i64),
        (Cmp::Le, true) => mask_of64(a, b, |x, y| x as i64 <= y as i64),
        (Cmp::Gt, true) => mask_of64(a, b, |x, y| x as i64 > y as i64),
        (Cmp::Ge, true) => mask_of64(a, b, |x, y| x as i64 >= y as i64),
        _ => 0,
    }
}

/// The low bits that `ext` names, extended to 32 bits.
#[inline(always)]
pub(super) fn extend32(a: &V32, ext: Ext) -> V32 {
    match ext {
        Ext::U8 => map(a, |x| x & 0xff),
        Ext::S8 => map(a, |x| x as u8 as i8 as u32),
        Ext::U16 => map(a, |x| x & 0xffff),
        Ext::S16 => map(a, |x| x as u16 as i16 as u32),
        Ext::U32 | Ext::S32 | Ext::Whole => *a,
    }
}

/// The low bits that `ext` names, extended to 64 bits.
#[inline(always)]
pub(super) fn extend64(a: &V64, ext: Ext) -> V64 {
    match ext {
        Ext::U8 => map64(a, |x| x & 0xff),
        Ext::S8 => map64(a, |x| x as u8 as i8 as u64),
        Ext::U16 => map64(a, |x| x & 0xffff),
        Ext::S16 => map64(a, |x| x as u16 as i16 as u64),
        Ext::U32 => map64(a, |x| x & 0xffff_ffff),
        Ext::S32 => map64(a, |x| x as u32 as i32 as u64),
        Ext::Whole => *a,
    }
}

/// A 32-bit slot in 64 bits, sign-extended or not.
#[inline(always)]
pub(super) fn widen(a: &V32, signed: bool) -> V64 {
    let mut out = V64::ZERO;
    for i in 0..LANES {
        out.0[i] = if signed { a.0[i] as i32 as u64 } else { u64::from(a.0[i]) };
    }
    out
}

/// The lower halves of 64-bit lanes.
#[inline(always)]
pub(super) fn low(a: &V64) -> V32 {
    let mut out = V32::ZERO;
    for i in 0..LANES {
        out.0[i] = a.0[i] as u32;
    }
    out
}

/// `prmt.b32` (default mode): each selector nibble picks a byte of `{b, a}`; its top bit replicates that byte's sign.
pub(super) fn prmt(a: u32, b: u32, sel: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let pick = |i: u32| {
        let nibble = (sel >> (4 * i)) & 0xf;
        let byte = bytes[nibble as usize & 7];
        if nibble & 8 != 0 { ((byte as i8) >> 7) as u8 } else { byte }
    };
    u32::from_le_bytes([pick(0), pick(1), pick(2), pick(3)])
}

/// `bfe`: `len` bits from `pos`, zero- or sign-filled; position and length are the low bytes of their operands.
pub(super) fn bfe(bits: u32, signed: bool, a: u64, pos: u32, len: u32) -> u64 {
    let (pos, len, top) = (pos & 0xff, len & 0xff, bits - 1);
    if len == 0 {
        return 0;
    }
    let sign = signed && (a >> (pos + len - 1).min(top)) & 1 == 1;
    let field = if pos > top { 0 } else { a >> pos };
    // Bits of the field that exist: `len` of them, but not past the top of `a`.
    let held = len.min(bits.saturating_sub(pos));
    let keep = if held >= 64 { u64::MAX } else { (1 << held) - 1 };
    let value = if sign { field | !keep } else { field & keep };
    if bits == 64 { value } else { value & 0xffff_ffff }
}
