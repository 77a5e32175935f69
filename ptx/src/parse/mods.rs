//! The dotted modifiers of an opcode, consumed in the order PTX prescribes.

use super::lexer::{Token, TokenKind};
use super::{ParseError, ParseErrorKind, Parser, Result};
use crate::ast::{Round, Type};

/// More than any instruction has.
const MAX_MODIFIERS: usize = 16;

/// An opcode and what is left of its modifiers.
pub(super) struct Mods<'t> {
    pub(super) opcode: Token<'t>,
    mods: Vec<Token<'t>>,
    next: usize,
    /// The token after the opcode: where a missing modifier is reported.
    after: Token<'t>,
}

impl<'t> Mods<'t> {
    /// Reads the modifiers that follow an opcode.
    pub(super) fn read(parser: &mut Parser<'t>, opcode: Token<'t>) -> Result<Self> {
        let mut mods = Vec::new();
        while parser.at(TokenKind::Dot) {
            if mods.len() == MAX_MODIFIERS {
                return Err(parser.too_much("modifiers of an instruction", MAX_MODIFIERS));
            }
            mods.push(parser.advance()?);
        }
        Ok(Mods { opcode, mods, next: 0, after: parser.token })
    }

    fn peek(&self) -> Option<&'t str> {
        self.mods.get(self.next).map(|t| &t.text[1..])
    }

    /// The error of an unexpected modifier, or of its absence.
    pub(super) fn wrong<T>(&self, expected: &'static str) -> Result<T> {
        let token = self.mods.get(self.next).unwrap_or(&self.after);
        Err(ParseError::at(token, ParseErrorKind::Modifier { opcode: self.opcode.text.to_owned(), expected }))
    }

    /// Whether this modifier comes next; leaves it.
    pub(super) fn next_is(&self, name: &str) -> bool {
        self.peek() == Some(name)
    }

    /// Whether this modifier comes next; consumes it.
    pub(super) fn eat(&mut self, name: &str) -> bool {
        let found = self.peek() == Some(name);
        self.next += usize::from(found);
        found
    }

    /// A modifier that must come next.
    pub(super) fn need(&mut self, name: &str, expected: &'static str) -> Result<()> {
        if self.eat(name) { Ok(()) } else { self.wrong(expected) }
    }

    /// An optional modifier out of a set.
    pub(super) fn optional<T>(&mut self, from: impl Fn(&str) -> Option<T>) -> Option<T> {
        let value = from(self.peek()?)?;
        self.next += 1;
        Some(value)
    }

    /// A modifier out of a set.
    pub(super) fn one<T>(&mut self, from: impl Fn(&str) -> Option<T>, expected: &'static str) -> Result<T> {
        match self.optional(from) {
            Some(value) => Ok(value),
            None => self.wrong(expected),
        }
    }

    pub(super) fn ty(&mut self) -> Result<Type> {
        self.one(Type::from_name, "a type such as .u32")
    }

    pub(super) fn round(&mut self) -> Option<Round> {
        self.optional(Round::from_name)
    }

    /// Whether the last modifier is a float type, which tells `add.f32` from `add.u32`.
    pub(super) fn ends_in_float(&self) -> bool {
        self.mods.last().and_then(|t| Type::from_name(&t.text[1..])).is_some_and(Type::is_float)
    }

    /// The operand type of an instruction that mixes an f32 result with 16-bit operands, if this is one.
    pub(super) fn mixed(&mut self, result: Type) -> Option<Type> {
        let halves = |name: &str| Type::from_name(name).filter(|ty| matches!(ty, Type::F16 | Type::Bf16));
        if result == Type::F32 { self.optional(halves) } else { None }
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<()> {
        if self.next == self.mods.len() { Ok(()) } else { self.wrong("no further modifier") }
    }
}
