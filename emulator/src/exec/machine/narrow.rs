//! Instructions on 16-bit floats, on pairs, and conversions to and from narrow formats: by their reference, one active lane at a time.
//!
//! No arithmetic is done here. Source: PTX ISA 9.1, 9.7.4 (half precision) and 9.7.9.21 (`cvt`); `gpu-arithmetic` 5.1 to 5.3.

use ptx::ast::{FloatOp, FloatUnary, MixedOp};

use super::super::inst::{Any, Finish, FloatMods, Inst, Pair, Spread};
use super::super::lanes::{V64, lanes_in, map};
use super::super::warp::Registers;
use super::float::binary;
use super::int;
use crate::scalar::{self, Bf16, Bf16x2, F16, F16x2, F32, F32x2, Ieee, Mods, Packed};

/// Executes one of them.
#[inline(never)]
pub(super) fn run(inst: Inst, regs: &mut Registers, mask: u32) {
    match inst {
        Inst::Spread { op, of, mods, d, a, b } => {
            let (a, b) = (read(regs, a), read(regs, b));
            write(regs, d, mask, |i| spread_binary(of, op, mods, a.0[i], b.0[i]));
        }
        Inst::SpreadFma { of, mods, relu, d, a, b, c } => {
            let [a, b, c] = [a, b, c].map(|s| read(regs, s));
            write(regs, d, mask, |i| spread_fma(of, mods, relu, [a.0[i], b.0[i], c.0[i]]));
        }
        Inst::SpreadUnary { op, of, ftz, d, a } => {
            let a = read(regs, a);
            write(regs, d, mask, |i| spread_unary(of, op, ftz, a.0[i]));
        }
        Inst::SetpHalf { bf16, cmp, ftz, d, a, b } => {
            let (a, b) = (regs.b32[a as usize], regs.b32[b as usize]);
            let compare = if bf16 { scalar::compare::<Bf16> } else { scalar::compare::<F16> };
            let mut holds = 0;
            for i in lanes_in(mask) {
                holds |= u32::from(compare(cmp, a.0[i] as u16, b.0[i] as u16, ftz)) << i;
            }
            regs.set_pred(d, holds, mask);
        }
        Inst::Mixed { op, bf16, mods, d, a, b, c } => {
            let [a, b, c] = [a, b, c].map(|s| regs.b32[s as usize]);
            let f = if bf16 { mixed::<Bf16> } else { mixed::<F16> };
            for i in lanes_in(mask) {
                regs.b32[d as usize].0[i] = f(op, mods, a.0[i] as u16, b.0[i] as u16, c.0[i]);
            }
        }
        Inst::CvtPair { to, mods, finish, d, hi, lo } => {
            let (hi, lo) = (regs.b32[hi as usize], regs.b32[lo as usize]);
            write(regs, d, mask, |i| pair_of(to, mods, finish, hi.0[i], lo.0[i]));
        }
        Inst::CvtOfPair { to, from, finish, d, a } => {
            let a = read(regs, a);
            write(regs, d, mask, |i| convert_pair(to, from, finish, a.0[i]));
        }
        Inst::Pack8 { d, count, a } => {
            let a = a.map(|s| regs.b32[s as usize]);
            write(regs, d, mask, |i| {
                (0..usize::from(count)).fold(0, |d, k| d | u64::from(a[k].0[i] & 0xff) << (8 * k))
            });
        }
        Inst::Unpack8 { d, count, a } => {
            let a = read(regs, a);
            for (k, &d) in d[..usize::from(count)].iter().enumerate() {
                write(regs, Any::B16(d), mask, |i| a.0[i] >> (8 * k) & 0xff);
            }
        }
        _ => {}
    }
}

fn read(regs: &Registers, a: Any) -> V64 {
    match a {
        Any::B64(a) => regs.b64[a as usize],
        Any::B16(a) | Any::B32(a) => int::widen(&regs.b32[a as usize], false),
    }
}

/// Writes the active lanes of a register of any width.
pub(super) fn write(regs: &mut Registers, d: Any, mask: u32, f: impl Fn(usize) -> u64) {
    let mut out = V64::ZERO;
    lanes_in(mask).for_each(|lane| out.0[lane] = f(lane));
    match d {
        Any::B64(d) => regs.set64(d, &out, mask),
        Any::B32(d) => regs.set32(d, &int::low(&out), mask),
        Any::B16(d) => regs.set32(d, &map(&int::low(&out), |v| v & 0xffff), mask),
    }
}

fn spread_binary(of: Spread, op: FloatOp, mods: FloatMods, a: u64, b: u64) -> u64 {
    fn pair<P: Packed>(op: FloatOp, mods: FloatMods, a: P::Bits, b: P::Bits) -> P::Bits {
        scalar::zip::<P>(a, b, |a, b| binary::<P::Element>(op, mods, a, b))
    }
    match of {
        Spread::F16 => binary::<F16>(op, mods, a as u16, b as u16).into(),
        Spread::Bf16 => binary::<Bf16>(op, mods, a as u16, b as u16).into(),
        Spread::F16x2 => pair::<F16x2>(op, mods, a as u32, b as u32).into(),
        Spread::Bf16x2 => pair::<Bf16x2>(op, mods, a as u32, b as u32).into(),
        Spread::F32x2 => pair::<F32x2>(op, mods, a, b),
    }
}

fn spread_fma(of: Spread, mods: Mods, relu: bool, [a, b, c]: [u64; 3]) -> u64 {
    fn one<F: Ieee>(mods: Mods, relu: bool, a: F::Bits, b: F::Bits, c: F::Bits) -> F::Bits {
        let d = scalar::fma::<F>(a, b, c, mods);
        if relu { scalar::relu::<F>(d) } else { d }
    }
    fn pair<P: Packed>(mods: Mods, relu: bool, a: P::Bits, b: P::Bits, c: P::Bits) -> P::Bits {
        let d = scalar::fma_x2::<P>(a, b, c, mods);
        if relu { scalar::map::<P>(d, scalar::relu::<P::Element>) } else { d }
    }
    match of {
        Spread::F16 => one::<F16>(mods, relu, a as u16, b as u16, c as u16).into(),
        Spread::Bf16 => one::<Bf16>(mods, relu, a as u16, b as u16, c as u16).into(),
        Spread::F16x2 => pair::<F16x2>(mods, relu, a as u32, b as u32, c as u32).into(),
        Spread::Bf16x2 => pair::<Bf16x2>(mods, relu, a as u32, b as u32, c as u32).into(),
        Spread::F32x2 => pair::<F32x2>(mods, relu, a, b, c),
    }
}

fn spread_unary(of: Spread, op: FloatUnary, ftz: bool, a: u64) -> u64 {
    fn one<F: Ieee>(op: FloatUnary, ftz: bool, a: F::Bits) -> F::Bits {
        if op == FloatUnary::Abs { scalar::abs::<F>(a, ftz) } else { scalar::neg::<F>(a, ftz) }
    }
    match of {
        Spread::F16 => one::<F16>(op, ftz, a as u16).into(),
        Spread::Bf16 => one::<Bf16>(op, ftz, a as u16).into(),
        Spread::F16x2 => scalar::map::<F16x2>(a as u32, |a| one::<F16>(op, ftz, a)).into(),
        Spread::Bf16x2 => scalar::map::<Bf16x2>(a as u32, |a| one::<Bf16>(op, ftz, a)).into(),
        Spread::F32x2 => scalar::map::<F32x2>(a, |a| one::<F32>(op, ftz, a)),
    }
}

fn mixed<F: Ieee>(op: MixedOp, mods: Mods, a: F::Bits, b: F::Bits, c: u32) -> u32 {
    match op {
        MixedOp::Add => scalar::add_mixed::<F>(a, c, mods),
        MixedOp::Sub => scalar::sub_mixed::<F>(a, c, mods),
        MixedOp::Fma => scalar::fma_mixed::<F>(a, b, c, mods),
    }
}

/// An f32 as a 16-bit float.
pub(super) fn to_half<F: Ieee<Bits = u16>>(a: u32, mods: Mods, finish: Finish) -> u16 {
    let d = if finish.satfinite {
        scalar::convert_satfinite::<F32, F>(a, mods)
    } else {
        scalar::convert::<F32, F>(a, mods)
    };
    if finish.relu { scalar::relu::<F>(d) } else { d }
}

/// Two f32, the first in the high half.
fn pair_of(to: Pair, mods: Mods, finish: Finish, hi: u32, lo: u32) -> u64 {
    let halves = |f: &dyn Fn(u32) -> u16| u64::from(f(hi)) << 16 | u64::from(f(lo));
    match to {
        Pair::F16 => halves(&|a| to_half::<F16>(a, mods, finish)),
        Pair::Bf16 => halves(&|a| to_half::<Bf16>(a, mods, finish)),
        Pair::Narrow(to) => {
            let [hi, lo] = [hi, lo].map(|a| scalar::to_narrow(a, to, finish.relu));
            scalar::pack_narrow(to, hi, lo).into()
        }
        Pair::Scale(rounding) => {
            let [hi, lo] = [hi, lo].map(|a| scalar::to_ue8m0(a, rounding, finish.satfinite));
            u64::from(hi) << 8 | u64::from(lo)
        }
    }
}

/// A pair as another.
fn convert_pair(to: Pair, from: Pair, finish: Finish, a: u64) -> u64 {
    let halves = [(a >> 16) as u16, a as u16];
    let half = |bf16: bool, [hi, lo]: [u16; 2]| {
        let relu = |x| match (finish.relu, bf16) {
            (false, _) => x,
            (true, false) => scalar::relu::<F16>(x),
            (true, true) => scalar::relu::<Bf16>(x),
        };
        u64::from(relu(hi)) << 16 | u64::from(relu(lo))
    };
    match (to, from) {
        (Pair::Narrow(to), from) => {
            let narrow =
                if from == Pair::Bf16 { scalar::half_to_narrow::<Bf16> } else { scalar::half_to_narrow::<F16> };
            let [hi, lo] = halves.map(|x| narrow(x, to, finish.relu));
            scalar::pack_narrow(to, hi, lo).into()
        }
        (Pair::F16, Pair::Narrow(from)) => {
            half(false, scalar::unpack_narrow(from, a as u16).map(|x| scalar::narrow_to_f16(x, from)))
        }
        (Pair::Bf16, Pair::Narrow(from)) => {
            half(true, scalar::unpack_narrow(from, a as u16).map(|x| scalar::narrow_to_bf16(x, from)))
        }
        (Pair::Scale(rounding), _) => {
            let [hi, lo] = halves.map(|x| scalar::bf16_to_ue8m0(x, rounding, finish.satfinite));
            u64::from(hi) << 8 | u64::from(lo)
        }
        (_, Pair::Scale(_)) => half(true, [(a >> 8) as u8, a as u8].map(scalar::ue8m0_to_bf16)),
        // The decoder knows no others; between equal pairs nothing happens.
        (Pair::F16 | Pair::Bf16, Pair::F16 | Pair::Bf16) => a,
    }
}
