//! SHA-256 digests and the one way this project computes them: with a domain tag in front.
//!
//! Specified by `docs/spec/tensor-digest.md` (section "Tagged hashes"). Every hash that is stored or signed
//! starts with an ASCII tag and a zero byte, so bytes hashed for one purpose can never be presented as bytes
//! hashed for another. The only exceptions are formats that are not ours: RFC 6962 tree nodes (whose tags are the
//! bytes 0 and 1) and the plain file digests that model manifests, kernels and in-toto subjects carry, which
//! any `sha256sum` must be able to check.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::Error;

/// A SHA-256 digest, written `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

const PREFIX: &str = "sha256:";

impl Digest {
    /// Wraps 32 bytes that already are a SHA-256 digest.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 lower-case hex digits without the algorithm prefix (used in file names).
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Plain SHA-256 of `bytes`, **without** a tag: only for files that other tools must be able to check.
    #[must_use]
    pub fn of_file(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = Error;

    /// Reads `sha256:` and 64 lower-case hex digits; anything else, upper case included, is refused.
    fn from_str(s: &str) -> Result<Self, Error> {
        let digits = s.strip_prefix(PREFIX).ok_or(Error::DigestSyntax)?;
        let mut out = [0_u8; 32];
        if digits.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(Error::DigestSyntax);
        }
        hex::decode_to_slice(digits, &mut out).map_err(|_| Error::DigestSyntax)?;
        Ok(Self(out))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A hash in progress that began with a domain tag.
///
/// Fields are appended in a fixed layout given by the document of the artefact; integers are little-endian.
#[derive(Clone)]
pub struct Tagged(Sha256);

impl Tagged {
    /// Starts a hash with `tag`, the ASCII bytes followed by one zero byte.
    ///
    /// # Panics
    /// If the tag is not printable ASCII: tags are constants of this crate, so that would be our bug.
    #[must_use]
    pub fn new(tag: &'static str) -> Self {
        assert!(tag.bytes().all(|b| b.is_ascii_graphic()), "domain tag {tag:?} must be printable ASCII");
        let mut hash = Sha256::new();
        hash.update(tag.as_bytes());
        hash.update([0]);
        Self(hash)
    }

    /// Appends raw bytes. The caller's layout must make their length unambiguous.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(bytes);
        self
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    /// Appends four bytes, little-endian.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends eight bytes, little-endian.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends a string: its length as `u32`, then its UTF-8 bytes.
    pub fn text(&mut self, value: &str) -> &mut Self {
        // Strings that reach a hash are names and ids of at most a few hundred bytes; a 4 GiB one cannot exist here.
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX)).bytes(value.as_bytes())
    }

    /// Appends another digest's 32 bytes.
    pub fn digest(&mut self, value: &Digest) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// The digest of everything appended.
    #[must_use]
    pub fn finish(&self) -> Digest {
        Digest(self.0.clone().finalize().into())
    }
}

/// `H(tag || 0 || canonical JSON of value)`: how structured facts are named by digest.
///
/// # Errors
/// [`Error::Canonical`] when `value` has no canonical form (a float, an integer beyond 2^53-1, text not in NFC).
pub fn of_json<T: Serialize>(tag: &'static str, value: &T) -> Result<Digest, Error> {
    let bytes = crate::canonical::to_bytes(value)?;
    Ok(Tagged::new(tag).bytes(&bytes).finish())
}

/// Digest of a list of token ids: `H("lastbit/token-ids/v1" || 0 || count u32 || ids u32 ...)`.
#[must_use]
pub fn of_token_ids(ids: &[u32]) -> Digest {
    let mut hash = Tagged::new("lastbit/token-ids/v1");
    hash.u32(u32::try_from(ids.len()).unwrap_or(u32::MAX));
    for id in ids {
        hash.u32(*id);
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_and_parse_agree() {
        let digest = Digest::of_file(b"abc");
        // FIPS 180-2 example B.1.
        assert_eq!(digest.to_string(), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
    }

    #[test]
    fn refuses_every_other_spelling() {
        let good = Digest::of_file(b"abc").to_string();
        for bad in [
            good.to_uppercase(),
            good.replace("ba78", "BA78"),
            good.replace("sha256:", ""),
            good.replace("sha256:", "sha512:"),
            good[..good.len() - 2].to_string(),
            format!("{good}00"),
            good.replace("ba78", "zz78"),
            String::new(),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_tag_separates_equal_bodies() {
        let a = Tagged::new("lastbit/a/v1").bytes(b"x").finish();
        let b = Tagged::new("lastbit/b/v1").bytes(b"x").finish();
        assert_ne!(a, b);
        assert_eq!(a, Digest::of_file(b"lastbit/a/v1\0x"));
    }

    #[test]
    fn token_ids_are_counted() {
        assert_ne!(of_token_ids(&[]), of_token_ids(&[0]));
        assert_eq!(of_token_ids(&[1, 2]), Digest::of_file(b"lastbit/token-ids/v1\0\x02\0\0\0\x01\0\0\0\x02\0\0\0"));
    }
}
