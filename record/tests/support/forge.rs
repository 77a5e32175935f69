//! Logs as someone with a key, honest or not, could build them: the writer's format again, without its refusals.

use record::digest::Tagged;
use record::envelope::{self, Statement, Subject, predicate};
use record::log::{Checkpoint, EntryHeader, Memory};
use record::merkle::Tree;
use record::{Digest, PrivateKey, Record, commit, replay};
use serde_json::Value;

/// One entry to be signed.
pub struct Draft {
    pub statement: Statement<Value>,
    pub record: Digest,
    pub file: Vec<u8>,
}

/// The honest draft of a record that continues `previous`.
pub fn draft(record: &Record, previous: Option<Digest>, time_unix_us: u64, key: &PrivateKey) -> Draft {
    let (file, digest) = (replay::to_file(record).unwrap(), record.digest().unwrap());
    let header = EntryHeader {
        origin: record.link.origin.clone(),
        sequence: record.link.sequence,
        previous,
        record: digest,
        chain: record.chain,
        time_unix_us,
        key_id: key.public().id(),
        public_key: hex::encode(key.public().as_bytes()),
    };
    let subject = vec![
        Subject::new("record", "lastbit-record-v1", &digest),
        Subject::new("file", "sha256", &Digest::of_file(&file)),
        Subject::new("outputs", "lastbit-outputs-v1", &record.outputs_digest()),
    ];
    let predicate = serde_json::to_value(header).unwrap();
    Draft { statement: Statement::new(predicate::LOG_ENTRY, subject, predicate), record: digest, file }
}

pub fn entry_hash(line: &[u8]) -> Digest {
    Tagged::new("lastbit/entry/v1").bytes(line).finish()
}

/// Signs these records as a log, each entry after `tweak` had its way; everything else is consistent.
pub fn build(records: &[Record], key: &PrivateKey, tweak: impl Fn(usize, &mut Draft)) -> Memory {
    let mut log = Memory::default();
    let mut previous = None;
    let mut chain = commit::genesis(&records[0].link.origin);
    for (index, record) in records.iter().enumerate() {
        let mut draft = draft(record, previous, super::START_US + index as u64, key);
        tweak(index, &mut draft);
        let line = envelope::sign(&draft.statement, key).unwrap();
        previous = Some(entry_hash(&line));
        chain = record.chain.after;
        log.entries.extend_from_slice(&line);
        log.entries.push(b'\n');
        log.records.insert(draft.record, draft.file);
    }
    log.checkpoint = checkpoint(&log.entries, &records[0].link.origin, chain, key);
    log
}

/// A correct checkpoint over these lines.
pub fn checkpoint(entries: &[u8], origin: &str, chain: Digest, key: &PrivateKey) -> Vec<u8> {
    let mut tree = Tree::default();
    lines(entries).iter().for_each(|line| tree.push(line).unwrap());
    let root = tree.root().unwrap();
    Checkpoint { origin: origin.to_owned(), size: tree.size(), root, chain, keys: None }.sign(key).unwrap()
}

/// The complete lines, without newlines.
pub fn lines(entries: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = entries.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    lines.pop();
    lines
}

pub fn join(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect()
}

/// `count` honest records of one log, without writing it.
pub fn records(origin: &str, key: &PrivateKey, count: u64) -> Vec<Record> {
    let mut all: Vec<Record> = Vec::new();
    for sequence in 0..count {
        let link = record::inference::Link {
            origin: origin.to_owned(),
            sequence,
            previous: all.last().map(|record| record.digest().unwrap()),
            key_id: key.public().id(),
        };
        let chain = all.last().map_or(commit::genesis(origin), |record| record.chain.after);
        all.push(super::record(&record::log::Next { link, chain }, record::EvidenceLevel::S).0);
    }
    all
}

/// All leaf values of a JSON document by pointer.
pub fn pointers(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: String, out: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(key, value)| walk(value, format!("{at}/{key}"), out)),
            Value::Array(items) if !items.is_empty() => {
                items.iter().enumerate().for_each(|(index, value)| walk(value, format!("{at}/{index}"), out));
            }
            _ => out.push(at),
        }
    }
    let mut out = Vec::new();
    walk(value, String::new(), &mut out);
    out
}

/// Another value of the same kind.
pub fn mutate(value: &mut Value) {
    *value = match value {
        Value::Null => Value::String("null".to_owned()),
        Value::Bool(flag) => Value::Bool(!*flag),
        Value::Number(number) => (number.as_u64().unwrap_or_default() + 1).into(),
        Value::String(text) if text.ends_with('0') => format!("{}1", &text[..text.len() - 1]).into(),
        Value::String(text) if text.starts_with("sha256:") => format!("{}0", &text[..text.len() - 1]).into(),
        Value::String(text) => format!("{text}0").into(),
        Value::Array(_) => Value::Array(vec![Value::from(1)]),
        Value::Object(_) => unreachable!("objects are walked"),
    };
}
