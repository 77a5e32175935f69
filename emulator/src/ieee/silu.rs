//! `silu(gate) * up`.

use super::{HIGH, Line, exp2_lanes, floats, widen};
use crate::scalar::lanes::bf16_rn;
use crate::simd::Level;
use crate::simd::lanes::{self, Kernel, Lanes};

/// `log2(e)`, rounded.
const LOG2_E: f32 = std::f32::consts::LOG2_E;
const SIGN: u32 = 0x8000_0000;

/// `silu(gate) * up` of pairs of bf16, `out` likewise, all of one length.
///
/// # Panics
/// If the lengths differ.
///
/// # Bits
/// f32, nearest even; `exp2` is [`super::exp2`]:
///
/// ```text
/// e = 2^(-|g| log2e)
/// s = bf16( (g where g >= 0, else g * e) / (1 + e) )
/// out = bf16(s * u)
/// ```
///
/// NaN results are `7fff`.
pub fn silu_mul(level: Level, gate: &[u32], up: &[u32], out: &mut [u32]) {
    assert!(gate.len() == up.len() && gate.len() == out.len(), "as many gates, values and results");
    lanes::run::<Silu>(level, &mut Call { gate, up, out });
}

struct Call<'a> {
    gate: &'a [u32],
    up: &'a [u32],
    out: &'a mut [u32],
}

struct Silu;

impl Kernel for Silu {
    type Call<'a> = Call<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Call<'_>) {
        let (gates, ups) = (call.gate.chunks(16), call.up.chunks(16));
        for ((gate, up), out) in gates.zip(ups).zip(call.out.chunks_mut(16)) {
            let (mut g, mut u): (Line, Line) = ([0; 16], [0; 16]);
            g[..gate.len()].copy_from_slice(gate);
            u[..up.len()].copy_from_slice(up);
            let both = widen(s, s.load(&g));
            let mut halves = [[0; 16]; 2];
            for w in 0..2 {
                let mut line = [0; 16];
                s.store(both[w], &mut line);
                let mut e = [0; 16];
                s.store(exp2_lanes(s, LOG2_E, s.or(both[w], s.splat(SIGN))), &mut e);
                halves[w] = product(&line, &e, &u, w);
            }
            for (i, out) in out.iter_mut().enumerate() {
                *out = halves[0][i] | halves[1][i] << 16;
            }
        }
    }
}

/// bf16 results of the low (0) or high (1) halves.
#[inline(always)]
fn product(gate: &Line, e: &Line, up: &Line, half: usize) -> Line {
    let (g, e) = (floats(gate), floats(e));
    let mut out = [0; 16];
    for i in 0..16 {
        // (Where g is -0 both choices are.)
        let numerator = if gate[i] & SIGN == 0 { g[i] } else { g[i] * e[i] };
        let silu = bf16_rn((numerator / (e[i] + 1.0)).to_bits()) << 16;
        let up = if half == 0 { up[i] << 16 } else { up[i] & HIGH };
        out[i] = bf16_rn((f32::from_bits(silu) * f32::from_bits(up)).to_bits());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ieee::exp2;
    use crate::scalar::{self, Bf16, F32, Mods};

    fn plain(gate: u16, up: u16) -> u16 {
        let [g, u] = [gate, up].map(scalar::widen_bf16);
        let e = exp2(g | SIGN, LOG2_E);
        let scaled = scalar::mul::<F32>(g, e, Mods::RN);
        let numerator = if f32::from_bits(g) >= 0.0 { g } else { scaled };
        let silu = scalar::div::<F32>(numerator, scalar::add::<F32>(e, 0x3f80_0000, Mods::RN), Mods::RN);
        let narrow = |x| scalar::convert::<F32, Bf16>(x, Mods::RN);
        narrow(scalar::mul::<F32>(scalar::widen_bf16(narrow(silu)), u, Mods::RN))
    }

    /// Every gate, each with a value of its own; lengths that are no whole line.
    #[test]
    fn every_gate_has_the_stated_bits_at_every_level() {
        let ups: Vec<u16> = (0..=u16::MAX).map(|i| i.wrapping_mul(40_503) ^ 0x3f80).collect();
        let pack = |pair: [u16; 2]| u32::from(pair[0]) | u32::from(pair[1]) << 16;
        let gates: Vec<u32> = (0..1 << 15).map(|i| pack([2 * i, 2 * i + 1])).collect();
        let packed: Vec<u32> = ups.as_chunks::<2>().0.iter().map(|p| pack(*p)).collect();
        let want: Vec<u32> =
            (0..1 << 15).map(|i: usize| pack([0, 1].map(|h| plain((2 * i + h) as u16, ups[2 * i + h])))).collect();
        for level in Level::available() {
            for length in [1 << 15, 1000 + 7] {
                let mut out = vec![0; length];
                silu_mul(level, &gates[..length], &packed[..length], &mut out);
                let differing = out.iter().zip(&want).filter(|(a, b)| a != b).count();
                assert_eq!(differing, 0, "{level:?}");
            }
        }
    }
}
