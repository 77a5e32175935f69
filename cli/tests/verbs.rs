//! The smaller verbs, and what they say to bad input.

mod common;

use common::{Bench, json, run};

#[test]
fn conformance_of_the_vectors_inside_the_binary() {
    let report = json(0, &["conformance", "--json"]);
    let files = report["files"].as_array().unwrap();
    assert_eq!(files.len(), 7);
    assert!(files.iter().all(|f| f["failed"] == 0 && f["passed"].as_u64().unwrap() > 0));
}

#[test]
fn conformance_of_shared_vectors() {
    let Some(folder) = lastbit_tests::shared("vectors") else { return };
    let report = json(0, &["conformance", "--json", "--vectors", folder.to_str().unwrap()]);
    for file in report["files"].as_array().unwrap() {
        let count = |name: &str| file[name].as_u64().unwrap();
        assert_eq!(count("failed"), 0, "{}", file["file"]);
        assert_eq!(count("total"), count("passed") + count("not_covered"));
    }
    assert!(report["not_covered"].is_array());
}

#[test]
fn malformed_vectors_are_named_by_file_and_line() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("x.jsonl"), "{\"arch\":\"Hopper\"\n").unwrap();
    let (code, _, err) = run(&["conformance", "--vectors", scratch.path().to_str().unwrap()]);
    assert_eq!(code, 2);
    assert!(err.contains("x.jsonl") && err.contains('1'), "{err}");
}

#[test]
fn keys_and_logs_are_never_overwritten() {
    let bench = Bench::new("example.org/v");
    let key = bench.path("operator");
    let before = std::fs::read(&key).unwrap();
    assert_eq!(run(&["keygen", &key]).0, 2);
    assert_eq!(std::fs::read(&key).unwrap(), before);
    assert_eq!(run(&["log", "init", &bench.path("log"), "--origin", "x", "--key", &key]).0, 2);
}

#[test]
fn bad_input_says_what_and_what_to_do() {
    let bench = Bench::new("example.org/v");
    let (missing, key) = (bench.path("no-such"), bench.path("operator"));
    let cases: &[(&[&str], &str)] = &[
        (&["generate"], "--prompt"),
        (&["generate", "--prompt", "x", "--profile", "sm_42"], "sm_42"),
        (&["generate", "--prompt", "x", "--mode", "fast"], "invariant"),
        (&["generate", "--prompt", "x", "--temperature", "0.5"], "--seed"),
        (&["generate", "--prompt", "x", "--batch", "0"], "--batch"),
        (&["generate", "--prompt", "x", "--model", &missing], "no-such"),
        (&["generate", "--prompt", "x", "--log", &missing, "--key", &key], "no-such"),
        (&["generate", "--prompt", "x", "--max-new-tokens", "100000"], "positions"),
        (&["audit", &missing, "--key", &key], "no-such"),
        (&["mufu", "show", "3f8"], "8 hex digits"),
        (&["mufu", "fit", &missing], "no-such"),
        (&["model", "info", &missing], "no-such"),
    ];
    for (args, words) in cases {
        let (code, out, err) = run(args);
        assert_eq!(code, 2, "{args:?}: {out}{err}");
        assert!(err.contains(words), "{args:?} should mention {words}: {err}");
        assert!(out.is_empty(), "{args:?}: {out}");
    }
}

#[test]
fn mufu_show_evaluates() {
    let shown = json(0, &["mufu", "show", "--json", "3fc00000"]);
    let value = &shown["values"][0];
    // Golden vectors of the kernel recipes, section 2.4.
    assert_eq!(value["rcp"], "3f2aaaab");
    assert_eq!(value["rsq"], "3f5105eb");
    assert_eq!(value["lg2"], "3f15c01b");
}

#[test]
fn model_info_names_the_embedded_model() {
    let info = json(0, &["model", "info", "--json"]);
    assert_eq!(info["parameters"], 1_771_200);
    assert_eq!(info["layers"], 4);
}
