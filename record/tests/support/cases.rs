//! Every way to tamper with a log, and the one reason for which each must be refused.
//!
//! `tests/tamper.rs` runs them here and keeps `tests/vectors/log.json` equal to them for other implementations.

use record::envelope::{self, predicate};
use record::log::{Checkpoint, Memory};
use record::receipt::Level;
use record::{Digest, Receipt, Record};
use serde_json::{Value, json};

use super::forge::{Draft, build, checkpoint, join, lines, records};
use super::{ORIGIN, START_US, key, other_key, reseal};

pub struct Case {
    pub id: u32,
    pub comment: &'static str,
    pub log: Memory,
    /// `None`: valid.
    pub reason: Option<&'static str>,
    pub expect_origin: Option<&'static str>,
    pub seen_checkpoint: Option<Vec<u8>>,
    pub receipt: Option<Vec<u8>>,
}

struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, id: u32, reason: &'static str, comment: &'static str, log: Memory) -> &mut Case {
        let reason = (reason != "valid").then_some(reason);
        self.0.push(Case { id, comment, log, reason, expect_origin: None, seen_checkpoint: None, receipt: None });
        self.0.last_mut().unwrap()
    }
}

fn with_lines(log: &Memory, lines: &[Vec<u8>]) -> Memory {
    Memory { entries: join(lines), ..log.clone() }
}

fn replace_line(log: &Memory, index: usize, line: Vec<u8>) -> Memory {
    let mut all = lines(&log.entries);
    all[index] = line;
    with_lines(log, &all)
}

/// The envelope of an entry, edited and written canonically again.
fn edit_line(line: &[u8], edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value = serde_json::from_slice(line).unwrap();
    edit(&mut value);
    serde_json_canonicalizer::to_vec(&value).unwrap()
}

fn flip_base64(value: &mut Value, at: usize) {
    let text = value.as_str().unwrap();
    let other = if &text[at..=at] == "A" { "B" } else { "A" };
    *value = format!("{}{other}{}", &text[..at], &text[at + 1..]).into();
}

fn set(draft: &mut Draft, pointer: &str, value: Value) {
    *draft.statement.predicate.pointer_mut(pointer).unwrap() = value;
}

pub fn all() -> Vec<Case> {
    let honest_records = records(ORIGIN, &key(), 3);
    let honest = build(&honest_records, &key(), |_, _| ());
    // Another history of the same log: the clock read differently from the second entry on.
    let fork = build(&honest_records, &key(), |index, draft| {
        if index > 0 {
            set(draft, "/time_unix_us", (START_US + 1000).into());
        }
    });
    let mut cases = Cases(Vec::new());
    cases.add(1, "valid", "an honest log of three records", honest.clone());
    let two = lines(&honest.entries)[..2].to_vec();
    let covering_two = checkpoint(&join(&two), ORIGIN, honest_records[1].chain.after, &key());
    cases.add(
        2,
        "valid",
        "the last entry is complete but not yet covered by the checkpoint",
        Memory { checkpoint: covering_two.clone(), ..honest.clone() },
    );
    entries(&mut cases, &honest, &fork);
    order(&mut cases, &honest, &fork, &covering_two);
    checkpoints(&mut cases, &honest, &fork);
    stored_records(&mut cases, &honest, &honest_records);
    signed_lies(&mut cases, &honest_records);
    memory_of_the_past(&mut cases, &honest, &fork, &honest_records, covering_two);
    cases.0
}

fn entries(cases: &mut Cases, honest: &Memory, fork: &Memory) {
    let line = &lines(&honest.entries)[1];
    let payload = edit_line(line, |entry| flip_base64(&mut entry["payload"], 40));
    cases.add(10, "altered", "one character of an entry's payload", replace_line(honest, 1, payload));
    let signature = edit_line(line, |entry| flip_base64(&mut entry["signatures"][0]["sig"], 3));
    cases.add(11, "altered", "one character of an entry's signature", replace_line(honest, 1, signature));
    let moved = edit_line(line, |entry| entry["payload"] = payload_of(&lines(&fork.entries)[1]));
    cases.add(12, "altered", "a signature moved to another payload of the same key", replace_line(honest, 1, moved));
    let hint = other_key().public().id().to_string();
    let hinted = edit_line(line, |entry| entry["signatures"][0]["keyid"] = hint.into());
    cases.add(13, "altered", "the unsigned key hint names another key", replace_line(honest, 1, hinted));
    let twice = edit_line(line, |entry| {
        let signature = entry["signatures"][0].clone();
        entry["signatures"].as_array_mut().unwrap().push(signature);
    });
    cases.add(14, "entry-malformed", "an entry with its signature twice", replace_line(honest, 1, twice));
    let mut spaced = line.clone();
    spaced.insert(1, b' ');
    cases.add(15, "entry-malformed", "a space in an entry", replace_line(honest, 1, spaced));
    let extra = edit_line(line, |entry| entry["note"] = "hello".into());
    cases.add(16, "entry-malformed", "an unknown member beside the payload", replace_line(honest, 1, extra));
    let long = vec![b'['; 70_000];
    cases.add(17, "entry-malformed", "a line longer than an entry may be", replace_line(honest, 1, long));
}

fn payload_of(line: &[u8]) -> Value {
    serde_json::from_slice::<Value>(line).unwrap()["payload"].clone()
}

fn order(cases: &mut Cases, honest: &Memory, fork: &Memory, covering_two: &[u8]) {
    let (all, forked) = (lines(&honest.entries), lines(&fork.entries));
    let pick = |order: &[usize]| -> Vec<_> { order.iter().map(|index| all[*index].clone()).collect() };
    cases.add(20, "truncated", "the last entry is cut off", with_lines(honest, &pick(&[0, 1])));
    cases.add(21, "truncated", "all entries are gone", with_lines(honest, &[]));
    cases.add(22, "missing", "an entry is cut out of the middle", with_lines(honest, &pick(&[0, 2])));
    cases.add(23, "reordered", "two entries are exchanged", with_lines(honest, &pick(&[0, 2, 1])));
    cases.add(24, "repeated", "an entry stands twice", with_lines(honest, &pick(&[0, 1, 1, 2])));
    cases.add(25, "forked", "an entry of another history of this log", replace_line(honest, 2, forked[2].clone()));
    let sibling = build(&records("example.org/other", &key(), 3), &key(), |_, _| ());
    let spliced = replace_line(honest, 2, lines(&sibling.entries)[2].clone());
    cases.add(26, "spliced", "an entry of another log of the same key", spliced);
    let mut torn = Memory { checkpoint: covering_two.to_vec(), ..honest.clone() };
    torn.entries.truncate(torn.entries.len() - 100);
    cases.add(27, "torn-tail", "the last, not yet covered entry is half-written", torn);
    let mut cut = honest.clone();
    cut.entries.pop();
    cases.add(28, "truncated", "the final newline is gone: the last covered entry is not whole", cut);
}

fn checkpoints(cases: &mut Cases, honest: &Memory, fork: &Memory) {
    let text = String::from_utf8(honest.checkpoint.clone()).unwrap();
    let with = |checkpoint: Vec<u8>| Memory { checkpoint, ..honest.clone() };
    let grown = text.replacen("\n3\n", "\n4\n", 1).into_bytes();
    cases.add(30, "checkpoint-altered", "the size in the checkpoint", with(grown));
    let cut = text.split_once("\n\n").unwrap().0.to_owned() + "\n";
    cases.add(31, "checkpoint-malformed", "the checkpoint's signature is gone", with(cut.into_bytes()));
    cases.add(32, "checkpoint-malformed", "the checkpoint is empty", with(Vec::new()));
    let chain = "sha256:".to_owned() + &"0".repeat(64);
    let own = checkpoint(&honest.entries, ORIGIN, chain.parse().unwrap(), &key());
    cases.add(33, "checkpoint-contradicts", "a signed checkpoint with another chain value", with(own));
    cases.add(34, "checkpoint-contradicts", "the checkpoint of another history", with(fork.checkpoint.clone()));
    // A thief without the key signs everything anew.
    let theirs = build(&records(ORIGIN, &other_key(), 3), &other_key(), |_, _| ());
    cases.add(35, "checkpoint-re-signed", "log and checkpoint re-signed by another key", theirs.clone());
    let entries_only = Memory { entries: theirs.entries, ..honest.clone() };
    cases.add(36, "re-signed", "entries re-signed by another key", entries_only);
    cases.add(37, "wrong-origin", "an honest log, but not the one asked for", honest.clone()).expect_origin =
        Some("example.org/wanted");
}

fn stored_records(cases: &mut Cases, honest: &Memory, records: &[Record]) {
    let digests: Vec<Digest> = records.iter().map(|record| record.digest().unwrap()).collect();
    let mut gone = honest.clone();
    gone.records.remove(&digests[1]);
    cases.add(40, "record-missing", "a record file is gone", gone);
    let mut altered = honest.clone();
    *altered.records.get_mut(&digests[1]).unwrap().last_mut().unwrap() ^= 1;
    cases.add(41, "record-altered", "the last byte of a record file", altered);
    let mut exchanged = honest.clone();
    exchanged.records.insert(digests[1], honest.records[&digests[0]].clone());
    cases.add(42, "record-altered", "a record file replaced by another one", exchanged);
    let mut short = honest.clone();
    short.records.get_mut(&digests[1]).unwrap().truncate(20);
    cases.add(43, "record-altered", "a record file cut short", short);
}

/// What the key holder itself can sign, and must be refused for all its signatures.
fn signed_lies(cases: &mut Cases, honest: &[Record]) {
    let lie = |tweak: &dyn Fn(&mut Draft)| {
        build(honest, &key(), |index, draft| {
            if index == 2 {
                tweak(draft);
            }
        })
    };
    let version = |draft: &mut Draft| draft.statement.predicate_type = predicate::LOG_ENTRY.replace("/v1", "/v2");
    cases.add(50, "unknown-version", "an entry of a later version", lie(&version));
    let member = |draft: &mut Draft| draft.statement.predicate["note"] = json!("hello");
    cases.add(51, "entry-shape", "an entry with an unknown member", lie(&member));
    let gap = |draft: &mut Draft| set(draft, "/chain/before", json!(honest[0].chain.before));
    cases.add(52, "chain-gap", "an entry that starts from an older chain value", lie(&gap));
    let after = |draft: &mut Draft| set(draft, "/chain/before", json!(honest[0].chain.after));
    cases.add(53, "chain-gap", "an entry that skips a record's chain", lie(&after));
    let outputs = |draft: &mut Draft| draft.statement.subject[2] = draft.statement.subject[1].clone();
    cases.add(54, "record-disagrees", "an entry about other outputs than its record's", lie(&outputs));
    let newer = |draft: &mut Draft| {
        draft.file[16] = 2;
        let digest = Digest::of_file(&draft.file).to_hex();
        draft.statement.subject[1].digest.insert("sha256".to_owned(), digest);
    };
    cases.add(55, "record-malformed", "a record file of a later major version", lie(&newer));

    let other = |edit: &dyn Fn(&mut Record)| {
        let mut all = honest.to_vec();
        edit(&mut all[2]);
        build(&all, &key(), |_, _| ())
    };
    let chain = |record: &mut Record| record.steps[1].chain = record.steps[0].chain;
    cases.add(56, "record-inconsistent", "a record whose chain breaks inside", other(&chain));
    let leaf = |record: &mut Record| record.steps[1].leaves[0] = record.steps[0].leaves[0];
    cases.add(57, "record-inconsistent", "a record with a leaf that its step root does not cover", other(&leaf));
    let unlogged = |record: &mut Record| {
        record.steps[1].schedule.rows.pop();
        record.steps[1].schedule.padded_rows -= 1;
        record.steps[1].leaves.pop();
        reseal(record);
    };
    cases.add(58, "record-inconsistent", "a record that leaves out a row its outputs need", other(&unlogged));
    let elsewhere = |record: &mut Record| record.link.sequence = 1;
    let relabelled = build_relabelled(honest, &elsewhere);
    cases.add(59, "record-disagrees", "a record that claims another place than its entry", relabelled);
    let entry = build(honest, &key(), |_, _| ());
    let statement = envelope::verify(&lines(&entry.entries)[2], &[&key().public()]).unwrap();
    let line = {
        struct Signer;
        impl dsse::Signer for Signer {
            fn sign(&self, message: &[u8]) -> dsse::Result<Vec<u8>> {
                Ok(key().sign(message).to_vec())
            }
        }
        let signed = dsse::sign("application/x-other", &statement.payload, &Signer).unwrap();
        serde_json_canonicalizer::to_vec(&signed).unwrap()
    };
    cases.add(60, "unknown-version", "an envelope with another payload type", replace_line(&entry, 2, line));
}

/// The third record edited, under an entry header that does not say so.
fn build_relabelled(honest: &[Record], edit: &dyn Fn(&mut Record)) -> Memory {
    let mut all = honest.to_vec();
    edit(&mut all[2]);
    build(&all, &key(), |index, draft| {
        if index == 2 {
            set(draft, "/sequence", 2.into());
        }
    })
}

fn memory_of_the_past(cases: &mut Cases, honest: &Memory, fork: &Memory, records: &[Record], covering_two: Vec<u8>) {
    let two = lines(&honest.entries)[..2].to_vec();
    let older = Memory { entries: join(&two), checkpoint: covering_two.clone(), ..honest.clone() };
    let receipt = Receipt::of(&records[2], 0, Level::S, START_US).unwrap();
    cases.add(70, "valid", "an older state of the log, to a reader who knows nothing of a newer one", older.clone());
    let seen = cases.add(71, "rolled-back", "the same, to a reader who has seen the newer checkpoint", older.clone());
    seen.seen_checkpoint = Some(honest.checkpoint.clone());
    let promised = cases.add(72, "rolled-back", "the same, to a reader with a receipt of the cut-off entry", older);
    promised.receipt = Some(receipt.sign(&key()).unwrap());
    let other = cases.add(73, "contradicts-pin", "another history, to a reader who has seen this one", fork.clone());
    other.seen_checkpoint = Some(covering_two);
    cases.add(74, "valid", "an honest log, to a reader who holds a receipt", honest.clone()).receipt =
        Some(receipt.sign(&key()).unwrap());
    let mut otherwise = receipt;
    otherwise.output = otherwise.prompt;
    cases.add(75, "contradicts-receipt", "an output other than the one promised", honest.clone()).receipt =
        Some(otherwise.sign(&key()).unwrap());
    let smaller = Checkpoint::verify(&honest.checkpoint, &key().public()).unwrap();
    let grown = Checkpoint { size: 9, ..smaller }.sign(&key()).unwrap();
    cases.add(76, "truncated", "a signed checkpoint that covers more entries than there are", {
        Memory { checkpoint: grown, ..honest.clone() }
    });
}
