//! `setp.f32` of a warp.

use super::{INF, Level, SIGN, Warp, flush, warp_fn};
use crate::scalar::Compare;

/// The lanes in which `a` stands in the relation `op` to `b`, lane 0 in bit 0.
///
/// # Bits
/// [`scalar::compare`](crate::scalar::compare) in every lane.
#[must_use]
pub fn compare(level: Level, op: Compare, ftz: bool, a: &Warp, b: &Warp) -> u32 {
    let holds: u32 = match op {
        Compare::Eq => EQUAL,
        Compare::Ne => LESS | GREATER,
        Compare::Lt => LESS,
        Compare::Le => LESS | EQUAL,
        Compare::Gt => GREATER,
        Compare::Ge => GREATER | EQUAL,
        Compare::Equ => EQUAL | UNORDERED,
        Compare::Neu => LESS | GREATER | UNORDERED,
        Compare::Ltu => LESS | UNORDERED,
        Compare::Leu => LESS | EQUAL | UNORDERED,
        Compare::Gtu => GREATER | UNORDERED,
        Compare::Geu => GREATER | EQUAL | UNORDERED,
        Compare::Num => LESS | EQUAL | GREATER,
        Compare::Nan => UNORDERED,
    };
    let mut bits = [0; 32];
    if ftz {
        relate::<true>(level, holds, a, b, &LANE_BITS, &mut bits);
    } else {
        relate::<false>(level, holds, a, b, &LANE_BITS, &mut bits);
    }
    bits.iter().fold(0, |mask, bit| mask | bit)
}

/// The bit of each lane in a mask.
const LANE_BITS: Warp = {
    let mut bits = [0; 32];
    let mut lane = 0;
    while lane < 32 {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

const LESS: u32 = 1;
const EQUAL: u32 = 2;
const GREATER: u32 = 4;
const UNORDERED: u32 = 8;

warp_fn! {
    /// The bit of each lane in which one of the relations `holds` is true.
    fn relate<const FTZ: bool>[holds: u32](a, b, bit) = |a, b, bit| if lane::<FTZ>(a, b) & holds != 0 { bit } else { 0 };
}

#[inline(always)]
fn lane<const FTZ: bool>(a: u32, b: u32) -> u32 {
    let (a, b) = (flush::<FTZ>(a), flush::<FTZ>(b));
    let (x, y) = (key(a), key(b));
    let ordered = if x == y { EQUAL } else { GREATER };
    let ordered = if x < y { LESS } else { ordered };
    if a & !SIGN > INF || b & !SIGN > INF { UNORDERED } else { ordered }
}

/// Orders bit patterns as their values, both zeros alike.
#[inline(always)]
fn key(bits: u32) -> i32 {
    let magnitude = (bits & !SIGN) as i32;
    if bits & SIGN == 0 { magnitude } else { -magnitude }
}
