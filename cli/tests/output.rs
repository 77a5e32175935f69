//! Standard output: readers that go away, full disks, JSON of results and of errors, reports that are whole or absent.
#![cfg(unix)]

mod common;

use std::fs::File;
use std::process::{Command, Stdio};

use common::{Bench, json, lastbit, run};
use serde_json::Value;

/// Runs with nobody reading standard output, and, if asked, standard error.
fn unread(args: &[&str], errors_too: bool) -> (i32, String) {
    let mut command = lastbit(args);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    if errors_too {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stderr(writer);
    } else {
        command.stderr(Stdio::piped());
    }
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let bench = Bench::new("example.org/o");
    let (log, public) = (bench.path("log"), bench.path("operator.pub"));
    let verbs: [&[&str]; 7] = [
        &["mufu", "show"],
        &["model", "info"],
        &["conformance"],
        &["audit", &log, "--key", &public],
        &["explain", &log, "--key", &public],
        &["log", "verify", &log, "--key", &public],
        &["generate", "--prompt", "Amen", "--max-new-tokens", "1"],
    ];
    for verb in verbs {
        for more in [&[][..], &["--json"]] {
            let args = [verb, more].concat();
            assert_eq!(unread(&args, false), (141, String::new()), "{args:?}");
            assert_eq!(unread(&args, true).0, 141, "{args:?}");
        }
    }
    // Nobody hears the error, yet its code is told.
    assert_eq!(unread(&["generate"], true).0, 2);
    assert_eq!(unread(&["generate", "--batch", "0"], true).0, 2);
}

#[test]
fn what_cannot_be_written_is_a_failure() {
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    let output = lastbit(&["mufu", "show"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"));
}

/// `name/v1` or `lastbit/name/v1`.
fn versioned(value: &Value) -> bool {
    value["schema"].as_str().is_some_and(|s| s.rsplit_once("/v").is_some_and(|(_, n)| n.parse::<u32>().is_ok()))
}

#[test]
fn every_verb_prints_versioned_json() {
    let bench = Bench::new("example.org/o");
    let [log, key, public, auditor, out] =
        ["log", "operator", "operator.pub", "auditor", "out"].map(|name| bench.path(name));
    let [new_key, new_log, page] = ["new-key", "new-log", "page.html"].map(|name| bench.path(name));
    let signed = bench.path("out/log.audit.json");
    let auditor_public = bench.path("auditor.pub");
    let verbs: [(i32, &[&str]); 13] = [
        (0, &["keygen", &new_key]),
        (0, &["log", "init", &new_log, "--origin", "x", "--key", &key]),
        (0, &["generate", "--prompt", "Amen", "--max-new-tokens", "1", "--log", &log, "--key", &key]),
        (0, &["log", "verify", &log, "--key", &public]),
        (0, &["audit", &log, "--key", &public, "--auditor-key", &auditor, "--out", &out]),
        (0, &["explain", &log, "--key", &public]),
        (0, &["report", "verify", &signed, "--key", &auditor_public]),
        (0, &["report", "html", &signed, "--key", &auditor_public, "--out", &page]),
        (0, &["conformance"]),
        (0, &["mufu", "show"]),
        (0, &["mufu", "show", "3f800000"]),
        (0, &["model", "info"]),
        (0, &["doctor"]),
    ];
    for (code, verb) in verbs {
        let value = json(code, &[verb, &["--json"]].concat());
        assert!(versioned(&value), "{verb:?}: {}", value["schema"]);
    }
}

#[test]
fn errors_are_json_too() {
    let bench = Bench::new("example.org/o");
    let missing = bench.path("no-such");
    let cases: [(&str, &[&str], &str); 6] = [
        ("failed", &["audit", &missing, "--key", &missing], "no-such"),
        ("failed", &["log", "verify", &missing, "--key", &missing], "no-such"),
        ("failed", &["report", "verify", &missing, "--key", &missing], "no-such"),
        ("failed", &["generate"], "--prompt"),
        ("usage", &["generate", "--prompt", "x", "--batch", "0"], "--batch"),
        ("usage", &["audit"], "--key"),
    ];
    for (kind, verb, words) in cases {
        let value = json(2, &[verb, &["--json"]].concat());
        assert!(versioned(&value), "{verb:?}");
        assert_eq!((&value["kind"], &value["exit_code"]), (&Value::from(kind), &Value::from(2)), "{verb:?}");
        assert!(value["error"].as_str().unwrap().contains(words), "{verb:?}: {value}");
    }
}

#[test]
fn existing_reports_are_refused_before_the_audit() {
    let bench = Bench::new("example.org/o");
    let [log, public, auditor, out] = ["log", "operator.pub", "auditor", "out"].map(|name| bench.path(name));
    std::fs::create_dir(&out).unwrap();
    for name in ["log.audit.json", "log.html"] {
        let path = bench.at("out").join(name);
        std::fs::write(&path, b"mine").unwrap();
        // The model folder is not there either: had the audit begun, that would be the complaint.
        let missing = bench.path("no-model");
        let args = ["audit", &log, "--key", &public, "--auditor-key", &auditor, "--out", &out, "--model", &missing];
        let (code, _, err) = run(&args);
        assert_eq!(code, 2);
        assert!(err.contains(name) && err.contains("exists already"), "{err}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn an_interrupted_audit_leaves_whole_reports_or_none() {
    let bench = Bench::new("example.org/o");
    bench.serve(&[]);
    let [log, public, auditor] = ["log", "operator.pub", "auditor"].map(|name| bench.path(name));
    for round in 0..6_u64 {
        let out = bench.path(&format!("out{round}"));
        let args = ["audit", &log, "--key", &public, "--auditor-key", &auditor, "--out", &out];
        let mut child = lastbit(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(150 * round));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().is_ok());
        child.wait().unwrap();
        let signed = bench.at(&format!("out{round}/log.audit.json"));
        if signed.exists() {
            bench.ok(&["report", "verify", signed.to_str().unwrap(), "--key", &bench.path("auditor.pub")]);
        }
        let page = bench.at(&format!("out{round}/log.html"));
        assert!(!page.exists() || std::fs::read_to_string(&page).unwrap().trim_end().ends_with("</html>"));
    }
}
