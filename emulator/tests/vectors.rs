//! The matrix vectors: our own simulated set, and the outputs recorded on real cards where they are at hand.

mod common;

use common::simulated;
use emulator::conformance::{Answers, FileReport, judge};
use emulator::profile::ZeroPolicy;
use std::io::BufReader;
use std::path::Path;

fn expect_all_to_pass(report: &FileReport) {
    for group in &report.groups {
        assert_eq!(group.passed, group.total, "{group:?} {:?}", report.failures);
    }
}

#[test]
fn simulated_vectors_pass_under_both_policies() {
    let files = simulated();
    assert_eq!(files.len(), 10);
    let mut passed = 0;
    for (name, text) in &files {
        let report = judge(name, text.as_bytes(), Answers::Both).unwrap();
        assert_eq!(report.failed, 0, "{name}: {:?}", report.failures);
        assert_eq!(report.uncovered().next(), None, "{name}");
        expect_all_to_pass(&report);
        passed += report.passed;
    }
    assert_eq!(passed, 45_488);
}

/// The set tells the policies apart: under the wrong answers it fails.
#[test]
fn the_set_distinguishes_the_zero_policies() {
    let mut differing = 0;
    for (name, text) in &simulated() {
        let without_alt: String = text
            .lines()
            .map(|line| match line.find(",\"alt\":\"") {
                Some(at) => format!("{}}}\n", &line[..at]),
                None => format!("{line}\n"),
            })
            .collect();
        let report = judge(name, without_alt.as_bytes(), Answers::Only(ZeroPolicy::Exclude)).unwrap();
        differing += report.failed;
        assert_eq!(judge(name, without_alt.as_bytes(), Answers::Only(ZeroPolicy::SentinelMinus126)).unwrap().failed, 0);
    }
    assert!(differing > 100, "{differing}");
}

#[test]
fn recorded_vectors_pass() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors/mma-real/real.jsonl");
    let Ok(file) = std::fs::File::open(&path) else {
        println!("SKIPPED recorded_vectors_pass: needs ../shared/vectors/mma-real/real.jsonl");
        return;
    };
    let report = judge("real.jsonl", BufReader::new(file), Answers::Both).unwrap();
    assert_eq!((report.total, report.failed), (28_800, 0), "{:?}", report.failures);
    assert!(report.groups.iter().all(|g| g.hardware));
    expect_all_to_pass(&report);
}
