//! Reads PTX text: a hand-written lexer and recursive descent over exactly the subset the tree holds.
//!
//! What is outside the subset is an error that points at line and column; nothing is skipped or
//! guessed. Text from strangers is bounded (see [`Limits`]) and never panics.
//!
//! Deliberately missing: `.func`, nested blocks, module-scope variables, `.pragma` and debug
//! sections, decimal float literals (bits are written `0fXXXXXXXX`), octal and binary integers.

mod arith;
mod error;
mod instruction;
mod kernel;
mod lexer;
mod memory;
mod mods;
mod operand;
mod warp;

pub use error::{ParseError, ParseErrorKind};
pub use lexer::MAX_NAME;

use crate::ast::{Module, Pos};
use lexer::{Lexer, Token, TokenKind};

/// How much a text may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text.
    pub text: usize,
    /// Kernels in a module.
    pub kernels: usize,
    /// Registers over all kernels of a module.
    pub registers: usize,
    /// Labels and instructions over all kernels of a module.
    pub statements: usize,
    /// Parameters, and shared arrays, of one kernel.
    pub variables: usize,
}

impl Limits {
    /// Far above any kernel written by hand or by the builder; about 300 MB of tree at most.
    pub const DEFAULT: Limits =
        Limits { text: 16 << 20, kernels: 1024, registers: 1 << 18, statements: 1 << 20, variables: 256 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Parses a module and validates it.
///
/// # Errors
/// The first thing in the text that is not valid PTX of the subset, with its place.
///
/// # Examples
/// ```
/// let err = ptx::parse(".version 7.0\n.target sm_80\n.address_size 32\n").unwrap_err();
/// assert_eq!((err.line, err.column), (3, 15));
/// assert_eq!(err.token, "32");
/// ```
pub fn parse(text: &str) -> Result<Module, ParseError> {
    parse_with(text, &Limits::DEFAULT)
}

/// Parses a module under the given limits.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(text: &str, limits: &Limits) -> Result<Module, ParseError> {
    if text.len() > limits.text {
        return Err(ParseError {
            line: 1,
            column: 1,
            token: String::new(),
            kind: ParseErrorKind::TooMuch { what: "bytes of text", limit: limits.text },
        });
    }
    Parser::new(text, limits)?.module()
}

type Result<T, E = ParseError> = std::result::Result<T, E>;

/// Token stream with one token of look-ahead, and what has been used of the limits.
struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token<'t>,
    limits: Limits,
    registers: usize,
    statements: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, limits: &Limits) -> Result<Self> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Parser { lexer, token, limits: *limits, registers: 0, statements: 0 })
    }

    /// The current token; the next becomes current.
    fn advance(&mut self) -> Result<Token<'t>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn at(&self, kind: TokenKind) -> bool {
        self.token.kind == kind
    }

    fn at_punct(&self, c: char) -> bool {
        self.token.kind == TokenKind::Punct(c)
    }

    fn at_directive(&self, name: &str) -> bool {
        self.token.kind == TokenKind::Dot && self.token.text == name
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T> {
        Err(ParseError::at(&self.token, ParseErrorKind::Unexpected { expected }))
    }

    fn eat_punct(&mut self, c: char) -> Result<bool> {
        let found = self.at_punct(c);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn punct(&mut self, c: char, expected: &'static str) -> Result<()> {
        if self.eat_punct(c)? { Ok(()) } else { self.unexpected(expected) }
    }

    fn directive(&mut self, name: &str, expected: &'static str) -> Result<()> {
        if self.at_directive(name) {
            self.advance()?;
            Ok(())
        } else {
            self.unexpected(expected)
        }
    }

    /// An unsigned decimal or hexadecimal number.
    fn u32(&mut self, expected: &'static str) -> Result<u32> {
        let TokenKind::Int(value) = self.token.kind else {
            return self.unexpected(expected);
        };
        let Ok(value) = u32::try_from(value) else {
            return Err(ParseError::at(&self.token, ParseErrorKind::NumberRange));
        };
        self.advance()?;
        Ok(value)
    }

    fn name(&mut self, expected: &'static str) -> Result<Token<'t>> {
        if self.at(TokenKind::Word) { self.advance() } else { self.unexpected(expected) }
    }

    fn module(mut self) -> Result<Module> {
        let header = "`.version`, `.target` and `.address_size` at the start of the text";
        self.directive(".version", header)?;
        let major = self.u32("a version such as 7.0")?;
        let minor = self.token.text.strip_prefix('.').and_then(number);
        let (TokenKind::Dot, Some(minor)) = (self.token.kind, minor) else {
            return self.unexpected("a version such as 7.0");
        };
        self.advance()?;
        self.directive(".target", header)?;
        let target = self.token.text.strip_prefix("sm_").and_then(number);
        let (TokenKind::Word, Some(target)) = (self.token.kind, target) else {
            return self.unexpected("a target such as sm_80");
        };
        self.advance()?;
        self.directive(".address_size", header)?;
        if self.token.kind != TokenKind::Int(64) {
            return self.unexpected("64");
        }
        self.advance()?;
        let mut module = Module { version: (major, minor), target, kernels: Vec::new() };
        crate::validate::header(&module).map_err(|defect| ParseError {
            line: 1,
            column: 1,
            token: ".version".to_owned(),
            kind: ParseErrorKind::Invalid(Box::new(defect)),
        })?;
        while !self.at(TokenKind::End) {
            if module.kernels.len() == self.limits.kernels {
                return Err(self.too_much("kernels", self.limits.kernels));
            }
            let name = self.kernel_head()?;
            if module.kernels.iter().any(|k| k.name == name.text) {
                return Err(ParseError::at(&name, ParseErrorKind::DuplicateName));
            }
            let kernel = self.kernel(name)?;
            module.kernels.push(kernel);
        }
        if let Some(error) = crate::validate::module_defects(&module).into_iter().next() {
            let Pos { line, column } = error.pos;
            let token = error.defect.opcode().unwrap_or_default().to_owned();
            return Err(ParseError { line, column, token, kind: ParseErrorKind::Invalid(Box::new(error.defect)) });
        }
        Ok(module)
    }

    fn too_much(&self, what: &'static str, limit: usize) -> ParseError {
        ParseError::at(&self.token, ParseErrorKind::TooMuch { what, limit })
    }

    fn pos(&self) -> Pos {
        self.token.pos
    }
}

/// A decimal number without sign or leading zero, as versions and targets are written.
fn number(text: &str) -> Option<u32> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    canonical.then(|| text.parse().ok()).flatten()
}
