//! Logs, honest and not, through the command line.

mod common;

use common::{Bench, copy, json, run};
use serde_json::Value;

fn reason(result: &Value) -> &str {
    result["log"]["refused"]["reason"].as_str().unwrap_or("not refused")
}

#[test]
fn results_do_not_depend_on_threads_or_vector_instructions() {
    let bench = Bench::new("example.org/t");
    bench.serve(&["--temperature", "0.9"]);
    let mut files = Vec::new();
    for (i, how) in [
        ["--threads", "1", "--simd", "auto"],
        ["--threads", "2", "--simd", "auto"],
        ["--threads", "1", "--simd", "off"],
    ]
    .iter()
    .enumerate()
    {
        let (log, key, auditor, out) =
            (bench.path("log"), bench.path("operator.pub"), bench.path("auditor"), bench.path(&format!("out{i}")));
        let mut args = vec!["audit", &log, "--key", &key, "--auditor-key", &auditor, "--out", &out];
        args.extend(how);
        bench.ok(&args);
        let read = |name: &str| std::fs::read(bench.at(&format!("out{i}")).join(name)).unwrap();
        files.push((read("log.audit.json"), read("log.html")));
    }
    assert!(files.windows(2).all(|w| w[0] == w[1]), "reports differ");
}

#[test]
fn invariant_logs_match_by_schedule_and_by_one_prefill() {
    let bench = Bench::new("example.org/t");
    bench.serve(&["--mode", "invariant", "--chunk", "3"]);
    for mode in ["schedule", "prefill"] {
        let result = bench.audit(0, &["--mode", mode]);
        assert_eq!(result["verdict"], "MATCH", "{mode}: {result:#}");
    }
    // Throughput bits depend on the schedule: a prefill cannot stand for it, and the audit says so instead of accusing.
    let other = Bench::new("example.org/t");
    other.serve(&[]);
    let result = other.audit(2, &["--mode", "prefill"]);
    assert_ne!(result["verdict"], "MATCH");
    assert_ne!(result["verdict"], "MISMATCH");
}

#[test]
fn a_log_for_another_model_is_not_replayed() {
    let bench = Bench::new("example.org/t");
    bench.serve(&[]);
    let Some(stories) = lastbit_tests::shared("models/stories260K") else { return };
    let result = bench.audit(2, &["--model", stories.to_str().unwrap()]);
    assert_ne!(result["verdict"], "MATCH");
    assert!(result["headline"].as_str().unwrap().contains("identity"), "{}", result["headline"]);
}

#[test]
fn broken_logs_are_refused_for_the_right_reason() {
    let bench = Bench::new("example.org/t");
    bench.serve(&[]);
    copy(&bench.at("log"), &bench.at("short"));
    bench.serve(&[]);
    bench.serve(&[]);
    assert_eq!(bench.audit(0, &[])["records"].as_array().unwrap().len(), 3);
    let entries = bench.at("log/entries");
    let honest = std::fs::read(&entries).unwrap();
    let lines: Vec<&[u8]> = honest.split_inclusive(|b| *b == b'\n').collect();

    let with = |bytes: Vec<u8>| {
        std::fs::write(&entries, bytes).unwrap();
        let result = bench.audit(1, &[]);
        assert_eq!(result["verdict"], "ERROR");
        reason(&result).to_owned()
    };
    assert_eq!(with([lines[0], lines[1]].concat()), "truncated");
    assert_eq!(with([lines[0], lines[2], lines[1]].concat()), "reordered");
    let mut altered = honest.clone();
    let middle = lines[0].len() / 2;
    altered[middle] = if altered[middle] == b'A' { b'B' } else { b'A' };
    assert_eq!(with(altered), "altered");

    // An entry of another log, signed by the same operator.
    let (other, key) = (bench.path("other"), bench.path("operator"));
    bench.ok(&["log", "init", &other, "--origin", "example.org/other", "--key", &key]);
    bench.ok(&["generate", "--log", &other, "--key", &key, "--prompt", "Amen", "--max-new-tokens", "2"]);
    let foreign = std::fs::read(bench.at("other/entries")).unwrap();
    assert_eq!(with([&foreign, lines[1], lines[2]].concat()), "spliced");
    std::fs::write(&entries, &honest).unwrap();

    // A whole log by another key.
    let (theirs, key) = (bench.path("theirs"), bench.path("stranger"));
    bench.ok(&["log", "init", &theirs, "--origin", "example.org/t", "--key", &key]);
    bench.ok(&["generate", "--log", &theirs, "--key", &key, "--prompt", "Amen", "--max-new-tokens", "2"]);
    let (code, out, _) = run(&["audit", &theirs, "--key", &bench.path("operator.pub"), "--json"]);
    assert_eq!(code, 2, "nothing of it speaks for the key that was given");
    assert_eq!(reason(&serde_json::from_str(&out).unwrap()), "checkpoint-re-signed");
    // One entry by another key, under the operator's checkpoint.
    let theirs = std::fs::read(bench.at("theirs/entries")).unwrap();
    assert_eq!(with([&theirs, lines[1], lines[2]].concat()), "re-signed");
    std::fs::write(&entries, &honest).unwrap();

    // The log as it was once, against a client who saw it later.
    let (short, key) = (bench.path("short"), bench.path("operator.pub"));
    let checkpoint = bench.path("log/checkpoint");
    let (code, out, _) = run(&["audit", &short, "--key", &key, "--checkpoint", &checkpoint, "--json"]);
    assert_eq!(code, 1);
    assert_eq!(reason(&serde_json::from_str(&out).unwrap()), "rolled-back");
}

#[test]
fn what_the_auditor_got_wrong_is_not_held_against_the_log() {
    let bench = Bench::new("example.org/t");
    bench.serve(&[]);
    let [log, public, stranger] = ["log", "operator.pub", "stranger.pub"].map(|name| bench.path(name));
    for verb in [&["audit"][..], &["explain"], &["log", "verify"]] {
        // (arguments, exit code, reason)
        let wrong_key = [verb, &[&log, "--key", &stranger, "--json"]].concat();
        let (code, out, err) = run(&wrong_key);
        assert_eq!(code, 2, "{verb:?}: {out}{err}");
        assert!(out.contains("checkpoint-re-signed"), "{verb:?}: {out}");
        let honest = [verb, &[&log, "--key", &public, "--json"]].concat();
        assert_eq!(run(&honest).0, 0, "{verb:?}");
    }
    for verb in ["audit", "explain"] {
        let (code, out, _) = run(&[verb, &log, "--key", &public, "--origin", "example.org/other", "--json"]);
        assert_eq!(code, 2);
        assert!(out.contains("wrong-origin"), "{out}");
    }
    // Another log's checkpoint.
    let (other, key) = (bench.path("other"), bench.path("operator"));
    bench.ok(&["log", "init", &other, "--origin", "example.org/other", "--key", &key]);
    let (code, out, _) =
        run(&["audit", &log, "--key", &public, "--checkpoint", &bench.path("other/checkpoint"), "--json"]);
    assert_eq!(code, 2);
    assert!(out.contains("wrong-origin"), "{out}");

    // What was changed after it was signed is held against it, by both verbs alike.
    let entries = bench.at("log/entries");
    let mut bytes = std::fs::read(&entries).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] = if bytes[middle] == b'A' { b'B' } else { b'A' };
    std::fs::write(&entries, &bytes).unwrap();
    for verb in [&["audit"][..], &["explain"], &["log", "verify"]] {
        let (code, out, _) = run(&[verb, &[&log, "--key", &public, "--json"]].concat());
        assert_eq!(code, 1, "{verb:?}: {out}");
        assert!(out.contains("altered"), "{verb:?}: {out}");
    }
    // A writer that died half-way is no finding.
    std::fs::write(&entries, b"").unwrap();
    bench.ok(&["log", "init", &bench.path("fresh"), "--origin", "example.org/f", "--key", &key]);
    std::fs::write(bench.at("fresh/entries"), b"{\"half\":").unwrap();
    for verb in [&["audit"][..], &["log", "verify"]] {
        let (code, out, _) = run(&[verb, &[&bench.path("fresh"), "--key", &public, "--json"]].concat());
        assert_eq!(code, 2, "{verb:?}: {out}");
        assert!(out.contains("torn-tail"), "{verb:?}: {out}");
    }
}

#[test]
fn the_widest_search_that_is_allowed_can_be_made() {
    let bench = Bench::new("example.org/t");
    bench.serve(&[]);
    let result = bench.audit(0, &["--extra-rows", "4096", "--splits", "64"]);
    assert_eq!(result["verdict"], "MATCH");
    assert_eq!(result["method"]["limits"]["splits"], 64);
}

#[test]
fn an_empty_log_is_explained_as_empty() {
    let bench = Bench::new("example.org/t");
    let (code, out, _) = run(&["explain", &bench.path("log"), "--key", &bench.path("operator.pub")]);
    assert_eq!(code, 2);
    assert!(out.contains("no record"), "{out}");
}

#[test]
fn bits_of_an_a100_under_an_h100_claim_part_at_the_first_tensor_core_operation() {
    // The engine states what it ran on, so the lie is made where the demo makes it; here the audit of its log is read closely.
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("demo");
    common::json(0, &["demo", "--json", "--out", out.to_str().unwrap()]);
    let (log, key) = (out.join("logs/e-other-gpu"), out.join("keys/operator.pub"));
    let (code, text, _) = run(&["explain", log.to_str().unwrap(), "--key", key.to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(text.contains("qkv of layer 0"), "{text}");
    assert!(text.contains("sm_80"), "{text}");
}

#[test]
fn every_parameter_of_sampling_is_recorded_and_recomputed() {
    let bench = Bench::new("example.org/p");
    let adjusted = [
        "--repetition-penalty",
        "1.2",
        "--presence-penalty",
        "-0.5",
        "--frequency-penalty",
        "0.25",
        "--logit-bias",
        "7=1.5",
    ];
    let told = ["--logit-bias", "3=-100", "--logprobs", "--prompt-logprobs"];
    bench.serve(&[&adjusted[..], &told[..]].concat());
    let filtered = ["--temperature", "0.9", "--top-k", "50", "--top-p", "0.95", "--min-p", "0.02", "--chunk", "2"];
    bench.serve(&[&filtered[..], &adjusted[..], &told[..]].concat());
    let report = bench.audit(0, &[]);
    let claims = report["records"][1]["claims"].as_array().unwrap();
    let logprobs = claims.iter().find(|c| c["claim"] == "logprobs").unwrap();
    assert_eq!(logprobs["verdict"], "MATCH", "{logprobs}");

    // Without a log they are told all the same, bit by bit.
    let alone =
        json(0, &[&["generate", "--prompt", "Amen", "--max-new-tokens", "3", "--json"][..], &told[..]].concat());
    let response = &alone["responses"][0];
    let count = |name: &str| response[name].as_array().unwrap().len();
    assert_eq!((count("logprobs"), count("prompt_logprobs") + 1), (3, count("prompt_ids")));
    assert!(response["logprobs"][0].as_str().unwrap().len() == 8);
    for bad in [
        &["--min-p", "0.1"][..],
        &["--temperature", "1", "--min-p", "2"],
        &["--repetition-penalty", "0"],
        &["--logit-bias", "x=1"],
        &["--logit-bias", "1024000=1"],
        &["--logit-bias", "1=1", "--logit-bias", "1=2"],
    ] {
        let (code, _, err) = run(&[&["generate", "--prompt", "Amen"][..], bad].concat());
        assert!(
            code == 2 && (err.contains("min") || err.contains("penalty") || err.contains("bias")),
            "{bad:?}: {err}"
        );
    }
}
