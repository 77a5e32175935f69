//! Every byte of every artefact of a small log, flipped one at a time, and the whole audit after each: never a match that rests on it, never a panic,
//! always a reason.

mod toy;

use record::log::Directory;
use record::{Digest, Log, PrivateKey, Record};
use std::path::{Path, PathBuf};
use toy::Operator;
use toy::machine::Toy;
use verifier::Verdict;
use verifier::audit::Options;
use verifier::challenge::Plan;
use verifier::intake;
use verifier::log::{LogInput, Prepared, audit};
use verifier::result::{AuditResult, IdentityField, Limits, SetAside, SignedResult, Subject};
use verifier::reveal::reveal;

fn key() -> PrivateKey {
    PrivateKey::from_seed(&[3; 32])
}

/// One record with evidence and receipts, in a log whose key was changed.
fn written(folder: &Path) -> Record {
    Log::init(folder, "toy", &PrivateKey::from_seed(&[2; 32])).unwrap();
    let (mut log, _) = Log::open(folder, PrivateKey::from_seed(&[2; 32])).unwrap();
    log.rotate(key(), "yearly", 1).unwrap();
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
    let ack = log.append(&record, 1).unwrap();
    log.issue_receipts(&ack, &record, record::receipt::Level::S, 1).unwrap();
    let evidence = reveal(std::slice::from_ref(&record), &record, &Toy::default(), &|_, _| {}).unwrap();
    log.put_evidence(&evidence[0]).unwrap();
    record
}

fn audited(folder: &Path) -> AuditResult {
    let directory = Directory::new(folder);
    let identity =
        || IdentityField { field: "model".into(), declared: "toy".into(), found: Some("toy".into()), agrees: true };
    let input = LogInput {
        subject: Subject { name: "toy".into(), note: String::new() },
        source: &directory,
        key: &key().public(),
        origin: Some("toy"),
        pinned: None,
        receipts: verifier::directory::receipts(&directory).unwrap(),
        evidence: &|record: &Digest| verifier::directory::evidence(&directory, record),
        prepare: &|_| Ok(Prepared { identity: vec![identity()], replayer: Some(Box::new(Toy::default())) }),
        plan: Plan::All,
        recheck: vec![],
    };
    // What else would give the same bits is not the question here.
    let limits = Limits { extra_rows: 1, splits: 1, seeds: 1 };
    audit(&input, &Options { limits, ..Options::default() }, &|_, _, _| {}).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path));
        } else if path.file_name().unwrap() != "lock" {
            out.push(path);
        }
    }
    out.sort();
    out
}

/// Flips one bit of every `stride`-th byte.
fn flip(stride: usize) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let record = written(&log);
    let honest = audited(&log);
    assert_eq!(honest.verdict, Verdict::Match, "{}", honest.headline);
    let mut kinds = std::collections::BTreeSet::new();
    for path in files(&log) {
        let bytes = std::fs::read(&path).unwrap();
        let kind = path.extension().unwrap_or(path.file_name().unwrap()).to_str().unwrap().to_owned();
        for (count, at) in (0..bytes.len()).step_by(stride).enumerate() {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << ((at / stride) % 8);
            let place = format!("{}, byte {at}", path.display());
            if kind == "evidence" {
                // A reader accepts any minor version of the file.
                let minor = (18..20).contains(&at);
                let opened = intake::open(&altered, &record);
                assert!(minor || opened.is_err_and(|reason| !reason.is_empty()), "{place}");
                // An audit sets it aside and computes everything again, which takes its time: some of them.
                if minor || count % 64 != 0 {
                    continue;
                }
            }
            std::fs::write(&path, altered).unwrap();
            let result = audited(&log);
            match kind.as_str() {
                // Copies that anyone may have put there: the audit names them, uses nothing of them, and computes without.
                "evidence" => set_aside(&result.records[0].set_aside, &result, &place),
                "receipt" => set_aside(&result.log.set_aside, &result, &place),
                // What the key signed.
                _ => {
                    assert_ne!(result.verdict, Verdict::Match, "{place}");
                    assert_ne!(result.verdict, Verdict::Mismatch, "{place}: damage is no accusation");
                    assert!(!result.headline.is_empty(), "{place}");
                    let of_log = result.log.refused.as_ref().is_some_and(|refused| !refused.reason.is_empty());
                    let of_record = result.records.iter().any(|r| r.claims.iter().any(|c| !c.detail.is_empty()));
                    assert!(of_log || of_record, "{place}");
                }
            }
        }
        std::fs::write(&path, bytes).unwrap();
        kinds.insert(kind);
    }
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    assert_eq!(kinds, ["checkpoint", "entries", "evidence", "keys", "receipt", "replay"]);
    assert_eq!(audited(&log), honest);
}

fn set_aside(aside: &[SetAside], result: &AuditResult, place: &str) {
    assert!(aside.len() == 1 && !aside[0].reason.is_empty(), "{place}");
    assert_eq!(result.verdict, Verdict::Match, "{place}");
}

#[test]
fn flipped_bytes_never_match() {
    flip(97);
}

#[test]
#[ignore = "deep: every byte"]
fn every_flipped_byte_never_matches() {
    flip(1);
}

#[test]
fn every_flipped_byte_of_a_result_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    written(&log);
    let auditor = PrivateKey::from_seed(&[9; 32]);
    let signed = SignedResult::sign(audited(&log), &auditor).unwrap();
    for at in 0..signed.bytes.len() {
        let mut altered = signed.bytes.clone();
        altered[at] ^= 1 << (at % 8);
        match SignedResult::open(&altered, &[&auditor.public()]) {
            Err(error) => assert!(!error.to_string().is_empty()),
            // Only the key hint is not signed; then the result is the signed one.
            Ok(read) => assert_eq!(read.result, signed.result, "byte {at}"),
        }
    }
}
