//! The tamper suite: every case of `support/cases.rs`, every field of what is signed, every byte of what is stored.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use record::log::{Checkpoint, Expect, Memory, verify};
use record::{Receipt, canonical, container};
use serde_json::{Value, json};
use support::cases::{self, Case};
use support::forge::{self, build, lines, mutate, pointers, records};
use support::{ORIGIN, Random, honest, key};

fn outcome(case: &Case) -> Result<(), &'static str> {
    let key = key().public();
    let seen = case.seen_checkpoint.as_ref().map(|bytes| Checkpoint::verify(bytes, &key).unwrap());
    let receipt = case.receipt.as_ref().map(|bytes| Receipt::verify(bytes, ORIGIN, &key).unwrap());
    let receipts: Vec<_> = receipt.into_iter().collect();
    let expect = Expect { origin: case.expect_origin, checkpoint: seen.as_ref(), receipts: &receipts };
    verify(&case.log, &key, &expect).map(drop).map_err(|refusal| {
        assert!(!refusal.to_string().is_empty());
        refusal.code()
    })
}

#[test]
fn each_case_is_refused_for_its_reason() {
    let cases = cases::all();
    for case in &cases {
        assert_eq!(outcome(case).err(), case.reason, "case {}: {}", case.id, case.comment);
    }
    assert!(cases.windows(2).all(|pair| pair[0].id < pair[1].id), "ids ascend and are not reused");
}

#[test]
fn the_forger_of_this_suite_writes_what_the_writer_writes() {
    let written = honest(ORIGIN, &key(), 3);
    assert_eq!(build(&records(ORIGIN, &key(), 3), &key(), |_, _| ()), written);
}

/// The operator signs an entry one field of whose header or subjects is not true.
#[test]
fn each_field_of_an_entry_counts() {
    let records = records(ORIGIN, &key(), 3);
    let drafted = forge::draft(&records[1], None, 0, &key());
    let whole = json!({"predicate": drafted.statement.predicate, "subject": drafted.statement.subject});
    let mut seen = BTreeMap::new();
    for pointer in pointers(&whole) {
        let log = build(&records, &key(), |index, draft| {
            if index != 1 {
                return;
            }
            let mut whole = json!({"predicate": draft.statement.predicate, "subject": draft.statement.subject});
            mutate(whole.pointer_mut(&pointer).unwrap());
            draft.statement.predicate = whole["predicate"].take();
            draft.statement.subject = serde_json::from_value(whole["subject"].take()).unwrap();
        });
        let code = verify(&log, &key().public(), &Expect::default()).map(drop).map_err(|refusal| refusal.code());
        seen.insert(pointer, code.err().unwrap_or("valid"));
    }
    let expected = [
        ("/predicate/chain/after", "chain-gap"),
        ("/predicate/chain/before", "chain-gap"),
        ("/predicate/key_id", "entry-shape"),
        ("/predicate/origin", "spliced"),
        ("/predicate/previous", "forked"),
        ("/predicate/public_key", "entry-shape"),
        ("/predicate/record", "record-missing"),
        ("/predicate/sequence", "missing"),
        // A clock reading is a claim: nothing in the log can contradict it.
        ("/predicate/time_unix_us", "valid"),
        ("/subject/0/digest/lastbit-record-v1", "record-disagrees"),
        ("/subject/0/name", "record-disagrees"),
        ("/subject/1/digest/sha256", "record-altered"),
        ("/subject/1/name", "record-disagrees"),
        ("/subject/2/digest/lastbit-outputs-v1", "record-disagrees"),
        ("/subject/2/name", "record-disagrees"),
    ];
    assert_eq!(seen, expected.map(|(pointer, code)| (pointer.to_owned(), code)).into());
}

/// Someone edits one value of a stored record and writes the file anew, header and all.
#[test]
fn each_field_of_a_stored_record_counts() {
    let log = honest(ORIGIN, &key(), 1);
    let (digest, file) = log.records.first_key_value().unwrap();
    let value: Value = serde_json::from_slice(container::unwrap(container::REPLAY, file).unwrap()).unwrap();
    let all = pointers(&value);
    assert!(all.len() > 150, "{} values", all.len());
    for pointer in all {
        let mut value = value.clone();
        mutate(value.pointer_mut(&pointer).unwrap());
        let mut altered = log.clone();
        let file = container::wrap(container::REPLAY, &canonical::to_bytes(&value).unwrap());
        altered.records.insert(*digest, file);
        let refusal = verify(&altered, &key().public(), &Expect::default()).map(drop).unwrap_err();
        assert_eq!(refusal.code(), "record-altered", "{pointer}");
    }
}

/// One bit of each byte, of everything that is stored.
#[test]
fn no_flipped_bit_goes_unnoticed() {
    let log = honest(ORIGIN, &key(), 2);
    let mut random = Random(7);
    let mut check = |part: &str, bytes: &[u8], put: &dyn Fn(&mut Memory, Vec<u8>), allowed: &[&str]| {
        for index in 0..bytes.len() {
            let mut bytes = bytes.to_vec();
            bytes[index] ^= 1 << random.below(8);
            let mut altered = log.clone();
            put(&mut altered, bytes);
            match verify(&altered, &key().public(), &Expect::default()) {
                Ok(_) => panic!("{part}: byte {index} does not count"),
                Err(refusal) => {
                    assert!(allowed.contains(&refusal.code()), "{part}: byte {index}: {}", refusal.code());
                }
            }
        }
    };
    check(
        "checkpoint",
        &log.checkpoint,
        &|log, bytes| log.checkpoint = bytes,
        &["checkpoint-malformed", "checkpoint-altered", "checkpoint-re-signed"],
    );
    check(
        "entries",
        &log.entries,
        &|log, bytes| log.entries = bytes,
        &["entry-malformed", "altered", "unknown-version", "truncated"],
    );
    let (digest, file) = log.records.first_key_value().unwrap();
    let put = |log: &mut Memory, bytes| drop(log.records.insert(*digest, bytes));
    check("record", file, &put, &["record-altered"]);
}

/// Cutting the stored bytes anywhere is noticed too.
#[test]
fn no_cut_goes_unnoticed() {
    let log = honest(ORIGIN, &key(), 2);
    for length in 0..log.entries.len() {
        let mut cut = log.clone();
        cut.entries.truncate(length);
        let refusal = verify(&cut, &key().public(), &Expect::default()).map(drop).unwrap_err();
        assert_eq!(refusal.code(), "truncated", "cut at {length}");
    }
}

/// `tests/vectors/log.json` says the same as this suite. `UPDATE_VECTORS=1 cargo test` writes it.
#[test]
fn published_vectors_are_current() {
    let mut tables = Tables::default();
    let tests: Vec<Value> = cases::all().iter().map(|case| tables.case(case)).collect();
    let mut document = json!({
        "schema": "lastbit/vectors/log/v1",
        "op": "log-verify",
        "provenance": {"tool": "record/tests/tamper.rs", "licence": "Apache-2.0"},
        "notes": {
            "lines": "A case's entries are these lines, each followed by a newline, then the bytes of `tail`.",
            "files": "Record files in hex, stored under the digest that the case names.",
            "reason": "The closed vocabulary of docs/spec/local-log.md.",
        },
        "groups": [{
            "public_key": hex::encode(key().public().as_bytes()),
            "lines": tables.lines,
            "checkpoints": tables.checkpoints,
            "files": tables.files,
            "tests": tests,
        }],
    });
    // Other crates of a build may ask serde_json to keep insertion order.
    document.sort_all_objects();
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/log.json");
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == text,
        "run with UPDATE_VECTORS=1 and review the diff"
    );
}

#[derive(Default)]
struct Tables {
    lines: Vec<String>,
    checkpoints: Vec<String>,
    files: Vec<String>,
}

impl Tables {
    fn case(&mut self, case: &Case) -> Value {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let whole = lines(&case.log.entries);
        let length: usize = whole.iter().map(|line| line.len() + 1).sum();
        let entries: Vec<_> = whole.iter().map(|line| intern(&mut self.lines, text(line))).collect();
        let stored = case.log.records.iter();
        let records: BTreeMap<String, usize> =
            stored.map(|(digest, file)| (digest.to_string(), intern(&mut self.files, hex::encode(file)))).collect();
        json!({
            "id": case.id,
            "comment": case.comment,
            "entries": entries,
            "tail": text(&case.log.entries[length..]),
            "checkpoint": intern(&mut self.checkpoints, text(&case.log.checkpoint)),
            "records": records,
            "expect_origin": case.expect_origin,
            "seen_checkpoint": case.seen_checkpoint.as_ref().map(|bytes| intern(&mut self.checkpoints, text(bytes))),
            "receipt": case.receipt.as_ref().map(|bytes| text(bytes)),
            "result": if case.reason.is_none() { "valid" } else { "invalid" },
            "reason": case.reason,
        })
    }
}

fn intern(table: &mut Vec<String>, text: String) -> usize {
    table.iter().position(|known| *known == text).unwrap_or_else(|| {
        table.push(text);
        table.len() - 1
    })
}
