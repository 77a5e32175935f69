//! Ed25519 keys: generation, files, strict verification, key ids. Specified by `docs/spec/envelope.md`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, KeypairBytes};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

use crate::digest::{Digest, Tagged};
use crate::{Error, file};

/// Most bytes a key file may have; a PEM key has about 120.
const MAX_KEY_FILE: u64 = 4096;

/// A private signing key. Its bytes are wiped when it is dropped and never printed.
#[derive(Clone)]
pub struct PrivateKey(SigningKey);

/// A public key that is not weak: no point of small order, for which one signature would fit many messages.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PrivateKey {
    /// A new key from the operating system's randomness.
    ///
    /// # Errors
    /// [`Error::Randomness`] when the system has none to give.
    pub fn generate() -> Result<Self, Error> {
        let mut seed = Zeroizing::new([0_u8; 32]);
        getrandom::fill(seed.as_mut()).map_err(Error::Randomness)?;
        Ok(Self::from_seed(&seed))
    }

    /// The key of a 32-byte seed (RFC 8032 private key). For tests and demonstrations; keep real keys in files.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs `message` (plain Ed25519, RFC 8032: no prehash, no context).
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }

    /// Writes the key as PKCS#8 PEM into a new file that only its owner may read.
    ///
    /// # Errors
    /// [`Error::Io`]; an existing file is never overwritten.
    pub fn write_new(&self, path: &Path) -> Result<(), Error> {
        // Version 1 of PKCS#8, without the public key: other tools read it more widely than version 2.
        let bytes = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        let pem = bytes.to_pkcs8_pem(LineEnding::LF).map_err(|_| Error::KeySyntax)?;
        write_new(path, pem.as_bytes(), 0o600)
    }

    /// Reads a PKCS#8 PEM key file.
    ///
    /// # Errors
    /// [`Error::KeyReadableByOthers`] when group or others may read it, [`Error::KeySyntax`] when it is no Ed25519
    /// private key, [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut file = file::open(path, MAX_KEY_FILE).map_err(Error::io(path))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = file.metadata().map_err(Error::io(path))?.permissions().mode();
            if mode & 0o077 != 0 {
                return Err(Error::KeyReadableByOthers { path: path.to_owned(), mode: mode & 0o777 });
            }
        }
        let text = Zeroizing::new(read_text(&mut file, path)?);
        SigningKey::from_pkcs8_pem(&text).map(Self).map_err(|_| Error::KeySyntax)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.public().id())
    }
}

impl PublicKey {
    /// The key with these 32 bytes.
    ///
    /// # Errors
    /// [`Error::KeySyntax`] when they are no point of the curve, a weak one, or not its one encoding (RFC 8032 5.1.3).
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, Error> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| Error::KeySyntax)?;
        // The library reduces a coordinate of 2^255-19 or more: one key would then have two spellings, and two ids.
        let canonical = key.to_edwards().compress().as_bytes() == bytes;
        if key.is_weak() || !canonical { Err(Error::KeySyntax) } else { Ok(Self(key)) }
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Key id: `H("lastbit/key/v1" || 0 || 32 bytes)`.
    #[must_use]
    pub fn id(&self) -> Digest {
        Tagged::new("lastbit/key/v1").bytes(self.as_bytes()).finish()
    }

    /// Strict verification: canonical encodings only, no small-order points (so signatures are not malleable).
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature).is_ok_and(|signature| self.0.verify_strict(message, &signature).is_ok())
    }

    /// The key in the form that C2SP signed-note tools take: `name+hash+base64`.
    #[must_use]
    pub fn note_key(&self, name: &str) -> String {
        signed_note::new_ed25519_verifier_key(name, &self.0)
    }

    /// Writes the key as SubjectPublicKeyInfo PEM into a new file.
    ///
    /// # Errors
    /// [`Error::Io`]; an existing file is never overwritten.
    pub fn write_new(&self, path: &Path) -> Result<(), Error> {
        let pem = self.0.to_public_key_pem(LineEnding::LF).map_err(|_| Error::KeySyntax)?;
        write_new(path, pem.as_bytes(), 0o644)
    }

    /// Reads a SubjectPublicKeyInfo PEM key file.
    ///
    /// # Errors
    /// [`Error::KeySyntax`] when it is no Ed25519 public key or a weak one, [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut file = file::open(path, MAX_KEY_FILE).map_err(Error::io(path))?;
        Self::from_pem(&read_text(&mut file, path)?)
    }

    /// Reads a SubjectPublicKeyInfo PEM.
    ///
    /// # Errors
    /// [`Error::KeySyntax`] when it is no Ed25519 public key or a weak one.
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        let key = VerifyingKey::from_public_key_pem(pem).map_err(|_| Error::KeySyntax)?;
        Self::from_bytes(key.as_bytes())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", hex::encode(self.as_bytes()))
    }
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path).map_err(Error::io(path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(Error::io(path))
}

fn read_text(file: &mut File, path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    file.take(MAX_KEY_FILE).read_to_string(&mut text).map_err(Error::io(path))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_8032_test_2() {
        let seed: [u8; 32] = hex::decode("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
            .unwrap()
            .try_into()
            .unwrap();
        let key = PrivateKey::from_seed(&seed);
        assert_eq!(
            hex::encode(key.public().as_bytes()),
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
        );
        assert_eq!(
            hex::encode(key.sign(&[0x72])),
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
             085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        );
    }

    #[test]
    fn malleable_and_weak_signatures_are_refused() {
        let key = PrivateKey::from_seed(&[7; 32]);
        let mut signature = key.sign(b"m");
        assert!(key.public().verifies(b"m", &signature));
        assert!(!key.public().verifies(b"n", &signature));
        assert!(!key.public().verifies(b"m", &signature[..63]));
        // S + L: the same scalar, another spelling (RFC 8032 5.1.7 demands 0 <= S < L).
        let order = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
        let mut carry = 0_u16;
        for (s, l) in signature[32..].iter_mut().zip(&order) {
            let sum = u16::from(*s) + u16::from(*l) + carry;
            *s = (sum & 0xff) as u8;
            carry = sum >> 8;
        }
        assert!(!key.public().verifies(b"m", &signature));
        // The neutral element as a key would accept a forged signature for every message.
        let mut neutral = [0_u8; 32];
        neutral[0] = 1;
        assert!(PublicKey::from_bytes(&neutral).is_err());
    }

    #[test]
    fn files_round_trip_and_are_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, public) = (dir.path().join("k.pem"), dir.path().join("k.pub"));
        let key = PrivateKey::generate().unwrap();
        key.write_new(&secret).unwrap();
        key.public().write_new(&public).unwrap();
        assert!(key.write_new(&secret).is_err());
        assert_eq!(PrivateKey::read(&secret).unwrap().public(), key.public());
        assert_eq!(PublicKey::read(&public).unwrap(), key.public());
        assert!(matches!(PublicKey::read(&secret), Err(Error::KeySyntax)));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert!(matches!(PrivateKey::read(&secret), Err(Error::KeyReadableByOthers { mode: 0o644, .. })));
        }
    }
}
