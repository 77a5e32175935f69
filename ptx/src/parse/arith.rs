//! Arithmetic, comparison, conversion.

use super::kernel::Scope;
use super::lexer::TokenKind;
use super::mods::Mods;
use super::{Parser, Result};
use crate::ast::{Approx, Cmp, FloatOp, FloatUnary, IntOp, IntUnary, Op, Operand, Reg, Type};

impl<'t> Parser<'t> {
    /// `d, a`
    fn two(&mut self, scope: &Scope<'_>) -> Result<(Reg, Operand)> {
        Ok((self.reg(scope)?, self.next_operand(scope)?))
    }

    pub(super) fn mov(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let ty = m.ty()?;
        m.end()?;
        if self.at(TokenKind::Punct('{')) {
            let d = self.regs(scope)?;
            let a = self.next_operand(scope)?;
            return Ok(Op::Unpack { ty, d, a });
        }
        let d = self.reg(scope)?;
        self.comma()?;
        if self.at(TokenKind::Punct('{')) {
            let a = self.operands(scope)?;
            return Ok(Op::Pack { ty, d, a });
        }
        let a = self.operand(scope)?;
        Ok(Op::Mov { ty, d, a })
    }

    pub(super) fn int(&mut self, op: IntOp, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        let b = self.next_operand(scope)?;
        Ok(Op::Int { op, ty, d, a, b })
    }

    pub(super) fn int_unary(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let Some(op) = IntUnary::from_name(m.opcode.text) else {
            return m.wrong("another opcode");
        };
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        Ok(Op::IntUnary { op, ty, d, a })
    }

    pub(super) fn mad(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let wide = m.eat("wide");
        if !wide {
            m.need("lo", "`.lo` or `.wide`, and an integer type (floats use fma)")?;
        }
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        let (b, c) = (self.next_operand(scope)?, self.next_operand(scope)?);
        Ok(Op::Mad { wide, ty, d, a, b, c })
    }

    pub(super) fn float(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let Some(op) = FloatOp::from_name(m.opcode.text) else {
            return m.wrong("another opcode");
        };
        let round = m.round();
        let (ftz, sat, nan) = (m.eat("ftz"), m.eat("sat"), m.eat("NaN"));
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        let b = self.next_operand(scope)?;
        Ok(Op::Float { op, ty, round, ftz, sat, nan, d, a, b })
    }

    pub(super) fn fma(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let round = m.round();
        let (ftz, sat) = (m.eat("ftz"), m.eat("sat"));
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        let (b, c) = (self.next_operand(scope)?, self.next_operand(scope)?);
        Ok(Op::Fma { ty, round, ftz, sat, d, a, b, c })
    }

    pub(super) fn float_unary(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let Some(op) = FloatUnary::from_name(m.opcode.text) else {
            return m.wrong("another opcode");
        };
        let round = m.round();
        let ftz = m.eat("ftz");
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        Ok(Op::FloatUnary { op, ty, round, ftz, d, a })
    }

    /// `rcp` and `sqrt` exist both correctly rounded and approximate.
    pub(super) fn rcp_or_sqrt(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        if m.next_is("approx") { self.approx(m, scope) } else { self.float_unary(m, scope) }
    }

    pub(super) fn approx(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let Some(f) = Approx::from_name(m.opcode.text) else {
            return m.wrong("another opcode");
        };
        m.need("approx", "`.approx`")?;
        let ftz = m.eat("ftz");
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        Ok(Op::Approx { f, ty, ftz, d, a })
    }

    pub(super) fn setp(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let cmp = m.one(Cmp::from_name, "a comparison such as .lt")?;
        let ftz = m.eat("ftz");
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        let b = self.next_operand(scope)?;
        Ok(Op::Setp { cmp, ty, ftz, d, a, b })
    }

    pub(super) fn selp(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        let b = self.next_operand(scope)?;
        self.comma()?;
        let p = self.reg(scope)?;
        Ok(Op::Selp { ty, d, a, b, p })
    }

    pub(super) fn cvt(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let round = m.round();
        let (ftz, sat) = (m.eat("ftz"), m.eat("sat"));
        let to = m.ty()?;
        if let (Some(round), Type::F16x2 | Type::Bf16x2, false, false) = (round, to, ftz, sat) {
            m.need("f32", "`.f32`: pairs are packed from two f32")?;
            m.end()?;
            let (d, hi) = self.two(scope)?;
            let lo = self.next_operand(scope)?;
            return Ok(Op::CvtPack { round, to, d, hi, lo });
        }
        let from = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        Ok(Op::Cvt { round, ftz, sat, to, from, d, a })
    }

    pub(super) fn prmt(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        m.need("b32", "`.b32`")?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        let (b, sel) = (self.next_operand(scope)?, self.next_operand(scope)?);
        Ok(Op::Prmt { d, a, b, sel })
    }

    pub(super) fn bfe(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let ty = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        let (pos, len) = (self.next_operand(scope)?, self.next_operand(scope)?);
        Ok(Op::Bfe { ty, d, a, pos, len })
    }
}
