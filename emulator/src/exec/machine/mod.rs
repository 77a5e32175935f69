//! The run loop: one warp, instruction by instruction, until it waits, ends, or has used its fuel.
//!
//! The loop and everything inlined into it is compiled once for each SIMD level ([`Level::run`]). There is no `unsafe`
//! here and no arithmetic of its own on floats: those are `crate::scalar`, `crate::mufu` and `crate::mma`.

mod collective;
mod float;
mod memory;
mod narrow;

use super::fault::{Outcome, undefined};
use super::global::{Global, Hint};
use super::inst::{Any, Ext, Inst, Slot};
use super::integer as int;
use super::lanes::{LANES, V32, V64, lanes_in, map, map2, map3};
use super::memory::Memory;
use super::program::Program;
use super::shared::Shared;
use super::warp::{Registers, State, Warp};
use super::watch::Watch;
use crate::mma::WarpMma;
use crate::scalar::lanes;
use crate::simd::{Level, Task};

/// What one thread of a launch runs its warps with.
pub(super) struct Machine<'a> {
    pub program: &'a Program,
    pub memory: &'a Memory,
    pub global: Global<'a>,
    /// The parameters, in their layout, as words.
    pub params: &'a [u32],
    pub level: Level,
    /// One for each instruction.
    pub hints: Vec<Hint>,
    /// The program's matrix instructions at this level.
    pub mmas: Vec<WarpMma>,
    /// Matrix instructions executed.
    pub mma_count: u64,
}

/// A warp's turn, as the task that is compiled for each level.
struct Turn<'m, 'a, W> {
    machine: &'m mut Machine<'a>,
    warp: &'m mut Warp,
    shared: &'m mut Shared,
    watch: &'m mut W,
    fuel: u64,
}

impl<W: Watch> Task for Turn<'_, '_, W> {
    type Output = Outcome<u64>;

    #[inline(always)]
    fn run(self) -> Outcome<u64> {
        interpret(self.machine, self.warp, self.shared, self.watch, self.fuel)
    }
}

impl Machine<'_> {
    /// Runs `warp` for at most `fuel` instructions and returns how many of those are left.
    pub fn run<W: Watch>(&mut self, warp: &mut Warp, shared: &mut Shared, watch: &mut W, fuel: u64) -> Outcome<u64> {
        let level = if W::ON { Level::Portable } else { self.level };
        level.run(Turn { machine: self, warp, shared, watch, fuel })
    }
}

#[inline(always)]
fn interpret<W: Watch>(
    machine: &mut Machine<'_>,
    warp: &mut Warp,
    shared: &mut Shared,
    watch: &mut W,
    mut fuel: u64,
) -> Outcome<u64> {
    let program = machine.program;
    let code = &program.code[..];
    let level = machine.level;
    let Warp { index, registers: regs, control } = warp;
    let index = *index;
    while fuel > 0 && control.state == State::Ready {
        let pc = control.pc;
        if pc == control.meet {
            control.resume();
            continue;
        }
        fuel -= 1;
        // Matched in place: an instruction is never copied as a whole.
        let decoded = &code[pc as usize];
        let p = regs.pred[decoded.guard as usize];
        let mask = control.active & if decoded.negate { !p } else { p };
        if W::ON {
            watch.step(index, pc, control.active, mask)?;
        }
        if mask == 0 {
            control.pc = pc + 1;
            continue;
        }
        match decoded.inst {
            Inst::Bra { target, reconverge, uniform } => {
                if mask == control.active {
                    control.jump(target);
                } else if uniform {
                    return undefined(None, "bra.uni goes different ways in one warp");
                } else {
                    control.diverge(mask, target, reconverge);
                }
                continue;
            }
            Inst::Exit => {
                control.exit(mask);
                continue;
            }
            Inst::Bar { id } => {
                if mask != control.present {
                    return undefined(None, "a barrier that not every thread of the warp reaches together");
                }
                control.state = State::Barrier { id };
            }
            Inst::WarpSync { mask: named } => {
                collective::participants(control, mask, &regs.b32[named as usize])?;
                watch.warp_sync(index, mask, control.live);
            }

            Inst::Mov32 { d, a } => {
                let v = regs.b32[a as usize];
                regs.set32(d, &v, mask);
            }
            Inst::Mov64 { d, a } => {
                let v = regs.b64[a as usize];
                regs.set64(d, &v, mask);
            }
            Inst::MovPred { d, a } => {
                let v = regs.pred[a as usize];
                regs.set_pred(d, v, mask);
            }
            Inst::Pack16 { d, lo, hi } => {
                let v = map2(&regs.b32[lo as usize], &regs.b32[hi as usize], |lo, hi| lo & 0xffff | hi << 16);
                regs.set32(d, &v, mask);
            }
            Inst::Pack32 { d, lo, hi } => {
                let v = pack32(&regs.b32[lo as usize], &regs.b32[hi as usize]);
                regs.set64(d, &v, mask);
            }
            Inst::Pack16x4 { d, a } => {
                let [p, q, r, s] = a.map(|a| &regs.b32[a as usize]);
                let pair = |lo, hi| map2(lo, hi, |lo, hi| lo & 0xffff | hi << 16);
                let v = pack32(&pair(p, q), &pair(r, s));
                regs.set64(d, &v, mask);
            }
            Inst::Unpack16 { lo, hi, a } => {
                let v = regs.b32[a as usize];
                regs.set32(lo, &map(&v, |x| x & 0xffff), mask);
                regs.set32(hi, &map(&v, |x| x >> 16), mask);
            }
            Inst::Unpack32 { lo, hi, a } => {
                let v = regs.b64[a as usize];
                regs.set32(lo, &int::low(&v), mask);
                regs.set32(hi, &high(&v), mask);
            }
            Inst::Unpack16x4 { d: [p, q, r, s], a } => {
                let v = regs.b64[a as usize];
                let (low, high) = (int::low(&v), high(&v));
                regs.set32(p, &map(&low, |x| x & 0xffff), mask);
                regs.set32(q, &map(&low, |x| x >> 16), mask);
                regs.set32(r, &map(&high, |x| x & 0xffff), mask);
                regs.set32(s, &map(&high, |x| x >> 16), mask);
            }

            Inst::Int32 { op, signed, d, a, b } => {
                let (a, b) = (&regs.b32[a as usize], &regs.b32[b as usize]);
                if int::divides(op) {
                    divisors(mask, |lane| b.0[lane] == 0)?;
                }
                let v = int::binary32(op, signed, a, b);
                regs.set32(d, &v, mask);
            }
            Inst::Int16 { op, signed, d, a, b } => {
                let (a, b) = (&regs.b32[a as usize], &regs.b32[b as usize]);
                if int::divides(op) {
                    divisors(mask, |lane| b.0[lane] == 0)?;
                }
                let v = int::binary16(op, signed, a, b);
                regs.set32(d, &v, mask);
            }
            Inst::Int64 { op, signed, d, a, b } => {
                let (a, b) = (&regs.b64[a as usize], &regs.b64[b as usize]);
                if int::divides(op) {
                    divisors(mask, |lane| b.0[lane] == 0)?;
                }
                let v = int::binary64(op, signed, a, b);
                regs.set64(d, &v, mask);
            }
            Inst::Shift64 { op, signed, d, a, b } => {
                let v = int::shift64(op, signed, &regs.b64[a as usize], &regs.b32[b as usize]);
                regs.set64(d, &v, mask);
            }
            Inst::Wide16 { signed, d, a, b } => {
                let v = int::wide16(signed, &regs.b32[a as usize], &regs.b32[b as usize]);
                regs.set32(d, &v, mask);
            }
            Inst::Wide32 { signed, d, a, b } => {
                let v = int::wide32(signed, &regs.b32[a as usize], &regs.b32[b as usize]);
                regs.set64(d, &v, mask);
            }
            Inst::Mad16 { d, a, b, c } => {
                let v = three(regs, a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c) & 0xffff);
                regs.set32(d, &v, mask);
            }
            Inst::Mad32 { d, a, b, c } => {
                let v = three(regs, a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
                regs.set32(d, &v, mask);
            }
            Inst::Mad64 { d, a, b, c } => {
                let product = int::mul64(&regs.b64[a as usize], &regs.b64[b as usize]);
                let v = int::add64(&product, &regs.b64[c as usize]);
                regs.set64(d, &v, mask);
            }
            Inst::MadWide16 { signed, d, a, b, c } => {
                let product = int::wide16(signed, &regs.b32[a as usize], &regs.b32[b as usize]);
                let v = map2(&product, &regs.b32[c as usize], u32::wrapping_add);
                regs.set32(d, &v, mask);
            }
            Inst::MadWide32 { signed, d, a, b, c } => {
                let product = int::wide32(signed, &regs.b32[a as usize], &regs.b32[b as usize]);
                let v = int::add64(&product, &regs.b64[c as usize]);
                regs.set64(d, &v, mask);
            }
            Inst::Unary32 { op, d, a } => {
                let v = int::unary32(op, &regs.b32[a as usize]);
                regs.set32(d, &v, mask);
            }
            Inst::Unary16 { op, d, a } => {
                let v = int::unary16(op, &regs.b32[a as usize]);
                regs.set32(d, &v, mask);
            }
            Inst::Unary64 { op, d, a } => {
                let v = int::unary64(op, &regs.b64[a as usize]);
                regs.set64(d, &v, mask);
            }
            Inst::Count64 { leading, d, a } => {
                let v = int::count64(leading, &regs.b64[a as usize]);
                regs.set32(d, &v, mask);
            }
            Inst::PredOp { op, d, a, b } => {
                let (a, b) = (regs.pred[a as usize], regs.pred[b as usize]);
                regs.set_pred(d, int::logic(op, a, b), mask);
            }
            Inst::PredNot { d, a } => {
                let v = !regs.pred[a as usize];
                regs.set_pred(d, v, mask);
            }
            Inst::Setp32 { cmp, signed, d, a, b } => {
                let v = int::compare32(cmp, signed, &regs.b32[a as usize], &regs.b32[b as usize]);
                regs.set_pred(d, v, mask);
            }
            Inst::Setp16 { cmp, signed, d, a, b } => {
                let v = int::compare16(cmp, signed, &regs.b32[a as usize], &regs.b32[b as usize]);
                regs.set_pred(d, v, mask);
            }
            Inst::Setp64 { cmp, signed, d, a, b } => {
                let v = int::compare64(cmp, signed, &regs.b64[a as usize], &regs.b64[b as usize]);
                regs.set_pred(d, v, mask);
            }
            Inst::Selp32 { d, a, b, p } => {
                let mut v = regs.b32[b as usize];
                v.merge(&regs.b32[a as usize], regs.pred[p as usize]);
                regs.set32(d, &v, mask);
            }
            Inst::Selp64 { d, a, b, p } => {
                let mut v = regs.b64[b as usize];
                v.merge(&regs.b64[a as usize], regs.pred[p as usize]);
                regs.set64(d, &v, mask);
            }
            Inst::Cvt { d, a, from, to } => convert(regs, d, a, (from, to), mask),
            Inst::Prmt { d, a, b, sel } => {
                let v = three(regs, a, b, sel, int::prmt);
                regs.set32(d, &v, mask);
            }
            Inst::Bfe32 { signed, d, a, pos, len } => {
                let v = three(regs, a, pos, len, |a, p, l| int::bfe(32, signed, u64::from(a), p, l) as u32);
                regs.set32(d, &v, mask);
            }
            Inst::Bfe64 { signed, d, a, pos, len } => {
                let mut v = V64::ZERO;
                let (a, pos, len) = (&regs.b64[a as usize], &regs.b32[pos as usize], &regs.b32[len as usize]);
                for i in 0..LANES {
                    v.0[i] = int::bfe(64, signed, a.0[i], pos.0[i], len.0[i]);
                }
                regs.set64(d, &v, mask);
            }

            Inst::F32 { op, ftz, d, a, b } => {
                let v = float::f32(level, op, ftz, &regs.b32[a as usize], &regs.b32[b as usize]);
                regs.set32(d, &v, mask);
            }
            Inst::Fma32 { ftz, d, a, b, c } => {
                let [a, b, c] = [a, b, c].map(|s| &regs.b32[s as usize]);
                let v = float::fma32(level, ftz, a, b, c);
                regs.set32(d, &v, mask);
            }
            Inst::SetpF32 { cmp, ftz, d, a, b } => {
                let v = lanes::compare(level, cmp, ftz, &regs.b32[a as usize].0, &regs.b32[b as usize].0);
                regs.set_pred(d, v, mask);
            }
            Inst::PackBf16 { d, hi, lo } => {
                let mut v = V32::ZERO;
                lanes::pack_bf16x2_rn(level, &regs.b32[hi as usize].0, &regs.b32[lo as usize].0, &mut v.0);
                regs.set32(d, &v, mask);
            }
            Inst::F32Unary { op, mods, d, a } => {
                let v = float::f32_unary(level, op, mods, &regs.b32[a as usize], mask);
                regs.set32(d, &v, mask);
            }
            Inst::Mufu { function, ftz: true, d, a } => {
                let v = float::mufu(level, program.approx(), function, &regs.b32[a as usize]);
                regs.set32(d, &v, mask);
            }
            Inst::Mufu { function, ftz: false, d, a } => {
                let v = float::approx(program.approx(), function, &regs.b32[a as usize], mask);
                regs.set32(d, &v, mask);
            }
            Inst::F32Slow { .. }
            | Inst::F64 { .. }
            | Inst::Fma32Slow { .. }
            | Inst::Fma64 { .. }
            | Inst::F64Unary { .. }
            | Inst::SetpF64 { .. }
            | Inst::CvtFloat { .. } => float::one_by_one(decoded.inst, regs, mask),
            Inst::Spread { .. }
            | Inst::SpreadFma { .. }
            | Inst::SpreadUnary { .. }
            | Inst::SetpHalf { .. }
            | Inst::Mixed { .. }
            | Inst::CvtPair { .. }
            | Inst::CvtOfPair { .. }
            | Inst::Pack8 { .. }
            | Inst::Unpack8 { .. } => narrow::run(decoded.inst, regs, mask),
            Inst::Mma { index } => {
                collective::whole_warp(mask)?;
                collective::mma(&program.mmas[index as usize], &machine.mmas[index as usize], regs);
                machine.mma_count += 1;
            }

            Inst::Shfl { mode, d, p, a, b, c, mask: named } => {
                collective::participants(control, mask, &regs.b32[named as usize])?;
                let [a, b, c] = [a, b, c].map(|s| &regs.b32[s as usize]);
                let (v, inside) = collective::shfl(mode, a, b, c, mask)?;
                regs.set32(d, &v, mask);
                if let Some(p) = p {
                    regs.set_pred(p, inside, mask);
                }
            }
            Inst::Vote { mode, negate, d, p, mask: named } => {
                collective::participants(control, mask, &regs.b32[named as usize])?;
                let p = regs.pred[p as usize];
                collective::vote(mode, if negate { !p } else { p }, d, regs, mask);
            }

            Inst::LdParam { offset, moved } => memory::load_param(machine.params, offset, moved, program, regs, mask),
            Inst::Ld { place, moved } => {
                memory::load(machine, place, moved, regs, shared, watch, memory::At { warp: index, pc, mask })?;
            }
            Inst::St { place, moved } => {
                memory::store(machine, place, moved, regs, shared, watch, memory::At { warp: index, pc, mask })?;
            }
            Inst::LdMatrix { trans, count, list, addr } => {
                collective::whole_warp(mask)?;
                let to = &program.lists[list as usize..][..count as usize];
                collective::ldmatrix(trans, to, addr, regs, shared, watch, index, pc)?;
            }
            Inst::CpAsync { bytes, dst, src, src_size } => {
                let at = memory::At { warp: index, pc, mask };
                memory::cp_async(machine, u32::from(bytes), dst, src, src_size, regs, shared, watch, at)?;
            }
            Inst::CpAsyncCommit => watch.commit(index, mask),
            Inst::CpAsyncWait { n } => watch.wait(index, mask, n, machine.memory, shared)?,
            Inst::Atom32 { .. } | Inst::Atom64 { .. } => {
                memory::atom(machine, decoded.inst, regs, shared, watch, memory::At { warp: index, pc, mask })?;
            }
        }
        control.pc = pc + 1;
    }
    Ok(fuel)
}

/// `f` of three registers.
#[inline(always)]
fn three(regs: &Registers, a: Slot, b: Slot, c: Slot, f: impl Fn(u32, u32, u32) -> u32) -> V32 {
    map3(&regs.b32[a as usize], &regs.b32[b as usize], &regs.b32[c as usize], f)
}

#[inline(always)]
fn pack32(lo: &V32, hi: &V32) -> V64 {
    let mut out = V64::ZERO;
    for i in 0..LANES {
        out.0[i] = u64::from(lo.0[i]) | u64::from(hi.0[i]) << 32;
    }
    out
}

#[inline(always)]
fn high(a: &V64) -> V32 {
    let mut out = V32::ZERO;
    for i in 0..LANES {
        out.0[i] = (a.0[i] >> 32) as u32;
    }
    out
}

/// Integer `cvt` between registers of any width.
#[inline(always)]
fn convert(regs: &mut Registers, d: Any, a: Any, (from, to): (Ext, Ext), mask: u32) {
    let value = match a {
        Any::B64(a) => int::extend64(&regs.b64[a as usize], from),
        Any::B16(a) | Any::B32(a) => int::widen(&int::extend32(&regs.b32[a as usize], from), from.signed()),
    };
    match d {
        Any::B64(d) => regs.set64(d, &int::extend64(&value, to), mask),
        Any::B32(d) => regs.set32(d, &int::extend32(&int::low(&value), to), mask),
        Any::B16(d) => regs.set32(d, &map(&int::extend32(&int::low(&value), to), |v| v & 0xffff), mask),
    }
}

/// Refuses a division by zero: PTX leaves its result open.
#[inline(always)]
fn divisors(mask: u32, zero: impl Fn(usize) -> bool) -> Outcome<()> {
    match lanes_in(mask).find(|&lane| zero(lane)) {
        Some(lane) => undefined(Some(lane as u32), "an integer division by zero"),
        None => Ok(()),
    }
}
