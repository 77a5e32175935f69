//! Hostile input for every path a verb takes: no panic, no hang, no reading without end; exit code 2 and a message that names the file.
#![cfg(unix)]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, copy, run_bounded};

/// What stands where a file is expected.
const KINDS: [&str; 7] = ["random", "empty", "folder", "deep", "zeros", "pipe", "device"];

/// Makes it.
fn make(kind: &str, path: &Path) {
    match kind {
        "random" => {
            let mut state = 0x9e37_79b9_7f4a_7c15_u64;
            let bytes = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            });
            std::fs::write(path, [0xff].into_iter().chain(bytes.take(5000)).collect::<Vec<u8>>()).unwrap();
        }
        "empty" => std::fs::write(path, b"").unwrap(),
        "folder" => std::fs::create_dir(path).unwrap(),
        "deep" => std::fs::write(path, "[".repeat(200_000)).unwrap(),
        "zeros" => std::fs::File::create(path).unwrap().set_len(100_000_000).unwrap(),
        "pipe" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "device" => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        other => panic!("{other}"),
    }
    if matches!(kind, "random" | "empty" | "deep" | "zeros") {
        // A private key that others can read is refused unread; here it is to be read.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// Removes whatever is there.
fn clear(path: &Path) {
    match std::fs::symlink_metadata(path) {
        Ok(m) if m.is_dir() => std::fs::remove_dir_all(path).unwrap(),
        Ok(_) => std::fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// Runs `args`, in which `@` stands for the path, with everything of `kinds` at `place`.
fn refused(args: &[&str], path: &Path, place: &Path, kinds: &[&str]) {
    for kind in kinds {
        clear(place);
        make(kind, place);
        let args: Vec<&str> = args.iter().map(|a| if *a == "@" { path.to_str().unwrap() } else { a }).collect();
        let (code, out, err) = run_bounded(&args);
        assert_eq!(code, 2, "{kind}: {args:?}\n{out}\n{err}");
        assert!(!err.contains("panicked"), "{kind}: {args:?}\n{err}");
        assert!(err.lines().count() < 20 && err.len() < 3000, "{kind}: {args:?}: too many words\n{err}");
        let name = place.file_name().unwrap().to_str().unwrap();
        let says = err.contains(name) || err.contains(path.to_str().unwrap());
        assert!(says, "{kind}: {args:?} does not name {name}: {err}");
        clear(place);
    }
}

fn every(args: &[&str], path: &Path) {
    refused(args, path, path, &KINDS);
}

fn all_but_folders(args: &[&str], path: &Path) {
    let kinds: Vec<&str> = KINDS.into_iter().filter(|k| *k != "folder").collect();
    refused(args, path, path, &kinds);
}

#[test]
fn files_on_the_command_line() {
    let bench = Bench::new("example.org/h");
    let at = bench.at("hostile");
    let [log, key, public, auditor, out] =
        ["log", "operator", "operator.pub", "auditor", "out"].map(|name| bench.path(name));
    let (log, key, public, auditor, out) = (&*log, &*key, &*public, &*auditor, &*out);
    every(&["generate", "--prompts", "@", "--max-new-tokens", "1"], &at);
    every(&["generate", "--prompt", "Amen", "--log", log, "--key", "@", "--max-new-tokens", "1"], &at);
    every(&["generate", "--prompt", "Amen", "--log", "@", "--key", key, "--max-new-tokens", "1"], &at);
    every(&["audit", log, "--key", "@"], &at);
    every(&["audit", log, "--key", public, "--checkpoint", "@"], &at);
    every(&["audit", log, "--key", public, "--auditor-key", "@", "--out", out], &at);
    all_but_folders(&["audit", log, "--key", public, "--auditor-key", auditor, "--out", "@"], &at);
    // An empty folder is a log without its parts: a refusal, which is a result.
    all_but_folders(&["audit", "@", "--key", public], &at);
    all_but_folders(&["log", "verify", "@", "--key", public], &at);
    every(&["log", "verify", log, "--key", "@"], &at);
    every(&["log", "init", out, "--origin", "x", "--key", "@"], &at);
    all_but_folders(&["log", "init", "@", "--origin", "x", "--key", key], &at);
    every(&["log", "check", "@", "--key", public], &at);
    every(&["log", "monitor", "@", "--key", public], &at);
    every(&["log", "prove", log, "--key", public, "--entry", "0", "--out", out, "--checkpoint", "@"], &at);
    every(&["audit", log, "--key", public, "--model-signature", "@", "--model-signing-key", public], &at);
    every(&["audit", log, "--key", public, "--model-signature", public, "--model-signing-key", "@"], &at);
    every(&["keygen", "@"], &at);
    every(&["mufu", "show", "--profile", "@"], &at);
    every(&["mufu", "fit", &bench.path("no-dumps"), "--samples", "@"], &at);
    every(&["mufu", "fit", &bench.path("no-dumps"), "--out", "@"], &at);
    every(&["mufu", "fit", "@"], &at);
    every(&["conformance", "--vectors", "@"], &at);
    every(&["model", "info", "@"], &at);
    every(&["report", "verify", "@", "--key", public], &at);
    every(&["report", "verify", log, "--key", "@"], &at);
    every(&["report", "html", "@", "--key", public, "--out", out], &at);
    every(&["report", "html", log, "--key", public, "--out", "@"], &at);
    all_but_folders(&["demo", "--out", "@"], &at);
    assert!(!bench.at("out").exists(), "nothing was written");
}

#[test]
fn receipts_on_the_command_line() {
    let bench = Bench::new("example.org/h");
    let (log, public) = (bench.path("log"), bench.path("operator.pub"));
    let at = bench.at("hostile");
    // An empty receipt can be read; what it means is the audit's business.
    let kinds: Vec<&str> = KINDS.into_iter().filter(|k| *k != "empty").collect();
    refused(&["audit", &log, "--key", &public, "--receipt", "@"], &at, &at, &kinds);
}

#[test]
fn files_in_folders_of_vectors_and_dumps() {
    let bench = Bench::new("example.org/h");
    let folder = bench.at("folder");
    std::fs::create_dir(&folder).unwrap();
    let no_folder: Vec<&str> = KINDS.into_iter().filter(|k| *k != "folder").collect();
    let judged: Vec<&str> = no_folder.iter().copied().filter(|k| *k != "empty").collect();
    refused(&["conformance", "--vectors", "@"], &folder, &folder.join("x.jsonl"), &judged);
    refused(&["mufu", "fit", "@"], &folder, &folder.join("rcp-1-2.ulp"), &no_folder);
    refused(&["mufu", "fit", "@"], &folder, &folder.join("rcp-1-2.ulp.xz"), &no_folder);
    // No vector at all: nothing is known, and nothing is wrong.
    std::fs::write(folder.join("x.jsonl"), b"").unwrap();
    assert_eq!(run_bounded(&["conformance", "--vectors", folder.to_str().unwrap()]).0, 2);
}

#[test]
fn files_in_a_model_folder() {
    let Some(stories) = lastbit_tests::shared("models/stories260K") else { return };
    let bench = Bench::new("example.org/h");
    let folder = bench.at("model");
    copy(&stories, &folder);
    for entry in std::fs::read_dir(&folder).unwrap() {
        std::fs::set_permissions(entry.unwrap().path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    for name in ["config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json"] {
        let place = folder.join(name);
        let honest = std::fs::read(&place).ok();
        refused(&["model", "info", "@"], &folder, &place, &KINDS);
        if let Some(honest) = honest {
            std::fs::write(&place, honest).unwrap();
        }
    }
    bench.ok(&["model", "info", folder.to_str().unwrap()]);
}

/// The only file with this ending in a folder.
fn only(folder: PathBuf, ending: &str) -> PathBuf {
    let mut paths = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    paths.find(|p| p.extension().is_some_and(|e| e == ending)).unwrap()
}

#[test]
fn files_in_a_log() {
    let bench = Bench::new("example.org/h");
    let (log, public, key) = (bench.path("log"), bench.path("operator.pub"), bench.path("operator"));
    bench.ok(&["generate", "--log", &log, "--key", &key, "--prompt", "Amen", "--max-new-tokens", "1"]);
    let record = only(bench.at("log/records"), "replay");
    let evidence = only(bench.at("log/evidence"), "evidence");
    for place in [bench.at("log/checkpoint"), bench.at("log/entries"), record, evidence.clone()] {
        let honest = std::fs::read(&place).unwrap();
        for kind in KINDS {
            clear(&place);
            make(kind, &place);
            let readable = !matches!(kind, "folder" | "pipe" | "device");
            for verb in [&["audit"][..], &["log", "verify"]] {
                let args = [verb, &[&log, "--key", &public]].concat();
                let (code, out, err) = run_bounded(&args);
                let what = format!("{kind} at {}: {args:?}: {code}\n{out}\n{err}", place.display());
                assert!(!err.contains("panicked"), "{what}");
                let name = place.file_name().unwrap().to_str().unwrap();
                if place == evidence {
                    // Evidence is not signed and is not needed: what is none is set aside, and the audit recomputes.
                    assert_eq!(code, 0, "{what}");
                } else if place.ends_with("checkpoint") || !readable {
                    // Nothing of the log has been verified, or it cannot be read: no finding.
                    assert_eq!(code, 2, "{what}");
                    assert!(readable || out.contains(name), "{what}");
                } else {
                    assert_eq!(code, 1, "{what}");
                }
            }
        }
        clear(&place);
        std::fs::write(&place, honest).unwrap();
    }
    // The writer opens more: nothing may make it wait.
    for name in ["lock", "entries", "checkpoint"] {
        let place = bench.at("log").join(name);
        let honest = std::fs::read(&place).unwrap();
        clear(&place);
        make("pipe", &place);
        let (code, _, err) = run_bounded(&["generate", "--log", &log, "--key", &key, "--prompt", "Amen"]);
        assert_eq!(code, 2, "{name}: {err}");
        clear(&place);
        std::fs::write(&place, honest).unwrap();
    }
    bench.ok(&["audit", &log, "--key", &public]);
}
