//! Reading JSON without losing how it was written: order of members, repeated members, decimals.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::decimal::Decimal;

/// Members of an object in the order written, repeated ones included.
#[derive(Debug, Default)]
pub struct Object<'a>(pub Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The object that this is; none if it is none.
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The first member of this name.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    /// The first member of this name, unless it is null.
    pub fn some(&self, name: &str) -> Option<&'a RawValue> {
        self.get(name).filter(|v| v.get() != "null")
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(text)
    }

    /// An object.
    pub fn object(&self, name: &str) -> Option<Object<'a>> {
        self.get(name).and_then(|v| Object::parse(v.get()))
    }

    /// A list.
    pub fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        self.get(name).and_then(list)
    }

    /// A whole number.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|v| v.get().parse().ok())
    }

    /// The names.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|(n, _)| n.clone()).collect()
    }
}

/// A text.
pub fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// A list.
pub fn list(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

/// A number as written.
pub fn decimal(value: &RawValue) -> Option<Decimal> {
    Decimal::parse(value.get())
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Members).map(Object)
    }
}

/// The text with `NaN`, `Infinity` and `-Infinity` outside of strings replaced by `null`, and how many there were: some servers write
/// them, and JSON has none.
pub fn without_nan(text: &str) -> (Cow<'_, str>, usize) {
    const NAMES: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !NAMES.iter().any(|n| text.contains(n)) {
        return (Cow::Borrowed(text), 0);
    }
    let (mut out, mut rest, mut found, mut quoted) = (String::with_capacity(text.len()), text, 0, false);
    while let Some(c) = rest.chars().next() {
        if !quoted && let Some(name) = NAMES.iter().find(|n| rest.starts_with(**n)) {
            out.push_str("null");
            rest = &rest[name.len()..];
            found += 1;
            continue;
        }
        let mut taken = c.len_utf8();
        match c {
            '"' => quoted = !quoted,
            '\\' if quoted => taken += rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => {}
        }
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    (Cow::Owned(out), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_repetition_and_decimals_survive() {
        let o = Object::parse(r#"{"z":1.50,"a":[1,2],"z":null}"#).unwrap();
        assert_eq!(o.names(), ["z", "a", "z"]);
        assert_eq!(decimal(o.get("z").unwrap()).unwrap().text(), "1.50");
        assert_eq!(o.list("a").unwrap().len(), 2);
        assert!(Object::parse("[]").is_none() && Object::parse("{").is_none());
    }

    #[test]
    fn nan_is_replaced_outside_of_strings_only() {
        let text = r#"{"a":NaN,"b":"NaN \" NaN","c":[-Infinity,Infinity]}"#;
        let (clean, found) = without_nan(text);
        assert_eq!((clean.as_ref(), found), (r#"{"a":null,"b":"NaN \" NaN","c":[null,null]}"#, 3));
        assert_eq!(without_nan("\"NaN\\").1, 0);
        assert_eq!(without_nan("{}").1, 0);
    }
}
