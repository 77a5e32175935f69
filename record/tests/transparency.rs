//! The published log: tiles, proofs, witnesses and misbehaviour, each against something that was not written here where there is one.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use record::log::{Checkpoint, Expect, KeyHistory, Memory, VerifiedLog, verify_entries};
use record::merkle::{self, Tree};
use record::tlog::{
    AddCheckpoint, InclusionProof, MAX_PROOF_BYTES, Misbehaviour, Published, Reading, Witness, WitnessKey,
    WitnessRefusal, compare, cosign, cosignatures, merge, publish,
};
use record::{Digest, Error, Receipt, commit, receipt::Level};
use serde_json::Value;
use support::forge::{self, build, join, lines, records};
use support::{ORIGIN, Random, START_US, key, other_key};

/// An honest log of `n` entries, and a function to its states.
struct Growing {
    whole: Memory,
    chains: Vec<Digest>,
}

impl Growing {
    fn new(n: u64) -> Self {
        let records = records(ORIGIN, &key(), n);
        let first = commit::genesis(ORIGIN);
        let chains = std::iter::once(first).chain(records.iter().map(|r| r.chain.after)).collect();
        Self { whole: build(&records, &key(), |_, _| ()), chains }
    }

    /// As it was after `n` entries.
    fn at(&self, n: usize) -> Memory {
        let entries = join(&lines(&self.whole.entries)[..n]);
        let checkpoint = forge::checkpoint(&entries, ORIGIN, self.chains[n], &key());
        Memory { entries, checkpoint, ..self.whole.clone() }
    }
}

fn open(log: &Memory) -> VerifiedLog<'_> {
    verify_entries(log, &key().public(), &Expect::default()).unwrap()
}

fn keys() -> KeyHistory {
    KeyHistory::of_key(key().public())
}

fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut out, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                out.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    out
}

/// However it grew, the folder has every file of its size; and all that it had before.
#[test]
fn publishing_in_steps_is_publishing_at_once() {
    let growing = Growing::new(260);
    let dir = tempfile::tempdir().unwrap();
    let steps = dir.path().join("steps");
    for n in [0, 1, 2, 3, 255, 256, 257, 260] {
        let log = growing.at(n);
        publish(&open(&log), &steps).unwrap();
        let at_once = dir.path().join(format!("at-{n}"));
        publish(&open(&log), &at_once).unwrap();
        let (all, fresh) = (files(&steps), files(&at_once));
        for (name, bytes) in &fresh {
            assert_eq!(all.get(name), Some(bytes), "{name} at {n}");
        }
        assert_eq!(Published::new(&steps).check(&keys()).unwrap().size, n as u64);
        assert_eq!(publish(&open(&log), &steps).unwrap(), 0, "again");
        let published = Published::new(&at_once);
        for index in [0, n.saturating_sub(1)].into_iter().filter(|index| *index < n) {
            assert_eq!(published.entry(n as u64, index as u64).unwrap(), lines(&log.entries)[index]);
        }
        assert!(published.entry(n as u64, n as u64).is_err());
    }
    assert!(files(&steps).contains_key("tile/0/000.p/255") && files(&steps).contains_key("tile/1/000.p/1"));
}

/// Folders that `aics-tlog`, an independent implementation in Python, builds of the same entries.
#[test]
fn an_independent_implementation_lays_the_same_files() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/tlog/tiles.json");
    let vectors: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let growing = Growing::new(260);
    for case in vectors["groups"][0]["tests"].as_array().unwrap() {
        let size = case["size"].as_u64().unwrap();
        let log = growing.at(size as usize);
        assert_eq!(Digest::of_file(&log.entries).to_hex(), case["entries_sha256"], "the entries that were given to it");
        let dir = tempfile::tempdir().unwrap();
        publish(&open(&log), dir.path()).unwrap();
        let mut found = files(dir.path());
        let checkpoint = String::from_utf8(found.remove("checkpoint").unwrap()).unwrap();
        assert_eq!(checkpoint.lines().nth(2), case["root"].as_str());
        let found: BTreeMap<_, _> =
            found.iter().map(|(name, bytes)| (name.as_str(), Digest::of_file(bytes).to_hex())).collect();
        let expected = case["files"].as_object().unwrap();
        let expected: BTreeMap<_, _> =
            expected.iter().map(|(n, d)| (n.as_str(), d.as_str().unwrap().to_owned())).collect();
        assert_eq!(found, expected, "size {size}");
    }
}

#[test]
fn what_is_published_is_never_rewritten() {
    let growing = Growing::new(5);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    publish(&open(&growing.at(4)), &out).unwrap();
    // An older state, and another history of the same log.
    let refused = publish(&open(&growing.at(3)), &out).unwrap_err();
    assert!(matches!(refused, Error::Publish(_)), "{refused}");
    let other = build(&records(ORIGIN, &key(), 5), &key(), |index, draft| {
        if index == 1 {
            draft.statement.predicate["time_unix_us"] = 7.into();
        }
    });
    let before = files(&out);
    assert!(matches!(publish(&open(&other), &out), Err(Error::Publish(_))));
    assert_eq!(files(&out), before);
    // A tile that is not what it should be.
    fs::write(out.join("tile/entries/000.p/4"), b"x").unwrap();
    assert!(Published::new(&out).check(&keys()).is_err());
}

/// One bit of every byte of every published file; and files that are gone, or do not belong there.
#[test]
fn no_change_of_a_published_file_goes_unnoticed() {
    let growing = Growing::new(3);
    let dir = tempfile::tempdir().unwrap();
    publish(&open(&growing.at(3)), dir.path()).unwrap();
    let published = Published::new(dir.path());
    let mut random = Random(11);
    for (name, bytes) in files(dir.path()) {
        let path = dir.path().join(&name);
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << random.below(8);
            fs::write(&path, altered).unwrap();
            let refused = published.check(&keys()).map(drop);
            assert!(refused.is_err_and(|e| !e.to_string().is_empty()), "{name}, byte {at}");
        }
        fs::remove_file(&path).unwrap();
        assert!(published.check(&keys()).is_err(), "{name} gone");
        fs::write(&path, bytes).unwrap();
    }
    published.check(&keys()).unwrap();
    for foreign in ["tile/0/001.p/1", "tile/1/000.p/1", "tile/entries/000.p/4", "notes", "tile/0/000.p/03"] {
        let path = dir.path().join(foreign);
        fs::write(&path, b"x")
            .or_else(|_| fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(&path, b"x")))
            .unwrap();
        assert!(published.check(&keys()).is_err(), "{foreign}");
        fs::remove_file(path).unwrap();
    }
}

/// Inclusion and consistency for all sizes to 40, against the `ct-merkle` crate: roots, and proofs of either side checked by the other.
#[test]
fn proofs_agree_with_another_implementation() {
    use ct_merkle::{ConsistencyProof, InclusionProof as Other, RootHash, mem_backed_tree::MemoryBackedTree};
    use sha2_11::Sha256;
    const N: u64 = 40;
    let (mut ours, mut theirs, mut roots) = (Tree::default(), MemoryBackedTree::<Sha256, Vec<u8>>::new(), Vec::new());
    let data = |i: u64| format!("entry {i}").into_bytes();
    for size in 0..=N {
        let root = theirs.root();
        assert_eq!(ours.root().unwrap().as_bytes().as_slice(), root.as_bytes().as_slice(), "size {size}");
        roots.push(ours.root().unwrap());
        for index in 0..size {
            let (path, other) = (ours.prove(index).unwrap(), theirs.prove_inclusion(index as usize));
            let bytes: Vec<u8> = path.iter().flat_map(|d| *d.as_bytes()).collect();
            assert_eq!(bytes, other.as_bytes());
            let digest = RootHash::<Sha256>::new((*ours.root().unwrap().as_bytes()).into(), size);
            digest.verify_inclusion(&data(index), index, &Other::try_from_bytes(bytes).unwrap()).unwrap();
            merkle::check(&path, size, &roots[size as usize], index, &data(index)).unwrap();
        }
        ours.push(&data(size)).unwrap();
        theirs.push(data(size));
    }
    let whole = theirs.root();
    for old in 1..=N {
        let new = N + 1;
        let proof = ours.consistency(old, new).unwrap();
        let other = theirs.prove_consistency((new - old) as usize);
        let bytes: Vec<u8> = proof.iter().flat_map(|d| *d.as_bytes()).collect();
        assert_eq!(bytes, other.as_bytes(), "{old} to {new}");
        let older = RootHash::<Sha256>::new((*roots[old as usize].as_bytes()).into(), old);
        whole.verify_consistency(&older, &ConsistencyProof::try_from_bytes(bytes).unwrap()).unwrap();
        merkle::check_consistency(&proof, (old, &roots[old as usize]), (new, &ours.root().unwrap())).unwrap();
    }
}

/// A proof of one thing proves nothing else.
#[test]
fn proofs_prove_one_thing() {
    let growing = Growing::new(13);
    let log = growing.at(13);
    let (verified, all) = (open(&log), lines(&log.entries));
    let tree = verified.tree();
    for old in 0..=13_u64 {
        for new in old..=13 {
            let proof = tree.consistency(old, new).unwrap();
            let root = |n| tree.root_at(n).unwrap();
            merkle::check_consistency(&proof, (old, &root(old)), (new, &root(new))).unwrap();
            if old > 0 {
                assert!(merkle::check_consistency(&proof, (old, &root(old - 1)), (new, &root(new))).is_err());
                assert!(merkle::check_consistency(&proof, (old, &root(old)), (new, &root(new - 1))).is_err());
            }
            assert!(
                merkle::check_consistency(&[proof, vec![root(1)]].concat(), (old, &root(old)), (new, &root(new)))
                    .is_err()
            );
        }
    }
    assert!(tree.consistency(3, 14).is_err() && tree.consistency(5, 4).is_err() && tree.prove_at(13, 13).is_err());
    for huge in [u64::MAX, 1 << 63, merkle::MAX_SIZE + 1] {
        assert!(merkle::check(&[], huge, &Digest::of_file(b""), 0, b"").is_err());
        assert!(merkle::check_consistency(&[], (1, &Digest::of_file(b"")), (huge, &Digest::of_file(b""))).is_err());
    }

    let proof = InclusionProof { index: 4, path: tree.prove(4).unwrap(), checkpoint: verified.note.clone() };
    let read = InclusionProof::from_bytes(&proof.to_bytes()).unwrap();
    assert_eq!(read.verify(&all[4], &keys()).unwrap(), verified.checkpoint);
    assert!(read.verify(&all[5], &keys()).is_err());
    assert!(InclusionProof { index: 5, ..read.clone() }.verify(&all[4], &keys()).is_err());
    assert!(read.verify(&all[4], &KeyHistory::of_key(other_key().public())).is_err());
}

#[test]
fn a_receipt_is_proved_offline() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (mut log, _) = support::make_log(&path, ORIGIN, &key(), 2);
    let (record, ack) = support::append(&mut log);
    let receipts = log.issue_receipts(&ack, &record, Level::S, START_US).unwrap();
    let receipt = Receipt::verify(&receipts[0], ORIGIN, &key().public()).unwrap();
    support::append(&mut log);
    let memory = support::memory(&path);
    let (verified, all) = (open(&memory), lines(&memory.entries));
    let prove = |index| InclusionProof {
        index,
        path: verified.tree().prove(index).unwrap(),
        checkpoint: verified.note.clone(),
    };
    prove(2).verify_receipt(&all[2], &receipt, &keys()).unwrap();
    let other = prove(1).verify_receipt(&all[1], &receipt, &keys()).unwrap_err();
    assert!(matches!(other, Error::Receipt(_)), "{other}");
    // What is in the tree at that place is another entry than the receipt's.
    assert!(prove(2).verify_receipt(&all[1], &receipt, &keys()).is_err());
}

/// What `docs/spec/transparency-log.md` says of sizes: measured on trees of leaves that are no entries.
#[test]
fn proofs_are_small() {
    let origin = "a-log-with-a-name.example.org/32";
    let mut tree = Tree::default();
    for leaf in 0_u64..1 << 14 {
        tree.push(&leaf.to_le_bytes()).unwrap();
    }
    let checkpoint = Checkpoint {
        origin: origin.to_owned(),
        size: tree.size(),
        root: tree.root().unwrap(),
        chain: commit::genesis(origin),
        keys: None,
    };
    let checkpoint = checkpoint.sign(&key()).unwrap();
    let proof = InclusionProof { index: 12_345, path: tree.prove(12_345).unwrap(), checkpoint };
    assert_eq!(proof.path.len(), 14);
    assert!(proof.to_bytes().len() <= 1024, "{} bytes", proof.to_bytes().len());
}

struct Bench {
    _dir: tempfile::TempDir,
    folder: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { folder: dir.path().join("witness"), _dir: dir }
    }

    fn open(&self) -> Witness {
        let logs = [(ORIGIN.to_owned(), key().public())];
        Witness::open(&self.folder, "w.example/1", other_key(), logs).unwrap()
    }
}

fn request(log: &VerifiedLog<'_>, old: u64) -> Vec<u8> {
    let proof = log.tree().consistency(old, log.checkpoint.size).unwrap();
    AddCheckpoint { old, proof, checkpoint: log.note.clone() }.to_bytes()
}

#[test]
fn a_witness_cosigns_one_history() {
    let growing = Growing::new(9);
    let states: Vec<Memory> = (0..=9).map(|n| growing.at(n)).collect();
    let logs: Vec<VerifiedLog<'_>> = states.iter().map(open).collect();
    let bench = Bench::new();
    let mut witness = bench.open();
    let known = witness.identity().clone();
    // Nothing cosigned yet: from zero.
    let refused = witness.add_checkpoint(&request(&logs[3], 2), 100).unwrap_err();
    assert!(matches!(refused, WitnessRefusal::Conflict { size: 0 }), "{refused}");
    for (old, new, now) in [(0, 3, 100), (3, 3, 101), (3, 7, 102)] {
        let line = witness.add_checkpoint(&request(&logs[new], old), now).unwrap();
        let whole = merge(&logs[new].note, &line, &known).unwrap();
        let told = cosignatures(&whole, std::slice::from_ref(&known)).unwrap();
        assert_eq!((told.len(), told[0].time_unix_s), (1, now));
        assert_eq!(keys().checkpoint(&whole).unwrap(), logs[new].checkpoint);
    }
    // It remembers, also after it was closed; and there is one at a time.
    let second = Witness::open(&bench.folder, "w.example/1", other_key(), []);
    assert!(matches!(second, Err(Error::Locked { .. })));
    drop(witness);
    let mut witness = bench.open();
    let refuse = |witness: &mut Witness, body: &[u8]| {
        let refused = witness.add_checkpoint(body, 200).unwrap_err();
        (refused.status(), refused)
    };
    assert!(matches!(refuse(&mut witness, &request(&logs[9], 3)), (409, WitnessRefusal::Conflict { size: 7 })));
    // A proof that does not fit, a proof where there must be none.
    let good = AddCheckpoint::from_bytes(&request(&logs[9], 7)).unwrap();
    let short = AddCheckpoint { proof: good.proof[1..].to_vec(), ..good.clone() };
    assert_eq!(refuse(&mut witness, &short.to_bytes()).0, 422);
    // Another history: of another size, and of the same.
    let forked =
        build(&records(ORIGIN, &key(), 9), &key(), |_, draft| draft.statement.predicate["time_unix_us"] = 7.into());
    let fork = open(&forked);
    assert_eq!(refuse(&mut witness, &request(&fork, 7)).0, 422);
    let at_seven = forge::checkpoint(&join(&lines(&forked.entries)[..7]), ORIGIN, growing.chains[7], &key());
    let same = AddCheckpoint { old: 7, proof: Vec::new(), checkpoint: at_seven };
    assert!(matches!(refuse(&mut witness, &same.to_bytes()), (409, WitnessRefusal::Conflict { size: 7 })));
    // Larger to smaller; another signer; another log; no request at all.
    assert_eq!(refuse(&mut witness, &AddCheckpoint { old: 10, ..good.clone() }.to_bytes()).0, 400);
    let resigned = logs[9].checkpoint.sign(&support::other_key()).unwrap();
    assert_eq!(refuse(&mut witness, &AddCheckpoint { checkpoint: resigned, ..good.clone() }.to_bytes()).0, 403);
    let elsewhere = Checkpoint { origin: "example.org/b".into(), ..logs[9].checkpoint.clone() }.sign(&key()).unwrap();
    assert_eq!(refuse(&mut witness, &AddCheckpoint { checkpoint: elsewhere, ..good.clone() }.to_bytes()).0, 404);
    for body in [b"".as_slice(), b"old 7\n", b"old x\n\n", &vec![b'a'; MAX_PROOF_BYTES + 1]] {
        assert_eq!(refuse(&mut witness, body).0, 400);
    }
    // After all that it goes on as if nothing had been.
    witness.add_checkpoint(&good.to_bytes(), 300).unwrap();
    // A damaged memory is no fresh start.
    drop(witness);
    let state = fs::read_dir(bench.folder.join("state")).unwrap().next().unwrap().unwrap().path();
    fs::write(state, b"nothing").unwrap();
    assert_eq!(refuse(&mut bench.open(), &request(&logs[9], 0)).0, 500);
}

#[test]
fn split_views_are_proved_to_anyone() {
    let growing = Growing::new(9);
    let (honest, smaller) = (growing.at(9), growing.at(4));
    let forked = build(&records(ORIGIN, &key(), 9), &key(), |index, draft| {
        if index >= 2 {
            draft.statement.predicate["time_unix_us"] = 7.into();
        }
    });
    let reading = |log: &Memory| Reading::new(log.checkpoint.clone(), &keys()).unwrap();
    let (one, old, other) = (reading(&honest), reading(&smaller), reading(&forked));
    let (tree, fork) = (open(&honest).tree().clone(), open(&forked).tree().clone());
    assert_eq!(compare(&one, &old, Some(&tree)).unwrap(), None);
    assert_eq!(compare(&one, &one, None).unwrap(), None);
    assert!(matches!(compare(&one, &old, None), Err(Error::Undecided)));
    assert!(matches!(compare(&one, &old, Some(&fork)), Err(Error::Undecided)));

    let split = compare(&one, &other, None).unwrap().unwrap();
    let rewritten = compare(&other, &old, Some(&fork)).unwrap().unwrap();
    assert!(split.root.is_none() && rewritten.root.is_some());
    let stranger = KeyHistory::of_key(other_key().public());
    for shown in [split, rewritten] {
        let bytes = shown.to_bytes().unwrap();
        assert_eq!(Misbehaviour::verify(&bytes, &keys()).unwrap(), shown);
        assert!(Misbehaviour::verify(&bytes, &stranger).is_err());
        let mut random = Random(3);
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << random.below(8);
            // A proof that says the same in other bytes does not exist either.
            assert!(Misbehaviour::verify(&altered, &keys()).is_err(), "byte {at}");
        }
    }
    // Two honest checkpoints prove nothing, whatever is put between them.
    let root = tree.root_at(4).unwrap();
    for (first, second, root, proof) in [
        (&old, &one, Some(root), tree.consistency(4, 9).unwrap()),
        (&old, &one, Some(Digest::of_file(b"")), tree.consistency(4, 9).unwrap()),
        (&one, &one, None, Vec::new()),
        (&old, &one, None, Vec::new()),
    ] {
        let text = |reading: &Reading| String::from_utf8(reading.note.clone()).unwrap();
        let forged = serde_json::json!({
            "type": "misbehaviour/v1", "origin": ORIGIN, "first": text(first), "second": text(second), "root": root, "proof": proof,
        });
        let bytes = record::canonical::to_bytes(&forged).unwrap();
        assert!(matches!(Misbehaviour::verify(&bytes, &keys()), Err(Error::NoMisbehaviour)));
    }
}

#[test]
fn cosignatures_of_a_checkpoint_survive_publishing_again() {
    let growing = Growing::new(2);
    let log = growing.at(2);
    let dir = tempfile::tempdir().unwrap();
    publish(&open(&log), dir.path()).unwrap();
    let (published, known) =
        (Published::new(dir.path()), WitnessKey::new("w.example/1", other_key().public()).unwrap());
    let line = cosign(&log.checkpoint, &known, &other_key(), 5).unwrap();
    published.set_checkpoint(&merge(&published.note().unwrap(), &line, &known).unwrap()).unwrap();
    assert_eq!(publish(&open(&log), dir.path()).unwrap(), 0);
    assert_eq!(cosignatures(&published.note().unwrap(), &[known]).unwrap().len(), 1);
    published.check(&keys()).unwrap();
}
