//! Rotation and revocation: which key signs which part of a log, and what nobody gets away with.

mod support;

use record::log::{Checkpoint, Directory, Expect, KeyHistory, Memory, verify, verify_entries};
use record::receipt::Level;
use record::{Error, Log, LogRefusal, PrivateKey, Receipt};
use support::{ORIGIN, Random, START_US, append, key, make_log, memory};

fn seed(n: u8) -> PrivateKey {
    PrivateKey::from_seed(&[n; 32])
}

fn code(log: &Memory, trusted: &PrivateKey) -> Result<u64, &'static str> {
    let verified = verify(log, &trusted.public(), &Expect::default());
    verified.map(|log| log.entries.len() as u64).map_err(|refusal| refusal.code())
}

/// Two entries by the first key, two by the second, two by the third after a revocation.
struct History {
    log: Memory,
    /// Before and after each statement.
    states: Vec<Memory>,
    keys: [PrivateKey; 4],
    dir: tempfile::TempDir,
    path: std::path::PathBuf,
}

fn history() -> History {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let keys = [key(), seed(41), seed(42), seed(43)];
    let [_, second, third, recovery] = &keys;
    let (mut log, _) = make_log(&path, ORIGIN, &key(), 2);
    let mut states = vec![memory(&path)];
    log.set_recovery(recovery, "kept in a safe", START_US).unwrap();
    states.push(memory(&path));
    log.rotate(second.clone(), "yearly", START_US).unwrap();
    states.push(memory(&path));
    append(&mut log);
    append(&mut log);
    drop(log);
    states.push(memory(&path));
    let (mut log, _) = Log::revoke(&path, recovery, third.clone(), "a laptop was stolen", START_US).unwrap();
    states.push(memory(&path));
    append(&mut log);
    append(&mut log);
    drop(log);
    History { log: memory(&path), states, keys, dir, path }
}

#[test]
fn whoever_holds_a_key_of_the_log_can_read_all_of_it() {
    let History { log, states, keys, path, dir: _dir } = history();
    for trusted in &keys[..3] {
        assert_eq!(code(&log, trusted), Ok(6));
    }
    assert_eq!(code(&log, &keys[3]), Err("checkpoint-re-signed"), "the recovery key signs no entry");
    assert_eq!(code(&log, &seed(9)), Err("checkpoint-re-signed"));
    for (state, entries) in states.iter().zip([2, 2, 2, 4, 4]) {
        assert_eq!(code(state, &keys[0]), Ok(entries));
    }
    // Every checkpoint that was ever given out is still one.
    let source = Directory::new(&path);
    let verified = verify_entries(&source, &keys[0].public(), &Expect::default()).unwrap();
    for state in &states {
        let pin = verified.keys.checkpoint(&state.checkpoint).unwrap();
        verify(&source, &keys[0].public(), &Expect { checkpoint: Some(&pin), ..Expect::default() }).unwrap();
    }
    assert_eq!(
        (verified.keys.len(), verified.keys.at(1), verified.keys.at(2)),
        (3, &keys[0].public(), &keys[1].public())
    );
    assert_eq!(verified.keys.current(), &keys[2].public());
}

#[test]
fn the_log_is_opened_by_its_current_key_only() {
    let History { keys, path, dir: _dir, .. } = history();
    for old in &keys[..2] {
        assert!(matches!(Log::open(&path, old.clone()), Err(Error::NotTheLogsKey { .. })));
    }
    let (mut log, _) = Log::open(&path, keys[2].clone()).unwrap();
    for used in &keys[..3] {
        assert!(matches!(log.rotate(used.clone(), "", START_US), Err(Error::KeyStatement(_))));
    }
    assert!(matches!(log.set_recovery(&seed(5), "", START_US), Err(Error::KeyStatement(_))));
    append(&mut log);
    drop(log);
    for (recovery, new) in [(&seed(5), seed(6)), (&keys[3], keys[0].clone())] {
        assert!(matches!(Log::revoke(&path, recovery, new, "", START_US), Err(Error::KeyStatement(_))));
    }
    assert_eq!(code(&memory(&path), &keys[0]), Ok(7));
}

#[test]
fn a_log_without_a_recovery_key_cannot_be_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    drop(make_log(&path, ORIGIN, &key(), 1));
    assert!(matches!(Log::revoke(&path, &seed(1), seed(2), "", START_US), Err(Error::KeyStatement(_))));
    assert_eq!(code(&memory(&path), &key()), Ok(1));
}

/// What someone can do who has a key that is not valid any more.
#[test]
fn a_retired_key_signs_nothing_more() {
    let History { log, states, keys, .. } = history();
    let parse = |log: &Memory, key: &PrivateKey| Checkpoint::verify(&log.checkpoint, &key.public()).unwrap();
    // The stolen second key: a checkpoint over what the third signed, naming the statements it knows.
    let now = parse(&log, &keys[2]);
    let stolen = Checkpoint { keys: parse(&states[3], &keys[1]).keys, ..now.clone() };
    let forged = Memory { checkpoint: stolen.sign(&keys[1]).unwrap(), ..log.clone() };
    assert_eq!(code(&forged, &keys[0]), Err("key-retired"));
    // The same, naming the statement that revoked it.
    let forged = Memory { checkpoint: now.sign(&keys[1]).unwrap(), ..log.clone() };
    assert_eq!(code(&forged, &keys[0]), Err("keys-contradict"));
    // It goes on with the log of its time, and nobody is told of the revocation: whoever knows the statement refuses it.
    let theirs = {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        support::copy_log(&states[3], &path);
        let (mut log, _) = Log::open(&path, keys[1].clone()).unwrap();
        append(&mut log);
        drop(log);
        memory(&path)
    };
    assert_eq!(code(&theirs, &keys[0]), Ok(5), "without the statement this is the only log there is");
    let told = Memory { keys: log.keys.clone(), ..theirs };
    assert_eq!(code(&told, &keys[0]), Err("key-retired"));
}

#[test]
fn receipts_are_held_against_the_key_of_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (mut log, written) = make_log(&path, ORIGIN, &key(), 1);
    let early = log.issue_receipts(&written[0].1, &written[0].0, Level::S, START_US).unwrap().remove(0);
    log.rotate(seed(41), "", START_US).unwrap();
    let (record, ack) = append(&mut log);
    let late = log.issue_receipts(&ack, &record, Level::S, START_US).unwrap().remove(0);
    let forged = Receipt::of(&record, 0, Level::S, START_US).unwrap().sign(&key()).unwrap();
    let log = memory(&path);
    let keys = verify_entries(&log, &key().public(), &Expect::default()).unwrap().keys;
    assert!(keys.receipt(&early, ORIGIN).is_ok() && keys.receipt(&late, ORIGIN).is_ok());
    assert!(matches!(keys.receipt(&forged, ORIGIN), Err(Error::Log(LogRefusal::KeyRetired { index: 1, .. }))));
}

/// One bit of each byte of the statements; statements that are gone, repeated or exchanged.
#[test]
fn no_change_of_the_statements_goes_unnoticed() {
    let History { log, keys, .. } = history();
    let mut random = Random(5);
    for at in 0..log.keys.len() {
        let mut altered = log.clone();
        altered.keys[at] ^= 1 << random.below(8);
        let refused = code(&altered, &keys[0]);
        // Of the last statement the hints of the two signatures are not signed; the checkpoint names the whole line.
        assert!(
            matches!(refused, Err("keys-malformed" | "keys-invalid" | "keys-contradict")),
            "byte {at}: {refused:?}"
        );
    }
    let lines: Vec<&[u8]> = log.keys.split_inclusive(|byte| *byte == b'\n').collect();
    let with =
        |order: &[usize]| Memory { keys: order.iter().flat_map(|at| lines[*at].to_vec()).collect(), ..log.clone() };
    assert_eq!(code(&with(&[0, 1, 2]), &keys[0]), Ok(6));
    for (order, expected) in [
        ([0, 1].as_slice(), "checkpoint-re-signed"),
        (&[], "checkpoint-re-signed"),
        (&[1, 2], "keys-invalid"),
        (&[0, 2, 1], "keys-invalid"),
        (&[0, 1, 1, 2], "keys-invalid"),
        (&[0, 1, 2, 2], "keys-invalid"),
    ] {
        assert_eq!(code(&with(order), &keys[0]), Err(expected), "{order:?}");
    }
    for cut in 1..lines[2].len() {
        let keys_cut = log.keys[..log.keys.len() - cut].to_vec();
        assert_eq!(code(&Memory { keys: keys_cut, ..log.clone() }, &keys[0]), Err("keys-malformed"));
    }
}

/// Killed between statement and checkpoint: the successor finishes it.
#[test]
fn a_statement_without_its_checkpoint_is_adopted() {
    let History { states, keys, .. } = history();
    let half = Memory { keys: states[2].keys.clone(), ..states[1].clone() };
    assert_eq!(code(&half, &keys[0]), Ok(2), "readers let it pass as not acknowledged");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    support::copy_log(&half, &path);
    assert!(matches!(Log::open(&path, keys[0].clone()), Err(Error::NotTheLogsKey { .. })));
    let (mut log, _) = Log::open(&path, keys[1].clone()).unwrap();
    assert_eq!(memory(&path).checkpoint, states[2].checkpoint);
    append(&mut log);
    let both = KeyHistory::verify(&memory(&path).keys, &keys[0].public()).unwrap();
    assert_eq!(both.current(), &keys[1].public());
}
