//! Arithmetic, comparison, conversion.

use super::kernel::Scope;
use super::lexer::TokenKind;
use super::mods::Mods;
use super::{Parser, Result};
use crate::ast::{Approx, Cmp, FloatOp, FloatUnary, IntOp, IntUnary, MixedOp, Op, Operand, Reg, Round, Type};

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
        let xorsign = m.eat("xorsign");
        if xorsign {
            m.need("abs", "`.xorsign.abs`")?;
        }
        let ty = m.ty()?;
        if let (Some(mixed), false, false, false) = (MixedOp::from_name(m.opcode.text), ftz, nan, xorsign)
            && let Some(from) = m.mixed(ty)
        {
            m.end()?;
            let (d, a) = self.two(scope)?;
            let c = self.next_operand(scope)?;
            return Ok(Op::Mixed { op: mixed, from, round, sat, d, a, b: None, c });
        }
        m.end()?;
        let (d, a) = self.two(scope)?;
        let b = self.next_operand(scope)?;
        Ok(Op::Float { op, ty, round, ftz, sat, nan, xorsign, d, a, b })
    }

    pub(super) fn fma(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let round = m.round();
        let (ftz, sat, relu) = (m.eat("ftz"), m.eat("sat"), m.eat("relu"));
        let ty = m.ty()?;
        let mixed = if ftz || relu { None } else { m.mixed(ty) };
        m.end()?;
        let (d, a) = self.two(scope)?;
        let (b, c) = (self.next_operand(scope)?, self.next_operand(scope)?);
        if let Some(from) = mixed {
            return Ok(Op::Mixed { op: MixedOp::Fma, from, round, sat, d, a, b: Some(b), c });
        }
        Ok(Op::Fma { ty, round, ftz, sat, relu, d, a, b, c })
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
        // The manual writes the two in either order; printed is this one.
        let early = m.eat("relu");
        let satfinite = m.eat("satfinite");
        let relu = early || m.eat("relu");
        let to = m.ty()?;
        let pair = to.is_narrow_pair() || matches!(to, Type::F16x2 | Type::Bf16x2);
        if let (Some(round), true, false, false) = (round, pair && m.next_is("f32"), ftz, sat) {
            m.need("f32", "`.f32`")?;
            m.end()?;
            let (d, hi) = self.two(scope)?;
            let lo = self.next_operand(scope)?;
            let random = if round == Round::Rs { Some(self.next_operand(scope)?) } else { None };
            return Ok(Op::CvtPack { round, satfinite, relu, to, d, hi, lo, random });
        }
        let from = m.ty()?;
        m.end()?;
        let (d, a) = self.two(scope)?;
        Ok(Op::Cvt { round, ftz, sat, satfinite, relu, to, from, d, a })
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
