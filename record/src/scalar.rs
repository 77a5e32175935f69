//! Numbers that JSON cannot carry: float bits as hex, 64-bit integers as decimal strings; and facts nobody knows.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The bit pattern of an f32, written as exactly eight lower-case hex digits.
///
/// **Bits**: all 2^32 patterns round-trip, NaN payloads and the sign of zero included; equality is equality of bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct F32Bits(pub u32);

impl F32Bits {
    /// The bits of `value`.
    #[must_use]
    pub fn new(value: f32) -> Self {
        Self(value.to_bits())
    }

    /// The float with these bits.
    #[must_use]
    pub fn value(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl fmt::Debug for F32Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x} ({})", self.0, self.value())
    }
}

impl Serialize for F32Bits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:08x}", self.0))
    }
}

impl<'de> Deserialize<'de> for F32Bits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.len() == 8 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match u32::from_str_radix(&text, 16) {
            Ok(bits) if digits => Ok(Self(bits)),
            _ => Err(D::Error::custom("expected the bits of an f32 as 8 lower-case hex digits")),
        }
    }
}

/// A 64-bit integer written as a decimal string, for values that may exceed 2^53-1: seeds, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct U64Text(pub u64);

impl Serialize for U64Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for U64Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // `parse` also takes a leading plus and leading zeros: one value, one spelling.
        match text.parse::<u64>() {
            Ok(value) if value.to_string() == text => Ok(Self(value)),
            _ => Err(D::Error::custom("expected an unsigned 64-bit integer as a decimal string")),
        }
    }
}

/// A fact, or the explicit statement that the writer does not know it.
///
/// An unspecified fact is written as the string `"unspecified"`. It is never a default and never invented; it
/// caps what an audit can conclude at `INCONCLUSIVE` (`docs/spec/inference-record.md`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact<T> {
    /// The writer observed this.
    Known(T),
    /// The writer could not observe it.
    Unspecified,
}

/// How an unknown fact is spelled.
pub const UNSPECIFIED: &str = "unspecified";

impl<T> Fact<T> {
    /// The fact, if known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unspecified => None,
        }
    }
}

impl<T> From<T> for Fact<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}

impl<T: Serialize> Serialize for Fact<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(value) => value.serialize(serializer),
            Self::Unspecified => serializer.serialize_str(UNSPECIFIED),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Fact<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.as_str() == Some(UNSPECIFIED) {
            return Ok(Self::Unspecified);
        }
        T::deserialize(value).map(Self::Known).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_bits_have_one_spelling() {
        assert_eq!(serde_json::to_string(&F32Bits::new(1.0)).unwrap(), "\"3f800000\"");
        assert_eq!(serde_json::from_str::<F32Bits>("\"7fc00001\"").unwrap().0, 0x7fc0_0001);
        for bad in ["\"3F800000\"", "\"3f8\"", "\"0x3f8000\"", "\"+3f80000\"", "1", "\"3f8000000\""] {
            assert!(serde_json::from_str::<F32Bits>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn long_integers_have_one_spelling() {
        assert_eq!(serde_json::to_string(&U64Text(u64::MAX)).unwrap(), "\"18446744073709551615\"");
        for bad in ["\"007\"", "\"+7\"", "\"18446744073709551616\"", "\"\"", "7", "\"-1\""] {
            assert!(serde_json::from_str::<U64Text>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn unspecified_is_distinct_from_null() {
        assert_eq!(serde_json::from_str::<Fact<Option<u32>>>("null").unwrap(), Fact::Known(None));
        assert_eq!(serde_json::from_str::<Fact<Option<u32>>>("\"unspecified\"").unwrap(), Fact::Unspecified);
        assert!(serde_json::from_str::<Fact<Option<u32>>>("\"unknown\"").is_err());
        assert_eq!(serde_json::to_string(&Fact::<u32>::Unspecified).unwrap(), "\"unspecified\"");
    }
}
