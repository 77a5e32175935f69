//! The log as its writer and its readers see it when nobody cheats.

mod support;

use record::log::{Directory, Expect, verify};
use record::receipt::Level;
use record::{Error, EvidenceLevel, Log, Receipt};
use support::{ORIGIN, START_US, append, key, make_log, memory, other_key};

#[test]
fn an_honest_log_verifies_and_gives_its_records_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (log, written) = make_log(&path, ORIGIN, &key(), 3);
    let source = Directory::new(&path);
    let expect = Expect { origin: Some(ORIGIN), ..Expect::default() };
    let verified = verify(&source, &key().public(), &expect).unwrap();
    assert_eq!((verified.entries.len(), verified.unacknowledged()), (3, 0));
    for (index, (record, ack)) in written.iter().enumerate() {
        assert_eq!(&verified.record(index as u64).unwrap(), record);
        assert_eq!(verified.entries[index].hash, ack.entry);
        assert_eq!(verified.entries[index].header.record, ack.record);
    }
    assert_eq!(log.next().chain, written[2].0.chain.after);
    assert_eq!(verified.record(3).unwrap_err().code(), "no-such-entry");
}

#[test]
fn an_empty_log_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    Log::init(&path, ORIGIN, &key()).unwrap();
    let source = Directory::new(&path);
    assert!(verify(&source, &key().public(), &Expect::default()).unwrap().entries.is_empty());
}

#[test]
fn a_log_is_never_made_by_accident_nor_over_something_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    assert!(matches!(Log::open(&path, key()), Err(Error::NoLog { .. })));
    assert!(!path.exists());
    std::fs::create_dir(&path).unwrap();
    Log::init(&path, ORIGIN, &key()).unwrap();
    assert!(matches!(Log::init(&path, ORIGIN, &key()), Err(Error::NotEmpty { .. })));
    for bad in ["", "a b", "a+b", "a\nb", &"x".repeat(33)] {
        assert!(matches!(Log::init(&dir.path().join("other"), bad, &key()), Err(Error::Origin)), "{bad:?}");
    }
    // A missing part is not replaced either.
    std::fs::remove_file(path.join("lock")).unwrap();
    assert!(matches!(Log::open(&path, key()), Err(Error::Io { .. })));
}

#[test]
fn there_is_one_writer_and_it_has_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (log, _) = make_log(&path, ORIGIN, &key(), 1);
    assert!(matches!(Log::open(&path, key()), Err(Error::Locked { .. })));
    drop(log);
    assert!(
        matches!(Log::open(&path, other_key()), Err(Error::Log(refusal)) if refusal.code() == "checkpoint-re-signed")
    );
    let (mut log, recovery) = Log::open(&path, key()).unwrap();
    assert_eq!((recovery.size, recovery.adopted, recovery.torn), (1, 0, None));
    append(&mut log);
    let source = Directory::new(&path);
    assert_eq!(verify(&source, &key().public(), &Expect::default()).unwrap().entries.len(), 2);
}

#[test]
fn records_that_do_not_continue_the_log_are_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (mut log, written) = make_log(&path, ORIGIN, &key(), 1);
    let before = memory(&path);
    let (good, _) = support::record(&log.next(), EvidenceLevel::S);
    let mut wrong = good.clone();
    wrong.link.sequence = 7;
    let mut broken = good.clone();
    broken.steps[1].leaves[0] = broken.steps[0].leaves[0];
    assert!(matches!(log.append(&written[0].0, START_US), Err(Error::WrongLink)));
    assert!(matches!(log.append(&wrong, START_US), Err(Error::WrongLink)));
    assert!(matches!(log.append(&broken, START_US), Err(Error::Record(_))));
    assert_eq!(memory(&path), before);
    log.append(&good, START_US).unwrap();
}

#[test]
fn receipts_hold_against_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (mut log, _) = make_log(&path, ORIGIN, &key(), 1);
    let (record, ack) = append(&mut log);
    let receipts = log.issue_receipts(&ack, &record, Level::S, START_US).unwrap();
    assert_eq!(receipts.len(), 2);
    assert_eq!(std::fs::read(log.directory().receipt_path(1, 1)).unwrap(), receipts[1]);
    let receipts: Vec<_> =
        receipts.iter().map(|bytes| Receipt::verify(bytes, ORIGIN, &key().public()).unwrap()).collect();
    assert_eq!(receipts[0].nonce.as_deref(), Some("00ff"));
    let expect = Expect { receipts: &receipts, ..Expect::default() };
    let source = Directory::new(&path);
    verify(&source, &key().public(), &expect).unwrap();
    // Only acknowledged records get receipts.
    let (next, _) = support::record(&log.next(), EvidenceLevel::S);
    assert!(matches!(log.issue_receipts(&ack, &next, Level::S, START_US), Err(Error::WrongLink)));
}

#[test]
fn unspecified_facts_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let (_, written) = make_log(&dir.path().join("log"), ORIGIN, &key(), 1);
    assert_eq!(written[0].0.unspecified().unwrap(), ["/stack/engine/commit"]);
}

/// Sessions that leave no record do not give their ids to the next one.
#[test]
fn every_session_has_its_own_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    Log::init(&path, ORIGIN, &key()).unwrap();
    let begin = || Log::open(&path, key()).unwrap().0.begin_session().unwrap();
    assert_eq!([begin(), begin(), begin()], ["0-", "0.1-", "0.2-"]);
    let (mut log, _) = Log::open(&path, key()).unwrap();
    append(&mut log);
    assert_eq!([log.begin_session().unwrap(), log.begin_session().unwrap()], ["1-", "1.1-"]);
    drop(log);
    std::fs::write(path.join("session"), "x").unwrap();
    let refused = Log::open(&path, key()).unwrap().0.begin_session().unwrap_err();
    assert!(refused.to_string().contains("session"), "{refused}");
}
