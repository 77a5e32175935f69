//! Every parser of bytes that come from someone else, fed with mutations of honest ones. Nothing panics; what is accepted is what it says it is.

mod support;

use std::time::Duration;

use lastbit_tests::fuzz::{Budget, run};
use record::envelope::{self, Statement, predicate};
use record::log::{Checkpoint, EntryHeader, Expect, KeyHistory, Memory, verify};
use record::model_signing::{ModelKey, SignedModel};
use record::receipt::Level;
use record::tlog::{AddCheckpoint, InclusionProof, Misbehaviour, Published, WitnessKey, cosign, cosignatures, merge};
use record::{Evidence, EvidenceLevel, Log, PublicKey, Receipt, Record, canonical, replay};
use support::{ORIGIN, START_US, key, other_key};

const QUICK: Budget = Budget::Inputs(300);
const DEEP: Budget = Budget::Time(Duration::from_secs(60));

/// Honest bytes of everything.
struct Seeds {
    log: Memory,
    record: Vec<u8>,
    evidence: Vec<u8>,
    receipt: Vec<u8>,
    cosigned: Vec<u8>,
    witness: WitnessKey,
}

fn seeds() -> Seeds {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (mut log, written) = support::make_log(&path, ORIGIN, &key(), 2);
    let receipt = log.issue_receipts(&written[0].1, &written[0].0, Level::S, START_US).unwrap().remove(0);
    log.rotate(other_key(), "yearly", START_US).unwrap();
    let (_, evidence) = support::record(&log.next(), EvidenceLevel::A);
    drop::<Log>(log);
    let log = support::memory(&path);
    let witness = WitnessKey::new("w.example/1", key().public()).unwrap();
    let line = cosign(&log.checkpoint, &witness, &key(), 7).unwrap();
    Seeds {
        record: replay::to_file(&written[0].0).unwrap(),
        evidence: evidence.to_file().unwrap(),
        receipt,
        cosigned: merge(&log.checkpoint, &line, &witness).unwrap(),
        witness,
        log,
    }
}

/// A reader accepts any minor version, which the header has in these two bytes.
fn without_minor(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    file[18..20].fill(0);
    file
}

/// Files and the JSON in them.
fn files(budget: Budget) {
    let s = seeds();
    let entries = support::forge::lines(&s.log.entries);
    run("canonical", &[b"{\"a\":[1,null,\"x\"]}".to_vec(), entries[0].clone()], budget, |bytes| {
        if let Ok(value) = canonical::read_value(bytes, 1 << 20) {
            assert_eq!(canonical::to_bytes(&value).unwrap(), bytes);
        }
    });
    run("replay", std::slice::from_ref(&s.record), budget, |bytes| {
        if let Ok(record) = replay::from_file(bytes) {
            assert_eq!(replay::to_file(&record).unwrap(), without_minor(bytes));
            let _ = record.check();
        }
    });
    let json = s.record[32..].to_vec();
    run("record", &[json], budget, |bytes| {
        if let Ok(record) = Record::from_bytes(bytes) {
            let _ = (record.check(), record.unspecified(), record.digest());
        }
    });
    run("evidence", std::slice::from_ref(&s.evidence), budget, |bytes| {
        if let Ok(evidence) = Evidence::from_file(bytes) {
            assert_eq!(evidence.to_file().unwrap(), without_minor(bytes));
        }
    });
    let bundle = include_bytes!("vectors/model-signing/model.sig").to_vec();
    let pem = include_str!("vectors/model-signing/pub.pem");
    let model = ModelKey::from_pem(pem).unwrap();
    run("model-signature", &[bundle], budget, |bytes| drop(SignedModel::verify(bytes, &model)));
    run("model-key", &[pem.as_bytes().to_vec()], budget, |bytes| {
        drop(ModelKey::from_pem(&String::from_utf8_lossy(bytes)))
    });
}

/// What is signed: the outside, and the inside as the key's owner could have signed it.
fn signed(budget: Budget) {
    let s = seeds();
    let (public, successor) = (key().public(), other_key().public());
    let keys = KeyHistory::of_key(successor.clone());
    let entries = support::forge::lines(&s.log.entries);
    run("entry", &entries, budget, |bytes| {
        let _ = record::log::read_entry(0, bytes, &KeyHistory::of_key(public.clone()));
        let _ = envelope::verify(bytes, &[&public]);
    });
    // What comes behind a signature is parsed too: the key's owner is not trusted either.
    let header = serde_json::json!({"origin": ORIGIN, "sequence": 0});
    let payload = canonical::to_bytes(&Statement::new(predicate::LOG_ENTRY, Vec::new(), header)).unwrap();
    run("signed-statement", &[payload], budget, |bytes| {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        let signature = key().sign(&dsse::pae(envelope::PAYLOAD_TYPE, bytes));
        let line = serde_json::json!({
            "payload": STANDARD.encode(bytes), "payloadType": envelope::PAYLOAD_TYPE, "signatures": [{"sig": STANDARD.encode(signature)}],
        });
        let verified = envelope::verify(&canonical::to_bytes(&line).unwrap(), &[&public]).unwrap();
        let _ = verified.statement::<EntryHeader>(predicate::LOG_ENTRY);
        let _ = record::log::read_entry(0, &canonical::to_bytes(&line).unwrap(), &KeyHistory::of_key(public.clone()));
    });
    run("checkpoint", &[s.log.checkpoint.clone(), s.cosigned.clone()], budget, |bytes| {
        let _ = (Checkpoint::verify(bytes, &successor), cosignatures(bytes, std::slice::from_ref(&s.witness)));
        let _ = merge(&s.log.checkpoint, bytes, &s.witness);
    });
    let head = String::from_utf8(s.log.checkpoint.clone()).unwrap();
    let head = head.split("\n\n").next().unwrap().as_bytes().to_vec();
    run("signed-checkpoint", &[head], budget, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(note) = record::note::sign(&format!("{text}\n"), ORIGIN, &other_key()) {
            let _ = keys.checkpoint(&note);
        }
    });
    run("receipt", std::slice::from_ref(&s.receipt), budget, |bytes| drop(Receipt::verify(bytes, ORIGIN, &public)));
    run("keys", std::slice::from_ref(&s.log.keys), budget, |bytes| drop(KeyHistory::verify(bytes, &public)));
}

/// Whole logs, proofs and published folders.
fn published(budget: Budget) {
    let s = seeds();
    let (public, successor) = (key().public(), other_key().public());
    let keys = KeyHistory::of_key(successor.clone());
    let entries = support::forge::lines(&s.log.entries);
    let proof = InclusionProof { index: 1, path: vec![record::Digest::of_file(b"")], checkpoint: s.cosigned.clone() };
    run("tlog-proof", &[proof.to_bytes()], budget, |bytes| {
        if let Ok(proof) = InclusionProof::from_bytes(bytes) {
            assert_eq!(proof.to_bytes(), bytes);
            let _ = proof.verify(&entries[1], &keys);
        }
    });
    let request = AddCheckpoint { old: 1, proof: proof.path.clone(), checkpoint: s.cosigned.clone() };
    let older = Checkpoint::verify(&s.log.checkpoint, &successor).unwrap();
    run("add-checkpoint", &[request.to_bytes()], budget, |bytes| {
        if let Ok(request) = AddCheckpoint::from_bytes(bytes) {
            assert_eq!(request.to_bytes(), bytes);
            let _ = (request.origin(), request.verify(&older, &keys));
        }
    });
    let note = String::from_utf8(s.log.checkpoint.clone()).unwrap();
    let shown = serde_json::json!({"type": "misbehaviour/v1", "origin": ORIGIN, "first": note, "second": note, "root": null, "proof": []});
    run("misbehaviour", &[canonical::to_bytes(&shown).unwrap()], budget, |bytes| {
        assert!(Misbehaviour::verify(bytes, &keys).is_err());
    });
    let texts = [s.witness.to_text().into_bytes(), public.note_key(ORIGIN).into_bytes()];
    run("verifier-keys", &texts, budget, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = (
            WitnessKey::parse(&text),
            PublicKey::from_note_key(&text),
            PublicKey::from_pem(&text),
            ModelKey::from_pem(&text),
        );
    });
    run("log", std::slice::from_ref(&s.log.entries), budget, |bytes| {
        let log = Memory { entries: bytes.to_vec(), ..s.log.clone() };
        let _ = verify(&log, &public, &Expect::default()).map(drop);
    });
    let dir = tempfile::tempdir().unwrap();
    let verified = record::log::verify_entries(&s.log, &public, &Expect::default()).unwrap();
    record::tlog::publish(&verified, dir.path()).unwrap();
    let bundle = dir.path().join("tile/entries/000.p/2");
    run("entry-bundle", &[std::fs::read(&bundle).unwrap()], budget, |bytes| {
        std::fs::write(&bundle, bytes).unwrap();
        let _ = (Published::new(dir.path()).load(&verified.keys).map(drop), Published::new(dir.path()).entry(2, 1));
    });
}

#[test]
fn files_do_not_panic() {
    files(QUICK);
}

#[test]
fn signed_bytes_do_not_panic() {
    signed(QUICK);
}

#[test]
fn published_bytes_do_not_panic() {
    published(QUICK);
}

#[test]
#[ignore = "deep: a minute for each parser"]
fn files_do_not_panic_for_a_minute_each() {
    files(DEEP);
}

#[test]
#[ignore = "deep: a minute for each parser"]
fn signed_bytes_do_not_panic_for_a_minute_each() {
    signed(DEEP);
}

#[test]
#[ignore = "deep: a minute for each parser"]
fn published_bytes_do_not_panic_for_a_minute_each() {
    published(DEEP);
}
