//! API keys: from the environment only, shown to the endpoint only.

use std::fmt;

use crate::error::{Error, Result};

/// What stands where a key stood.
const HIDDEN: &str = "[key]";
/// Shorter ones would be struck out of ordinary words.
const MIN_BYTES: usize = 8;

/// A secret that is sent as a bearer token. It has no way out but `Key::bearer`: `Debug` hides it.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// The key in an environment variable.
    ///
    /// # Errors
    /// [`Error::Key`] if it is unset, too short, or no header can carry it. The value is never repeated.
    pub fn from_env(variable: &str) -> Result<Self> {
        let refuse = |why| Error::Key { variable: variable.to_owned(), why };
        let value = std::env::var(variable).map_err(|_| refuse("is not set (or is no text)"))?;
        Self::new(value.trim()).map_err(refuse)
    }

    /// A key.
    ///
    /// # Errors
    /// Why it is none.
    pub fn new(value: &str) -> Result<Self, &'static str> {
        if value.len() < MIN_BYTES {
            return Err("holds no key: keys have at least 8 characters");
        }
        if !value.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("holds characters that no header can carry");
        }
        Ok(Self(value.to_owned()))
    }

    /// The header that shows it.
    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// The text without the key: endpoints repeat it in errors.
    pub fn hide(&self, text: &str) -> String {
        text.replace(&self.0, HIDDEN)
    }

    /// The bytes without the key.
    pub fn hide_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let key = self.0.as_bytes();
        if !bytes.windows(key.len()).any(|w| w == key) {
            return bytes;
        }
        let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
        while at < bytes.len() {
            if bytes[at..].starts_with(key) {
                out.extend_from_slice(HIDDEN.as_bytes());
                at += key.len();
            } else {
                out.push(bytes[at]);
                at += 1;
            }
        }
        out
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hidden_everywhere() {
        let key = Key::new("sk-0123456789").unwrap();
        assert_eq!(format!("{key:?}"), "[key]");
        assert_eq!(key.hide("bad key sk-0123456789!"), "bad key [key]!");
        assert_eq!(key.hide_bytes(b"\xffsk-0123456789sk-012345678".to_vec()), b"\xff[key]sk-012345678");
        assert!(
            Key::new("short").is_err() && Key::new("with a blank").is_err() && Key::new("newline\nnewline").is_err()
        );
        let unset = Key::from_env("LASTBIT_NO_SUCH_VARIABLE").unwrap_err();
        assert!(unset.to_string().contains("LASTBIT_NO_SUCH_VARIABLE"));
    }
}
