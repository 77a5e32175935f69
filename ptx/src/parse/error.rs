//! What can be wrong with a text, where, and what would be right.

use std::fmt;

use super::lexer::Token;
use crate::ast::Pos;
use crate::validate::{Defect, ValidateError};

/// A text that is not a module of the subset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line of the offending token, from 1.
    pub line: u32,
    /// Column of the offending token in characters, from 1.
    pub column: u32,
    /// The offending token; empty at the end of the text.
    pub token: String,
    /// What is wrong with it.
    pub kind: ParseErrorKind,
}

/// Kinds of errors in a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Another token belongs here.
    #[error("expected {expected}")]
    Unexpected {
        /// What may stand here.
        expected: &'static str,
    },
    /// A character no token starts with.
    #[error("no token of PTX starts with this character")]
    UnknownCharacter,
    /// `/*` without `*/`.
    #[error("this comment is never closed")]
    UnclosedComment,
    /// Identifier or directive beyond [`super::MAX_NAME`].
    #[error("a name may have at most {} bytes", super::MAX_NAME)]
    NameTooLong,
    /// Neither decimal nor hexadecimal.
    #[error("not a decimal or 0x-prefixed hexadecimal integer (write an f32 as 0f and the eight digits of its bits)")]
    Number,
    /// An integer of more bits than there are.
    #[error("this number is out of range here")]
    NumberRange,
    /// A float literal of the wrong length.
    #[error("float bits need exactly {count} hexadecimal digits")]
    FloatDigits {
        /// Digits of the type.
        count: usize,
    },
    /// An opcode outside the subset.
    #[error("unknown opcode; the subset has: {}", super::instruction::OPCODES.join(" "))]
    UnknownOpcode,
    /// A modifier that the opcode does not have at this place.
    #[error("modifier does not belong here: `{opcode}` expects {expected}")]
    Modifier {
        /// The opcode.
        opcode: String,
        /// What may follow.
        expected: &'static str,
    },
    /// A register, array, parameter or label that is not declared.
    #[error("not declared in this kernel")]
    Undeclared,
    /// A branch target that is nowhere defined.
    #[error("this label is not defined in this kernel")]
    UndefinedLabel,
    /// A declared name of another kind than this place needs.
    #[error("expected {expected}")]
    WrongKind {
        /// The kind needed.
        expected: &'static str,
    },
    /// A name declared before.
    #[error("this name is declared twice")]
    DuplicateName,
    /// A special register the subset does not have, or whose name is declared.
    #[error("the name of a special register cannot be declared")]
    ReservedName,
    /// The text asks for more than the limits allow.
    #[error("too much: at most {limit} {what}")]
    TooMuch {
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Well-formed text of a module that PTX does not allow.
    #[error("{0}")]
    Invalid(Box<Defect>),
}

impl ParseError {
    pub(super) fn new(pos: Pos, token: &str, kind: ParseErrorKind) -> Self {
        ParseError { line: pos.line, column: pos.column, token: token.to_owned(), kind }
    }

    pub(super) fn at(token: &Token<'_>, kind: ParseErrorKind) -> Self {
        Self::new(token.pos, token.text, kind)
    }

    /// A defect of a kernel that parsed, at its instruction or else at the kernel's name.
    pub(super) fn invalid(error: ValidateError, kernel: &Token<'_>, token: &str) -> Self {
        let (pos, token) = match error.stmt {
            Some(_) => (error.pos, token),
            None => (kernel.pos, kernel.text),
        };
        Self::new(pos, token, ParseErrorKind::Invalid(Box::new(error.defect)))
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        match self.token.as_str() {
            // Nothing is wrong with a token when the whole text is too long.
            "" if matches!(self.kind, ParseErrorKind::TooMuch { .. }) => {}
            "" => write!(f, "end of text: ")?,
            token => write!(f, "`{token}`: ")?,
        }
        write!(f, "{}", self.kind)
    }
}

impl std::error::Error for ParseError {}
