//! Logs of several records, on a machine whose answers are known.

mod toy;

use record::inference::Finish;
use record::log::Directory;
use record::{Digest, Log, PrivateKey, Receipt, Record};
use toy::Operator;
use toy::machine::Toy;
use verifier::Verdict;
use verifier::audit::Options;
use verifier::challenge::Plan;
use verifier::error::Error;
use verifier::log::{Holder, LogInput, Prepared, Presented, audit};
use verifier::result::{AuditResult, IdentityField, Subject};

const ORIGIN: &str = "toy";

fn key() -> PrivateKey {
    PrivateKey::from_seed(&[3; 32])
}

/// Appends toy records to a log; each is edited once it has its place.
fn written(folder: &std::path::Path, edits: &[fn(&mut Record)]) -> Vec<Record> {
    Log::init(folder, ORIGIN, &key()).unwrap();
    let (mut log, _) = Log::open(folder, key()).unwrap();
    let mut records = Vec::new();
    for edit in edits {
        let mut record = Operator::default().serve().record;
        record.link = log.next().link;
        let mut chain = log.next().chain;
        record.chain.before = chain;
        for step in &mut record.steps {
            let time = step.time.clone();
            *step = record::commit::seal(step.index, step.schedule.clone(), step.leaves.clone(), &chain).unwrap();
            step.time = time;
            chain = step.chain;
        }
        record.chain.after = chain;
        edit(&mut record);
        log.append(&record, 1).unwrap();
        records.push(record);
    }
    records
}

fn audited(folder: &std::path::Path, receipts: Vec<Presented>) -> Result<AuditResult, Error> {
    let directory = Directory::new(folder);
    let identity =
        || IdentityField { field: "model".into(), declared: "toy".into(), found: Some("toy".into()), agrees: true };
    let input = LogInput {
        subject: Subject { name: "toy".into(), note: String::new() },
        source: &directory,
        key: &key().public(),
        origin: Some(ORIGIN),
        pinned: None,
        receipts,
        evidence: &|record: &Digest| verifier::directory::evidence(&directory, record),
        prepare: &|_| Ok(Prepared { identity: vec![identity()], replayer: Some(Box::new(Toy::default())) }),
        plan: Plan::All,
        recheck: vec![],
    };
    audit(&input, &Options::default(), &|_, _, _| {})
}

fn verdicts(result: &AuditResult) -> Vec<Verdict> {
    result.records.iter().map(|r| r.verdict).collect()
}

#[test]
fn every_record_gets_its_own_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let records = written(
        &log,
        &[
            |_| {},
            |r| r.requests[1].finish = Finish::Continues,
            |r| r.requests[0].prompt[0] = 4_000_000_000,
            |r| r.requests[0].decode.sampler = "beam/3".into(),
            |_| {},
        ],
    );
    let result = audited(&log, vec![]).unwrap();
    use Verdict::{Error, Inconclusive, Match, Unverifiable};
    assert_eq!(verdicts(&result), [Match, Inconclusive, Error, Unverifiable, Match]);
    assert_eq!(result.verdict, Error);
    assert!(result.records[1].headline.contains("request b is said to go on"), "{}", result.records[1].headline);
    assert!(result.log.refused.is_none());

    // Evidence of one record that is none: named, and nothing else changes.
    let place = Directory::new(&log).evidence_path(&records[4].digest().unwrap());
    std::fs::create_dir_all(&place).unwrap();
    let again = audited(&log, vec![]).unwrap();
    assert_eq!(verdicts(&again), verdicts(&result));
    let set_aside = &again.records[4].set_aside;
    assert_eq!((set_aside.len(), set_aside[0].reason.as_str()), (1, "a folder, not a regular file"));
    assert_eq!(set_aside[0].name, place.file_name().unwrap().to_str().unwrap());
}

fn presented(bytes: Vec<u8>, holder: Holder) -> Vec<Presented> {
    vec![Presented { name: "r.receipt".into(), bytes: Ok(bytes), holder }]
}

#[test]
fn only_a_receipt_of_the_operator_counts() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let records = written(&log, &[|_| {}, |_| {}]);
    let receipt = Receipt::of(&records[1], 0, record::receipt::Level::S, 1).unwrap();
    let agrees = audited(&log, presented(receipt.sign(&key()).unwrap(), Holder::Client)).unwrap();
    assert_eq!(verdicts(&agrees), [Verdict::Match, Verdict::Match]);

    // The operator signed another output than it logged: that, and only that, is held against the record.
    let mut other = receipt.clone();
    other.output = Digest::of_file(b"another answer");
    let differs = audited(&log, presented(other.sign(&key()).unwrap(), Holder::Client)).unwrap();
    assert_eq!(verdicts(&differs), [Verdict::Match, Verdict::Mismatch]);

    let foreign = other.sign(&PrivateKey::from_seed(&[4; 32])).unwrap();
    for junk in [b"junk".to_vec(), Vec::new(), vec![0xff; 4000], foreign] {
        let error = audited(&log, presented(junk.clone(), Holder::Client)).unwrap_err();
        assert!(matches!(&error, Error::Receipt { name, .. } if name == "r.receipt"), "{error}");
        // Beside the log anyone may have put it: it is set aside by name.
        let result = audited(&log, presented(junk, Holder::Log)).unwrap();
        assert_eq!(verdicts(&result), [Verdict::Match, Verdict::Match]);
        assert_eq!(result.log.set_aside[0].name, "r.receipt");
    }
}
