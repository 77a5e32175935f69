//! Characters to tokens, one at a time, with line and column of each.

use super::{ParseError, ParseErrorKind};
use crate::ast::Pos;

/// Longest identifier or directive, in bytes.
pub const MAX_NAME: usize = 128;

/// What a token is; its text is beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// An identifier, an opcode or a register, with its `%`.
    Word,
    /// A directive or modifier; the text has its dot.
    Dot,
    /// A decimal or hexadecimal integer.
    Int(u64),
    /// `0f` and eight digits.
    F32(u32),
    /// `0d` and sixteen digits.
    F64(u64),
    /// One character of punctuation.
    Punct(char),
    /// The end of the text.
    End,
}

/// One token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind,
    pub(super) text: &'t str,
    pub(super) pos: Pos,
}

/// The unread rest of a text.
pub(super) struct Lexer<'t> {
    rest: &'t str,
    pos: Pos,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Lexer { rest: text, pos: Pos { line: 1, column: 1 } }
    }

    /// Takes `bytes` of the rest, which end at a character boundary, and moves the position.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        for c in taken.chars() {
            if c == '\n' {
                self.pos.line += 1;
                self.pos.column = 1;
            } else {
                self.pos.column += 1;
            }
        }
        taken
    }

    fn error<T>(&self, token: &str, kind: ParseErrorKind) -> Result<T, ParseError> {
        Err(ParseError::new(self.pos, token, kind))
    }

    fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            if blanks > 0 {
                self.take(blanks);
            } else if self.rest.starts_with("//") {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(end);
            } else if self.rest.starts_with("/*") {
                match self.rest[2..].find("*/") {
                    Some(end) => self.take(end + 4),
                    None => return self.error("/*", ParseErrorKind::UnclosedComment),
                };
            } else {
                return Ok(());
            }
        }
    }

    pub(super) fn next(&mut self) -> Result<Token<'t>, ParseError> {
        self.skip_blanks()?;
        let pos = self.pos;
        let Some(first) = self.rest.chars().next() else {
            return Ok(Token { kind: TokenKind::End, text: "", pos });
        };
        let (kind, len) = match first {
            '.' => (TokenKind::Dot, 1 + follow(&self.rest[1..])),
            '0'..='9' => {
                let len = follow(self.rest);
                let kind = match number(&self.rest[..len]) {
                    Ok(kind) => kind,
                    Err(why) => return self.error(&self.rest[..len], why),
                };
                (kind, len)
            }
            'a'..='z' | 'A'..='Z' | '_' | '$' | '%' => (TokenKind::Word, 1 + follow(&self.rest[1..])),
            ',' | ';' | ':' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '+' | '-' | '|' | '@' | '!' => {
                (TokenKind::Punct(first), 1)
            }
            _ => {
                let text = &self.rest[..first.len_utf8()];
                return self.error(text, ParseErrorKind::UnknownCharacter);
            }
        };
        let text = &self.rest[..len];
        if len > MAX_NAME {
            return self.error(&text[..MAX_NAME], ParseErrorKind::NameTooLong);
        }
        let named = matches!(kind, TokenKind::Dot | TokenKind::Word);
        if named && len == 1 && !first.is_ascii_alphabetic() {
            return self.error(text, ParseErrorKind::UnknownCharacter);
        }
        self.take(len);
        Ok(Token { kind, text, pos })
    }
}

/// Length of the leading run of identifier characters.
fn follow(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len())
}

/// An unsigned integer or the bits of a float.
fn number(text: &str) -> Result<TokenKind, ParseErrorKind> {
    let prefixed = |lower: &str, upper: &str| text.strip_prefix(lower).or_else(|| text.strip_prefix(upper));
    let bits = |digits: &str, count: usize| {
        (digits.len() == count).then(|| hex(digits)).flatten().ok_or(ParseErrorKind::FloatDigits { count })
    };
    if let Some(digits) = prefixed("0f", "0F") {
        return bits(digits, 8).map(|b| TokenKind::F32(b as u32));
    }
    if let Some(digits) = prefixed("0d", "0D") {
        return bits(digits, 16).map(TokenKind::F64);
    }
    // The suffix that marks a literal unsigned changes nothing here: widths come from the instruction.
    let text = text.strip_suffix('U').unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let significant = digits.trim_start_matches('0');
        if !digits.is_empty() && significant.len() > 16 && hex_digits(digits) {
            return Err(ParseErrorKind::NumberRange);
        }
        return hex(digits).map(TokenKind::Int).ok_or(ParseErrorKind::Number);
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) || (text.len() > 1 && text.starts_with('0')) {
        return Err(ParseErrorKind::Number);
    }
    text.parse().map(TokenKind::Int).map_err(|_| ParseErrorKind::NumberRange)
}

fn hex_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn hex(digits: &str) -> Option<u64> {
    (!digits.is_empty() && hex_digits(digits)).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}
