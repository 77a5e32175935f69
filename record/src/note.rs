//! C2SP signed notes (`c2sp.org/signed-note`) through `signed_note`, with strict Ed25519 verification.
//!
//! Notes carry what must stay small or be read by other people's tools: checkpoints and receipts.

use signed_note::{Note, Signature, Signer, Verifier, VerifierList};

use crate::Error;
use crate::key::{PrivateKey, PublicKey};

/// First byte of a signed-note key of the plain Ed25519 type.
const ED25519: u8 = 1;

struct NoteSigner<'a> {
    name: &'a str,
    key: &'a PrivateKey,
}

struct NoteVerifier {
    name: String,
    key: PublicKey,
}

fn key_hash(name: &str, key: &PublicKey) -> u32 {
    let mut encoded = vec![ED25519];
    encoded.extend_from_slice(key.as_bytes());
    signed_note::key_id(name, &encoded)
}

impl Signer for NoteSigner<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn key_id(&self) -> u32 {
        key_hash(self.name, &self.key.public())
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ed25519_dalek::SignatureError> {
        Ok(self.key.sign(message).to_vec())
    }
}

impl Verifier for NoteVerifier {
    fn name(&self) -> &str {
        &self.name
    }

    fn key_id(&self) -> u32 {
        key_hash(&self.name, &self.key)
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verifies(message, signature)
    }
}

/// Signs `text`, which must end in a newline, under the key name `name`.
///
/// # Errors
/// [`Error::Note`] when the text has control characters or the name has spaces or a plus.
pub fn sign(text: &str, name: &str, key: &PrivateKey) -> Result<Vec<u8>, Error> {
    let mut note = Note::new(text.as_bytes(), &[]).map_err(Error::Note)?;
    note.add_sigs(&[&NoteSigner { name, key }]).map_err(Error::Note)?;
    Ok(note.to_bytes())
}

/// Verifies a note signed under `name` by `key` and returns its text. Signatures by others (witnesses) are let pass.
///
/// # Errors
/// [`Error::NoteUnsigned`] when this key has not signed it, [`Error::NoteSignature`] when the signature does not verify,
/// [`Error::Note`] when the bytes are no note.
pub fn verify(bytes: &[u8], name: &str, key: &PublicKey) -> Result<String, Error> {
    let note = Note::from_bytes(bytes).map_err(Error::Note)?;
    verify_with(&note, NoteVerifier { name: name.to_owned(), key: key.clone() })?;
    // `Note` guarantees UTF-8; a lossless conversion all the same, since it hands out bytes.
    String::from_utf8(note.text().to_vec()).map_err(|_| Error::Note(signed_note::NoteError::MalformedNote))
}

/// The signature of one key on a note, once it has been verified.
pub(crate) fn verify_with(note: &Note, verifier: impl Verifier + 'static) -> Result<Signature, Error> {
    let name = verifier.name().to_owned();
    let known = VerifierList::new(vec![Box::new(verifier)]);
    let (mut verified, _) = note.verify(&known).map_err(|error| match error {
        signed_note::NoteError::UnverifiedNote => Error::NoteUnsigned { name: name.clone() },
        signed_note::NoteError::InvalidSignature { .. } => Error::NoteSignature { name: name.clone() },
        other => Error::Note(other),
    })?;
    verified.pop().ok_or(Error::NoteUnsigned { name })
}

/// Reads a C2SP verifier key `name+id+base64` whose key is of this type: 1 for notes, 4 for cosignatures.
pub(crate) fn parse_key(text: &str, kind: u8) -> Option<(String, PublicKey)> {
    use base64::Engine as _;
    let (name, rest) = text.split_once('+')?;
    let (id, encoded) = rest.split_once('+')?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    let key = bytes.strip_prefix(&[kind])?.try_into().ok()?;
    let right = is_name(name, MAX_NAME_BYTES) && format!("{:08x}", signed_note::key_id(name, &bytes)) == id;
    if right { Some((name.to_owned(), PublicKey::from_bytes(&key).ok()?)) } else { None }
}

impl PublicKey {
    /// Reads a verifier key as [`PublicKey::note_key`] writes it: the name, and the key.
    ///
    /// # Errors
    /// [`Error::KeySyntax`].
    pub fn from_note_key(text: &str) -> Result<(String, Self), Error> {
        parse_key(text, ED25519).ok_or(Error::KeySyntax)
    }
}

/// Most bytes of a key's name.
pub(crate) const MAX_NAME_BYTES: usize = 256;

/// May `name` name a log or a key: not empty, no white space, no plus, at most `max` bytes.
#[must_use]
pub fn is_name(name: &str, max: usize) -> bool {
    name.len() <= max && signed_note::is_key_name_valid(name) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_tells_failures_apart() {
        let (key, other) = (PrivateKey::from_seed(&[1; 32]), PrivateKey::from_seed(&[2; 32]));
        let note = sign("hello\n", "example.org/log", &key).unwrap();
        assert_eq!(verify(&note, "example.org/log", &key.public()).unwrap(), "hello\n");
        let refused = verify(&note, "example.org/log", &other.public());
        assert!(matches!(refused, Err(Error::NoteUnsigned { .. })));
        let changed = String::from_utf8(note.clone()).unwrap().replace("hello", "hellp");
        let refused = verify(changed.as_bytes(), "example.org/log", &key.public());
        assert!(matches!(refused, Err(Error::NoteSignature { .. })));
        assert!(matches!(verify(b"hello\n", "example.org/log", &key.public()), Err(Error::Note(_))));
        assert!(sign("no newline", "example.org/log", &key).is_err());
        assert!(sign("x\n", "a name", &key).is_err());
    }

    #[test]
    fn the_library_verifier_agrees() {
        let key = PrivateKey::from_seed(&[1; 32]);
        let note = sign("hello\n", "example.org/log", &key).unwrap();
        let standard = signed_note::StandardVerifier::new(&key.public().note_key("example.org/log")).unwrap();
        let known = VerifierList::new(vec![Box::new(standard)]);
        assert_eq!(Note::from_bytes(&note).unwrap().verify(&known).unwrap().0.len(), 1);
    }
}
