//! Loads, stores, address conversion, asynchronous copies, atomics.

use super::kernel::Scope;
use super::mods::Mods;
use super::{Parser, Result};
use crate::ast::{AtomOp, Op, Space};

/// `.v2`, `.v4`, or one element without either.
fn vector(m: &mut Mods<'_>) -> usize {
    let wide = m.optional(|name| match name {
        "v2" => Some(2),
        "v4" => Some(4),
        _ => None,
    });
    wide.unwrap_or(1)
}

impl<'t> Parser<'t> {
    pub(super) fn ld(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let space = m.one(Space::from_name, "`.param`, `.global` or `.shared`")?;
        let nc = m.eat("nc");
        let count = vector(m);
        let ty = m.ty()?;
        m.end()?;
        let place = self.token;
        let d = if count == 1 { vec![self.reg(scope)?] } else { self.regs(scope)? };
        self.same_count(count, d.len(), &place)?;
        let addr = self.next_addr(scope)?;
        Ok(Op::Ld { space, nc, ty, d, addr })
    }

    pub(super) fn st(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let space = m.one(Space::from_name, "`.global` or `.shared`")?;
        let count = vector(m);
        let ty = m.ty()?;
        m.end()?;
        let addr = self.addr(scope)?;
        self.comma()?;
        let place = self.token;
        let a = if count == 1 { vec![self.operand(scope)?] } else { self.operands(scope)? };
        self.same_count(count, a.len(), &place)?;
        Ok(Op::St { space, ty, addr, a })
    }

    pub(super) fn cvta(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        m.need("to", "`.to`: only generic addresses are converted")?;
        let space = m.one(Space::from_name, "`.global` or `.shared`")?;
        m.need("u64", "`.u64`")?;
        m.end()?;
        let d = self.reg(scope)?;
        let a = self.next_operand(scope)?;
        Ok(Op::Cvta { space, d, a })
    }

    pub(super) fn cp_async(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        m.need("async", "`.async`")?;
        if m.eat("commit_group") {
            m.end()?;
            return Ok(Op::CpAsyncCommit);
        }
        if m.eat("wait_all") {
            m.end()?;
            return Ok(Op::CpAsyncWait { n: None });
        }
        if m.eat("wait_group") {
            m.end()?;
            let n = self.u32("a number of groups")?;
            return Ok(Op::CpAsyncWait { n: Some(n) });
        }
        let cg = m.eat("cg");
        if !cg {
            m.need("ca", "`.ca`, `.cg`, `.commit_group`, `.wait_group` or `.wait_all`")?;
        }
        m.need("shared", "`.shared.global`")?;
        m.need("global", "`.shared.global`")?;
        m.end()?;
        let dst = self.addr(scope)?;
        let src = self.next_addr(scope)?;
        self.comma()?;
        let bytes = self.u32("4, 8 or 16 bytes")?;
        let src_size = if self.at_punct(',') { Some(self.next_operand(scope)?) } else { None };
        Ok(Op::CpAsync { cg, bytes, dst, src, src_size })
    }

    pub(super) fn atom(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        let space = m.one(Space::from_name, "`.global` or `.shared`")?;
        let op = m.one(AtomOp::from_name, "an atomic operation such as .add")?;
        if m.ends_in_float() {
            return m.wrong("an integer type: the sum of float atomics depends on the order in which threads arrive");
        }
        let ty = m.ty()?;
        m.end()?;
        let d = self.reg(scope)?;
        let addr = self.next_addr(scope)?;
        let a = self.next_operand(scope)?;
        let b = if self.at_punct(',') { Some(self.next_operand(scope)?) } else { None };
        Ok(Op::Atom { space, op, ty, d, addr, a, b })
    }
}
