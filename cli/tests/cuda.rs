//! The CUDA device through a loopback driver: a library in the place of the driver's that runs launches in the emulator. It shows that the
//! driver is called as it wants to be; of hardware it shows nothing, and every output says so.
#![cfg(target_os = "linux")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, lastbit};
use serde_json::Value;

const NAME: &str = lastbit_loopback_driver::NAME;
/// What the driver says if something was not given back.
const LEFT: &str = lastbit_loopback_driver::LEFT;

/// A folder in which the loader finds the loopback driver as the CUDA driver.
struct Loopback {
    folder: tempfile::TempDir,
}

impl Loopback {
    fn new() -> Self {
        Self::altered(|library| library)
    }

    /// The driver with its bytes changed.
    fn altered(change: impl Fn(Vec<u8>) -> Vec<u8>) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        // Cargo builds it beside this test.
        let test = std::env::current_exe().expect("this test is a file");
        let library: PathBuf = test.parent().expect("it is in a folder").join("liblastbit_loopback_driver.so");
        let bytes = change(std::fs::read(&library).unwrap_or_else(|e| panic!("{}: {e}", library.display())));
        // Before every other name that is tried.
        std::fs::write(folder.path().join("libcuda.so"), bytes).expect("the folder is ours");
        Self { folder }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = lastbit(args);
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command
    }

    fn run(&self, args: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
        let output = self.command(args).envs(environment.iter().copied()).output().expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        let said = text(output.stderr.clone());
        assert!(!said.contains(LEFT), "{args:?} {environment:?}: {said}");
        (output.status.code().expect("it exits"), text(output.stdout), text(output.stderr))
    }

    fn json(&self, code: i32, args: &[&str], environment: &[(&str, &str)]) -> Value {
        let (found, out, err) = self.run(args, environment);
        assert_eq!(found, code, "{args:?} {environment:?}\n{out}\n{err}");
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?} printed no JSON ({e}): {out}"))
    }
}

#[test]
fn doctor_names_the_device() {
    let report = Loopback::new().json(0, &["doctor", "--json"], &[]);
    let device = &report["devices"][0];
    assert_eq!(
        (&device["device"], &device["model"], &device["profile"]),
        (&"cuda:0".into(), &NAME.into(), &"sm_90".into())
    );
    assert_eq!(device["driver"], "CUDA 13.0");
    let strange = Loopback::new().json(0, &["doctor", "--json"], &[("LASTBIT_LOOPBACK_SM", "91")]);
    assert_eq!(strange["devices"][0]["profile"], Value::Null);
    assert!(strange["devices"][0]["problem"].as_str().unwrap().contains("sm_91"), "{strange}");
}

#[test]
fn generation_is_that_of_the_emulated_device() {
    let loopback = Loopback::new();
    for (mode, sm) in [("invariant", "90"), ("throughput", "90"), ("throughput", "80")] {
        let args = ["generate", "--prompt", "In the beginning", "--max-new-tokens", "6", "--mode", mode, "--json"];
        let environment = [("LASTBIT_LOOPBACK_SM", sm)];
        let cuda = loopback.json(0, &[&args[..], &["--device", "cuda"]].concat(), &environment);
        let profile = format!("sm_{sm}");
        let emulated = common::json(0, &[&args[..], &["--profile", &profile]].concat());
        assert_eq!(cuda["responses"][0]["output_ids"], emulated["responses"][0]["output_ids"]);
        assert_eq!(cuda["profile"], profile.as_str());
    }
}

#[test]
fn a_log_of_a_gpu_says_which_and_is_audited_without_one() {
    let bench = Bench::new("example.org/cuda");
    let (log, key) = (bench.path("log"), bench.path("operator"));
    let args = ["generate", "--device", "cuda", "--log", &log, "--key", &key, "--prompt", "In the beginning", "--json"];
    Loopback::new().json(0, &args, &[]);
    let result = bench.audit(0, &[]);
    let text = result.to_string();
    assert!(text.contains("MATCH"), "{text}");
    assert!(text.contains(NAME) && text.contains("CUDA 13.0"), "what no replay can show is listed: {text}");
}

#[test]
fn what_is_wrong_with_a_driver_is_said() {
    let loopback = Loopback::new();
    let generate = ["generate", "--prompt", "x", "--max-new-tokens", "2", "--device"];
    let fault = |name| [("LASTBIT_LOOPBACK_FAULT", name), ("LASTBIT_LOOPBACK_SM", "90")];
    let sm = |name| [("LASTBIT_LOOPBACK_FAULT", ""), ("LASTBIT_LOOPBACK_SM", name)];
    for (device, more, environment, words) in [
        ("cuda", "", fault("no-device"), "shows no GPU"),
        ("cuda", "", fault("old"), "CUDA 10.2"),
        ("cuda", "", fault("stub"), "CUDA_ERROR_STUB_LIBRARY"),
        ("cuda", "", fault("memory"), "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"),
        (
            "cuda",
            "",
            fault("ptx"),
            "compiling `embed`: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed): ptxas fatal",
        ),
        ("cuda", "", fault("launch"), "launching `embed`: CUDA_ERROR_INVALID_VALUE"),
        ("cuda", "", fault("kernel"), "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cuda", "", sm("91"), "described are sm_80, sm_86, sm_89, sm_90, sm_100, sm_120"),
        ("cuda", "", sm("75"), "is sm_75; the kernels run on sm_80"),
        ("cuda:7", "", sm("90"), "there is no GPU 7; the CUDA driver shows one, number 0"),
        ("cuda", "--profile=sm_80", sm("90"), "is sm_90; leave the profile out"),
        ("cuda:x", "", sm("90"), "cuda:N for GPU number N"),
    ] {
        let mut args = [&generate[..], &[device]].concat();
        args.extend((!more.is_empty()).then_some(more));
        let (code, out, err) = loopback.run(&args, &environment);
        assert_eq!(code, 2, "{args:?} {environment:?}: {out}{err}");
        assert!(err.contains(words), "{args:?} {environment:?} should mention {words}: {err}");
        assert!(!err.contains("panicked"), "{err}");
    }
}

/// A library of that name that lacks a function, as the stubs of toolkits do and drivers of years ago.
#[test]
fn a_driver_that_lacks_a_function_is_refused() {
    let rename = |name: &[u8], mut library: Vec<u8>| {
        let places: Vec<usize> = (0..library.len() - name.len()).filter(|&i| library[i..].starts_with(name)).collect();
        assert!(!places.is_empty());
        for place in places {
            library[place + name.len() - 2] ^= 1;
        }
        library
    };
    let loopback = Loopback::altered(|library| rename(b"cuLaunchKernel\0", library));
    let (code, _, err) = loopback.run(&["generate", "--prompt", "x", "--device", "cuda"], &[]);
    assert_eq!(code, 2);
    assert!(err.contains("lacks cuLaunchKernel") && !err.contains("panicked"), "{err}");
}

#[test]
fn without_a_driver_there_is_a_sentence() {
    let doctor = common::json(0, &["doctor", "--json"]);
    let gpu = doctor["gpu"].as_str().unwrap();
    if !gpu.contains("no CUDA driver") {
        println!("SKIPPED without_a_driver_there_is_a_sentence: this machine has one ({gpu})");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let dumps = scratch.path().join("dumps");
    for args in [
        &["generate", "--prompt", "x", "--device", "cuda"][..],
        &["conformance", "--device", "cuda"],
        &["mufu", "probe", dumps.to_str().unwrap(), "--device", "cuda"],
    ] {
        let (code, out, err) = common::run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("there is no CUDA driver on this machine") && !err.contains("panicked"), "{err}");
    }
    assert!(!dumps.exists());
}

/// Rows by name, without what differs between devices.
fn rows(report: &Value) -> Vec<(String, u64, u64)> {
    let row = |r: &Value| (r["what"].to_string(), r["cases"].as_u64().unwrap(), r["failed"].as_u64().unwrap());
    report["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn conformance_through_the_driver_finds_what_it_finds_without_and_records_answers() {
    let scratch = tempfile::tempdir().unwrap();
    let record = scratch.path().join("record");
    let args = ["conformance", "--json", "--device"];
    let recorded = ["cuda", "--record", record.to_str().unwrap()];
    let cuda = Loopback::new().json(0, &[&args[..], &recorded].concat(), &[]);
    let emulated = common::json(0, &[&args[..], &["emulated"]].concat());
    assert_eq!(rows(&cuda), rows(&emulated));
    assert_eq!(cuda["device"]["name"], NAME);
    assert_eq!(cuda["device"]["hardware"], false, "a loopback driver is no hardware");
    let parts = cuda["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 5);
    for part in parts {
        assert!(part["passed"].as_u64() > Some(0) && part["failed"] == 0, "{part}");
    }
    let whole = rows(&cuda);
    for what in ["mma m16n8k16.f32.bf16.bf16.f32", "rsqrt.approx.ftz.f32", "fma.rp.ftz.sat.f32", "in mode invariant"] {
        assert!(whole.iter().any(|r| r.0.contains(what) && r.1 > 0), "{what}");
    }

    check_record(&record, &cuda);
    // The record judges the emulator, and its answers do not count as hardware's.
    let vectors = record.join("vectors");
    let judge = ["conformance", "--vectors", vectors.to_str().unwrap(), "--zero-policy", "exclude", "--json"];
    let judged = common::json(0, &judge);
    let row = &judged["architectures"][0];
    assert_eq!((&row["answers"], &row["failed"]), (&"simulated".into(), &0.into()), "{judged}");
    assert!(row["passed"].as_u64() > Some(1000));
    // Nothing is overwritten.
    let (code, _, err) = Loopback::new().run(&[&args[..], &recorded].concat(), &[]);
    assert_eq!(code, 2);
    assert!(err.contains("exists already"), "{err}");
}

fn check_record(record: &Path, report: &Value) {
    let provenance: Value = serde_json::from_slice(&std::fs::read(record.join("provenance.json")).unwrap()).unwrap();
    assert_eq!(provenance["device"], report["device"]);
    assert_eq!(provenance["device"]["driver"], "CUDA 13.0");
    assert_eq!(provenance["date"].as_str().unwrap().len(), 10);
    let files = provenance["files"].as_array().unwrap();
    assert_eq!(files.len(), 5);
    for file in files {
        let text = std::fs::read_to_string(record.join(file["name"].as_str().unwrap())).unwrap();
        assert_eq!(text.lines().count() as u64, file["lines"].as_u64().unwrap());
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&line["gpu"], &line["sm"]), (&NAME.into(), &"sm_90".into()));
        }
    }
}

#[test]
fn a_device_that_computes_something_else_is_found_out() {
    let args = ["conformance", "--device", "cuda", "--parts", "matrix,scalar", "--json"];
    let report = Loopback::new().json(1, &args, &[("LASTBIT_LOOPBACK_FAULT", "bit")]);
    let failed = report["rows"].as_array().unwrap().iter().filter(|r| r["failed"] == 1).count();
    assert!(failed > 100, "{report}");
    let first = report["rows"][0]["first_difference"].as_str().unwrap();
    assert!(first.contains("expected"), "{first}");
}

#[test]
fn dumps_of_the_special_function_unit_are_those_of_the_emulated_device() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (cuda, emulated) = (path("cuda"), path("emulated"));
    let args = |folder| ["mufu", "probe", folder, "--only", "rsq-2-4", "--json", "--device"];
    let report = Loopback::new().json(0, &[&args(&cuda)[..], &["cuda"]].concat(), &[]);
    assert_eq!(report["device"]["hardware"], false);
    common::json(0, &[&args(&emulated)[..], &["emulated"]].concat());
    let bits = |folder: &str| std::fs::read(Path::new(folder).join("rsq-2-4.bits")).unwrap();
    assert!(bits(&cuda) == bits(&emulated));
    let provenance = std::fs::read_to_string(Path::new(&cuda).join("provenance.json")).unwrap();
    assert!(provenance.contains(NAME), "{provenance}");
}
