//! API keys.

use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

/// The keys that clients may present. Only their digests are kept.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys {
    digests: Vec<[u8; 32]>,
}

/// Why a list of keys was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// A key that is too easy to guess or that no header can carry.
    #[error("key {number}: a key has at least 16 characters, all visible ASCII")]
    Key {
        /// Which, from 1.
        number: usize,
    },
    /// Twice the same.
    #[error("key {number} is there twice")]
    Twice {
        /// The second one, from 1.
        number: usize,
    },
}

impl ApiKeys {
    /// Keys one a line; empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`KeysError`]; it never repeats a key.
    pub fn parse(text: &str) -> Result<Self, KeysError> {
        let mut digests: Vec<[u8; 32]> = Vec::new();
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        for (number, key) in (1..).zip(lines) {
            if key.len() < 16 || !key.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(KeysError::Key { number });
            }
            let digest = Sha256::digest(key).into();
            if digests.contains(&digest) {
                return Err(KeysError::Twice { number });
            }
            digests.push(digest);
        }
        Ok(Self { digests })
    }

    /// True when everybody may ask.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// The number of a key, from 0. Takes the same time whether and wherever it is found.
    pub fn find(&self, key: &str) -> Option<u32> {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let mut found = u32::MAX;
        for (number, known) in (0u32..).zip(&self.digests) {
            found.conditional_assign(&number, known.ct_eq(&digest));
        }
        (found != u32::MAX).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_all_their_characters() {
        let keys = ApiKeys::parse("# clients\nabcdefghijklmnop\n\n  qrstuvwxyz0123456 \n").unwrap();
        assert_eq!(keys.find("abcdefghijklmnop"), Some(0));
        assert_eq!(keys.find("qrstuvwxyz0123456"), Some(1));
        for wrong in ["", "abcdefghijklmno", "abcdefghijklmnopq", "abcdefghijklmnoq", "# clients"] {
            assert_eq!(keys.find(wrong), None, "{wrong}");
        }
        assert!(ApiKeys::parse("\n# none\n").unwrap().is_empty());
    }

    #[test]
    fn weak_keys_are_refused_without_being_repeated() {
        let short = ApiKeys::parse("abcdefghijklmnop\nsecret").unwrap_err();
        assert_eq!(short, KeysError::Key { number: 2 });
        assert!(!short.to_string().contains("secret"));
        assert_eq!(ApiKeys::parse("abcdefgh ijklmnop").unwrap_err(), KeysError::Key { number: 1 });
        let twice = "abcdefghijklmnop\nabcdefghijklmnop";
        assert_eq!(ApiKeys::parse(twice).unwrap_err(), KeysError::Twice { number: 2 });
    }
}
