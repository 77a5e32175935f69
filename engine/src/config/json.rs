//! Reading typed values out of a JSON object, with errors that name the key.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

pub(super) fn object(file: &str, text: &[u8]) -> Result<Map<String, Value>> {
    serde_json::from_slice(text).map_err(|e| Error::Json { file: file.into(), detail: e.to_string() })
}

pub(super) fn present<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|v| !v.is_null())
}

pub(super) fn required<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a Value> {
    present(map, key).ok_or_else(|| Error::MissingConfigKey { key: key.into() })
}

pub(super) fn count(map: &Map<String, Value>, key: &str, max: u64) -> Result<u32> {
    let value = required(map, key)?;
    match value.as_u64() {
        Some(n) if n >= 1 && n <= max => Ok(n as u32),
        _ => Err(unsupported(key, value, "a positive integer of sane size")),
    }
}

pub(super) fn number(map: &Map<String, Value>, key: &str) -> Result<f64> {
    let value = required(map, key)?;
    value.as_f64().ok_or_else(|| unsupported(key, value, "a number"))
}

pub(super) fn flag(map: &Map<String, Value>, key: &str) -> Result<bool> {
    let value = required(map, key)?;
    value.as_bool().ok_or_else(|| unsupported(key, value, "true or false"))
}

/// One id or a list of ids.
pub(super) fn token_ids(map: &Map<String, Value>, key: &str) -> Result<Vec<u32>> {
    let Some(value) = present(map, key) else { return Ok(Vec::new()) };
    let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    let ids = match value {
        Value::Array(list) => list.iter().map(one).collect(),
        v => one(v).map(|id| vec![id]),
    };
    ids.ok_or_else(|| unsupported(key, value, "a token id or a list of them"))
}

pub(crate) fn unsupported(key: &str, value: &Value, why: &'static str) -> Error {
    Error::UnsupportedConfig { key: key.into(), value: shown(value), why }
}

pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text,
    }
}
