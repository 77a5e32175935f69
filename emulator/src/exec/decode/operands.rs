//! Operands: registers, immediates, special registers, addresses.
//!
//! The module has been validated, so kinds, widths and ranges are right; what cannot happen any more decodes to
//! [`Refusal::Operand`] rather than to a panic.

use ptx::ast::{Addr, Base, Guard, Operand, Reg, Space, Special, Type};

use super::{Constant, Decoder, Refusal, Result, take};
use crate::exec::inst::{Any, GlobalAddr, Moved, Place, SharedAddr, Slot, TRUE};
use crate::exec::types::Width;

impl Decoder<'_> {
    /// The predicate slot and polarity of a guard.
    pub(super) fn guard(&self, guard: Option<Guard>) -> Result<(Slot, bool)> {
        match guard {
            None => Ok((TRUE, false)),
            Some(g) => Ok((self.reg(g.reg)?, g.negate)),
        }
    }

    /// The slot of a register, in the file of its width.
    pub(super) fn reg(&self, reg: Reg) -> Result<Slot> {
        let decl = self.kernel.regs.get(reg.0 as usize).ok_or(Refusal::Operand)?;
        // Slots beyond 16 bits are refused once decoding is over, before anything runs.
        let slot = self.slots.of[reg.0 as usize] as Slot;
        // Predicate slots 0 and 1 are the constants.
        Ok(if decl.ty == Type::Pred { slot.wrapping_add(2) } else { slot })
    }

    /// A register whose width differs from case to case.
    pub(super) fn any(&self, reg: Reg) -> Result<Any> {
        let slot = self.reg(reg)?;
        match Width::of(self.kernel.regs[reg.0 as usize].ty) {
            Width::B64 => Ok(Any::B64(slot)),
            Width::B32 => Ok(Any::B32(slot)),
            Width::B16 => Ok(Any::B16(slot)),
            Width::Pred => Err(Refusal::Operand),
        }
    }

    /// The slot of a source of type `ty`.
    pub(super) fn source(&mut self, operand: Operand, ty: Type) -> Result<Slot> {
        let bits = match operand {
            Operand::Reg(reg) => return self.reg(reg),
            Operand::Special(special) => return Ok(self.special(special)),
            Operand::Shared(index) => u64::from(*self.shared.get(index as usize).ok_or(Refusal::Operand)?),
            Operand::Int(value) if ty == Type::Pred => return Ok(if value == 0 { super::FALSE } else { TRUE }),
            Operand::Int(value) => value as u64,
            Operand::F32(bits) => u64::from(bits),
            Operand::F64(bits) => bits,
        };
        Ok(self.constant(match ty.bits() {
            64 => Constant::B64(bits),
            32 => Constant::B32(bits as u32),
            narrow => Constant::B32(bits as u32 & ((1 << narrow) - 1)),
        }))
    }

    /// A source that may be a register wider than `ty`.
    pub(super) fn any_source(&mut self, operand: Operand, ty: Type) -> Result<Any> {
        match operand {
            Operand::Reg(reg) => self.any(reg),
            immediate => {
                let slot = self.source(immediate, ty)?;
                Ok(if ty.bits() == 64 { Any::B64(slot) } else { Any::B32(slot) })
            }
        }
    }

    fn constant(&mut self, constant: Constant) -> Slot {
        let used = &mut self.used[usize::from(matches!(constant, Constant::B64(_)))];
        *self.constant_slots.entry(constant).or_insert_with(|| take(used))
    }

    fn special(&mut self, special: Special) -> Slot {
        match self.special_slots.iter().find(|(known, _)| *known == special) {
            Some(&(_, slot)) => slot,
            None => {
                let slot = take(&mut self.used[0]);
                self.special_slots.push((special, slot));
                slot
            }
        }
    }

    /// Puts registers into the program's lists and returns where they start.
    pub(super) fn list(&mut self, entries: impl IntoIterator<Item = Result<Any>>) -> Result<u32> {
        let start = self.lists.len() as u32;
        for entry in entries {
            let entry = entry?;
            self.lists.push(entry);
        }
        Ok(start)
    }

    /// What a memory instruction moves.
    pub(super) fn moved(&mut self, ty: Type, entries: Vec<Result<Any>>) -> Result<Moved> {
        let count = entries.len() as u8;
        let list = self.list(entries)?;
        let plain = ty.bytes() == 4 && self.lists[list as usize..].iter().all(|r| matches!(r, Any::B32(_)));
        Ok(Moved { element: ty.bytes() as u8, count, signed: ty.is_signed(), plain, list })
    }

    pub(super) fn shared_addr(&mut self, addr: Addr) -> Result<SharedAddr> {
        let offset = addr.offset as u32;
        match addr.base {
            Base::Reg(reg) => Ok(SharedAddr { base: self.any(reg)?, offset }),
            Base::Shared(index) => {
                let start = *self.shared.get(index as usize).ok_or(Refusal::Operand)?;
                let base = Any::B32(self.constant(Constant::B32(start.wrapping_add(offset))));
                Ok(SharedAddr { base, offset: 0 })
            }
            Base::Param(_) => Err(Refusal::Operand),
        }
    }

    pub(super) fn global_addr(&self, addr: Addr) -> Result<GlobalAddr> {
        match addr.base {
            Base::Reg(reg) => Ok(GlobalAddr { base: self.reg(reg)?, offset: addr.offset }),
            _ => Err(Refusal::Operand),
        }
    }

    pub(super) fn place(&mut self, space: Space, addr: Addr) -> Result<Place> {
        match space {
            Space::Global => Ok(Place::Global(self.global_addr(addr)?)),
            Space::Shared => Ok(Place::Shared(self.shared_addr(addr)?)),
            Space::Param => Err(Refusal::Operand),
        }
    }

    /// Offset of a parameter's part among the parameters.
    pub(super) fn param_offset(&self, addr: Addr) -> Result<u32> {
        match addr.base {
            Base::Param(index) => {
                let start = *self.params.get(index as usize).ok_or(Refusal::Operand)?;
                Ok(start.wrapping_add(addr.offset as u32))
            }
            _ => Err(Refusal::Operand),
        }
    }
}
