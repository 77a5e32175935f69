//! Canonical JSON: RFC 8785, restricted further so that one value has exactly one spelling.
//!
//! Specified by `docs/spec/canonical-json.md`. Writing goes through `serde_json_canonicalizer`; reading is strict:
//! bytes that are not already the canonical form of what they say are refused, with the reason. This is a check
//! of form made *after* a signature over the received bytes has been verified, never a way to verify one.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserializer, Serialize};
use serde_json::{Map, Value};
use thiserror::Error as ThisError;
use unicode_normalization::is_nfc;

use crate::Error;

/// Largest integer magnitude that may appear as a JSON number: 2^53 - 1, the limit of I-JSON (RFC 7493).
pub const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Deepest nesting of arrays and objects a reader accepts.
pub const MAX_DEPTH: usize = 32;

/// Why bytes are not canonical JSON, or a value has no canonical form.
///
/// The bytes came from someone else: each variant is the writer's fault unless it says otherwise.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Refusal {
    /// More bytes than the caller allows for this artefact.
    #[error("{len} bytes of JSON, at most {max} are read here")]
    TooLarge {
        /// Length received.
        len: usize,
        /// Limit of this artefact.
        max: usize,
    },
    /// Not JSON, or bytes follow the value.
    #[error("not JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// An object names a member twice; readers disagree on which one counts.
    #[error("member {key:?} of {path} appears twice")]
    DuplicateKey {
        /// JSON pointer of the object.
        path: String,
        /// The repeated name.
        key: String,
    },
    /// A number that is not an integer of magnitude at most 2^53-1 written in plain digits.
    #[error("{path} is not an integer of magnitude at most 2^53-1; larger numbers and floats travel as strings")]
    Number {
        /// JSON pointer of the number.
        path: String,
    },
    /// A string or member name that is not in Unicode normal form C.
    #[error("text at {path} is not in Unicode normal form C")]
    NotNfc {
        /// JSON pointer of the string, or of the object that has the name.
        path: String,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels at {path}")]
    TooDeep {
        /// JSON pointer of the value that is too deep.
        path: String,
    },
    /// The JSON is well-formed, but its bytes are not the canonical spelling: white space, member order, an
    /// escape that need not be one, `-0`.
    #[error("not the canonical spelling: differs from it at byte {offset}")]
    NotCanonical {
        /// First byte that differs from the canonical form.
        offset: usize,
    },
    /// Canonical JSON of the wrong shape: a missing, unknown or ill-typed member.
    #[error("wrong shape: {0}")]
    Shape(#[source] serde_json::Error),
    /// The value cannot be serialised at all (caller's fault: a map with keys that are not strings).
    #[error("value cannot be serialised: {0}")]
    Unserialisable(#[source] serde_json::Error),
}

/// The canonical bytes of `value`.
///
/// # Errors
/// [`Refusal::Number`] for floats and integers beyond 2^53-1, [`Refusal::NotNfc`] for text that is not NFC,
/// [`Refusal::TooDeep`]; nothing is rounded or normalised on the caller's behalf.
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Refusal> {
    let value = serde_json::to_value(value).map_err(Refusal::Unserialisable)?;
    check(&value, &mut Vec::new())?;
    serde_json_canonicalizer::to_vec(&value).map_err(Refusal::Unserialisable)
}

/// Reads a canonical JSON value of at most `max` bytes.
///
/// # Errors
/// Every [`Refusal`] but `Shape` and `Unserialisable`; the first one met in reading order.
pub fn read_value(bytes: &[u8], max: usize) -> Result<Value, Refusal> {
    if bytes.len() > max {
        return Err(Refusal::TooLarge { len: bytes.len(), max });
    }
    let found = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = Strict { found: &found, depth: 0 }.deserialize(&mut deserializer);
    if let Some(refusal) = found.into_inner() {
        return Err(refusal.into_refusal());
    }
    let value = parsed.map_err(Refusal::Syntax)?;
    deserializer.end().map_err(Refusal::Syntax)?;
    same_bytes(&value, bytes)?;
    Ok(value)
}

/// Reads a typed value; its own canonical form must be `bytes` again, so no member can be defaulted or ignored.
///
/// # Errors
/// As [`read_value`], and [`Refusal::Shape`] when a member is missing, unknown or of the wrong type.
pub fn read<T: DeserializeOwned + Serialize>(bytes: &[u8], max: usize) -> Result<T, Refusal> {
    typed(read_value(bytes, max)?, bytes)
}

/// As [`read`], after checking that the top-level members named say what is expected: a version this crate does not know is
/// reported as that, not as a wrong shape.
///
/// # Errors
/// As [`read`]; [`Error::UnknownType`] when one of `members` is not a string with the expected value.
pub fn read_versioned<T: DeserializeOwned + Serialize>(
    bytes: &[u8],
    max: usize,
    members: &[(&str, &'static str)],
) -> Result<T, Error> {
    let value = read_value(bytes, max)?;
    for (member, expected) in members {
        let found = value.get(member).and_then(Value::as_str).unwrap_or_default();
        if found != *expected {
            return Err(Error::UnknownType { found: found.to_owned(), expected });
        }
    }
    Ok(typed(value, bytes)?)
}

fn typed<T: DeserializeOwned + Serialize>(value: Value, bytes: &[u8]) -> Result<T, Refusal> {
    let typed: T = serde_json::from_value(value).map_err(Refusal::Shape)?;
    same_bytes(&typed, bytes)?;
    Ok(typed)
}

fn same_bytes<T: Serialize>(value: &T, bytes: &[u8]) -> Result<(), Refusal> {
    let canonical = serde_json_canonicalizer::to_vec(value).map_err(Refusal::Unserialisable)?;
    if canonical == bytes {
        return Ok(());
    }
    let common = canonical.iter().zip(bytes).take_while(|(a, b)| a == b).count();
    Err(Refusal::NotCanonical { offset: common })
}

/// Checks a value we are about to write.
fn check(value: &Value, path: &mut Vec<String>) -> Result<(), Refusal> {
    if path.len() >= MAX_DEPTH && (value.is_array() || value.is_object()) {
        return Err(Refusal::TooDeep { path: pointer(path) });
    }
    match value {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::Number(n) => {
            let fits = n.as_u64().is_some_and(|n| n <= MAX_INTEGER)
                || n.as_i64().is_some_and(|n| n.unsigned_abs() <= MAX_INTEGER);
            if fits { Ok(()) } else { Err(Refusal::Number { path: pointer(path) }) }
        }
        Value::String(s) => {
            if is_nfc(s) {
                Ok(())
            } else {
                Err(Refusal::NotNfc { path: pointer(path) })
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                check(item, path)?;
                path.pop();
            }
            Ok(())
        }
        Value::Object(members) => {
            for (key, member) in members {
                if !is_nfc(key) {
                    return Err(Refusal::NotNfc { path: pointer(path) });
                }
                path.push(key.clone());
                check(member, path)?;
                path.pop();
            }
            Ok(())
        }
    }
}

/// An RFC 6901 pointer, or `the document` for the root, whose pointer is the empty string.
fn pointer<S: AsRef<str>>(path: &[S]) -> String {
    if path.is_empty() {
        return "the document".to_owned();
    }
    path.iter().fold(String::new(), |mut text, segment| {
        text.push('/');
        text.push_str(&segment.as_ref().replace('~', "~0").replace('/', "~1"));
        text
    })
}

/// A refusal on its way out of serde, which only carries strings; segments are collected innermost first.
struct Found {
    kind: Kind,
    path: Vec<String>,
}

enum Kind {
    Duplicate(String),
    Number,
    NotNfc,
    TooDeep,
}

impl Found {
    fn into_refusal(mut self) -> Refusal {
        self.path.reverse();
        let path = pointer(&self.path);
        match self.kind {
            Kind::Duplicate(key) => Refusal::DuplicateKey { path, key },
            Kind::Number => Refusal::Number { path },
            Kind::NotNfc => Refusal::NotNfc { path },
            Kind::TooDeep => Refusal::TooDeep { path },
        }
    }
}

/// Builds a [`Value`] while refusing what canonical JSON does not allow.
#[derive(Clone, Copy)]
struct Strict<'a> {
    found: &'a RefCell<Option<Found>>,
    depth: usize,
}

impl Strict<'_> {
    fn refuse<E: serde::de::Error>(self, kind: Kind) -> E {
        *self.found.borrow_mut() = Some(Found { kind, path: Vec::new() });
        E::custom("refused")
    }

    fn inside(self, segment: impl FnOnce() -> String) {
        if let Some(found) = self.found.borrow_mut().as_mut() {
            found.path.push(segment());
        }
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.refuse(Kind::TooDeep));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("canonical JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        if value > MAX_INTEGER {
            return Err(self.refuse(Kind::Number));
        }
        Ok(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        if value.unsigned_abs() > MAX_INTEGER {
            return Err(self.refuse(Kind::Number));
        }
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Value, E> {
        // Fractions, exponents, -0 and integers beyond 64 bits all arrive here.
        Err(self.refuse(Kind::Number))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        if !is_nfc(value) {
            return Err(self.refuse(Kind::NotNfc));
        }
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        loop {
            match seq.next_element_seed(inner) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => return Ok(Value::Array(items)),
                Err(error) => {
                    self.inside(|| items.len().to_string());
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if !is_nfc(&key) {
                return Err(self.refuse(Kind::NotNfc));
            }
            if members.contains_key(&key) {
                return Err(self.refuse(Kind::Duplicate(key)));
            }
            match map.next_value_seed(inner) {
                Ok(member) => members.insert(key, member),
                Err(error) => {
                    self.inside(|| key);
                    return Err(error);
                }
            };
        }
        Ok(Value::Object(members))
    }
}
