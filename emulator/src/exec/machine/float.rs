//! Floating-point instructions over a warp: which functions of `crate::scalar` they call.
//!
//! No arithmetic is done here. The frequent forms go to `crate::scalar::lanes`, the others to the scalar reference, one
//! active lane at a time.

use ptx::ast::{FloatOp, FloatUnary};

use super::super::inst::{Any, Cvt, Finish, FloatMods, Inst};
use super::super::lanes::{V32, lanes_in};
use super::super::warp::Registers;
use super::narrow::{to_half, write};
use crate::mufu::approx::Switches;
use crate::mufu::{self, Function, MufuTables};
use crate::scalar::lanes as warp;
use crate::scalar::{self, Bf16, F16, F32, F64, Ieee, MinMax, Mods, Rounding, Signs};
use crate::simd::Level;

/// Chooses the `.ftz` form of a warp function.
macro_rules! ftz {
    ($ftz:expr, $name:ident($($arg:expr),+)) => {
        if $ftz { warp::$name::<true>($($arg),+) } else { warp::$name::<false>($($arg),+) }
    };
}

/// `.rn` add, sub, mul, and min, max.
#[inline(always)]
pub(super) fn f32(level: Level, op: FloatOp, ftz: bool, a: &V32, b: &V32) -> V32 {
    let mut out = V32::ZERO;
    let (a, b, d) = (&a.0, &b.0, &mut out.0);
    match op {
        FloatOp::Add => ftz!(ftz, add_rn(level, a, b, d)),
        FloatOp::Sub => ftz!(ftz, sub_rn(level, a, b, d)),
        FloatOp::Mul => ftz!(ftz, mul_rn(level, a, b, d)),
        FloatOp::Min => ftz!(ftz, min(level, a, b, d)),
        FloatOp::Max => ftz!(ftz, max(level, a, b, d)),
        FloatOp::Div => {
            // The decoder gives division to the scalar form; this is that form, whatever the mask.
            let mods = if ftz { Mods::RN_FTZ } else { Mods::RN };
            for lane in lanes_in(u32::MAX) {
                d[lane] = scalar::div::<F32>(a[lane], b[lane], mods);
            }
        }
    }
    out
}

/// `fma.rn.f32`.
#[inline(always)]
pub(super) fn fma32(level: Level, ftz: bool, a: &V32, b: &V32, c: &V32) -> V32 {
    let mut out = V32::ZERO;
    ftz!(ftz, fma_rn(level, &a.0, &b.0, &c.0, &mut out.0));
    out
}

/// `neg`, `abs`, `rcp`, `sqrt` of f32.
#[inline(always)]
pub(super) fn f32_unary(level: Level, op: FloatUnary, mods: Mods, a: &V32, mask: u32) -> V32 {
    let mut out = V32::ZERO;
    match op {
        FloatUnary::Neg => ftz!(mods.ftz, neg(level, &a.0, &mut out.0)),
        FloatUnary::Abs => ftz!(mods.ftz, abs(level, &a.0, &mut out.0)),
        FloatUnary::Rcp => each(mask, |lane| out.0[lane] = scalar::rcp::<F32>(a.0[lane], mods)),
        FloatUnary::Sqrt => each(mask, |lane| out.0[lane] = scalar::sqrt::<F32>(a.0[lane], mods)),
    }
    out
}

/// `.approx.ftz` of f32. The decoder lets only functions with a model pass.
#[inline(always)]
pub(super) fn mufu(level: Level, switches: Switches, function: Function, a: &V32) -> V32 {
    let tables = MufuTables::g80();
    let mut out = V32::ZERO;
    match function {
        Function::Rcp => mufu::lanes::rcp(level, tables, &a.0, &mut out.0),
        Function::Rsq => mufu::lanes::rsq(level, tables, &a.0, &mut out.0),
        Function::Ex2 => mufu::lanes::ex2(level, tables, &a.0, &mut out.0),
        Function::Lg2 => mufu::lanes::lg2(level, tables, &a.0, &mut out.0),
        Function::Sin | Function::Cos | Function::Sqrt | Function::Tanh => {
            return approx(switches, function, a, u32::MAX);
        }
    }
    out
}

/// `.approx` of f32 without `.ftz`, and the functions without vector code. The decoder lets only functions with a model
/// pass, and the profile built in has tables for all of them.
#[inline(never)]
pub(super) fn approx(switches: Switches, function: Function, a: &V32, mask: u32) -> V32 {
    let tables = MufuTables::g80();
    let mut out = V32::ZERO;
    each(mask, |lane| {
        let x = a.0[lane];
        out.0[lane] = match function {
            Function::Rcp => mufu::approx::rcp_approx(tables, switches, x),
            Function::Rsq => mufu::approx::rsqrt_approx(tables, switches, x),
            Function::Ex2 => mufu::approx::ex2_approx(tables, switches, x),
            Function::Lg2 => mufu::approx::lg2_approx(tables, switches, x),
            Function::Sin | Function::Cos | Function::Sqrt | Function::Tanh => {
                let cosine = function == Function::Cos;
                let f = if cosine { mufu::approx::cos_approx } else { mufu::approx::sin_approx };
                f(tables, switches, x).expect("the profile built in has a sine (tested), sqrt and tanh were refused")
            }
        };
    });
    out
}

/// The forms that have no vector code, by their reference.
#[inline(never)]
pub(super) fn one_by_one(inst: Inst, regs: &mut Registers, mask: u32) {
    match inst {
        Inst::F32Slow { op, mods, d, a, b } => {
            let (a, b) = (regs.b32[a as usize], regs.b32[b as usize]);
            let d = &mut regs.b32[d as usize];
            each(mask, |lane| d.0[lane] = binary::<F32>(op, mods, a.0[lane], b.0[lane]));
        }
        Inst::F64 { op, mods, d, a, b } => {
            let (a, b) = (regs.b64[a as usize], regs.b64[b as usize]);
            let d = &mut regs.b64[d as usize];
            each(mask, |lane| d.0[lane] = binary::<F64>(op, mods, a.0[lane], b.0[lane]));
        }
        Inst::Fma32Slow { mods, d, a, b, c } => {
            let [a, b, c] = [a, b, c].map(|s| regs.b32[s as usize]);
            let d = &mut regs.b32[d as usize];
            each(mask, |lane| d.0[lane] = scalar::fma::<F32>(a.0[lane], b.0[lane], c.0[lane], mods));
        }
        Inst::Fma64 { mods, d, a, b, c } => {
            let [a, b, c] = [a, b, c].map(|s| regs.b64[s as usize]);
            let d = &mut regs.b64[d as usize];
            each(mask, |lane| d.0[lane] = scalar::fma::<F64>(a.0[lane], b.0[lane], c.0[lane], mods));
        }
        Inst::F64Unary { op, mods, d, a } => {
            let a = regs.b64[a as usize];
            let d = &mut regs.b64[d as usize];
            each(mask, |lane| {
                d.0[lane] = match op {
                    FloatUnary::Neg => scalar::neg::<F64>(a.0[lane], false),
                    FloatUnary::Abs => scalar::abs::<F64>(a.0[lane], false),
                    FloatUnary::Rcp => scalar::rcp::<F64>(a.0[lane], mods),
                    FloatUnary::Sqrt => scalar::sqrt::<F64>(a.0[lane], mods),
                }
            });
        }
        Inst::SetpF64 { cmp, d, a, b } => {
            let (a, b) = (&regs.b64[a as usize], &regs.b64[b as usize]);
            let mut holds = 0;
            each(mask, |lane| holds |= u32::from(scalar::compare::<F64>(cmp, a.0[lane], b.0[lane], false)) << lane);
            regs.set_pred(d, holds, mask);
        }
        Inst::CvtFloat { cvt, mods, finish, d, a } => {
            let a = match a {
                Any::B64(a) => regs.b64[a as usize],
                Any::B16(a) | Any::B32(a) => super::int::widen(&regs.b32[a as usize], false),
            };
            write(regs, d, mask, |lane| convert(cvt, mods, finish, a.0[lane]));
        }
        _ => {}
    }
}

#[inline(always)]
fn each(mask: u32, f: impl FnMut(usize)) {
    lanes_in(mask).for_each(f);
}

pub(super) fn binary<F: Ieee>(op: FloatOp, mods: FloatMods, a: F::Bits, b: F::Bits) -> F::Bits {
    let FloatMods { mods, nan, xorsign } = mods;
    let signs = if xorsign { Signs::Xored } else { Signs::Kept };
    let min_max = MinMax { nan, ftz: mods.ftz, signs };
    match op {
        FloatOp::Add => scalar::add::<F>(a, b, mods),
        FloatOp::Sub => scalar::sub::<F>(a, b, mods),
        FloatOp::Mul => scalar::mul::<F>(a, b, mods),
        FloatOp::Div => scalar::div::<F>(a, b, mods),
        FloatOp::Min => scalar::min_with::<F>(a, b, min_max),
        FloatOp::Max => scalar::max_with::<F>(a, b, min_max),
    }
}

/// One conversion. Bits above the width of the result are zero, above 8 signed bits copies of their sign.
fn convert(cvt: Cvt, mods: Mods, finish: Finish, a: u64) -> u64 {
    match cvt {
        Cvt::Integral16 => scalar::round_to_integral::<F16>(a as u16, mods).into(),
        Cvt::Integral32 => scalar::round_to_integral::<F32>(a as u32, mods).into(),
        Cvt::Integral64 => scalar::round_to_integral::<F64>(a, mods),
        Cvt::F32ToF32 => scalar::convert::<F32, F32>(a as u32, mods).into(),
        Cvt::F16ToF32 => scalar::convert::<F16, F32>(a as u16, mods).into(),
        Cvt::F16ToF64 => scalar::convert::<F16, F64>(a as u16, mods),
        Cvt::F32ToF64 => scalar::convert::<F32, F64>(a as u32, mods),
        Cvt::Bf16ToF32 => scalar::convert::<Bf16, F32>(a as u16, mods).into(),
        Cvt::F32ToF16 => to_half::<F16>(a as u32, mods, finish).into(),
        Cvt::F64ToF16 => scalar::convert::<F64, F16>(a, mods).into(),
        Cvt::F64ToF32 => scalar::convert::<F64, F32>(a, mods).into(),
        Cvt::F32ToBf16 => to_half::<Bf16>(a as u32, mods, finish).into(),
        Cvt::F32ToTf32 => to_tf32(a as u32, mods.rounding, finish).into(),
        Cvt::F16ToInt(int) => sign_fill(scalar::to_int::<F16>(a as u16, int, mods.rounding, mods.ftz), int),
        Cvt::Bf16ToInt(int) => sign_fill(scalar::to_int::<Bf16>(a as u16, int, mods.rounding, mods.ftz), int),
        Cvt::F32ToInt(int) => sign_fill(scalar::to_int::<F32>(a as u32, int, mods.rounding, mods.ftz), int),
        Cvt::F64ToInt(int) => sign_fill(scalar::to_int::<F64>(a, int, mods.rounding, mods.ftz), int),
        Cvt::IntToF16(int) => scalar::from_int::<F16>(a, int, mods).into(),
        Cvt::IntToBf16(int) => scalar::from_int::<Bf16>(a, int, mods).into(),
        Cvt::IntToF32(int) => scalar::from_int::<F32>(a, int, mods).into(),
        Cvt::IntToF64(int) => scalar::from_int::<F64>(a, int, mods),
    }
}

/// An f32 as TF32. `.satfinite` turns what overflows, and infinities, into the largest finite number; `.relu` is that of f32.
fn to_tf32(a: u32, rounding: Rounding, finish: Finish) -> u32 {
    const LARGEST: u32 = 0x7f7f_e000;
    let d = scalar::f32_to_tf32(a, rounding);
    let infinite = d & 0x7fff_ffff == 0x7f80_0000;
    let d = if finish.satfinite && infinite { d & 0x8000_0000 | LARGEST } else { d };
    if finish.relu { scalar::relu::<F32>(d) } else { d }
}

/// An 8-bit result fills its wider register; 16 bits and more have registers of their own width.
fn sign_fill(value: u64, int: scalar::Int) -> u64 {
    if int.bits == 8 && int.signed { value as u8 as i8 as u64 } else { value }
}
