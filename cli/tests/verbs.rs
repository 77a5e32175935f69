//! The smaller verbs, and what they say to bad input.

mod common;

use common::{Bench, json, run};

#[test]
fn conformance_of_the_vectors_inside_the_binary() {
    let report = json(0, &["conformance", "--json"]);
    let files = report["files"].as_array().unwrap();
    assert_eq!(files.len(), 10);
    assert!(files.iter().all(|f| f["failed"] == 0 && f["not_covered"] == 0 && f["passed"].as_u64().unwrap() > 0));
    assert_eq!(report["not_covered"].as_array().unwrap().len(), 0);
    let rows = report["instructions"].as_array().unwrap();
    let sum = |key: &str| rows.iter().map(|r| r[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("vectors"), sum("passed")), (45_488, 45_488));
    assert!(rows.iter().all(|r| r["answers"] == "simulated" && r["confidence"].is_string()));
    let architectures = report["architectures"].as_array().unwrap();
    assert_eq!(architectures.len(), 10);
    assert!(architectures.iter().any(|a| a["architecture"] == "CDNA3" && a["passed"] == 5_506));
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
        (&["generate", "--prompt", "x", "--threads", "0"], "from 1 to 1024"),
        (&["generate", "--prompt", "x", "--threads", "100000"], "from 1 to 1024"),
        (&["generate", "--prompt", "x", "--temperature", "-1"], "above 0"),
        (&["generate", "--prompt", "x", "--temperature", "nan", "--seed", "1"], "above 0"),
        (&["generate", "--prompt", "x", "--temperature", "1", "--seed", "1", "--top-p", "1.5"], "at most 1"),
        (&["generate", "--prompt", "x", "--temperature", "1", "--seed", "1", "--top-k", "0"], "--top-k"),
        (&["generate", "--prompt", "x", "--temperature", "1", "--seed", "-1"], "-1"),
        (&["generate", "--prompt", "x", "--max-new-tokens", "-1"], "whole number"),
        (&["generate", "--prompt", "x", "--chunk", "0"], "--chunk"),
        // Checked while parsing: the log and the key are not there either.
        (&["generate", "--prompt", "x", "--nonce", "xyz", "--log", &missing, "--key", &missing], "lower-case hex"),
        (&["generate", "--prompt", "x", "--nonce", "ABCD", "--log", &missing, "--key", &missing], "lower-case hex"),
        (&["audit", &missing, "--key", &missing, "--extra-rows", "1000000"], "from 0 to 4096"),
        (&["audit", &missing, "--key", &missing, "--splits", "1000000"], "from 0 to 64"),
        (&["audit", &missing, "--key", &missing, "--seeds", "4294967295"], "from 0 to 1048576"),
        (&["audit", &missing, "--key", &missing, "--sample", "0", "--beacon", "00"], "--sample"),
        (&["audit", &missing, "--key", &missing, "--sample", "1", "--beacon", "00"], "16 bytes"),
        (&["audit", &missing, "--key", &missing, "--origin", "a b"], "white space"),
        (&["log", "init", &missing, "--origin", "", "--key", &missing], "white space"),
        (&["generate", "--prompt", "x", "--model", &missing], "no-such"),
        (&["generate", "--prompt", "x", "--log", &missing, "--key", &key], "no-such"),
        (&["generate", "--prompt", "x", "--max-new-tokens", "100000"], "positions"),
        (&["audit", &missing, "--key", &key], "no-such"),
        (&["mufu", "show", "3f8"], "8 hex digits"),
        (&["emulator", "profiles", "sm_42"], "sm_90 (Hopper)"),
        (&["mufu", "fit", &missing], "no-such"),
        (&["mufu", "probe", &missing, "--only", "tanh-1-2"], "rcp-1-2"),
        (&["mufu", "probe", &missing, "--profile", "sm_42"], "sm_42"),
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
fn an_error_says_each_thing_once() {
    let bench = Bench::new("example.org/v");
    let (key, missing) = (bench.path("operator"), bench.path("no-such"));
    let cases: [(&[&str], &str); 4] = [
        (&["keygen", &key], &key),
        (&["log", "verify", &bench.path("log"), "--key", &missing], &missing),
        (&["generate", "--prompts", &missing], &missing),
        (&["mufu", "show", "--profile", &missing], &missing),
    ];
    for (args, path) in cases {
        let (code, _, err) = run(args);
        assert_eq!(code, 2);
        assert_eq!(err.matches(path).count(), 1, "{args:?}: {err}");
        assert!(err.matches("os error").count() <= 1 && err.matches("exists").count() <= 1, "{args:?}: {err}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_prompt() {
    let bench = Bench::new("example.org/v");
    let ids = |text: &[u8]| {
        std::fs::write(bench.at("prompts"), text).unwrap();
        let args = ["generate", "--json", "--max-new-tokens", "1", "--prompts", &bench.path("prompts")];
        json(0, &args)["responses"].as_array().unwrap().iter().map(|r| r["prompt_ids"].clone()).collect::<Vec<_>>()
    };
    let plain = ids(b"Amen\nAnd\n");
    assert_eq!(plain.len(), 2);
    assert_eq!(ids(b"\xef\xbb\xbfAmen\r\n\r\nAnd\r\n"), plain);
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

/// The kernels run on the emulated device, their files fit, and the built-in coefficients come back. A unit that differs in
/// one output is kept as a correction table instead, which can be read back.
#[test]
fn mufu_probe_then_fit_gives_the_profile_back() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (dumps, profile, changed) = (path("dumps"), path("profile.txt"), path("changed.txt"));
    let probed = json(0, &["mufu", "probe", &dumps, "--json"]);
    assert_eq!(probed["dumps"].as_array().unwrap().len(), 10);
    let ptx = std::fs::read_to_string(path("dumps/probe.ptx")).unwrap();
    let how = std::fs::read_to_string(path("dumps/PROBE.txt")).unwrap();
    assert!(ptx.contains(".entry probe_ex2") && how.contains("cuLaunchKernel") && how.contains("ex2-neg1-neg2.bits"));
    assert_eq!(run(&["mufu", "probe", &dumps]).0, 2, "nothing is overwritten");

    let fitted = json(0, &["mufu", "fit", &dumps, "--out", &profile, "--json"]);
    assert_eq!(fitted["same_as_built_in"], true);
    assert_eq!(fitted["sine_arguments"], serde_json::json!(["multiply-rz"]));
    assert_eq!(fitted["functions"].as_array().unwrap().len(), 5);
    let operands = ["3fc00000", "c0490fdb", "00000001"];
    let show = |more: &[&str]| json(0, &[&["mufu", "show", "--json"], more, &operands].concat())["values"].clone();
    assert_eq!(show(&["--profile", &profile]), show(&[]));

    let file = path("dumps/rcp-1-2.bits");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4 * 0x40_0000] ^= 1; // the result for 1.5
    std::fs::write(&file, bytes).unwrap();
    let fitted = json(1, &["mufu", "fit", &dumps, "--out", &changed, "--json"]);
    assert_eq!(fitted["functions"][0]["misfit_segments"], serde_json::json!([64]));
    assert_eq!(fitted["functions"][0]["correction_table"], true);
    let (before, after) = (show(&[]), show(&["--profile", &changed]));
    assert_eq!((&before[0]["rcp"], &after[0]["rcp"]), (&"3f2aaaab".into(), &"3f2aaaaa".into()));
    assert_eq!(before[1], after[1]);
}

#[test]
fn mufu_probe_can_write_the_kernels_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("kernels");
    let report = json(0, &["mufu", "probe", folder.to_str().unwrap(), "--device", "none", "--json"]);
    assert_eq!(report["dumps"], serde_json::json!([]));
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["PROBE.txt", "probe.ptx"]);
}

#[test]
fn model_info_names_the_embedded_model() {
    let info = json(0, &["model", "info", "--json"]);
    assert_eq!(info["parameters"], 1_771_200);
    assert_eq!(info["layers"], 4);
}

#[test]
fn emulator_profiles_show_rules_switches_and_marks() {
    let all = json(0, &["emulator", "profiles", "--json"]);
    let profiles = all["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 11);
    for profile in profiles {
        assert!(!profile["instructions"].as_array().unwrap().is_empty());
        for switch in profile["switches"].as_array().unwrap() {
            for key in ["name", "value", "confidence", "source", "meaning", "alternatives"] {
                assert!(!switch[key].as_str().unwrap().is_empty(), "{switch}");
            }
        }
    }
    let ampere = json(0, &["emulator", "profiles", "ampere", "--json"]);
    assert_eq!(ampere["profiles"].as_array().unwrap().len(), 2);
    let switches = ampere["profiles"][0]["switches"].as_array().unwrap();
    for name in ["sine-argument", "approx-subnormals"] {
        assert!(switches.iter().any(|switch| switch["name"] == name), "{name}");
    }
    let (code, out, _) = run(&["emulator", "profiles", "gfx908"]);
    assert_eq!(code, 0);
    for word in ["CDNA1", "E-FDPA", "zero-sum-sign", "positive", "nan-payload"] {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert!(!out.contains("fp8-k16-split"), "a switch that nothing reads is not shown: {out}");
}

#[test]
fn bench_gemm_names_every_shape_path_and_type() {
    let report = json(0, &["bench", "gemm", "--json", "--rounds", "1"]);
    assert_eq!(report["schema"], "lastbit/bench-gemm/v1");
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        for figure in ["exact_gmac_s", "f32_gmac_s", "f32_over_exact"] {
            assert!(row[figure].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    let has = |field: &str, value: &str| rows.iter().any(|row| row[field] == value);
    for shape in ["512x512x512", "32x4096x4096", "1x16384x8192"] {
        assert!(has("shape", shape), "{shape}");
    }
    assert!(has("path", "portable"));
    for format in ["bf16", "f16", "tf32", "e4m3"] {
        assert!(has("format", format), "{format}");
    }
    // FP8 by the two f16 steps of mma.sync and by wgmma, and f16 accumulators.
    for instruction in ["mma m16n8k32.f32.e4m3.e4m3.f32", "mma m16n8k16.f16.f16.f16.f16"] {
        assert!(has("instruction", instruction), "{instruction}");
    }
    let (code, _, err) = run(&["bench", "gemm", "--profile", "sm_42"]);
    assert!(code == 2 && err.contains("sm_42") && err.contains("sm_90"), "{err}");
}

#[test]
fn bench_of_steps_measures_native_beside_interpreted_launches_and_a_peer() {
    let small = ["--json", "--rounds", "1", "--threads", "1"];
    for (what, options, tokens) in [
        ("prefill", &["--tokens", "20"][..], 20),
        ("decode", &["--tokens", "2", "--context", "5", "--batch", "3", "--mode", "throughput"][..], 6),
    ] {
        let report = json(0, &[&["bench", what], options, &small].concat());
        assert_eq!((&report["schema"], &report["what"]), (&"lastbit/bench-steps/v1".into(), &what.into()));
        assert_eq!(report["tokens"], tokens);
        for way in ["native", "interpreted"] {
            assert!(report[way]["tokens_per_s"].as_f64().unwrap() > 0.0, "{report}");
            let kernels = report[way]["kernels"].as_array().unwrap();
            assert!(kernels.iter().any(|k| k["name"].as_str().unwrap().starts_with("gemm")), "{report}");
        }
        assert!(report["interpreted_over_native"].as_f64().unwrap() > 0.0);
        assert!(report["peer"].is_null());
        let alone = json(0, &[&["bench", what], options, &small, &["--native-only"]].concat());
        assert!(alone["interpreted"].is_null() && !alone["native"].is_null());
    }
    let (code, _, err) = run(&["bench", "decode", "--context", "100000", "--rounds", "1"]);
    assert!(code == 2 && !err.is_empty(), "{err}");
    // What is inside the binary is no file that a peer could read.
    let (code, _, err) = run(&["bench", "prefill", "--tokens", "4", "--rounds", "1", "--peer", "no-such-program"]);
    assert!(code == 2 && err.contains("--model"), "{err}");
}
