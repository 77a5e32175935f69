//! Replay and evidence files, envelopes and receipts: what they say when someone tampers, and that no bytes make a reader panic.

mod support;

use proptest::prelude::*;
use record::commit::EvidenceLevel;
use record::container::{self, EVIDENCE, REPLAY};
use record::envelope::{self, Statement, Subject, predicate};
use record::evidence::EvidenceRefusal;
use record::log::{Checkpoint, Memory, Next};
use record::receipt::{Level, MAX_RECEIPT_BYTES, ReceiptRefusal};
use record::{Digest, Error, Evidence, Receipt, Record, canonical, commit, note, replay};
use serde_json::{Value, json};
use support::{ORIGIN, START_US, key, other_key};

fn next() -> Next {
    let link =
        record::inference::Link { origin: ORIGIN.to_owned(), sequence: 0, previous: None, key_id: key().public().id() };
    Next { link, chain: commit::genesis(ORIGIN) }
}

fn sample(level: EvidenceLevel) -> (Record, Evidence) {
    support::record(&next(), level)
}

#[test]
fn replay_files_round_trip_and_name_their_defects() {
    let (record, _) = sample(EvidenceLevel::S);
    let file = replay::to_file(&record).unwrap();
    assert_eq!(replay::from_file(&file).unwrap(), record);
    assert!(matches!(replay::from_file(&file[..file.len() - 1]), Err(Error::Container(_))));
    let with_payload = |payload: &[u8]| replay::from_file(&container::wrap(REPLAY, payload));
    assert!(matches!(with_payload(b"{}"), Err(Error::UnknownType { .. })));
    let mut value = serde_json::to_value(&record).unwrap();
    value["type"] = "inference-record/v2".into();
    assert!(matches!(with_payload(&canonical::to_bytes(&value).unwrap()), Err(Error::UnknownType { .. })));
    value["type"] = "inference-record/v1".into();
    value["extra"] = 1.into();
    assert!(matches!(with_payload(&canonical::to_bytes(&value).unwrap()), Err(Error::Canonical(_))));
    assert!(matches!(with_payload(&serde_json::to_vec_pretty(&record).unwrap()), Err(Error::Canonical(_))));
}

/// Every member of the record is required, at every depth.
#[test]
fn no_member_of_a_record_may_be_left_out() {
    let (record, _) = sample(EvidenceLevel::S);
    let value = serde_json::to_value(&record).unwrap();
    let mut removed = 0;
    let mut objects = vec![String::new()];
    while let Some(at) = objects.pop() {
        let inner = value.pointer(&at).unwrap();
        let keys: Vec<String> = match inner {
            Value::Object(members) => members.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
            _ => continue,
        };
        for member in keys {
            objects.push(format!("{at}/{member}"));
            if inner.is_object() {
                let mut without = value.clone();
                without.pointer_mut(&at).unwrap().as_object_mut().unwrap().remove(&member);
                let bytes = canonical::to_bytes(&without).unwrap();
                assert!(Record::from_bytes(&bytes).is_err(), "{at}/{member} can be left out");
                removed += 1;
            }
        }
    }
    assert!(removed > 150, "{removed} members");
}

#[test]
fn evidence_opens_the_leaves_it_belongs_to() {
    for level in [EvidenceLevel::S, EvidenceLevel::A] {
        let (record, evidence) = sample(level);
        let file = evidence.to_file().unwrap();
        let read = Evidence::from_file(&file).unwrap();
        assert_eq!(read, evidence);
        read.check(&record).unwrap();
        let row = read.row(0, 2).unwrap();
        let logits = read.tensor(&row.logits.unwrap()).unwrap();
        assert_eq!((logits.shape.as_slice(), logits.bytes.len()), ([11].as_slice(), 44));
        assert_eq!(row.activation("layers.1.k").is_some(), level == EvidenceLevel::A);
    }
}

#[test]
fn tensors_can_stay_closed() {
    let (record, mut evidence) = sample(EvidenceLevel::S);
    let full = evidence.to_file().unwrap().len();
    evidence.close(|_, tensor| tensor.shape == [2, 4]);
    let file = evidence.to_file().unwrap();
    assert!(file.len() < full);
    let read = Evidence::from_file(&file).unwrap();
    read.check(&record).unwrap();
    let row = read.row(1, 0).unwrap();
    assert!(read.tensor(&row.k[0]).is_some() && read.tensor(&row.logits.unwrap()).is_none());
}

#[test]
fn evidence_that_opens_nothing_is_refused_for_its_reason() {
    let (record, evidence) = sample(EvidenceLevel::S);
    let refusal = |evidence: &Evidence, record: &Record| match evidence.check(record) {
        Err(Error::Evidence(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let mut exchanged = evidence.clone();
    let row = &mut exchanged.rows[0];
    std::mem::swap(&mut row.k, &mut row.v);
    assert_eq!(refusal(&exchanged, &record), EvidenceRefusal::LeafMismatch { step: 0, leaf: 0 });
    let mut misplaced = evidence.clone();
    misplaced.rows[0].leaf = 9;
    assert_eq!(refusal(&misplaced, &record), EvidenceRefusal::NoSuchRow { step: 0, leaf: 9 });
    let mut elsewhere = evidence.clone();
    elsewhere.rows[0].step = 77;
    assert_eq!(refusal(&elsewhere, &record), EvidenceRefusal::NoSuchRow { step: 77, leaf: 0 });
    let mut other = record.clone();
    other.model.name.push('x');
    assert_eq!(refusal(&evidence, &other), EvidenceRefusal::OtherRecord);
    let mut shallow = sample(EvidenceLevel::A);
    shallow.1.rows[3].activations = None;
    assert!(matches!(refusal(&shallow.1, &shallow.0), EvidenceRefusal::LeafMismatch { .. }));

    let file = evidence.to_file().unwrap();
    let mut altered = file.clone();
    *altered.last_mut().unwrap() ^= 1;
    assert!(matches!(Evidence::from_file(&altered), Err(Error::Evidence(EvidenceRefusal::TensorAltered(_)))));
    let payload = container::unwrap(EVIDENCE, &file).unwrap();
    let longer = container::wrap(EVIDENCE, &[payload, &[0]].concat());
    assert!(matches!(Evidence::from_file(&longer), Err(Error::Evidence(EvidenceRefusal::Length { part: "tensors" }))));
    let shorter = container::wrap(EVIDENCE, &payload[..payload.len() - 1]);
    assert!(matches!(Evidence::from_file(&shorter), Err(Error::Evidence(EvidenceRefusal::Length { part: "tensors" }))));
    let mut index = payload.to_vec();
    index[7] = 0xff;
    let endless = container::wrap(EVIDENCE, &index);
    assert!(matches!(Evidence::from_file(&endless), Err(Error::Evidence(EvidenceRefusal::Length { part: "index" }))));
}

#[test]
fn a_tensor_larger_than_the_file_allocates_nothing() {
    let tensor = json!({"digest": Digest::of_file(b""), "dtype": "f32", "shape": [1_u64 << 52, 256]});
    let index = json!({
        "type": "evidence/v1", "record": Digest::of_file(b""), "level": "S", "rows": [], "tensors": [tensor],
    });
    let index = canonical::to_bytes(&index).unwrap();
    let payload = [&(index.len() as u64).to_le_bytes(), index.as_slice(), &[0; 64]].concat();
    let refused = Evidence::from_file(&container::wrap(EVIDENCE, &payload));
    assert!(matches!(refused, Err(Error::Evidence(EvidenceRefusal::Length { part: "tensors" }))));
}

#[test]
fn envelopes_are_verified_first_and_need_no_key_id() {
    let statement = Statement::new(
        predicate::AUDIT_RESULT,
        vec![Subject::new("record", "lastbit-record-v1", &Digest::of_file(b"r"))],
        json!({"verdict": "MATCH"}),
    );
    let bytes = envelope::sign(&statement, &key()).unwrap();
    let (own, other) = (key().public(), other_key().public());
    let verified = envelope::verify(&bytes, &[&other, &own]).unwrap();
    assert_eq!(verified.key_id, own.id());
    assert_eq!(verified.statement::<Value>(predicate::AUDIT_RESULT).unwrap(), statement);
    assert!(matches!(verified.statement::<Value>(predicate::RECORD), Err(Error::UnknownType { .. })));
    assert!(matches!(envelope::verify(&bytes, &[&other]), Err(Error::Envelope(_))));
    assert!(matches!(envelope::verify(&bytes, &[]), Err(Error::Envelope(_))));
    let edit = |edit: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_slice(&bytes).unwrap();
        edit(&mut value);
        envelope::verify(&serde_json::to_vec(&value).unwrap(), &[&own])
    };
    // The key id is a hint without authority: absent, empty or wrong, the signature decides.
    assert!(edit(&|e| drop(e["signatures"][0].as_object_mut().unwrap().remove("keyid"))).is_ok());
    assert!(edit(&|e| e["signatures"][0]["keyid"] = "".into()).is_ok());
    assert!(edit(&|e| e["signatures"][0]["keyid"] = "wrong".into()).is_ok());
    assert!(edit(&|e| e["payloadType"] = "application/json".into()).is_err());
    assert!(edit(&|e| e["payload"] = "e30=".into()).is_err());
    assert!(edit(&|e| e["signatures"] = json!([])).is_err());
}

#[test]
fn receipts_stay_under_their_limit_at_their_largest() {
    let mut next = next();
    next.link.origin = "o".repeat(32);
    next.link.sequence = canonical::MAX_INTEGER;
    let (mut record, _) = sample(EvidenceLevel::S);
    record.link = next.link;
    record.requests[0].nonce = Some("f".repeat(32));
    let of = Receipt::of(&record, 0, Level::S, canonical::MAX_INTEGER).unwrap();
    let receipt = Receipt { request: u32::MAX, margin: Some(Digest::of_file(b"")), ..of };
    let bytes = receipt.sign(&key()).unwrap();
    assert!(bytes.len() <= MAX_RECEIPT_BYTES, "{} bytes", bytes.len());
    assert_eq!(Receipt::verify(&bytes, &record.link.origin, &key().public()).unwrap(), receipt);
}

#[test]
fn receipts_are_refused_for_their_reason() {
    let (record, _) = sample(EvidenceLevel::S);
    let receipt = Receipt::of(&record, 0, Level::S, START_US).unwrap();
    let bytes = receipt.sign(&key()).unwrap();
    receipt.check(&record).unwrap();
    let verify = |bytes: &[u8]| Receipt::verify(bytes, ORIGIN, &key().public());
    assert_eq!(verify(&bytes).unwrap(), receipt);
    assert!(matches!(Receipt::verify(&bytes, ORIGIN, &other_key().public()), Err(Error::NoteUnsigned { .. })));
    for index in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[index] ^= 4;
        assert!(verify(&altered).is_err(), "byte {index} does not count");
    }
    let signed = |text: &str| note::sign(text, ORIGIN, &key()).unwrap();
    assert!(matches!(verify(&signed("{}\n")), Err(Error::UnknownType { .. })));
    assert!(matches!(verify(&signed(&format!("{}\n", "x".repeat(1000)))), Err(Error::ReceiptTooLarge { .. })));
    let text = String::from_utf8(canonical::to_bytes(&receipt).unwrap()).unwrap();
    let foreign = text.replace(ORIGIN, "example.org/l0g");
    assert!(matches!(verify(&signed(&(foreign + "\n"))), Err(Error::Receipt(ReceiptRefusal::Differs("log origin")))));
    let unknown = text.replace("\"level\"", "\"lever\"");
    assert!(matches!(verify(&signed(&(unknown + "\n"))), Err(Error::Canonical(_))));

    let differs = |edit: &dyn Fn(&mut Record)| {
        let mut other = record.clone();
        edit(&mut other);
        match receipt.check(&other) {
            Err(Error::Receipt(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    };
    // More was promised than the leaves commit to; less is kept by more.
    let boastful = Receipt { level: Level::A, ..receipt.clone() };
    assert!(matches!(boastful.check(&record), Err(Error::Receipt(ReceiptRefusal::Differs("level")))));
    Receipt { level: Level::T, ..receipt.clone() }.check(&record).unwrap();
    assert_eq!(differs(&|r| r.requests.clear()), ReceiptRefusal::NoSuchRequest);
    assert_eq!(differs(&|r| r.requests[0].nonce = None), ReceiptRefusal::Differs("nonce"));
    assert_eq!(differs(&|r| r.requests[0].prompt[1] = 6), ReceiptRefusal::Differs("prompt"));
    assert_eq!(differs(&|r| r.requests[0].output[1] = 6), ReceiptRefusal::Differs("output"));
    assert_eq!(differs(&|r| r.model.dtype_computed = "f16".to_owned()), ReceiptRefusal::Differs("model"));
    assert_eq!(differs(&|r| r.stack.device.profile = "sm_80".to_owned()), ReceiptRefusal::Differs("stack"));
    assert_eq!(differs(&|r| r.requests[0].decode.top_k = 1), ReceiptRefusal::Differs("decoding"));
    assert_eq!(differs(&|r| r.chain.after = r.chain.before), ReceiptRefusal::Differs("chain"));
    assert_eq!(differs(&|r| r.link.sequence = 4), ReceiptRefusal::Differs("log index"));
}

/// Every reader of untrusted bytes.
fn read_everything(bytes: &[u8]) {
    let key = key().public();
    let _ = replay::from_file(bytes).map(|record| record.check());
    let _ = Record::from_bytes(bytes).map(|record| record.check());
    let _ = Evidence::from_file(bytes);
    let _ = Receipt::verify(bytes, ORIGIN, &key);
    let _ = Checkpoint::verify(bytes, &key);
    let _ = note::verify(bytes, ORIGIN, &key);
    let _ = envelope::verify(bytes, &[&key]).map(|verified| verified.statement::<Value>(predicate::LOG_ENTRY));
}

fn edited(mut bytes: Vec<u8>, edits: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    for (at, kind, byte) in edits {
        let at = at.index(bytes.len().max(1));
        match kind % 4 {
            0 if at < bytes.len() => bytes[at] = *byte,
            1 => bytes.insert(at.min(bytes.len()), *byte),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_everything(&bytes);
        for kind in [REPLAY, EVIDENCE] {
            read_everything(&container::wrap(kind, &bytes));
        }
        let log = Memory { entries: bytes.clone(), checkpoint: bytes, ..Memory::default() };
        prop_assert!(record::log::verify(&log, &key().public(), &Default::default()).is_err());
    }

    #[test]
    fn edited_files_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..6),
    ) {
        let (record, evidence) = sample(EvidenceLevel::A);
        let receipt = Receipt::of(&record, 0, Level::S, START_US).unwrap();
        let statement = record.statement().unwrap();
        for file in [
            replay::to_file(&record).unwrap(),
            evidence.to_file().unwrap(),
            receipt.sign(&key()).unwrap(),
            envelope::sign(&statement, &key()).unwrap(),
        ] {
            read_everything(&edited(file, &edits));
        }
        // Past the container, so that edits reach the parsers behind it.
        read_everything(&container::wrap(REPLAY, &edited(record.to_bytes().unwrap(), &edits)));
        let file = evidence.to_file().unwrap();
        let payload = container::unwrap(EVIDENCE, &file).unwrap().to_vec();
        read_everything(&container::wrap(EVIDENCE, &edited(payload, &edits)));
    }

    /// Values of the right shape but absurd content: the consistency check must not overflow or index outside.
    #[test]
    fn absurd_records_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_u64..6), 1..5),
    ) {
        let (record, evidence) = sample(EvidenceLevel::S);
        let mut value = serde_json::to_value(&record).unwrap();
        let numbers: Vec<String> = support::forge::pointers(&value)
            .into_iter()
            .filter(|pointer| value.pointer(pointer).unwrap().is_number())
            .collect();
        for (at, size) in edits {
            let absurd = [0, 1, 2, u64::from(u32::MAX) - 1, u64::from(u32::MAX), canonical::MAX_INTEGER];
            *value.pointer_mut(&numbers[at.index(numbers.len())]).unwrap() = absurd[size as usize].into();
        }
        if let Ok(record) = Record::from_bytes(&canonical::to_bytes(&value).unwrap()) {
            let _ = record.check();
            let _ = evidence.check(&record);
            let _ = record.unspecified();
            let rows = record.steps.iter().flat_map(|step| step.schedule.each_row().take(1000));
            for row in rows {
                let _ = record.row_id(&row);
            }
        }
    }
}
