//! `setp.f32` of a warp.

use super::{INF, Level, SIGN, Warp, flush, warp_fn};
use crate::scalar::Compare;

/// The lanes in which `a` stands in the relation `op` to `b`, lane 0 in bit 0.
///
/// # Bits
/// [`scalar::compare`](crate::scalar::compare) in every lane.
#[must_use]
pub fn compare(level: Level, op: Compare, ftz: bool, a: &Warp, b: &Warp) -> u32 {
    let mut relation = [0; 32];
    if ftz {
        relate::<true>(level, a, b, &mut relation);
    } else {
        relate::<false>(level, a, b, &mut relation);
    }
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
    relation.iter().enumerate().fold(0, |mask, (lane, r)| mask | u32::from(r & holds != 0) << lane)
}

const LESS: u32 = 1;
const EQUAL: u32 = 2;
const GREATER: u32 = 4;
const UNORDERED: u32 = 8;

warp_fn! {
    /// Which one of the four relations holds in each lane.
    fn relate<const FTZ: bool>(a, b) = lane::<FTZ>;
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
