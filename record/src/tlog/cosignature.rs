//! Witness cosignatures: `c2sp.org/tlog-cosignature`, version 1.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use signed_note::{Note, Signature, Verifier};

use crate::key::{PrivateKey, PublicKey};
use crate::{Error, note};

/// First byte of a cosignature/v1 key.
const COSIGNATURE_V1: u8 = 4;

/// A witness as those who rely on it know it: a name and a key, neither taken from what is to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessKey {
    /// Its name, by convention an address without a scheme.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
}

/// What one witness says of a checkpoint: at this time, this was the largest consistent tree it had seen of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cosignature {
    /// The witness's name.
    pub name: String,
    /// Seconds since 1970-01-01 UTC, by the witness's clock.
    pub time_unix_s: u64,
}

impl WitnessKey {
    /// A witness of this name.
    ///
    /// # Errors
    /// [`Error::WitnessKey`] for a name that is empty, too long, or has white space, control characters or a plus.
    pub fn new(name: &str, key: PublicKey) -> Result<Self, Error> {
        if !note::is_name(name, note::MAX_NAME_BYTES) {
            return Err(Error::WitnessKey);
        }
        Ok(Self { name: name.to_owned(), key })
    }

    /// Reads the verifier key `name+id+base64` of a witness, which must be of the cosignature type.
    ///
    /// # Errors
    /// [`Error::WitnessKey`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (name, key) = note::parse_key(text, COSIGNATURE_V1).ok_or(Error::WitnessKey)?;
        Ok(Self { name, key })
    }

    /// The verifier key, as [`WitnessKey::parse`] reads it.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{}+{:08x}+{}", self.name, self.id(), STANDARD.encode(self.encoded()))
    }

    fn encoded(&self) -> Vec<u8> {
        [&[COSIGNATURE_V1], self.key.as_bytes().as_slice()].concat()
    }

    fn id(&self) -> u32 {
        signed_note::key_id(&self.name, &self.encoded())
    }
}

/// What is signed: header and time in front of the whole text of the checkpoint.
fn message(text: &[u8], time_unix_s: u64) -> Vec<u8> {
    [format!("cosignature/v1\ntime {time_unix_s}\n").as_bytes(), text].concat()
}

struct CosignatureVerifier(WitnessKey);

impl Verifier for CosignatureVerifier {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn key_id(&self) -> u32 {
        self.0.id()
    }

    fn verify(&self, text: &[u8], signature: &[u8]) -> bool {
        time(signature).is_some_and(|(time, signature)| self.0.key.verifies(&message(text, time), signature))
    }
}

/// Splits a `timestamped_signature`: the time, and the 64 bytes.
fn time(signature: &[u8]) -> Option<(u64, &[u8; 64])> {
    let (time, rest) = signature.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*time), rest.try_into().ok()?))
}

/// Cosigns the text of a checkpoint: one signature line. Whether it may be cosigned is the caller's to know
/// ([`Witness::add_checkpoint`](super::Witness::add_checkpoint) does).
///
/// # Errors
/// [`Error::Note`] when the bytes are no signed note.
pub fn cosign(checkpoint: &[u8], witness: &WitnessKey, key: &PrivateKey, time_unix_s: u64) -> Result<Vec<u8>, Error> {
    let note = Note::from_bytes(checkpoint).map_err(Error::Note)?;
    let signature = key.sign(&message(note.text(), time_unix_s));
    let stamped = [time_unix_s.to_be_bytes().as_slice(), &signature].concat();
    Ok(Signature::new(witness.name.clone(), witness.id(), stamped).map_err(Error::Note)?.to_bytes())
}

/// The cosignatures that these witnesses made on a checkpoint, in the order of `witnesses`. Lines by others are skipped.
///
/// # Errors
/// [`Error::NoteSignature`] when a line in the name of one of them does not verify; [`Error::Note`] when the bytes are no signed note.
pub fn cosignatures(checkpoint: &[u8], witnesses: &[WitnessKey]) -> Result<Vec<Cosignature>, Error> {
    let note = Note::from_bytes(checkpoint).map_err(Error::Note)?;
    let mut found: Vec<Cosignature> = Vec::new();
    for witness in witnesses {
        match note::verify_with(&note, CosignatureVerifier(witness.clone())) {
            // The same witness given twice vouches once.
            Ok(_) if found.iter().any(|known| known.name == witness.name) => {}
            Ok(signature) => {
                let stamped = time(signature.signature()).map(|(time, _)| time);
                let time_unix_s = stamped.ok_or_else(|| Error::NoteSignature { name: witness.name.clone() })?;
                found.push(Cosignature { name: witness.name.clone(), time_unix_s });
            }
            Err(Error::NoteUnsigned { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(found)
}

/// Adds to a checkpoint the cosignature lines of a witness's answer that verify. Others are left out, and so is one of a witness that is there
/// already.
///
/// # Errors
/// [`Error::Note`] when checkpoint or answer are not what they should be; [`Error::NoteUnsigned`] when the witness has not cosigned;
/// [`Error::NoteSignature`] when it seems to have.
pub fn merge(checkpoint: &[u8], answer: &[u8], witness: &WitnessKey) -> Result<Vec<u8>, Error> {
    if !cosignatures(checkpoint, std::slice::from_ref(witness))?.is_empty() {
        return Ok(checkpoint.to_vec());
    }
    let both = Note::from_bytes(&[checkpoint, answer].concat()).map_err(Error::Note)?;
    let line = note::verify_with(&both, CosignatureVerifier(witness.clone()))?;
    Ok([checkpoint, &line.to_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "example.com/behind-the-sofa";

    fn witness(seed: u8, name: &str) -> (PrivateKey, WitnessKey) {
        let key = PrivateKey::from_seed(&[seed; 32]);
        let public = key.public();
        (key, WitnessKey::new(name, public).unwrap())
    }

    #[test]
    fn a_cosignature_is_bound_to_text_time_name_and_key() {
        let log = PrivateKey::from_seed(&[1; 32]);
        let note = note::sign("example.com/behind-the-sofa\n1\nAAAA\n", LOG, &log).unwrap();
        let (key, w) = witness(2, "w.example/1");
        let line = cosign(&note, &w, &key, 1_679_315_147).unwrap();
        let whole = merge(&note, &line, &w).unwrap();
        let told = Cosignature { name: "w.example/1".into(), time_unix_s: 1_679_315_147 };
        assert_eq!(cosignatures(&whole, std::slice::from_ref(&w)).unwrap(), std::slice::from_ref(&told));
        assert_eq!(cosignatures(&whole, &[w.clone(), w.clone()]).unwrap(), [told]);
        assert_eq!(merge(&whole, &line, &w).unwrap(), whole);
        // The log's own signature still verifies, and others know nothing of it.
        assert!(note::verify(&whole, LOG, &log.public()).is_ok());
        assert!(cosignatures(&whole, &[witness(3, "w.example/1").1]).unwrap().is_empty());
        assert!(cosignatures(&whole, &[witness(2, "w.example/2").1]).unwrap().is_empty());
        assert!(cosignatures(&note, std::slice::from_ref(&w)).unwrap().is_empty());
        // Another time, or another text.
        let text = String::from_utf8(line).unwrap();
        let (head, body) = text.trim_end().rsplit_once(' ').unwrap();
        let mut bytes = STANDARD.decode(body).unwrap();
        for at in 4..bytes.len() {
            bytes[at] ^= 1;
            let forged = [note.clone(), format!("{head} {}\n", STANDARD.encode(&bytes)).into_bytes()].concat();
            assert!(
                matches!(cosignatures(&forged, std::slice::from_ref(&w)), Err(Error::NoteSignature { .. })),
                "{at}"
            );
            bytes[at] ^= 1;
        }
        let other = String::from_utf8(whole).unwrap().replacen("\n1\n", "\n2\n", 1);
        assert!(matches!(cosignatures(other.as_bytes(), &[w]), Err(Error::NoteSignature { .. })));
    }

    #[test]
    fn keys_have_one_spelling() {
        let (_, w) = witness(2, "w.example/1");
        assert_eq!(WitnessKey::parse(&w.to_text()).unwrap(), w);
        let text = w.to_text();
        for bad in ["", "a+b", &text.replacen("w.", "v.", 1), &text[..text.len() - 4], &w.key.note_key("w.example/1")] {
            assert!(WitnessKey::parse(bad).is_err(), "{bad}");
        }
    }

    /// The example of the specification carries these names and ids; with the type byte 4 this key gives the id it states.
    #[test]
    fn ids_are_those_of_the_type() {
        let (_, w) = witness(2, "w.example/1");
        let expected = signed_note::key_id("w.example/1", &w.encoded());
        assert_eq!(w.id(), expected);
        assert_ne!(w.id(), signed_note::key_id("w.example/1", &[&[1], w.key.as_bytes().as_slice()].concat()));
    }
}
