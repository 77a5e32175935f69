//! From the opcode to the function that knows its modifiers and operands.

use super::kernel::Scope;
use super::mods::Mods;
use super::{ParseError, ParseErrorKind, Parser, Result};
use crate::ast::{IntOp, Op};

/// Every opcode of the subset.
pub(super) const OPCODES: &[&str] = &[
    "abs", "add", "and", "atom", "bar", "bfe", "bra", "brev", "clz", "cos", "cp", "cvt", "cvta", "div", "ex2", "exit",
    "fma", "ld", "ldmatrix", "lg2", "mad", "max", "min", "mma", "mov", "mul", "neg", "not", "or", "popc", "prmt",
    "rcp", "rem", "ret", "rsqrt", "selp", "setp", "shfl", "shl", "shr", "sin", "sqrt", "st", "sub", "tanh", "vote",
    "xor",
];

impl<'t> Parser<'t> {
    /// Modifiers and operands of any instruction but `bra`.
    pub(super) fn instruction(&mut self, m: &mut Mods<'t>, scope: &Scope<'_>) -> Result<Op> {
        match m.opcode.text {
            "mov" => self.mov(m, scope),
            "ld" => self.ld(m, scope),
            "st" => self.st(m, scope),
            "atom" => self.atom(m, scope),
            "cp" => self.cp_async(m, scope),
            "cvta" => self.cvta(m, scope),
            "add" | "sub" | "mul" | "div" | "min" | "max" if m.ends_in_float() => self.float(m, scope),
            "neg" | "abs" if m.ends_in_float() => self.float_unary(m, scope),
            "rcp" | "sqrt" => self.rcp_or_sqrt(m, scope),
            "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => self.approx(m, scope),
            "fma" => self.fma(m, scope),
            "mul" => {
                let op = m.one(
                    |name| match name {
                        "lo" => Some(IntOp::MulLo),
                        "hi" => Some(IntOp::MulHi),
                        "wide" => Some(IntOp::MulWide),
                        _ => None,
                    },
                    "`.lo`, `.hi` or `.wide` before an integer type, or a float type",
                )?;
                self.int(op, m, scope)
            }
            "mad" => self.mad(m, scope),
            "not" | "neg" | "abs" | "popc" | "clz" | "brev" => self.int_unary(m, scope),
            "setp" => self.setp(m, scope),
            "selp" => self.selp(m, scope),
            "cvt" => self.cvt(m, scope),
            "prmt" => self.prmt(m, scope),
            "bfe" => self.bfe(m, scope),
            "shfl" => self.shfl(m, scope),
            "vote" => self.vote(m, scope),
            "bar" => self.bar(m, scope),
            "ldmatrix" => self.ldmatrix(m, scope),
            "mma" => self.mma(m, scope),
            "ret" => m.end().map(|()| Op::Ret),
            "exit" => m.end().map(|()| Op::Exit),
            name => match IntOp::from_name(name) {
                Some(op) => self.int(op, m, scope),
                None => Err(ParseError::at(&m.opcode, ParseErrorKind::UnknownOpcode)),
            },
        }
    }
}
