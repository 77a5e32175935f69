//! One entry: a compact header in a signed envelope, on a line of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::LogRefusal;
use crate::digest::{Digest, Tagged};
use crate::envelope::{self, Statement, Subject, predicate};
use crate::inference::{ChainSpan, Record};
use crate::key::{PrivateKey, PublicKey};
use crate::{Error, canonical};

/// Most bytes of an entry: tiled logs carry 16-bit entry lengths, and entries here must fit into one later.
pub const MAX_ENTRY_BYTES: usize = 65_535;

/// The predicate of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryHeader {
    /// The log's name.
    pub origin: String,
    /// Index of the entry.
    pub sequence: u64,
    /// Hash of the previous entry, `H("lastbit/entry/v1" || 0 || its line without newline)`; `null` for the first.
    pub previous: Option<Digest>,
    /// Digest of the record.
    pub record: Digest,
    /// Chain values around the record.
    pub chain: ChainSpan,
    /// When the entry was appended, wall-clock microseconds since 1970-01-01 UTC, as the operator's clock said.
    pub time_unix_us: u64,
    /// Id of the signing key.
    pub key_id: Digest,
    /// The signing key, 64 hex digits. Trusted by nobody: it lets a reader say *who* re-signed an entry.
    pub public_key: String,
}

/// Hash of an entry: `H("lastbit/entry/v1" || 0 || line without its newline)`.
pub(super) fn entry_hash(line: &[u8]) -> Digest {
    Tagged::new("lastbit/entry/v1").bytes(line).finish()
}

/// What the entry of this record, stored in this file, is about.
pub(super) fn subjects(record: &Record, digest: &Digest, file: &[u8]) -> Vec<Subject> {
    let digests = [*digest, Digest::of_file(file), record.outputs_digest()];
    WRITTEN.iter().zip(digests).map(|((name, algorithm), digest)| Subject::new(*name, algorithm, &digest)).collect()
}

/// Signs an entry: the line without its newline.
pub(super) fn sign(header: EntryHeader, subject: Vec<Subject>, key: &PrivateKey) -> Result<Vec<u8>, Error> {
    let line = envelope::sign(&Statement::new(predicate::LOG_ENTRY, subject, header), key)?;
    if line.len() > MAX_ENTRY_BYTES {
        return Err(Error::EntryTooLarge { len: line.len() });
    }
    Ok(line)
}

/// An entry whose signature has been verified; its place in the log has not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signed {
    pub(super) header: EntryHeader,
    pub(super) subjects: Subjects,
}

/// What an entry is about. A log may have millions of entries in memory: the subjects that its writer writes are kept as their digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subjects {
    /// Those of [`subjects`], in that order.
    Written { record: Digest, file: Digest, outputs: Digest },
    /// Others: no record will agree with them.
    Other(Box<[Subject]>),
}

impl From<Vec<Subject>> for Subjects {
    fn from(subject: Vec<Subject>) -> Self {
        let digest = |at: usize, (name, algorithm): (&str, &str)| -> Option<Digest> {
            let subject: &Subject = subject.get(at)?;
            let only = subject.name == name && subject.digest.len() == 1;
            format!("sha256:{}", subject.digest.get(algorithm).filter(|_| only)?).parse().ok()
        };
        let [record, file, outputs] = [0, 1, 2].map(|at| digest(at, WRITTEN[at]));
        match (record, file, outputs) {
            (Some(record), Some(file), Some(outputs)) if subject.len() == 3 => Self::Written { record, file, outputs },
            _ => Self::Other(subject.into()),
        }
    }
}

/// Names and algorithms of the subjects that the writer writes.
const WRITTEN: [(&str, &str); 3] =
    [("record", "lastbit-record-v1"), ("file", "sha256"), ("outputs", "lastbit-outputs-v1")];

/// Verifies an entry that came without its log: its signature and shape, under the key that was valid at `index`.
///
/// # Errors
/// As [`verify_entries`](super::verify_entries), for this entry.
pub fn read(index: u64, line: &[u8], keys: &super::KeyHistory) -> Result<EntryHeader, LogRefusal> {
    verify(index, line, keys.at(index)).map(|signed| signed.header).map_err(|refusal| keys.judge(refusal))
}

/// Verifies the signature of the line, then parses the signed bytes.
pub(super) fn verify(index: u64, line: &[u8], trusted: &PublicKey) -> Result<Signed, LogRefusal> {
    match quick(line, trusted) {
        Some(signed) => Ok(signed),
        None => slow(index, line, trusted),
    }
}

/// The line as [`sign`] writes it, compared piece by piece with its one spelling: a fifth of the time that parsing takes, which counts
/// in logs of millions. `None` for everything else, a bad signature included; [`slow`] then says what it is.
fn quick(line: &[u8], trusted: &PublicKey) -> Option<Signed> {
    let id = trusted.id();
    let mut outer = Scan(line);
    outer.text(r#"{"payload":""#)?;
    let payload = STANDARD.decode(outer.until(b'"')?).ok()?;
    outer.text(r#","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":""#)?;
    (outer.digest()? == id).then_some(())?;
    outer.text(r#"","sig":""#)?;
    let signature = STANDARD.decode(outer.until(b'"')?).ok()?;
    outer.text("}]}")?;
    let whole = outer.0.is_empty() && trusted.verifies(&dsse::pae(envelope::PAYLOAD_TYPE, &payload), &signature);
    whole.then_some(())?;

    let mut inner = Scan(&payload);
    inner.text(r#"{"_type":"https://in-toto.io/Statement/v1","predicate":{"chain":{"after":""#)?;
    let after = inner.digest()?;
    inner.text(r#"","before":""#)?;
    let before = inner.digest()?;
    inner.text(r#""},"key_id":""#)?;
    let key_id = inner.digest()?;
    inner.text(r#"","origin":""#)?;
    let origin = inner.until(b'"')?;
    // Any other text may need an escape, or not be in normal form.
    let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'\\';
    let origin = if origin.iter().all(plain) { std::str::from_utf8(origin).ok()?.to_owned() } else { return None };
    let previous = if inner.text(r#","previous":null"#).is_some() {
        None
    } else {
        inner.text(r#","previous":""#)?;
        let previous = inner.digest()?;
        inner.text("\"")?;
        Some(previous)
    };
    inner.text(r#","public_key":""#)?;
    let public_key = Digest::from_bytes(inner.hex()?).to_hex();
    inner.text(r#"","record":""#)?;
    let record = inner.digest()?;
    inner.text(r#"","sequence":"#)?;
    let sequence = inner.number()?;
    inner.text(r#","time_unix_us":"#)?;
    let time_unix_us = inner.number()?;
    inner.text(
        r#"},"predicateType":"https://lastbit.dev/inference-log-entry/v1","subject":[{"digest":{"lastbit-record-v1":""#,
    )?;
    let subject_record = Digest::from_bytes(inner.hex()?);
    inner.text(r#""},"name":"record"},{"digest":{"sha256":""#)?;
    let file = Digest::from_bytes(inner.hex()?);
    inner.text(r#""},"name":"file"},{"digest":{"lastbit-outputs-v1":""#)?;
    let outputs = Digest::from_bytes(inner.hex()?);
    inner.text(r#""},"name":"outputs"}]}"#)?;
    let right = inner.0.is_empty() && key_id == id && public_key == hex::encode(trusted.as_bytes());
    right.then_some(Signed {
        header: EntryHeader {
            origin,
            sequence,
            previous,
            record,
            chain: ChainSpan { before, after },
            time_unix_us,
            key_id,
            public_key,
        },
        subjects: Subjects::Written { record: subject_record, file, outputs },
    })
}

/// What is left of a line.
struct Scan<'a>(&'a [u8]);

impl<'a> Scan<'a> {
    fn text(&mut self, expected: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(expected.as_bytes())?;
        Some(())
    }

    /// What stands before `end`, which is taken too.
    fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let at = self.0.iter().position(|byte| *byte == end)?;
        let (found, rest) = self.0.split_at(at);
        self.0 = &rest[1..];
        Some(found)
    }

    /// 64 lower-case hex digits.
    fn hex(&mut self) -> Option<[u8; 32]> {
        let (digits, rest) = self.0.split_at_checked(64)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        self.0 = rest;
        (!digits.iter().any(u8::is_ascii_uppercase)).then_some(bytes)
    }

    fn digest(&mut self) -> Option<Digest> {
        self.text("sha256:")?;
        self.hex().map(Digest::from_bytes)
    }

    /// A decimal of one spelling that JSON can carry exactly.
    fn number(&mut self) -> Option<u64> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (text, rest) = self.0.split_at(digits);
        self.0 = rest;
        let one = text == b"0" || text.first().is_some_and(|first| *first != b'0');
        let value: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        (one && value <= canonical::MAX_INTEGER).then_some(value)
    }
}

/// [`verify`], for every line and every refusal.
fn slow(index: u64, line: &[u8], trusted: &PublicKey) -> Result<Signed, LogRefusal> {
    let outer = Line::read(line).ok_or(LogRefusal::EntryMalformed { index })?;
    let verified = envelope::verify(line, &[trusted]).map_err(|error| match error {
        Error::Envelope(dsse::Error::NoValidSignature { .. }) => match outer.named_signer() {
            Some(by) if by != trusted.id() => LogRefusal::ReSigned { index, by },
            _ => LogRefusal::Altered { index },
        },
        Error::UnknownType { found, .. } => LogRefusal::UnknownVersion { index, found },
        _ => LogRefusal::EntryMalformed { index },
    })?;
    // The key hint is not signed. It may be left out; a wrong one has been put there by someone.
    let hint = outer.signatures[0].keyid.as_deref().unwrap_or_default();
    if !hint.is_empty() && hint != trusted.id().to_string() {
        return Err(LogRefusal::Altered { index });
    }
    let statement = verified.statement::<EntryHeader>(predicate::LOG_ENTRY).map_err(|error| match error {
        Error::UnknownType { found, .. } => LogRefusal::UnknownVersion { index, found },
        _ => LogRefusal::EntryShape { index },
    })?;
    let header = statement.predicate;
    if header.key_id != trusted.id() || header.public_key != hex::encode(trusted.as_bytes()) {
        return Err(LogRefusal::EntryShape { index });
    }
    Ok(Signed { header, subjects: statement.subject.into() })
}

/// The envelope of an entry has one spelling: canonical JSON, standard base64, exactly one signature.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: [LineSignature; 1],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineSignature {
    #[serde(skip_serializing_if = "Option::is_none")]
    keyid: Option<String>,
    sig: String,
}

impl Line {
    fn read(line: &[u8]) -> Option<Self> {
        let line: Self = canonical::read(line, MAX_ENTRY_BYTES).ok()?;
        let standard = |text: &str| STANDARD.decode(text).is_ok();
        (standard(&line.payload) && standard(&line.signatures[0].sig)).then_some(line)
    }

    /// The id of the key that the header names, if that key signed this line. Only to word a refusal: the key is not trusted.
    fn named_signer(&self) -> Option<Digest> {
        let payload = STANDARD.decode(&self.payload).ok()?;
        let statement: Statement<EntryHeader> = canonical::read(&payload, MAX_ENTRY_BYTES).ok()?;
        let mut bytes = [0_u8; 32];
        hex::decode_to_slice(&statement.predicate.public_key, &mut bytes).ok()?;
        let key = PublicKey::from_bytes(&bytes).ok()?;
        let signature = STANDARD.decode(&self.signatures[0].sig).ok()?;
        key.verifies(&dsse::pae(&self.payload_type, &payload), &signature).then(|| key.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(key: &PublicKey, origin: &str, previous: Option<Digest>, sequence: u64) -> EntryHeader {
        let d = |text: &str| Digest::of_file(text.as_bytes());
        EntryHeader {
            origin: origin.to_owned(),
            sequence,
            previous,
            record: d("record"),
            chain: ChainSpan { before: d("before"), after: d("after") },
            time_unix_us: 1_764_547_200_000_001,
            key_id: key.id(),
            public_key: hex::encode(key.as_bytes()),
        }
    }

    fn line(key: &PrivateKey, origin: &str, previous: Option<Digest>, sequence: u64) -> Vec<u8> {
        let subject =
            WRITTEN.iter().map(|(name, algorithm)| Subject::new(*name, algorithm, &Digest::of_file(name.as_bytes())));
        sign(header(&key.public(), origin, previous, sequence), subject.collect(), key).unwrap()
    }

    /// The quick reading is the slow one, where there is one.
    #[test]
    fn both_readings_agree() {
        let key = PrivateKey::from_seed(&[1; 32]);
        let public = key.public();
        for (origin, previous, sequence, quickly) in [
            ("example.org/log", None, 0, true),
            ("example.org/log", Some(Digest::of_file(b"x")), 1_000_000, true),
            ("example.org/log", None, canonical::MAX_INTEGER, true),
            ("ex\u{e4}mple", None, 3, false),
            ("a\"b", None, 3, false),
        ] {
            let line = line(&key, origin, previous, sequence);
            let read = slow(sequence, &line, &public).unwrap();
            assert_eq!(read.header, header(&public, origin, previous, sequence));
            assert!(matches!(read.subjects, Subjects::Written { .. }));
            match quick(&line, &public) {
                Some(signed) => assert_eq!(signed, read),
                None => assert!(!quickly, "{origin}"),
            }
        }
    }

    /// Whatever byte is another one, the quick reading has nothing to say that the slow one would not.
    #[test]
    fn no_other_spelling_is_read_quickly() {
        let key = PrivateKey::from_seed(&[1; 32]);
        let public = key.public();
        let line = line(&key, "example.org/log", None, 7);
        for at in 0..line.len() {
            for flip in [1, 2, 4, 0x20, 0x80] {
                let mut altered = line.clone();
                altered[at] ^= flip;
                assert!(quick(&altered, &public).is_none(), "byte {at}");
                assert!(slow(7, &altered, &public).is_err(), "byte {at}");
            }
        }
        for cut in 0..line.len() {
            assert!(quick(&line[..cut], &public).is_none());
        }
        // Signed by the key, but not in the one spelling.
        let statement = Statement::new(predicate::LOG_ENTRY, Vec::new(), header(&public, "example.org/log", None, 7));
        let pretty = serde_json::to_vec_pretty(&statement).unwrap();
        let signature = key.sign(&dsse::pae(envelope::PAYLOAD_TYPE, &pretty));
        let line = format!(
            r#"{{"payload":"{}","payloadType":"application/vnd.in-toto+json","signatures":[{{"keyid":"{}","sig":"{}"}}]}}"#,
            STANDARD.encode(&pretty),
            public.id(),
            STANDARD.encode(signature)
        );
        assert!(quick(line.as_bytes(), &public).is_none() && slow(7, line.as_bytes(), &public).is_err());
    }
}
