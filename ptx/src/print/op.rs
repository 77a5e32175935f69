//! Opcode, modifiers and operand list of each operation, in the order PTX prescribes.

use std::fmt::{self, Write};

use super::{Arg, Printer};
use crate::ast::{Op, Round, VoteMode};

/// `.mod` when `on`.
fn flag(on: bool, text: &'static str) -> &'static str {
    if on { text } else { "" }
}

/// `.rn`, or nothing.
struct Rounding(Option<Round>);

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(round) => write!(f, ".{round}"),
            None => Ok(()),
        }
    }
}

/// `.v2`, `.v4`, or nothing for one element.
struct Vector(usize);

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => Ok(()),
            n => write!(f, ".v{n}"),
        }
    }
}

impl Printer<'_, '_, '_> {
    pub(super) fn op(&mut self, op: &Op) -> fmt::Result {
        let name = op.mnemonic();
        self.f.write_str(name)?;
        let o = Arg::Operand;
        match op {
            Op::Mov { ty, d, a } => {
                write!(self.f, ".{ty}")?;
                self.args(&[Arg::Reg(*d), o(*a)])
            }
            Op::Pack { ty, d, a } => {
                write!(self.f, ".{ty}")?;
                self.args(&[Arg::Reg(*d), Arg::Operands(a)])
            }
            Op::Unpack { ty, d, a } => {
                write!(self.f, ".{ty}")?;
                self.args(&[Arg::Regs(d), o(*a)])
            }
            Op::Ld { space, nc, ty, d, addr } => {
                write!(self.f, ".{space}{}{}.{ty}", flag(*nc, ".nc"), Vector(d.len()))?;
                let d = match d.as_slice() {
                    [one] => Arg::Reg(*one),
                    many => Arg::Regs(many),
                };
                self.args(&[d, Arg::Addr(*addr)])
            }
            Op::St { space, ty, addr, a } => {
                write!(self.f, ".{space}{}.{ty}", Vector(a.len()))?;
                let a = match a.as_slice() {
                    [one] => o(*one),
                    many => Arg::Operands(many),
                };
                self.args(&[Arg::Addr(*addr), a])
            }
            Op::Int { ty, d, a, b, .. } => {
                write!(self.f, ".{ty}")?;
                self.args(&[Arg::Reg(*d), o(*a), o(*b)])
            }
            Op::Mad { ty, d, a, b, c, .. } => {
                write!(self.f, ".{ty}")?;
                self.args(&[Arg::Reg(*d), o(*a), o(*b), o(*c)])
            }
            Op::IntUnary { ty, d, a, .. } => {
                write!(self.f, ".{ty}")?;
                self.args(&[Arg::Reg(*d), o(*a)])
            }
            Op::Float { op: _, ty, round, ftz, sat, nan, xorsign, d, a, b } => {
                write!(
                    self.f,
                    "{}{}{}{}{}.{ty}",
                    Rounding(*round),
                    flag(*ftz, ".ftz"),
                    flag(*sat, ".sat"),
                    flag(*nan, ".NaN"),
                    flag(*xorsign, ".xorsign.abs"),
                )?;
                self.args(&[Arg::Reg(*d), o(*a), o(*b)])
            }
            Op::Fma { ty, round, ftz, sat, relu, d, a, b, c } => {
                let (ftz, sat, relu) = (flag(*ftz, ".ftz"), flag(*sat, ".sat"), flag(*relu, ".relu"));
                write!(self.f, "{}{ftz}{sat}{relu}.{ty}", Rounding(*round))?;
                self.args(&[Arg::Reg(*d), o(*a), o(*b), o(*c)])
            }
            Op::Mixed { op: _, from, round, sat, d, a, b, c } => {
                write!(self.f, "{}{}.f32.{from}", Rounding(*round), flag(*sat, ".sat"))?;
                match b {
                    Some(b) => self.args(&[Arg::Reg(*d), o(*a), o(*b), o(*c)]),
                    None => self.args(&[Arg::Reg(*d), o(*a), o(*c)]),
                }
            }
            Op::FloatUnary { op: _, ty, round, ftz, d, a } => {
                write!(self.f, "{}{}.{ty}", Rounding(*round), flag(*ftz, ".ftz"))?;
                self.args(&[Arg::Reg(*d), o(*a)])
            }
            Op::Approx { f: _, ty, ftz, d, a } => {
                write!(self.f, ".approx{}.{ty}", flag(*ftz, ".ftz"))?;
                self.args(&[Arg::Reg(*d), o(*a)])
            }
            Op::Setp { cmp, ty, ftz, d, a, b } => {
                write!(self.f, ".{cmp}{}.{ty}", flag(*ftz, ".ftz"))?;
                self.args(&[Arg::Reg(*d), o(*a), o(*b)])
            }
            Op::Selp { ty, d, a, b, p } => {
                write!(self.f, ".{ty}")?;
                self.args(&[Arg::Reg(*d), o(*a), o(*b), Arg::Reg(*p)])
            }
            Op::Cvt { round, ftz, sat, satfinite, relu, to, from, d, a } => {
                let (ftz, sat) = (flag(*ftz, ".ftz"), flag(*sat, ".sat"));
                let (satfinite, relu) = (flag(*satfinite, ".satfinite"), flag(*relu, ".relu"));
                write!(self.f, "{}{ftz}{sat}{satfinite}{relu}.{to}.{from}", Rounding(*round))?;
                self.args(&[Arg::Reg(*d), o(*a)])
            }
            Op::CvtPack { round, satfinite, relu, to, d, hi, lo, random } => {
                let (satfinite, relu) = (flag(*satfinite, ".satfinite"), flag(*relu, ".relu"));
                write!(self.f, ".{round}{satfinite}{relu}.{to}.f32")?;
                match random {
                    Some(random) => self.args(&[Arg::Reg(*d), o(*hi), o(*lo), o(*random)]),
                    None => self.args(&[Arg::Reg(*d), o(*hi), o(*lo)]),
                }
            }
            _ => self.warp_or_control(op),
        }
    }

    fn warp_or_control(&mut self, op: &Op) -> fmt::Result {
        let o = Arg::Operand;
        match op {
            Op::Cvta { space, d, a } => {
                write!(self.f, ".{space}.u64")?;
                self.args(&[Arg::Reg(*d), o(*a)])
            }
            Op::Prmt { d, a, b, sel } => {
                self.f.write_str(".b32")?;
                self.args(&[Arg::Reg(*d), o(*a), o(*b), o(*sel)])
            }
            Op::Bfe { ty, d, a, pos, len } => {
                write!(self.f, ".{ty}")?;
                self.args(&[Arg::Reg(*d), o(*a), o(*pos), o(*len)])
            }
            Op::Shfl { mode, d, p, a, b, c, mask } => {
                write!(self.f, ".{mode}.b32")?;
                self.args(&[Arg::Reg(*d)])?;
                if let Some(p) = p {
                    self.f.write_char('|')?;
                    self.reg(*p)?;
                }
                self.f.write_char(',')?;
                self.args(&[o(*a), o(*b), o(*c), o(*mask)])
            }
            Op::Vote { mode, d, p, negate, mask } => {
                let ty = match mode {
                    VoteMode::Ballot => "b32",
                    _ => "pred",
                };
                write!(self.f, ".{mode}.{ty}")?;
                self.args(&[Arg::Reg(*d)])?;
                self.f.write_str(if *negate { ", !" } else { ", " })?;
                self.reg(*p)?;
                self.f.write_char(',')?;
                self.args(&[o(*mask)])
            }
            Op::Bra { uni, target } => {
                self.f.write_str(flag(*uni, ".uni"))?;
                self.f.write_char(' ')?;
                self.label(target.0)
            }
            Op::BarSync { id } => self.args(&[Arg::Number(*id)]),
            Op::WarpSync { mask } => self.args(&[o(*mask)]),
            Op::LdMatrix { trans, d, addr } => {
                let trans = flag(*trans, ".trans");
                write!(self.f, ".sync.aligned.m8n8.x{}{trans}.shared.b16", d.len())?;
                self.args(&[Arg::Regs(d), Arg::Addr(*addr)])
            }
            Op::Mma { shape, dty, aty, bty, cty, d, a, b, c } => {
                write!(self.f, ".aligned.{shape}.row.col.{dty}.{aty}.{bty}.{cty}")?;
                self.args(&[Arg::Regs(d), Arg::Regs(a), Arg::Regs(b), Arg::Regs(c)])
            }
            Op::CpAsync { cg, bytes, dst, src, src_size } => {
                let cache = if *cg { "cg" } else { "ca" };
                write!(self.f, ".{cache}.shared.global")?;
                self.args(&[Arg::Addr(*dst), Arg::Addr(*src), Arg::Number(*bytes)])?;
                if let Some(size) = src_size {
                    self.f.write_char(',')?;
                    self.args(&[o(*size)])?;
                }
                Ok(())
            }
            Op::CpAsyncWait { n: Some(n) } => self.args(&[Arg::Number(*n)]),
            Op::Atom { space, op, ty, d, addr, a, b } => {
                write!(self.f, ".{space}.{op}.{ty}")?;
                self.args(&[Arg::Reg(*d), Arg::Addr(*addr), o(*a)])?;
                if let Some(b) = b {
                    self.f.write_char(',')?;
                    self.args(&[o(*b)])?;
                }
                Ok(())
            }
            // The opcode is the whole instruction.
            Op::Ret | Op::Exit | Op::CpAsyncCommit | Op::CpAsyncWait { n: None } => Ok(()),
            // Printed by `op`; listed so that a new operation cannot be forgotten here.
            Op::Mov { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::Ld { .. }
            | Op::St { .. }
            | Op::Int { .. }
            | Op::Mad { .. }
            | Op::IntUnary { .. }
            | Op::Float { .. }
            | Op::Fma { .. }
            | Op::Mixed { .. }
            | Op::FloatUnary { .. }
            | Op::Approx { .. }
            | Op::Setp { .. }
            | Op::Selp { .. }
            | Op::Cvt { .. }
            | Op::CvtPack { .. } => Err(fmt::Error),
        }
    }
}
