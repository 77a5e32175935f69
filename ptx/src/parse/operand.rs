//! Operands, addresses and vectors.

use super::kernel::{Name, Scope};
use super::lexer::TokenKind;
use super::{ParseError, ParseErrorKind, Parser, Result};
use crate::ast::{Addr, Base, Operand, Reg, Special};

/// The widest vector of any instruction.
const MAX_VECTOR: usize = 8;

impl Parser<'_> {
    pub(super) fn comma(&mut self) -> Result<()> {
        self.punct(',', "`,` and another operand")
    }

    /// A comma and an operand.
    pub(super) fn next_operand(&mut self, scope: &Scope<'_>) -> Result<Operand> {
        self.comma()?;
        self.operand(scope)
    }

    pub(super) fn operand(&mut self, scope: &Scope<'_>) -> Result<Operand> {
        match self.token.kind {
            TokenKind::F32(bits) => {
                self.advance()?;
                Ok(Operand::F32(bits))
            }
            TokenKind::F64(bits) => {
                self.advance()?;
                Ok(Operand::F64(bits))
            }
            TokenKind::Int(_) | TokenKind::Punct('-') => {
                let value = self.integer()?;
                if self.at(TokenKind::Dot) {
                    // A decimal fraction such as 1.0.
                    return Err(ParseError::at(&self.token, ParseErrorKind::Number));
                }
                Ok(Operand::Int(value))
            }
            TokenKind::Word => {
                let token = self.advance()?;
                match scope.names.get(token.text) {
                    Some(Name::Reg(index)) => return Ok(Operand::Reg(Reg(*index))),
                    Some(Name::Shared(index)) => return Ok(Operand::Shared(*index)),
                    Some(Name::Param(_) | Name::Label(_)) => {
                        let expected = "a register, an immediate or a shared array";
                        return Err(ParseError::at(&token, ParseErrorKind::WrongKind { expected }));
                    }
                    None => {}
                }
                let special = if self.at(TokenKind::Dot) {
                    let full = format!("{}{}", token.text, self.token.text);
                    Special::from_name(&full)
                } else {
                    Special::from_name(token.text)
                };
                match special {
                    Some(special) => {
                        if self.at(TokenKind::Dot) {
                            self.advance()?;
                        }
                        Ok(Operand::Special(special))
                    }
                    None => Err(ParseError::at(&token, ParseErrorKind::Undeclared)),
                }
            }
            _ => self.unexpected("a register or an immediate"),
        }
    }

    /// `-`? integer, in 64 bits; a value of 2^63 and more stands for its bits.
    fn integer(&mut self) -> Result<i64> {
        let negative = self.eat_punct('-')?;
        let TokenKind::Int(magnitude) = self.token.kind else {
            return self.unexpected("an integer");
        };
        if negative && magnitude > 1 << 63 {
            return Err(ParseError::at(&self.token, ParseErrorKind::NumberRange));
        }
        self.advance()?;
        let bits = magnitude.cast_signed();
        Ok(if negative { bits.wrapping_neg() } else { bits })
    }

    /// `[base]`, `[base+offset]`
    pub(super) fn addr(&mut self, scope: &Scope<'_>) -> Result<Addr> {
        self.punct('[', "`[` and an address")?;
        let token = self.name("a register, a shared array or a parameter")?;
        let base = match scope.names.get(token.text) {
            Some(Name::Reg(index)) => Base::Reg(Reg(*index)),
            Some(Name::Shared(index)) => Base::Shared(*index),
            Some(Name::Param(index)) => Base::Param(*index),
            Some(Name::Label(_)) => {
                let expected = "a register, a shared array or a parameter";
                return Err(ParseError::at(&token, ParseErrorKind::WrongKind { expected }));
            }
            None => return Err(ParseError::at(&token, ParseErrorKind::Undeclared)),
        };
        let offset = if self.eat_punct('+')? { self.integer()? } else { 0 };
        self.punct(']', "`]`, or `+` and an offset (a negative one is written +-4)")?;
        Ok(Addr { base, offset })
    }

    pub(super) fn next_addr(&mut self, scope: &Scope<'_>) -> Result<Addr> {
        self.comma()?;
        self.addr(scope)
    }

    /// `{%a, %b}`
    pub(super) fn regs(&mut self, scope: &Scope<'_>) -> Result<Vec<Reg>> {
        self.vector(|p| p.reg(scope))
    }

    pub(super) fn next_regs(&mut self, scope: &Scope<'_>) -> Result<Vec<Reg>> {
        self.comma()?;
        self.regs(scope)
    }

    /// `{%a, 0}`
    pub(super) fn operands(&mut self, scope: &Scope<'_>) -> Result<Vec<Operand>> {
        self.vector(|p| p.operand(scope))
    }

    fn vector<T>(&mut self, element: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.punct('{', "`{` and a vector")?;
        let mut elements = vec![element(self)?];
        while self.eat_punct(',')? {
            if elements.len() == MAX_VECTOR {
                return Err(self.too_much("elements of a vector", MAX_VECTOR));
            }
            elements.push(element(self)?);
        }
        self.punct('}', "`,` or `}`")?;
        Ok(elements)
    }
}
