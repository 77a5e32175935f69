//! Commit, challenge, reveal, replay, verdict: from the command line.

mod common;

use common::{Bench, json, run};
use serde_json::Value;

const BEACON: &str = "00112233445566778899aabbccddeeff";

fn served(records: usize) -> Bench {
    let bench = Bench::new("example.org/t");
    for at in 0..records {
        let temperature: &[&str] = if at % 2 == 1 { &["--temperature", "0.9"] } else { &[] };
        bench.serve(&[&["--evidence", "none"], temperature].concat());
    }
    bench
}

fn seqs(result: &Value) -> Vec<u64> {
    result["records"].as_array().unwrap().iter().map(|r| r["seq"].as_u64().unwrap()).collect()
}

#[test]
fn a_challenge_is_answered_from_nothing_but_commitments() {
    let bench = served(4);
    let (log, public) = (bench.path("log"), bench.path("operator.pub"));
    let kept = bench.path("kept");
    std::fs::copy(bench.at("log/checkpoint"), &kept).unwrap();
    // The log goes on; the sample is of what was committed to.
    bench.serve(&["--evidence", "none"]);
    let draw = ["--checkpoint", &kept, "--beacon", BEACON, "--sample", "2"];
    let before = bench.audit(0, &draw);
    let sampling = &before["sampling"];
    assert_eq!((&sampling["population"], &sampling["beyond"], &sampling["audited"]), (&4.into(), &1.into(), &2.into()));
    assert_eq!((&sampling["order"], &sampling["bounds"][0]["miss"]), (&"stated".into(), &"5.000e-1".into()));

    let answer = json(0, &[&["reveal", &log, "--key", &public, "--json"][..], &draw].concat());
    let revealed: Vec<u64> = answer["records"].as_array().unwrap().iter().map(|r| r.as_u64().unwrap()).collect();
    assert_eq!(revealed, seqs(&before));
    assert_eq!(std::fs::read_dir(bench.at("log/evidence")).unwrap().count(), 2);
    bench.ok(&["log", "fsck", &log, "--key", &public]);
    // With the evidence the verdict is what it was, and nothing of it is set aside.
    let after = bench.audit(0, &draw);
    assert_eq!((&after["verdict"], seqs(&after)), (&"MATCH".into(), revealed));
    assert!(after["records"].as_array().unwrap().iter().all(|r| r["set_aside"].as_array().unwrap().is_empty()));
    // An operator that kept its tensors has the same bytes.
    let kept_tensors = Bench::new("example.org/t");
    kept_tensors.serve(&["--evidence", "s"]);
    let file = |dir: &Bench| std::fs::read_dir(dir.at("log/evidence")).unwrap().next().unwrap().unwrap().path();
    let original = std::fs::read(file(&kept_tensors)).unwrap();
    std::fs::remove_file(file(&kept_tensors)).unwrap();
    let place = (kept_tensors.path("log"), kept_tensors.path("operator.pub"));
    kept_tensors.ok(&["reveal", &place.0, "--key", &place.1, "--only", "0"]);
    assert_eq!(std::fs::read(file(&kept_tensors)).unwrap(), original);
}

#[test]
fn what_was_not_served_cannot_be_revealed() {
    let bench = served(1);
    let (log, public) = (bench.path("log"), bench.path("operator.pub"));
    let Some(stories) = lastbit_tests::shared("models/stories260K") else { return };
    let (code, _, error) =
        run(&["reveal", &log, "--key", &public, "--only", "0", "--model", stories.to_str().unwrap()]);
    assert!(code == 2 && error.contains("not at hand"), "{error}");
    assert_eq!(std::fs::read_dir(bench.at("log/evidence")).unwrap().count(), 0);
}

#[test]
fn a_budget_sets_the_sample_and_states_the_bound() {
    let bench = served(4);
    let rows: u64 = seqs(&bench.audit(0, &[])).len() as u64;
    assert_eq!(rows, 4);
    let told = bench.audit(0, &["--beacon", BEACON, "--budget", "1tok", "--stratify", "1"]);
    let sampling = &told["sampling"];
    assert_eq!((&sampling["uniform"], &sampling["budget"]), (&1.into(), &"1tok".into()));
    assert_eq!(sampling["bounds"][0]["miss"], "7.500e-1");
    let recheck = told["recheck"][1].as_str().unwrap();
    assert!(
        recheck.contains(&format!(" --beacon {BEACON} --sample 1 --stratify 1 --audit-id \"audit\"    #")),
        "{recheck}"
    );
    let sampler = sampling["strata"].as_array().unwrap().iter().find(|s| s["name"] == "sampler").unwrap();
    assert_eq!((&sampler["population"], &sampler["drawn"]), (&2.into(), &1.into()));
    assert_eq!(bench.audit(0, &["--beacon", BEACON, "--budget", "100000tok"])["sampling"]["uniform"], 4);
    // A generous time covers everything, whatever this machine's speed.
    assert_eq!(bench.audit(0, &["--beacon", BEACON, "--budget", "1000h"])["sampling"]["bounds"][0]["miss"], "0");
    assert_eq!(seqs(&bench.audit(0, &["--only", "2"])), [2]);
}
