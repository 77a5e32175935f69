//! Typed values of GGUF metadata, and the cursor that reads them.

use crate::error::{Error, Result};

/// A metadata value. Integers of all widths are one kind, floats too (f32 widens exactly).
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A non-negative integer.
    Uint(u64),
    /// A negative integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// UTF-8 text.
    Text(&'a str),
    /// Values of one kind; never arrays again.
    Array(Vec<Value<'a>>),
}

/// A reader that cannot run past its end.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8]> {
        match usize::try_from(count).ok().filter(|n| *n <= self.left()) {
            Some(n) => {
                let found = &self.bytes[self.at..self.at + n];
                self.at += n;
                Ok(found)
            }
            None => Err(bad(format!("{what} of {count} bytes at byte {} runs past the end", self.at))),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut found = [0; N];
        found.copy_from_slice(self.take(N as u64, what)?);
        Ok(found)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Text with its length before it.
    pub fn text(&mut self, what: &str) -> Result<&'a str> {
        let length = self.u64(what)?;
        let bytes = self.take(length, what)?;
        std::str::from_utf8(bytes).map_err(|_| bad(format!("{what} before byte {} is not UTF-8", self.at)))
    }

    /// How many things of at least `least` bytes each follow; more than fit are refused before anything is allocated.
    pub fn count(&mut self, least: usize, what: &str) -> Result<usize> {
        let count = self.u64(what)?;
        match usize::try_from(count).ok().filter(|n| *n <= self.left() / least) {
            Some(n) => Ok(n),
            None => Err(bad(format!("{count} {what} do not fit into what is left of the file"))),
        }
    }

    /// A value with its type before it.
    pub fn value(&mut self, key: &str) -> Result<Value<'a>> {
        let kind = self.u32(key)?;
        self.value_of(kind, key, true)
    }

    fn value_of(&mut self, kind: u32, key: &str, arrays: bool) -> Result<Value<'a>> {
        let signed = |v: i64| u64::try_from(v).map_or(Value::Int(v), Value::Uint);
        Ok(match kind {
            0 => Value::Uint(u8::from_le_bytes(self.array(key)?).into()),
            1 => signed(i8::from_le_bytes(self.array(key)?).into()),
            2 => Value::Uint(u16::from_le_bytes(self.array(key)?).into()),
            3 => signed(i16::from_le_bytes(self.array(key)?).into()),
            4 => Value::Uint(self.u32(key)?.into()),
            5 => signed(i32::from_le_bytes(self.array(key)?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array(key)?).into()),
            7 => match self.array::<1>(key)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => return Err(bad(format!("`{key}`: {other} is no truth value"))),
            },
            8 => Value::Text(self.text(key)?),
            9 if arrays => {
                let kind = self.u32(key)?;
                let least = match kind {
                    0 | 1 | 7 => 1,
                    2 | 3 => 2,
                    4..=6 => 4,
                    _ => 8,
                };
                let count = self.count(least, "array elements")?;
                Value::Array((0..count).map(|_| self.value_of(kind, key, false)).collect::<Result<_>>()?)
            }
            10 => Value::Uint(self.u64(key)?),
            11 => signed(i64::from_le_bytes(self.array(key)?)),
            12 => Value::Float(f64::from_le_bytes(self.array(key)?)),
            9 => return Err(bad(format!("`{key}` is an array of arrays"))),
            other => return Err(bad(format!("`{key}` has a value of unknown type {other}"))),
        })
    }
}

/// A defect of a GGUF file.
pub(super) fn bad(detail: String) -> Error {
    Error::WeightFile { file: "GGUF".into(), detail }
}
