//! Correctly rounded results over a whole binade, on integers.
//!
//! Correction files state a unit's outputs as differences to these. All four functions are monotonic over a binade, so
//! each sweep carries its state from one operand to the next instead of evaluating afresh:
//!
//! - RCP: an integer division each.
//! - RSQ: the candidate only ever falls; it is compared exactly, by squaring, with the root.
//! - EX2: a 128-bit product, multiplied by `2^(2^-23)` a step.
//! - LG2: a 126-bit sum, increased by `log2((n + 1) / n)` a step.
//!
//! # Bits
//! RCP and RSQ are exact. EX2 and LG2 carry a stated error bound, and an operand whose result is nearer to a tie than
//! the bound is reported as an error instead of being rounded (there is none in the binades provided). All agree with
//! the checksums published with the correction files.

use crate::Error;
use crate::mufu::Function;

const COUNT: u64 = 1 << 23;

/// The correctly rounded (to nearest even) f32 results for the 2^23 operands that start at bits `start`.
///
/// # Errors
/// [`Error::MufuDump`] for a binade other than: RCP `[1,2)`; RSQ `[1,2)`, `[2,4)`; EX2 `[1,2)`, `(-2,-1]`; LG2 `[1,2)`.
pub fn correctly_rounded(function: Function, start: u32) -> Result<Vec<u32>, Error> {
    let refuse =
        |problem: &str| Error::MufuDump { name: format!("{function} from {start:08x}"), problem: problem.to_owned() };
    match (function, start) {
        (Function::Rcp, 0x3f80_0000) => Ok(rcp()),
        (Function::Rsq, 0x3f80_0000) => Ok(rsq(71)),
        (Function::Rsq, 0x4000_0000) => Ok(rsq(70)),
        (Function::Ex2, 0x3f80_0000) => ex2(128, false).ok_or_else(|| refuse(TIE)),
        (Function::Ex2, 0xbf80_0000) => ex2(125, true).ok_or_else(|| refuse(TIE)),
        (Function::Lg2, 0x3f80_0000) => lg2().ok_or_else(|| refuse(TIE)),
        _ => Err(refuse("its correctly rounded results are not computed here: give absolute results instead")),
    }
}

const TIE: &str = "an operand lies closer to a tie than the working precision decides";

/// Bits of the float `significand * 2^(exponent - 23)`; the exponent is biased, a significand of 2^24 carries into it.
fn join(exponent: u32, significand: u64) -> u32 {
    ((exponent - 1) << 23) + significand as u32
}

/// `1 / x`, x in `[1, 2)`.
fn rcp() -> Vec<u32> {
    // 2^24 / x = 2^47 / n. One bit more, then half up: no quotient of a power of two is a tie.
    (COUNT..2 * COUNT).map(|n| join(126, ((1 << 48) / n + 1) >> 1)).collect()
}

/// `1 / sqrt(x)`, where the squared significand of the result is `2^power / n` for the operand's significand `n`.
fn rsq(power: u32) -> Vec<u32> {
    let mut candidate: u64 = 1 << 24;
    (COUNT..2 * COUNT)
        .map(|n| {
            // Nearest: the root lies above the midpoint below the candidate, (2 * candidate - 1) / 2.
            while u128::from(2 * candidate - 1).pow(2) * u128::from(n) > 1 << (power + 2) {
                candidate -= 1;
            }
            join(126, candidate)
        })
        .collect()
}

/// `ln 2`, 128 fraction bits.
const LN_2: u128 = 0xb172_17f7_d1cf_79ab_c9e3_b398_03f2_f6af;
/// `2 / ln 2`, 126 fraction bits.
const TWO_OVER_LN_2: u128 = 0xb8aa_3b29_5c17_f0bb_be87_fed0_691d_3e88;

/// `a * b / 2^127`, rounded down.
fn mul_fixed(a: u128, b: u128) -> u128 {
    let split = |v: u128| (v >> 64, v & u128::from(u64::MAX));
    let ((ah, al), (bh, bl)) = (split(a), split(b));
    let ((hl_high, hl_low), (lh_high, lh_low)) = (split(ah * bl), split(al * bh));
    let middle = split(al * bl).0 + hl_low + lh_low;
    let high = ah * bh + hl_high + lh_high + (middle >> 64);
    high << 1 | (middle >> 63 & 1)
}

/// `2^(2^-23)`, 127 fraction bits, by its series; the error is below 2^-124.
fn ex2_step() -> u128 {
    let t = LN_2 >> 24; // ln 2 * 2^-23 in 127 fraction bits
    let mut term = 1 << 127;
    let mut sum = term;
    for k in 1..8 {
        term = mul_fixed(term, t) / k;
        sum += term;
    }
    sum
}

/// `2^f` for fractions `f = g / 2^23`, ascending; with `mirrored`, `2^(1-f)`, descending from 2.
///
/// The relative error stays below 2^23 steps of 2^-123, so below 2^-100.
fn ex2(exponent: u32, mirrored: bool) -> Option<Vec<u32>> {
    let step = ex2_step();
    let mut power: u128 = 1 << 127;
    let mut results = Vec::with_capacity(COUNT as usize);
    for _ in 0..COUNT {
        results.push(join(exponent, round_fixed(power, 104, 27)?));
        power = mul_fixed(power, step);
    }
    if mirrored {
        // Operand -(1 + g/2^23) has the result 2^(-1-f) = 2^-2 * 2^(1-f); only f = 0 reaches the next power of two.
        results.push(join(exponent, 1 << 24));
        results.reverse();
        results.truncate(COUNT as usize);
    }
    Some(results)
}

/// `log2(x)`, x in `[1, 2)`.
///
/// With `z = 1 / (2n + 1)`, `log2((n+1)/n) = 2/ln2 * (z + z^3/3 + z^5/5 ...)`; the terms dropped and the truncations
/// stay below 2^-120 a step, so the sum's error is below 2^-97.
fn lg2() -> Option<Vec<u32>> {
    const FRACTION: u32 = 126;
    let mut sum: u128 = 0;
    let mut results = Vec::with_capacity(COUNT as usize);
    for n in COUNT..2 * COUNT {
        results.push(if sum == 0 {
            0
        } else {
            let top = sum.ilog2();
            join(127 + top - FRACTION, round_fixed(sum, top - 23, 30)?)
        });
        let divisor = u128::from(2 * n + 1);
        let first = TWO_OVER_LN_2 / divisor;
        sum += first + first / (3 * divisor * divisor);
    }
    Some(results)
}

/// `value / 2^drop` to the nearest integer, or `None` if `value` lies within `2^uncertain` of a tie.
fn round_fixed(value: u128, drop: u32, uncertain: u32) -> Option<u64> {
    let half = 1 << (drop - 1);
    let lost = value & ((1 << drop) - 1);
    if lost.abs_diff(half) < 1 << uncertain {
        return None;
    }
    Some((value >> drop) as u64 + u64::from(lost > half))
}

#[cfg(test)]
mod tests {
    use super::{LN_2, TWO_OVER_LN_2, ex2_step, mul_fixed};

    /// ln 2 = sum of 1 / (k * 2^k).
    #[test]
    fn the_logarithm_of_two_is_its_series() {
        let series: u128 = (1..128).map(|k: u128| (1 << (128 - k)) / k).sum();
        assert!(LN_2.abs_diff(series) < 256, "{series:x}");
    }

    /// ln 2 * (2 / ln 2) = 2.
    #[test]
    fn the_reciprocal_is_one() {
        let product = mul_fixed(LN_2, TWO_OVER_LN_2); // 128 + 126 - 127 = 127 fraction bits
        assert!(u128::MAX - product < 4, "{product:x}");
    }

    /// The step, squared 23 times, is 2.
    #[test]
    fn the_step_is_the_root_of_two() {
        let mut power = ex2_step();
        for _ in 0..22 {
            power = mul_fixed(power, power);
        }
        // 2^(1/2), squared without the overflow of the last step.
        let square = mul_fixed(power, power >> 1);
        assert!(square.abs_diff(1 << 127) < 1 << 28, "{square:x}");
    }
}
