//! The members of a request's JSON object, each taken once: what nobody took is refused.

use serde_json::{Map, Value};

use super::error::ApiError;

/// Members that change nothing about an answer, and are let pass.
const IDLE: [&str; 5] = ["user", "safety_identifier", "metadata", "prompt_cache_key", "service_tier"];

/// Does a member's value switch it off?
type IsOff = fn(&Value) -> bool;

/// Members that other services know and this one does not compute. They may be there with a value that switches them off.
const OFF: [(&str, IsOff); 19] = [
    ("echo", is_false),
    ("suffix", is_empty),
    ("tools", is_empty),
    ("tool_choice", is_none_word),
    ("parallel_tool_calls", is_bool),
    ("functions", is_empty),
    ("function_call", is_none_word),
    ("response_format", is_text),
    ("modalities", is_text_only),
    ("audio", never),
    ("prediction", never),
    ("reasoning_effort", never),
    ("verbosity", never),
    ("web_search_options", never),
    ("store", is_false),
    ("use_beam_search", is_false),
    ("guided_json", never),
    ("guided_regex", never),
    ("guided_grammar", never),
];

/// A request's members.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads a JSON object.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            Ok(_) => Err(ApiError::invalid("the body is JSON, but no object")),
            Err(e) => Err(ApiError::invalid(format!("the body is not the JSON expected: {e}"))),
        }
    }

    /// Takes a member; null is as good as absent.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|v| !v.is_null())
    }

    /// Takes a member that is a string.
    pub fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ApiError::param(name, format!("`{name}` is a string"))),
        }
    }

    /// Takes a member that is true or false.
    pub fn bool(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(b)),
            Some(_) => Err(ApiError::param(name, format!("`{name}` is true or false"))),
        }
    }

    /// Takes a member that is a whole number in a range.
    pub fn count(&mut self, name: &str, min: u32, max: u32) -> Result<Option<u32>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let found = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| (min..=max).contains(n));
        match found {
            Some(n) => Ok(Some(n)),
            None => Err(ApiError::param(name, format!("`{name}` is a whole number from {min} to {max}"))),
        }
    }

    /// Takes a member that is a number with `holds`; `wanted` says what is.
    pub fn number(&mut self, name: &str, wanted: &str, holds: fn(f64) -> bool) -> Result<Option<f64>, ApiError> {
        match self.take(name).map(|v| v.as_f64()) {
            None => Ok(None),
            Some(Some(x)) if holds(x) => Ok(Some(x)),
            Some(_) => Err(ApiError::param(name, format!("`{name}` is {wanted}"))),
        }
    }

    /// Refuses whatever was not taken, unless it changes nothing.
    pub fn finish(self) -> Result<(), ApiError> {
        for (name, value) in self.0 {
            if value.is_null() || IDLE.contains(&name.as_str()) {
                continue;
            }
            match OFF.iter().find(|(known, _)| *known == name) {
                Some((_, off)) if off(&value) => {}
                Some(_) => {
                    let message = format!("`{name}` is not supported here; leave it out");
                    return Err(ApiError::unsupported(&name, message));
                }
                None => {
                    let name: String = name.chars().take(64).collect();
                    return Err(ApiError::param(&name, format!("`{name}` is not a parameter of this call")));
                }
            }
        }
        Ok(())
    }
}

/// Only null does, and that is not looked at.
fn never(_: &Value) -> bool {
    false
}

fn is_false(value: &Value) -> bool {
    *value == Value::Bool(false)
}

fn is_bool(value: &Value) -> bool {
    value.is_boolean()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn is_none_word(value: &Value) -> bool {
    value.as_str() == Some("none")
}

fn is_text(value: &Value) -> bool {
    value.as_object().is_some_and(|o| o.len() == 1 && o.get("type").and_then(Value::as_str) == Some("text"))
}

fn is_text_only(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.len() == 1 && all[0].as_str() == Some("text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(json: &str) -> Result<(), ApiError> {
        Fields::parse(json.as_bytes())?.finish()
    }

    #[test]
    fn what_is_not_taken_is_refused_unless_it_changes_nothing() {
        for good in [
            "{}",
            r#"{"user":"x","metadata":{"a":1}}"#,
            r#"{"tools":[],"tool_choice":"none"}"#,
            r#"{"response_format":{"type":"text"},"echo":false,"functions":null,"anything":null}"#,
        ] {
            assert_eq!(finish(good), Ok(()), "{good}");
        }
        for bad in [
            r#"{"echo":true}"#,
            r#"{"tools":[{}]}"#,
            r#"{"response_format":{"type":"json_object"}}"#,
            r#"{"audio":{}}"#,
            r#"{"temprature":1}"#,
            "[]",
            "{",
            "",
        ] {
            assert!(finish(bad).is_err(), "{bad}");
        }
        assert!(finish(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn members_have_their_types() {
        let fields = || Fields::parse(br#"{"a":3,"b":"x","c":true,"d":0.5,"e":null}"#).unwrap();
        assert_eq!(fields().count("a", 1, 3).unwrap(), Some(3));
        assert!(fields().count("a", 1, 2).is_err() && fields().count("d", 0, 9).is_err());
        assert_eq!(fields().string("b").unwrap().as_deref(), Some("x"));
        assert!(fields().string("a").is_err() && fields().bool("b").is_err());
        assert_eq!(fields().number("d", "", |x| x < 1.0).unwrap(), Some(0.5));
        assert!(fields().number("d", "", |x| x > 1.0).is_err());
        assert_eq!(fields().take("e"), None);
    }
}
