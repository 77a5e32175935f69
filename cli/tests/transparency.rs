//! The published log from the command line: publish, witness, prove, check, monitor, fsck, and keys that change.

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use common::{Bench, copy, json, lastbit, run};
use serde_json::Value;

const ORIGIN: &str = "example.org/eu-1";

/// Keys as C2SP tools take them.
fn key(bench: &Bench, name: &str, called: &str) -> (String, String) {
    let made = json(0, &["keygen", &bench.path(name), "--name", called, "--json"]);
    let text = |member: &str| made[member].as_str().unwrap().to_owned();
    (text("log_key"), text("witness_key"))
}

/// A witness in a process of its own, ended with the test.
struct Witness {
    child: Child,
    url: String,
}

impl Witness {
    fn start(bench: &Bench, name: &str, log_key: &str) -> Self {
        let (dir, key) = (bench.path(&format!("{name}-state")), bench.path(name));
        let args = ["log", "witness", &dir, "--name", name, "--key", &key, "--log", log_key, "--listen", "127.0.0.1:0"];
        let mut child = lastbit(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, url }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_log_is_published_witnessed_and_proved() {
    let bench = Bench::new(ORIGIN);
    // A log whose key has the log's name, as witnesses want it.
    let (log_key, _) = key(&bench, "op", ORIGIN);
    let (_, witness_key) = key(&bench, "w.example", "w.example");
    let (log, out, pem, public) = (bench.path("l"), bench.path("public"), bench.path("op"), bench.path("op.pub"));
    bench.ok(&["log", "init", &log, "--origin", ORIGIN, "--key", &pem]);
    let serve = || {
        bench.ok(&["generate", "--log", &log, "--key", &pem, "--prompt", "In the beginning", "--max-new-tokens", "3"]);
    };
    serve();
    let witness = Witness::start(&bench, "w.example", &log_key);
    let publish = |code: i32| {
        let args = ["log", "publish", &log, "--key", &public, "--out", &out, "--json"];
        json(code, &[&args[..], &["--witness", &witness.url, "--witness-key", &witness_key]].concat())
    };
    let told = publish(0);
    assert_eq!((&told["size"], &told["cosigned_by"][0]), (&1.into(), &"w.example".into()));
    let seen = bench.path("seen");
    std::fs::copy(bench.at("public/checkpoint"), &seen).unwrap();
    serve();
    serve();
    assert_eq!(publish(0)["size"], 3);
    assert_eq!(publish(0)["files_written"], 0);

    // Inclusion, with the receipt that the client kept.
    let proof = bench.path("p");
    let checkpoint = bench.path("public/checkpoint");
    bench.ok(&["log", "prove", &log, "--key", &public, "--entry", "1", "--checkpoint", &checkpoint, "--out", &proof]);
    let (file, entry) = (format!("{proof}.tlog-proof"), format!("{proof}.entry"));
    assert!(std::fs::metadata(&file).unwrap().len() <= 1024);
    let check = |code: i32, more: &[&str]| {
        json(code, &[&["log", "check", &file, "--key", &public, "--entry", &entry, "--json"], more].concat())
    };
    let receipt = bench.path("l/receipts/1-0.receipt");
    let held = check(0, &["--receipt", &receipt, "--witness-key", &witness_key]);
    assert_eq!(
        (&held["holds"], &held["size"], &held["cosigned"][0][0]),
        (&true.into(), &3.into(), &"w.example".into())
    );
    check(1, &["--receipt", &bench.path("l/receipts/0-0.receipt")]);
    let (_, stranger) = key(&bench, "w2.example", "w2.example");
    assert_eq!(check(2, &["--witness-key", &witness_key, "--witness-key", &stranger])["holds"], false);
    check(0, &["--witness-key", &witness_key, "--witness-key", &stranger, "--quorum", "1"]);
    let altered = std::fs::read_to_string(&entry).unwrap().replacen("payload", "payloae", 1);
    std::fs::write(&entry, altered).unwrap();
    check(1, &[]);

    // Consistency from what was seen before.
    bench.ok(&["log", "prove", &log, "--key", &public, "--from", "1", "--out", &proof]);
    let file = format!("{proof}.consistency");
    bench.ok(&["log", "check", &file, "--key", &public, "--seen", &seen]);
    assert_eq!(run(&["log", "check", &file, "--key", &public, "--seen", &checkpoint]).0, 1);

    bench.ok(&["log", "fsck", &log, "--key", &public, "--published", &out]);
    let fsck = |code: i32| json(code, &["log", "fsck", &log, "--key", &public, "--published", &out, "--json"]);
    std::fs::write(bench.at("l/receipts/9-0.receipt"), b"x").unwrap();
    std::fs::write(bench.at("l/evidence/x.evidence"), b"x").unwrap();
    std::fs::write(bench.at("public/tile/0/001.p/1"), b"x")
        .or_else(|_| {
            std::fs::create_dir_all(bench.at("public/tile/0/001.p"))?;
            std::fs::write(bench.at("public/tile/0/001.p/1"), b"x")
        })
        .unwrap();
    let problems = fsck(2);
    let files: Vec<&str> =
        problems["problems"].as_array().unwrap().iter().map(|p| p["file"].as_str().unwrap()).collect();
    assert!(
        files.contains(&"receipts/9-0.receipt") && files.contains(&"evidence/x.evidence") && files.len() == 3,
        "{files:?}"
    );
}

#[test]
fn two_histories_are_found_and_proved() {
    let bench = Bench::new(ORIGIN);
    let (log, key, public) = (bench.path("log"), bench.path("operator"), bench.path("operator.pub"));
    let serve = |log: &str, prompt: &str| {
        bench.ok(&["generate", "--log", log, "--key", &key, "--prompt", prompt, "--max-new-tokens", "2"]);
    };
    serve(&log, "one");
    copy(&bench.at("log"), &bench.at("other"));
    let kept = bench.path("kept");
    std::fs::copy(bench.at("log/checkpoint"), &kept).unwrap();
    serve(&log, "two");
    serve(&bench.path("other"), "three");
    let monitor = |code: i32, out: &str, more: &[&str]| {
        json(code, &[&["log", "monitor", "--key", &public, "--out", &bench.path(out), "--json"], more].concat())
    };
    let (ours, theirs) = (bench.path("log/checkpoint"), bench.path("other/checkpoint"));
    // One size, two roots: no entries are needed.
    let shown = monitor(1, "split", &[&ours, &theirs]);
    assert!(shown["misbehaviour"].as_str().unwrap().starts_with("split view"));
    let split = bench.path("split");
    assert_eq!(run(&["log", "check", &split, "--key", &public]).0, 1);
    assert_eq!(run(&["log", "check", &split, "--key", &bench.path("stranger.pub")]).0, 2);
    // Of different sizes: only with the entries.
    serve(&bench.path("other"), "four");
    monitor(2, "none", &[&ours, &theirs]);
    let shown = monitor(1, "rewritten", &[&ours, "--tree", &bench.path("other")]);
    assert!(shown["misbehaviour"].as_str().unwrap().starts_with("rewritten history"));
    assert_eq!(run(&["log", "check", &bench.path("rewritten"), "--key", &public]).0, 1);
    // Of one history; and the monitor remembers.
    let state = bench.path("state");
    let fine = monitor(0, "none", &[&kept, "--tree", &log, "--state", &state]);
    assert_eq!((&fine["largest"], &fine["misbehaviour"]), (&2.into(), &Value::Null));
    assert_eq!(std::fs::read(&state).unwrap(), std::fs::read(&ours).unwrap());
    monitor(1, "later", &[&kept, "--tree", &bench.path("other"), "--state", &state]);
    assert!(!bench.at("none").exists());
}

#[test]
fn keys_change_and_every_reader_follows() {
    let bench = Bench::new(ORIGIN);
    for name in ["second", "third", "recovery"] {
        bench.ok(&["keygen", &bench.path(name)]);
    }
    let log = bench.path("log");
    bench.serve(&[]);
    let first = bench.path("operator");
    bench.ok(&["log", "recovery", &log, "--key", &first, "--recovery-key", &bench.path("recovery")]);
    bench.ok(&["log", "rotate", &log, "--key", &first, "--new-key", &bench.path("second"), "--reason", "yearly"]);
    let refused = run(&["generate", "--log", &log, "--key", &first, "--prompt", "x"]);
    assert_eq!(refused.0, 2, "{refused:?}");
    let serve =
        |key: &str| bench.ok(&["generate", "--log", &log, "--key", key, "--prompt", "x", "--max-new-tokens", "2"]);
    serve(&bench.path("second"));
    bench.ok(&[
        "log",
        "revoke",
        &log,
        "--recovery-key",
        &bench.path("recovery"),
        "--new-key",
        &bench.path("third"),
        "--reason",
        "stolen",
    ]);
    serve(&bench.path("third"));
    for key in ["operator", "second", "third"] {
        let public = bench.path(&format!("{key}.pub"));
        let verified = json(0, &["log", "verify", &log, "--key", &public, "--json"]);
        assert_eq!(verified["acknowledged"], 3);
    }
    let audited = bench.audit(0, &[]);
    assert_eq!((&audited["verdict"], &audited["log"]["entries"]), (&"MATCH".into(), &3.into()));
    assert_eq!(run(&["log", "verify", &log, "--key", &bench.path("recovery.pub")]).0, 2);
    bench.ok(&["log", "fsck", &log, "--key", &bench.path("operator.pub")]);
    // Without the statements nobody can tell who the later keys are.
    std::fs::remove_file(bench.at("log/keys")).unwrap();
    assert_ne!(run(&["log", "verify", &log, "--key", &bench.path("operator.pub")]).0, 0);
}
