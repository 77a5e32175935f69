//! From the syntax tree to [`Inst`]: one decoded instruction for each instruction of the tree.

mod float;
mod operands;

use std::collections::HashMap;

use ptx::ast::{IntOp, IntUnary, Kernel, Op, Operand, Reg, Space, Special, Type};

use super::inst::{Any, Decoded, FALSE, Inst, Mma, Slot, TRUE};
use super::slots::Slots;
use super::types::{self, Width};
use crate::profile::Profile;

/// Why an instruction is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is valid, but not something the interpreter does.
    Unsupported(&'static str),
    /// Nobody has modelled it, or the profile does not have it.
    Model(crate::Error),
    /// An operand that validation lets nobody write.
    Operand,
}

type Result<T> = std::result::Result<T, Refusal>;

/// A constant broadcast to every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Constant {
    B32(u32),
    B64(u64),
}

/// Decodes the instructions of one kernel and collects the tables they refer to.
pub(super) struct Decoder<'a> {
    kernel: &'a Kernel,
    profile: &'a Profile,
    slots: &'a Slots,
    /// Offsets of the parameters and of the shared arrays.
    params: &'a [u32],
    shared: &'a [u32],
    constant_slots: HashMap<Constant, Slot>,
    special_slots: Vec<(Special, Slot)>,
    /// Slots used in the 32-bit and the 64-bit file.
    pub used: [u32; 2],
    /// Register lists of vector memory instructions.
    pub lists: Vec<Any>,
    /// Matrix instructions.
    pub mmas: Vec<Mma>,
}

impl<'a> Decoder<'a> {
    pub fn new(
        kernel: &'a Kernel,
        profile: &'a Profile,
        slots: &'a Slots,
        params: &'a [u32],
        shared: &'a [u32],
    ) -> Self {
        Decoder {
            kernel,
            profile,
            slots,
            params,
            shared,
            constant_slots: HashMap::new(),
            special_slots: Vec::new(),
            used: [slots.count[1], slots.count[2]],
            lists: Vec::new(),
            mmas: Vec::new(),
        }
    }

    /// Values of the slots that hold immediates.
    pub fn constants(&self) -> impl Iterator<Item = (Constant, Slot)> {
        self.constant_slots.iter().map(|(c, s)| (*c, *s))
    }

    /// Slots that hold special registers.
    pub fn specials(&self) -> &[(Special, Slot)] {
        &self.special_slots
    }

    /// Decodes one instruction. `target` is the instruction a branch goes to and `reconverge` where it reconverges.
    pub fn decode(&mut self, inst: &ptx::ast::Inst, target: u32, reconverge: u32) -> Result<Decoded> {
        let (guard, negate) = self.guard(inst.guard)?;
        let inst = match &inst.op {
            Op::Bra { uni, .. } => Inst::Bra { target, reconverge, uniform: *uni },
            Op::Ret | Op::Exit => Inst::Exit,
            Op::BarSync { id } => Inst::Bar { id: *id },
            Op::WarpSync { mask } => Inst::WarpSync { mask: self.source(*mask, Type::U32)? },
            Op::Mov { ty, d, a } => self.mov(*ty, *d, *a)?,
            Op::Pack { ty, d, a } => self.pack(*ty, *d, a)?,
            Op::Unpack { ty, d, a } => self.unpack(*ty, d, *a)?,
            Op::Int { op, ty, d, a, b } => self.int(*op, *ty, *d, *a, *b)?,
            Op::Mad { wide, ty, d, a, b, c } => self.mad(*wide, *ty, *d, [*a, *b, *c])?,
            Op::IntUnary { op, ty, d, a } => self.int_unary(*op, *ty, *d, *a)?,
            Op::Float { .. }
            | Op::Fma { .. }
            | Op::Mixed { .. }
            | Op::FloatUnary { .. }
            | Op::Approx { .. }
            | Op::CvtPack { .. }
            | Op::Mma { .. } => self.float(&inst.op)?,
            Op::Setp { ty, .. } if ty.is_float() => self.float(&inst.op)?,
            Op::Cvt { to, from, .. } if to.is_float() || from.is_float() => self.float(&inst.op)?,
            Op::Setp { cmp, ty, d, a, b, .. } => {
                let (cmp, signed) = (*cmp, ty.is_signed());
                let (d, a, b) = (self.reg(*d)?, self.source(*a, *ty)?, self.source(*b, *ty)?);
                match Width::of(*ty) {
                    Width::B64 => Inst::Setp64 { cmp, signed, d, a, b },
                    Width::B32 => Inst::Setp32 { cmp, signed, d, a, b },
                    _ => Inst::Setp16 { cmp, signed, d, a, b },
                }
            }
            Op::Selp { ty, d, a, b, p } => {
                let (d, p) = (self.reg(*d)?, self.reg(*p)?);
                let (a, b) = (self.source(*a, *ty)?, self.source(*b, *ty)?);
                if ty.bits() == 64 { Inst::Selp64 { d, a, b, p } } else { Inst::Selp32 { d, a, b, p } }
            }
            Op::Cvt { sat: true, .. } => return Err(Refusal::Unsupported(".sat between integers")),
            Op::Cvt { to, from, d, a, .. } => Inst::Cvt {
                d: self.any(*d)?,
                a: self.any_source(*a, *from)?,
                from: types::extension(*from),
                to: types::extension(*to),
            },
            Op::Cvta { space: Space::Global, d, a } => Inst::Mov64 { d: self.reg(*d)?, a: self.source(*a, Type::U64)? },
            Op::Cvta { .. } => return Err(Refusal::Unsupported("a generic address outside global memory")),
            Op::Prmt { d, a, b, sel } => {
                let [a, b, sel] = self.sources([*a, *b, *sel], Type::B32)?;
                Inst::Prmt { d: self.reg(*d)?, a, b, sel }
            }
            Op::Bfe { ty, d, a, pos, len } => {
                let (signed, d, a) = (ty.is_signed(), self.reg(*d)?, self.source(*a, *ty)?);
                let (pos, len) = (self.source(*pos, Type::U32)?, self.source(*len, Type::U32)?);
                if ty.bits() == 64 {
                    Inst::Bfe64 { signed, d, a, pos, len }
                } else {
                    Inst::Bfe32 { signed, d, a, pos, len }
                }
            }
            Op::Shfl { mode, d, p, a, b, c, mask } => {
                let [a, b, c] = self.sources([*a, *b, *c], Type::B32)?;
                let p = p.map(|p| self.reg(p)).transpose()?;
                Inst::Shfl { mode: *mode, d: self.reg(*d)?, p, a, b, c, mask: self.source(*mask, Type::U32)? }
            }
            Op::Vote { mode, d, p, negate, mask } => {
                let (d, p) = (self.reg(*d)?, self.reg(*p)?);
                Inst::Vote { mode: *mode, negate: *negate, d, p, mask: self.source(*mask, Type::U32)? }
            }
            Op::Ld { space: Space::Param, ty, d, addr, .. } => {
                let entries = d.iter().map(|&r| self.any(r)).collect();
                Inst::LdParam { offset: self.param_offset(*addr)?, moved: self.moved(*ty, entries)? }
            }
            Op::Ld { space, ty, d, addr, .. } => {
                let entries = d.iter().map(|&r| self.any(r)).collect();
                Inst::Ld { place: self.place(*space, *addr)?, moved: self.moved(*ty, entries)? }
            }
            Op::St { space, ty, addr, a } => {
                let entries = a.iter().map(|&a| self.any_source(a, *ty)).collect();
                Inst::St { place: self.place(*space, *addr)?, moved: self.moved(*ty, entries)? }
            }
            Op::LdMatrix { trans, d, addr } => {
                let entries: Vec<_> = d.iter().map(|&r| self.any(r)).collect();
                let (list, addr) = (self.list(entries)?, self.shared_addr(*addr)?);
                Inst::LdMatrix { trans: *trans, count: d.len() as u8, list, addr }
            }
            Op::CpAsync { bytes, dst, src, src_size, .. } => {
                let src_size = src_size.map(|s| self.source(s, Type::U32)).transpose()?;
                let (dst, src) = (self.shared_addr(*dst)?, self.global_addr(*src)?);
                Inst::CpAsync { bytes: *bytes as u8, dst, src, src_size }
            }
            Op::CpAsyncCommit => Inst::CpAsyncCommit,
            Op::CpAsyncWait { n } => Inst::CpAsyncWait { n: *n },
            Op::Atom { space, op, ty, d, addr, a, b } => {
                let (op, signed, place) = (*op, ty.is_signed(), self.place(*space, *addr)?);
                let (d, a) = (self.reg(*d)?, self.source(*a, *ty)?);
                let b = b.map_or(Ok(a), |b| self.source(b, *ty))?;
                if ty.bits() == 64 {
                    Inst::Atom64 { op, signed, place, d, a, b }
                } else {
                    Inst::Atom32 { op, signed, place, d, a, b }
                }
            }
        };
        Ok(Decoded { guard, negate, inst })
    }

    fn sources<const N: usize>(&mut self, operands: [Operand; N], ty: Type) -> Result<[Slot; N]> {
        let mut slots = [TRUE; N];
        for (slot, operand) in slots.iter_mut().zip(operands) {
            *slot = self.source(operand, ty)?;
        }
        Ok(slots)
    }

    fn mov(&mut self, ty: Type, d: Reg, a: Operand) -> Result<Inst> {
        let (d, a) = (self.reg(d)?, self.source(a, ty)?);
        Ok(match Width::of(ty) {
            Width::Pred => Inst::MovPred { d, a },
            Width::B64 => Inst::Mov64 { d, a },
            Width::B32 | Width::B16 => Inst::Mov32 { d, a },
        })
    }

    fn pack(&mut self, ty: Type, d: Reg, a: &[Operand]) -> Result<Inst> {
        if (ty.bits(), a.len()) == (16, 2) || (ty.bits(), a.len()) == (32, 4) {
            let mut bytes = [TRUE; 4];
            for (slot, operand) in bytes.iter_mut().zip(a) {
                *slot = self.source(*operand, Type::B8)?;
            }
            return Ok(Inst::Pack8 { d: self.any(d)?, count: a.len() as u8, a: bytes });
        }
        let d = self.reg(d)?;
        match (ty.bits(), a) {
            (32, &[lo, hi]) => {
                let [lo, hi] = self.sources([lo, hi], Type::B16)?;
                Ok(Inst::Pack16 { d, lo, hi })
            }
            (64, &[lo, hi]) => {
                let [lo, hi] = self.sources([lo, hi], Type::B32)?;
                Ok(Inst::Pack32 { d, lo, hi })
            }
            (64, &[p, q, r, s]) => Ok(Inst::Pack16x4 { d, a: self.sources([p, q, r, s], Type::B16)? }),
            _ => Err(Refusal::Operand),
        }
    }

    fn unpack(&mut self, ty: Type, d: &[Reg], a: Operand) -> Result<Inst> {
        if (ty.bits(), d.len()) == (16, 2) || (ty.bits(), d.len()) == (32, 4) {
            let mut bytes = [TRUE; 4];
            for (slot, reg) in bytes.iter_mut().zip(d) {
                *slot = self.reg(*reg)?;
            }
            return Ok(Inst::Unpack8 { d: bytes, count: d.len() as u8, a: self.any_source(a, ty)? });
        }
        let a = self.source(a, ty)?;
        match (ty.bits(), d) {
            (32, &[lo, hi]) => Ok(Inst::Unpack16 { lo: self.reg(lo)?, hi: self.reg(hi)?, a }),
            (64, &[lo, hi]) => Ok(Inst::Unpack32 { lo: self.reg(lo)?, hi: self.reg(hi)?, a }),
            (64, &[p, q, r, s]) => {
                Ok(Inst::Unpack16x4 { d: [self.reg(p)?, self.reg(q)?, self.reg(r)?, self.reg(s)?], a })
            }
            _ => Err(Refusal::Operand),
        }
    }

    fn int(&mut self, op: IntOp, ty: Type, d: Reg, a: Operand, b: Operand) -> Result<Inst> {
        let shift = matches!(op, IntOp::Shl | IntOp::Shr);
        let (d, a) = (self.reg(d)?, self.source(a, ty)?);
        let b = self.source(b, if shift { Type::U32 } else { ty })?;
        let signed = ty.is_signed();
        Ok(match (Width::of(ty), op) {
            (Width::Pred, _) => Inst::PredOp { op, d, a, b },
            (Width::B16, IntOp::MulWide) => Inst::Wide16 { signed, d, a, b },
            (Width::B32, IntOp::MulWide) => Inst::Wide32 { signed, d, a, b },
            (Width::B16, _) => Inst::Int16 { op, signed, d, a, b },
            (Width::B32, _) => Inst::Int32 { op, signed, d, a, b },
            (Width::B64, _) if shift => Inst::Shift64 { op, signed, d, a, b },
            (Width::B64, _) => Inst::Int64 { op, signed, d, a, b },
        })
    }

    fn mad(&mut self, wide: bool, ty: Type, d: Reg, [a, b, c]: [Operand; 3]) -> Result<Inst> {
        let signed = ty.is_signed();
        let sum = match (ty.bits(), wide) {
            (16, true) => Type::B32,
            (32, true) => Type::B64,
            _ => ty,
        };
        let (d, [a, b], c) = (self.reg(d)?, self.sources([a, b], ty)?, self.source(c, sum)?);
        match (Width::of(ty), wide) {
            (Width::B16, false) => Ok(Inst::Mad16 { d, a, b, c }),
            (Width::B32, false) => Ok(Inst::Mad32 { d, a, b, c }),
            (Width::B64, false) => Ok(Inst::Mad64 { d, a, b, c }),
            (Width::B16, true) => Ok(Inst::MadWide16 { signed, d, a, b, c }),
            (Width::B32, true) => Ok(Inst::MadWide32 { signed, d, a, b, c }),
            _ => Err(Refusal::Operand),
        }
    }

    fn int_unary(&mut self, op: IntUnary, ty: Type, d: Reg, a: Operand) -> Result<Inst> {
        let (d, a) = (self.reg(d)?, self.source(a, ty)?);
        Ok(match (Width::of(ty), op) {
            (Width::Pred, _) => Inst::PredNot { d, a },
            (Width::B16, _) => Inst::Unary16 { op, d, a },
            (Width::B32, _) => Inst::Unary32 { op, d, a },
            (Width::B64, IntUnary::Popc | IntUnary::Clz) => Inst::Count64 { leading: op == IntUnary::Clz, d, a },
            (Width::B64, _) => Inst::Unary64 { op, d, a },
        })
    }
}

fn take(used: &mut u32) -> Slot {
    let slot = *used;
    *used += 1;
    // Slots beyond 16 bits are refused once decoding is over, before anything runs.
    slot as Slot
}
