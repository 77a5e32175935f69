//! Warp-level instructions and barriers.

use super::kernel::Scope;
use super::lexer::Token;
use super::mods::Mods;
use super::{ParseError, ParseErrorKind, Parser, Result};
use crate::ast::{MmaShape, Op, ShflMode, VoteMode};

impl<'t> Parser<'t> {
    /// The number of registers in braces against the modifier that states it.
    pub(super) fn same_count(&self, need: usize, got: usize, place: &Token<'_>) -> Result<()> {
        if need == got {
            return Ok(());
        }
        let expected = match need {
            1 => "one register in the braces",
            2 => "two elements in the braces",
            _ => "four elements in the braces",
        };
        Err(ParseError::at(place, ParseErrorKind::Unexpected { expected }))
    }

    pub(super) fn shfl(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        m.need("sync", "`.sync`")?;
        let mode = m.one(ShflMode::from_name, "`.up`, `.down`, `.bfly` or `.idx`")?;
        m.need("b32", "`.b32`")?;
        m.end()?;
        let d = self.reg(scope)?;
        let p = if self.eat_punct('|')? { Some(self.reg(scope)?) } else { None };
        let (a, b) = (self.next_operand(scope)?, self.next_operand(scope)?);
        let (c, mask) = (self.next_operand(scope)?, self.next_operand(scope)?);
        Ok(Op::Shfl { mode, d, p, a, b, c, mask })
    }

    pub(super) fn vote(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        m.need("sync", "`.sync`")?;
        let mode = m.one(VoteMode::from_name, "`.all`, `.any`, `.uni` or `.ballot`")?;
        match mode {
            VoteMode::Ballot => m.need("b32", "`.b32`")?,
            _ => m.need("pred", "`.pred`")?,
        }
        m.end()?;
        let d = self.reg(scope)?;
        self.comma()?;
        let negate = self.eat_punct('!')?;
        let p = self.reg(scope)?;
        let mask = self.next_operand(scope)?;
        Ok(Op::Vote { mode, d, p, negate, mask })
    }

    pub(super) fn bar(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        if m.eat("warp") {
            m.need("sync", "`.sync`")?;
            m.end()?;
            let mask = self.operand(scope)?;
            return Ok(Op::WarpSync { mask });
        }
        m.need("sync", "`.sync` or `.warp.sync`")?;
        m.end()?;
        let id = self.u32("the number of a barrier")?;
        Ok(Op::BarSync { id })
    }

    pub(super) fn ldmatrix(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        m.need("sync", "`.sync.aligned.m8n8`")?;
        m.need("aligned", "`.sync.aligned.m8n8`")?;
        m.need("m8n8", "`.m8n8`")?;
        let count = m.one(
            |name| match name {
                "x1" => Some(1),
                "x2" => Some(2),
                "x4" => Some(4),
                _ => None,
            },
            "`.x1`, `.x2` or `.x4`",
        )?;
        let trans = m.eat("trans");
        m.need("shared", "`.shared.b16`")?;
        m.need("b16", "`.b16`")?;
        m.end()?;
        let place = self.token;
        let d = self.regs(scope)?;
        self.same_count(count, d.len(), &place)?;
        let addr = self.next_addr(scope)?;
        Ok(Op::LdMatrix { trans, d, addr })
    }

    pub(super) fn mma(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        m.need("sync", "`.sync.aligned`")?;
        m.need("aligned", "`.sync.aligned`")?;
        let shape = m.one(MmaShape::from_name, "a shape such as .m16n8k16")?;
        m.need("row", "`.row.col`")?;
        m.need("col", "`.row.col`")?;
        let (dty, aty, bty, cty) = (m.ty()?, m.ty()?, m.ty()?, m.ty()?);
        m.end()?;
        let d = self.regs(scope)?;
        let (a, b) = (self.next_regs(scope)?, self.next_regs(scope)?);
        let c = self.next_regs(scope)?;
        Ok(Op::Mma { shape, dty, aty, bty, cty, d, a, b, c })
    }
}
