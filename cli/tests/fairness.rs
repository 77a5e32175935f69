//! What comes with a log and is damaged, foreign or missing, through the command line.

mod common;

use common::{Bench, run};
use serde_json::Value;
use std::path::PathBuf;

/// The files of a subfolder of the log, by name.
fn files(bench: &Bench, folder: &str) -> Vec<PathBuf> {
    let read = std::fs::read_dir(bench.at("log").join(folder)).unwrap();
    let mut paths: Vec<PathBuf> = read.map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

fn record(result: &Value, seq: usize) -> &Value {
    &result["records"][seq]
}

#[test]
fn a_damaged_evidence_file_is_set_aside_by_name() {
    let bench = Bench::new("example.org/t");
    bench.serve(&["--evidence", "s"]);
    let evidence = files(&bench, "evidence").remove(0);
    let name = evidence.file_name().unwrap().to_str().unwrap();
    let whole = std::fs::read(&evidence).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [Some(flipped), Some(whole[..whole.len() / 2].to_vec()), Some(Vec::new()), None] {
        std::fs::remove_file(&evidence).unwrap();
        match &damaged {
            Some(bytes) => std::fs::write(&evidence, bytes).unwrap(),
            // A folder where the file should be.
            None => std::fs::create_dir(&evidence).unwrap(),
        }
        let result = bench.audit(0, &[]);
        assert_eq!(result["verdict"], "MATCH", "{}", result["headline"]);
        let set_aside = record(&result, 0)["set_aside"].as_array().unwrap();
        assert_eq!((set_aside.len(), set_aside[0]["name"].as_str().unwrap()), (1, name));
        assert!(!set_aside[0]["reason"].as_str().unwrap().is_empty());
    }
}

#[test]
fn a_receipt_that_is_none_is_the_callers_mistake() {
    let bench = Bench::new("example.org/t");
    bench.serve(&[]);
    // A valid one agrees.
    let valid = files(&bench, "receipts").remove(0);
    let result = bench.audit(0, &["--receipt", valid.to_str().unwrap()]);
    let claims = record(&result, 0)["claims"].as_array().unwrap();
    assert!(claims.iter().any(|c| c["claim"] == "receipts" && c["verdict"] == "MATCH"));

    std::fs::write(bench.at("junk.receipt"), b"not a receipt\n").unwrap();
    let mut altered = std::fs::read(&valid).unwrap();
    altered[20] ^= 1;
    std::fs::write(bench.at("altered.receipt"), altered).unwrap();
    // Another operator's, of a log of the same name.
    let (theirs, key) = (bench.path("theirs"), bench.path("stranger"));
    bench.ok(&["log", "init", &theirs, "--origin", "example.org/t", "--key", &key]);
    bench.ok(&["generate", "--log", &theirs, "--key", &key, "--prompt", "Amen", "--max-new-tokens", "2"]);
    let foreign = bench.path("theirs/receipts/0-0.receipt");
    let (log, operator) = (bench.path("log"), bench.path("operator.pub"));
    for file in [bench.path("junk.receipt"), bench.path("altered.receipt"), foreign, bench.path("absent.receipt")] {
        let (code, out, err) = run(&["audit", &log, "--key", &operator, "--json", "--receipt", &file]);
        assert_eq!(code, 2, "{file}: {out}{err}");
        assert!(err.contains(&file), "{err}");
        assert!(!out.contains("MISMATCH"), "{out}");
    }
}

#[test]
fn a_record_that_cannot_be_audited_hides_no_other() {
    let bench = Bench::new("example.org/t");
    for _ in 0..3 {
        bench.serve(&[]);
    }
    let result = bench.audit(0, &[]);
    let digest = record(&result, 1)["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    let file = bench.at("log/records").join(format!("{digest}.replay"));
    let whole = std::fs::read(&file).unwrap();

    let verdicts = |code: i32| {
        let result = bench.audit(code, &[]);
        let all: Vec<String> =
            result["records"].as_array().unwrap().iter().map(|r| r["verdict"].as_str().unwrap().to_owned()).collect();
        (
            all,
            record(&result, 1)["headline"].as_str().unwrap().to_owned(),
            result["verdict"].as_str().unwrap().to_owned(),
        )
    };
    let mut altered = whole.clone();
    *altered.last_mut().unwrap() ^= 1;
    std::fs::write(&file, altered).unwrap();
    let (all, headline, log) = verdicts(1);
    assert_eq!((all, log.as_str()), (["MATCH", "ERROR", "MATCH"].map(str::to_owned).to_vec(), "ERROR"));
    assert!(headline.contains("record-altered"), "{headline}");

    std::fs::remove_file(&file).unwrap();
    let (all, headline, _) = verdicts(1);
    assert_eq!(all, ["MATCH", "ERROR", "MATCH"]);
    assert!(headline.contains("record-missing"), "{headline}");

    // A folder in its place says nothing about the operator.
    std::fs::create_dir(&file).unwrap();
    let (all, headline, log) = verdicts(2);
    assert_eq!((all, log.as_str()), (["MATCH", "INCONCLUSIVE", "MATCH"].map(str::to_owned).to_vec(), "INCONCLUSIVE"));
    assert!(headline.contains("unreadable"), "{headline}");
}
