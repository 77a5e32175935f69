//! Operands against the type an instruction reads or writes there.

use super::Defect;
use crate::ast::{Addr, Base, Kernel, Operand, Reg, Space, Type};

/// The kernel whose tables operands index.
#[derive(Clone, Copy)]
pub(super) struct Check<'k>(pub(super) &'k Kernel);

impl<'k> Check<'k> {
    fn declared(self, reg: Reg) -> Result<(&'k str, Type), Defect> {
        match self.0.regs.get(reg.0 as usize) {
            Some(decl) => Ok((&decl.name, decl.ty)),
            None => Err(Defect::NoSuch { what: "register", index: reg.0 }),
        }
    }

    /// A register of this type.
    pub(super) fn reg(self, operand: &'static str, reg: Reg, needs: Type) -> Result<(), Defect> {
        self.reg_if(operand, reg, needs, |declared| needs.accepts(declared))
    }

    /// A register of this type or, for integers and bits, a wider one. (Registers of 8 bits hold bits, not numbers.)
    pub(super) fn wide_reg(self, operand: &'static str, reg: Reg, needs: Type) -> Result<(), Defect> {
        let plain = |ty: Type| ty.is_bits() || ty.is_integer();
        self.reg_if(operand, reg, needs, |declared| {
            let fits = needs.accepts(declared) || (plain(needs) && plain(declared) && declared.bits() > needs.bits());
            fits && (declared != Type::B8 || needs == Type::B8)
        })
    }

    fn reg_if(self, operand: &'static str, reg: Reg, needs: Type, fits: impl Fn(Type) -> bool) -> Result<(), Defect> {
        let (name, declared) = self.declared(reg)?;
        if fits(declared) {
            return Ok(());
        }
        Err(Defect::RegisterType { operand, register: name.to_owned(), declared, needs })
    }

    /// A register or immediate of this type.
    pub(super) fn source(self, operand: &'static str, value: Operand, needs: Type) -> Result<(), Defect> {
        match value {
            Operand::Reg(reg) => self.reg(operand, reg, needs),
            _ => immediate(operand, value, needs),
        }
    }

    /// A register of this type or wider, or an immediate.
    pub(super) fn wide_source(self, operand: &'static str, value: Operand, needs: Type) -> Result<(), Defect> {
        match value {
            Operand::Reg(reg) => self.wide_reg(operand, reg, needs),
            _ => immediate(operand, value, needs),
        }
    }

    /// Registers that one instruction writes.
    pub(super) fn distinct(self, regs: &[Reg]) -> Result<(), Defect> {
        for (i, reg) in regs.iter().enumerate() {
            if regs[..i].contains(reg) {
                let register = self.declared(*reg)?.0.to_owned();
                return Err(Defect::WrittenTwice { register });
            }
        }
        Ok(())
    }

    /// An address of `bytes` bytes in a state space.
    pub(super) fn addr(self, space: Space, addr: Addr, bytes: u32) -> Result<(), Defect> {
        if i32::try_from(addr.offset).is_err() {
            return Err(Defect::OffsetRange { offset: addr.offset });
        }
        match (addr.base, space) {
            (Base::Reg(reg), Space::Global | Space::Shared) => {
                let (name, declared) = self.declared(reg)?;
                let plain = declared.is_bits() || declared.is_integer();
                let (width, needs) = match space {
                    Space::Global => (declared.bits() == 64, "64 bits"),
                    _ => (matches!(declared.bits(), 32 | 64), "32 or 64 bits"),
                };
                if plain && width {
                    return Ok(());
                }
                Err(Defect::AddressRegister { register: name.to_owned(), declared, space, needs })
            }
            (Base::Shared(index), Space::Shared) => match self.0.shared.get(index as usize) {
                None => Err(Defect::NoSuch { what: "shared array", index }),
                Some(s) => inside(&s.name, s.bytes, s.align, addr.offset, bytes),
            },
            (Base::Param(index), Space::Param) => match self.0.params.get(index as usize) {
                None => Err(Defect::NoSuch { what: "parameter", index }),
                Some(p) => inside(&p.name, p.ty.bytes(), p.ty.bytes(), addr.offset, bytes),
            },
            _ => Err(Defect::AddressSpace { space }),
        }
    }
}

/// A constant address against the variable it starts from.
fn inside(name: &str, size: u32, align: u32, offset: i64, bytes: u32) -> Result<(), Defect> {
    if offset < 0 || offset + i64::from(bytes) > i64::from(size) {
        return Err(Defect::OutsideVariable { name: name.to_owned(), offset, bytes, size });
    }
    if bytes > align || offset % i64::from(bytes) != 0 {
        return Err(Defect::Misaligned { name: name.to_owned(), offset, bytes });
    }
    Ok(())
}

fn immediate(operand: &'static str, value: Operand, needs: Type) -> Result<(), Defect> {
    let what = match value {
        Operand::Int(value) if needs.is_bits() || needs.is_integer() => {
            let fits = match needs.bits() {
                64 => true,
                bits => (-(1_i64 << (bits - 1))..1_i64 << bits).contains(&value),
            };
            return if fits { Ok(()) } else { Err(Defect::ImmediateRange { operand, value, ty: needs }) };
        }
        Operand::F32(_) if matches!(needs, Type::F32 | Type::B32) => return Ok(()),
        Operand::F64(_) if matches!(needs, Type::F64 | Type::B64) => return Ok(()),
        Operand::Int(_) => "an integer",
        Operand::F32(_) => "an f32",
        Operand::F64(_) => "an f64",
        Operand::Special(_) => "a special register",
        Operand::Shared(_) => "the address of an array",
        Operand::Reg(_) => "a register",
    };
    Err(Defect::OperandKind { operand, what, needs })
}
