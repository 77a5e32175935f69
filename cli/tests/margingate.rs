//! The margin gate through the command line: calibrate, serve, audit; the benchmark and the study, interrupted and resumed.

mod common;

use common::{Bench, json, run};

const SMALL: [&str; 8] = ["--sequences", "4", "--tokens", "16", "--schedules", "2", "--group", "4"];

#[test]
fn a_calibrated_gate_serves_and_audits_at_both_levels() {
    let bench = Bench::new("example.org/g");
    let [key, public, out, work] = ["operator", "operator.pub", "gate.calib.json", "work"].map(|name| bench.path(name));
    let calibrate = [
        &["margingate", "calibrate", "--alpha", "0.05", "--key", &key, "--out", &out, "--work", &work, "--json"],
        &SMALL[..],
    ]
    .concat();
    let report = json(0, &calibrate);
    assert_eq!(report["level"], "T");
    assert!(report["tau"].as_f64().unwrap() > 0.0 && report["limits"].as_array().unwrap().len() >= 6);
    assert!(report["flips"].as_str().unwrap().contains("95 %"), "a count comes with its bound");

    let gated =
        ["--mode", "gated", "--calibration", &out, "--probe-every", "4", "--prompt", "And the", "--prompt", "Hear"];
    bench.serve(&gated);
    let by_schedule = bench.audit(0, &[]);
    assert_eq!((&by_schedule["verdict"], &by_schedule["level"]), (&"MATCH".into(), &"S".into()), "{by_schedule:#}");
    let by_prefill = bench.audit(0, &["--mode", "prefill"]);
    assert_eq!((&by_prefill["verdict"], &by_prefill["level"]), (&"MATCH".into(), &"T".into()), "{by_prefill:#}");
    let limits = by_prefill["limitations"].to_string();
    assert!(limits.contains("statistical"), "{limits}");

    // Another stack, another signer, no threshold at all, and thresholds where there is no gate.
    let refused = |args: &[&str], words: &str| {
        let (code, _, err) = run(&[&["generate", "--prompt", "x", "--max-new-tokens", "1"], args].concat());
        assert!(code == 2 && err.contains(words), "{args:?}: {code} {err}");
    };
    let stranger = bench.path("stranger.pub");
    refused(
        &["--mode", "gated", "--calibration", &out, "--calibration-key", &public, "--profile", "sm_80"],
        "calibrate again",
    );
    refused(&["--mode", "gated", "--calibration", &out, "--calibration-key", &stranger], "calibration");
    refused(&["--mode", "gated", "--calibration", &out], "--calibration-key");
    refused(&["--mode", "gated"], "needs a threshold");
    refused(&["--tau", "0.5"], "--mode gated");

    // The receipt names the calibration that the promise rests on.
    let receipts = std::fs::read_dir(bench.at("log/receipts")).unwrap();
    let text = std::fs::read_to_string(receipts.into_iter().next().unwrap().unwrap().path()).unwrap();
    assert!(!text.contains("\"margin\":null"), "{text}");

    // Parts are there: the same run is read back, another is refused, and the study needs no model.
    let again = [&["margingate", "calibrate", "--alpha", "0.05", "--work", &work, "--json"], &SMALL[..]].concat();
    assert_eq!(json(0, &again)["tau"], report["tau"]);
    let (code, _, err) = run(&[&["margingate", "calibrate", "--work", &work, "--seed", "9"], &SMALL[..]].concat());
    assert!(code == 2 && err.contains("another run"), "{err}");
    let study = json(0, &["margingate", "study", &work, "--json"]);
    assert_eq!(study["signals"][0]["signal"], "margin");
}

#[test]
fn a_threshold_that_somebody_chose_can_be_served_and_audited() {
    let bench = Bench::new("example.org/g");
    bench.serve(&[
        "--mode",
        "gated",
        "--tau",
        "inf",
        "--write-back",
        "all",
        "--verify-rows",
        "3",
        "--temperature",
        "0.9",
    ]);
    for mode in ["schedule", "prefill"] {
        let result = bench.audit(0, &["--mode", mode]);
        assert_eq!(result["verdict"], "MATCH", "{mode}: {result:#}");
    }
}

#[test]
fn the_benchmark_resumes_and_draws() {
    let bench = Bench::new("example.org/g");
    let [work, svg, curves] = ["work", "cost.svg", "curves.svg"].map(|name| bench.path(name));
    let args = |costs: &'static str| {
        let fixed = ["margingate", "bench", "--json", "--alpha", "0.05", "--work", &work, "--cost-sequences", costs];
        [&fixed[..], &SMALL].concat().into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    let call = |all: Vec<String>| json(0, &all.iter().map(String::as_str).collect::<Vec<_>>());
    let first = call([args("2"), ["--svg", &svg, "--curves", &curves].map(str::to_owned).to_vec()].concat());
    assert!(std::fs::read_to_string(&svg).unwrap().contains("<circle"));
    assert!(std::fs::read_to_string(&curves).unwrap().contains("<polyline"));
    let ways = first["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 11);
    for way in ways {
        let name = way["way"].as_str().unwrap();
        assert_eq!(way["of"], 8, "{name}");
        if ["catch-up", "always-on", "windows", "all invariant"].iter().any(|n| name.contains(n)) {
            assert_eq!(way["equal"], way["of"], "{name}: {first:#}");
        }
    }
    let cost = &first["cost"];
    assert_eq!((cost["ways"].as_array().unwrap().len(), cost["sweeps"].as_array().unwrap().len()), (10, 2));
    assert!(cost["sweeps"][0]["work"]["full"].as_f64().unwrap() > 0.0, "{cost:#}");
    // Every whole sequence was kept; a lost part is made again.
    let part = std::fs::read_dir(bench.at("work")).unwrap().map(|e| e.unwrap().path());
    let lost = part.into_iter().find(|p| p.file_name().unwrap().to_str().unwrap().starts_with("way-")).unwrap();
    std::fs::remove_file(&lost).unwrap();
    // Of what is finished a report can be had at any time.
    let partly = call([args("0"), vec!["--finished".to_owned()]].concat());
    let sum =
        |r: &serde_json::Value| r["ways"].as_array().unwrap().iter().map(|w| w["of"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum(&partly) + 4, sum(&first));
    let second = call(args("0"));
    assert_eq!(second["ways"], first["ways"]);
}

#[test]
fn public_sets_of_prompts_are_read_in_place() {
    let Some(prompts) = lastbit_tests::shared("prompts") else { return };
    let of = |name: &str| prompts.join(name).to_str().unwrap().to_owned();
    let (a, b, c) = (of("math500_test.jsonl"), of("gsm8k_test.jsonl"), of("mt_bench_question.jsonl"));
    let args = [
        "margingate",
        "bench",
        "--json",
        "--alpha",
        "0.05",
        "--cost-sequences",
        "0",
        "--sequences",
        "4",
        "--tokens",
        "24",
        "--schedules",
        "1",
        "--way",
        "catch-up",
    ];
    let report = json(0, &[&args[..], &["--prompts", &a, "--transfer", &b, "--transfer", &c]].concat());
    assert!(report["thresholds"][0]["transfer_flips"].is_string(), "{report:#}");
}
