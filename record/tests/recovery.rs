//! Every state a crash can leave on disk, made by hand.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use record::log::{Directory, Expect, Memory, verify};
use record::{Digest, Error, Log};
use support::{ORIGIN, append, key, make_log, memory};
use tempfile::TempDir;

/// A log of two acknowledged entries, and what the third one adds.
struct Stage {
    _dir: TempDir,
    path: PathBuf,
    before: Memory,
    after: Memory,
    third: Digest,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (mut log, _) = make_log(&path, ORIGIN, &key(), 2);
        let before = memory(&path);
        let (_, ack) = append(&mut log);
        let after = memory(&path);
        Self { _dir: dir, path, before, after, third: ack.record }
    }

    fn put(&self, log: &Memory) {
        let files = Directory::new(&self.path);
        fs::write(files.checkpoint_path(), &log.checkpoint).unwrap();
        fs::write(files.entries_path(), &log.entries).unwrap();
        for (digest, file) in &log.records {
            fs::write(files.record_path(digest), file).unwrap();
        }
        if !log.records.contains_key(&self.third) {
            let _ = fs::remove_file(files.record_path(&self.third));
        }
    }

    /// The third entry cut after `length` bytes, its record on disk, the checkpoint old.
    fn cut(&self, length: usize) -> Memory {
        let entries = self.after.entries[..self.before.entries.len() + length].to_vec();
        Memory { entries, checkpoint: self.before.checkpoint.clone(), ..self.after.clone() }
    }

    fn line(&self) -> usize {
        self.after.entries.len() - self.before.entries.len()
    }
}

fn whole(path: &Path, entries: usize) {
    let source = Directory::new(path);
    let verified = verify(&source, &key().public(), &Expect::default()).unwrap();
    assert_eq!((verified.entries.len(), verified.unacknowledged()), (entries, 0));
}

#[test]
fn a_half_written_entry_is_moved_aside_whatever_its_length() {
    let stage = Stage::new();
    for length in (1..stage.line()).step_by(37).chain([stage.line() - 1]) {
        stage.put(&stage.cut(length));
        let source = Directory::new(&stage.path);
        let refusal = verify(&source, &key().public(), &Expect::default()).map(drop).unwrap_err();
        assert_eq!(refusal.code(), "torn-tail", "a reader changes nothing and says so");
        let (log, recovery) = Log::open(&stage.path, key()).unwrap();
        let (bytes, aside) = recovery.torn.unwrap();
        assert_eq!((log.size(), recovery.adopted, bytes), (2, 0, length as u64));
        assert_eq!(fs::read(aside).unwrap(), &stage.after.entries[stage.before.entries.len()..][..length]);
        drop(log);
        whole(&stage.path, 2);
    }
    let (mut log, _) = Log::open(&stage.path, key()).unwrap();
    append(&mut log);
    drop(log);
    whole(&stage.path, 3);
    assert_eq!(memory(&stage.path), stage.after, "the same record again is the same log");
}

#[test]
fn a_complete_entry_without_its_checkpoint_is_adopted() {
    let stage = Stage::new();
    stage.put(&stage.cut(stage.line()));
    fs::write(stage.path.join("checkpoint.tmp"), b"half a check").unwrap();
    let source = Directory::new(&stage.path);
    assert_eq!(verify(&source, &key().public(), &Expect::default()).unwrap().unacknowledged(), 1);
    let (log, recovery) = Log::open(&stage.path, key()).unwrap();
    assert_eq!((log.size(), recovery.adopted, recovery.torn), (3, 1, None));
    drop(log);
    whole(&stage.path, 3);
    assert_eq!(memory(&stage.path), stage.after);
}

#[test]
fn a_record_without_an_entry_is_harmless() {
    let stage = Stage::new();
    stage.put(&stage.cut(0));
    fs::write(stage.path.join("records/half.tmp"), b"LASTBIT").unwrap();
    let (mut log, recovery) = Log::open(&stage.path, key()).unwrap();
    assert_eq!((log.size(), recovery.adopted, recovery.torn), (2, 0, None));
    append(&mut log);
    drop(log);
    whole(&stage.path, 3);
}

#[test]
fn after_power_loss_a_tail_may_be_zeros_or_lack_its_record() {
    let stage = Stage::new();
    let mut zeros = stage.cut(stage.line() / 2);
    zeros.entries.extend([0; 3000]);
    stage.put(&zeros);
    assert!(Log::open(&stage.path, key()).unwrap().1.torn.is_some());
    whole(&stage.path, 2);

    let mut long = stage.cut(0);
    long.entries.extend([b'['; 200_000]);
    stage.put(&long);
    assert_eq!(Log::open(&stage.path, key()).unwrap().1.torn.unwrap().0, 200_000);
    whole(&stage.path, 2);

    let mut lacking = stage.cut(stage.line());
    lacking.records.remove(&stage.third);
    stage.put(&lacking);
    let (log, recovery) = Log::open(&stage.path, key()).unwrap();
    assert_eq!((log.size(), recovery.torn.unwrap().0), (2, stage.line() as u64));
    drop(log);
    whole(&stage.path, 2);
}

#[test]
fn damage_to_what_was_acknowledged_is_never_repaired() {
    let stage = Stage::new();
    let refuse = |log: &Memory, code: &str| {
        stage.put(log);
        match Log::open(&stage.path, key()) {
            Err(Error::Log(refusal)) => assert_eq!(refusal.code(), code),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("opened, {code} expected"),
        }
        assert_eq!(&memory(&stage.path), log, "nothing was touched");
    };
    let mut flipped = stage.after.clone();
    flipped.entries[60] ^= 1;
    refuse(&flipped, "altered");
    let mut cut = stage.after.clone();
    cut.entries.truncate(stage.before.entries.len() + 10);
    refuse(&cut, "truncated");
    let mut gone = stage.after.clone();
    gone.entries.clear();
    refuse(&gone, "truncated");
    let mut checkpoint = stage.after.clone();
    checkpoint.checkpoint[20] ^= 1;
    refuse(&checkpoint, "checkpoint-altered");
}
