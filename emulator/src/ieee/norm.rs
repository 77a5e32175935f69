//! RMSNorm.

use super::{Line, butterfly, floats, widen};
use crate::scalar::lanes::bf16_rn;
use crate::simd::Level;
use crate::simd::lanes::{self, Kernel, Lanes};

/// Words of 32 chunks of 8 columns, one chunk a lane.
const RUN: usize = 128;

/// RMSNorm of one row of pairs of bf16: `x` and `w` of at least `hidden` columns, those beyond it zero in `x`; `out`, which gets zeros there.
///
/// # Panics
/// If the lengths differ, or hold fewer than `hidden` columns.
///
/// # Bits
/// f32, nearest even. The row is cut into chunks of 8 columns; lane `l` of 32 owns chunks `l, l + 32, ...`.
///
/// ```text
/// lane l: a = +0; over its chunks and their columns in ascending order: a = fma(x, x, a)
/// butterfly over lane distances 16, 8, 4, 2, 1: a = a + a[lane ^ distance]
/// r = 1 / sqrt(a * rn(1/hidden) + eps)          each operation rounded
/// out = bf16( bf16(x * r) * w )
/// ```
///
/// NaN results are `7fff`.
pub fn rms_norm(level: Level, x: &[u32], w: &[u32], hidden: usize, eps: f32, out: &mut [u32]) {
    assert!(x.len() == w.len() && x.len() == out.len(), "rows of one width");
    assert!(hidden > 0 && hidden <= 2 * x.len(), "{hidden} columns of {}", 2 * x.len());
    lanes::run::<Norm>(level, &mut Call { x, w, hidden, eps, out });
}

struct Call<'a> {
    x: &'a [u32],
    w: &'a [u32],
    hidden: usize,
    eps: f32,
    out: &'a mut [u32],
}

struct Norm;

impl Kernel for Norm {
    type Call<'a> = Call<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Call<'_>) {
        // A chunk reaches into the padding where the columns end within it; whole chunks of padding are nobody's.
        let words = call.hidden.div_ceil(8) * 4;
        let mut sums = [[0; 16]; 2];
        for run in call.x[..words.min(call.x.len())].chunks(RUN) {
            let mut lines: [Line; 8] = [[0; 16]; 8];
            lines.as_flattened_mut()[..run.len()].copy_from_slice(run);
            for (sum, lines) in sums.iter_mut().zip(lines.as_chunks::<4>().0) {
                squares(s, sum, lines);
            }
        }
        let [low, high] = sums;
        let mut l = [0.0; 32];
        l[..16].copy_from_slice(&floats(&low));
        l[16..].copy_from_slice(&floats(&high));
        let mean = butterfly(l) * (1.0 / call.hidden as f32);
        let r = 1.0 / (mean + call.eps).sqrt();
        for ((x, w), out) in call.x.iter().zip(call.w).zip(call.out.iter_mut()) {
            *out = scaled(x << 16, r, w << 16) | scaled(x & super::HIGH, r, w & super::HIGH) << 16;
        }
        zero_from(call.out, call.hidden);
    }
}

/// Adds the squares of sixteen chunks to sixteen lanes.
#[inline(always)]
fn squares<S: Lanes>(s: S, sum: &mut Line, lines: &[Line; 4]) {
    let columns = s.transpose([s.load(&lines[0]), s.load(&lines[1]), s.load(&lines[2]), s.load(&lines[3])]);
    let mut a = s.load(sum);
    for pairs in columns {
        for x in widen(s, pairs) {
            a = s.fma(x, x, a);
        }
    }
    s.store(a, sum);
}

/// `bf16(bf16(x r) w)` of f32 bits.
#[inline(always)]
fn scaled(x: u32, r: f32, w: u32) -> u32 {
    let normal = bf16_rn((f32::from_bits(x) * r).to_bits()) << 16;
    bf16_rn((f32::from_bits(normal) * f32::from_bits(w)).to_bits())
}

/// Zeros in the columns from `first` on.
#[inline(always)]
fn zero_from(row: &mut [u32], first: usize) {
    row[first.div_ceil(2)..].fill(0);
    if first % 2 == 1 {
        row[first / 2] &= 0xffff;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::{self, Bf16, F32, Mods};

    fn plain(x: &[u16], w: &[u16], hidden: usize, eps: f32) -> Vec<u16> {
        let wide = scalar::widen_bf16;
        let narrow = |x| scalar::convert::<F32, Bf16>(x, Mods::RN);
        let mul = |a, b| scalar::mul::<F32>(a, b, Mods::RN);
        let mut lanes = [0; 32];
        for (chunk, values) in x[..hidden].chunks(8).enumerate() {
            let square = |sum, &v: &u16| scalar::fma::<F32>(wide(v), wide(v), sum, Mods::RN);
            lanes[chunk % 32] = values.iter().fold(lanes[chunk % 32], square);
        }
        for distance in [16, 8, 4, 2, 1] {
            lanes = std::array::from_fn(|l| scalar::add::<F32>(lanes[l], lanes[l ^ distance], Mods::RN));
        }
        let mean = mul(lanes[0], (1.0 / hidden as f32).to_bits());
        let root = scalar::sqrt::<F32>(scalar::add::<F32>(mean, eps.to_bits(), Mods::RN), Mods::RN);
        let r = scalar::rcp::<F32>(root, Mods::RN);
        let mut y: Vec<u16> =
            x.iter().zip(w).map(|(&x, &w)| narrow(mul(wide(narrow(mul(wide(x), r))), wide(w)))).collect();
        y[hidden..].fill(0);
        y
    }

    #[test]
    fn rows_have_the_stated_bits_at_every_level() {
        let mut state = 9_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as u16
        };
        for (hidden, padded) in [(1, 16), (8, 16), (64, 64), (190, 192), (201, 208), (576, 576), (2053, 2064)] {
            for kind in 0..3 {
                let mut some = |zero: bool| -> Vec<u16> {
                    let one = |i: usize, bits: u16| match kind {
                        _ if zero && i >= hidden => 0,
                        0 => bits & 0x83ff | 0x3c00,
                        1 => bits,
                        // A row of zeros: r is 1/sqrt(eps).
                        _ if zero => 0,
                        _ => bits & 0xbfff,
                    };
                    (0..padded).map(|i| one(i, next())).collect()
                };
                let (x, w) = (some(true), some(false));
                let pack = |row: &[u16]| -> Vec<u32> {
                    row.as_chunks::<2>().0.iter().map(|p| u32::from(p[0]) | u32::from(p[1]) << 16).collect()
                };
                let want = pack(&plain(&x, &w, hidden, 1e-5));
                for level in Level::available() {
                    let mut out = vec![!0; padded / 2];
                    rms_norm(level, &pack(&x), &pack(&w), hidden, 1e-5, &mut out);
                    assert!(out == want, "{hidden} columns, {level:?}, kind {kind}");
                }
            }
        }
    }
}
