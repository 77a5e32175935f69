//! `lastbit fingerprint` against this project's own service: endpoints are told apart blind, and what cannot be told apart is not.

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use common::{json, lastbit, run};
use serde_json::Value;

/// A service on an emulated GPU.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(args: &[&str]) -> Self {
        let mut child = lastbit(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let line =
            BufReader::new(child.stdout.take().unwrap()).lines().next().expect("it says where it listens").unwrap();
        let address = line.strip_prefix("listening on ").unwrap().split([',', '/', ' ']).nth(2).unwrap().to_owned();
        Self { child, url: format!("http://{address}/v1") }
    }

    fn gpu(profile: &str, mode: &str) -> Self {
        Self::start(&["serve", "--no-log", "--listen", "127.0.0.1:0", "--profile", profile, "--mode", mode])
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn section<'a>(report: &'a Value, title: &str, about: &str) -> &'a Value {
    let sections = report["sections"].as_array().unwrap();
    let section = sections.iter().find(|s| s["title"] == title).unwrap();
    let found = section["findings"].as_array().unwrap().iter().find(|f| f["about"] == about);
    found.unwrap_or_else(|| panic!("no {about} in {title}: {report:#}"))
}

/// Who is who is decided by the references alone: the service is asked nothing but to go on with prompts.
#[test]
fn an_emulated_a100_is_told_from_an_h100_and_not_from_an_l40s() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("library");
    std::fs::create_dir(&library).unwrap();
    let library = library.to_str().unwrap();
    let probes = ["--probes", "10", "--tokens", "6", "--probe-seed", "11"];
    let mut enroll = vec![
        "fingerprint",
        "enroll",
        "--emulate",
        "sm_80,sm_89,sm_90",
        "--mode",
        "invariant",
        "--batches",
        "1,2",
        "--library",
        library,
    ];
    enroll.extend(probes);
    enroll.push("--json");
    assert_eq!(json(0, &enroll)["traces"].as_array().unwrap().len(), 6);

    let identify = |served: &Served| json(0, &["fingerprint", "identify", &served.url, "--library", library, "--json"]);
    let a100 = Served::gpu("sm_80", "invariant");
    let report = identify(&a100);
    assert_eq!(section(&report, "references", "hardware")["says"], "sm_80, sm_89", "{report:#}");
    assert_eq!(section(&report, "references", "hardware")["word"], "not_separable");
    let class = section(&report, "classes", "one class");
    assert!(class["says"].as_str().unwrap().contains("sm_80 = "), "{class}");
    let h100 = Served::gpu("sm_90", "invariant");
    let report = identify(&h100);
    assert!(section(&report, "references", "hardware")["says"].as_str().unwrap().starts_with("sm_90"), "{report:#}");

    // An A100 that claims to be an H100.
    let verify = |code, claim: &str, served: &Served| {
        json(code, &["fingerprint", "verify", claim, &served.url, "--library", library, "--json"])
    };
    let report = verify(1, "hardware=sm_90", &a100);
    assert!(report["verdict"].as_str().unwrap().contains("REJECTED"), "{report:#}");
    verify(0, "hardware=sm_80", &a100);
    verify(0, "hardware=sm_90", &h100);
    // Kernels that are not on record.
    let other = Served::gpu("sm_80", "throughput");
    let (code, out, _) = run(&["fingerprint", "identify", &other.url, "--library", library]);
    assert!(code == 2 && out.contains("none of the recorded stacks"), "{code} {out}");
}

#[test]
fn a_page_of_an_endpoint_is_made_within_sixty_requests_and_can_be_signed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(run(&["keygen", &path("auditor")]).0, 0);
    let served = Served::gpu("sm_90", "invariant");
    let (page, signed, key, folder) = (path("page.html"), path("signed.json"), path("auditor"), path(""));
    let mut args = vec!["fingerprint", "inspect", &served.url, "--probe-seed", "5", "--html", &page];
    args.extend(["--signed", &signed, "--signing-key", &key, "--trace-dir", &folder]);
    let (code, out, err) = run(&args);
    assert_eq!(code, 0, "{out}{err}");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("surface says lastbit") && words.contains("no rule of the interface seen broken"), "{out}");
    let requests: u32 =
        out.lines().find_map(|l| l.strip_prefix("cost      ")?.split(' ').next()?.parse().ok()).unwrap();
    assert!(requests <= 60, "{requests}");
    assert!(err.contains("at most") && std::fs::read_to_string(page).unwrap().contains("Endpoint report"));
    let key = record::PublicKey::read(dir.path().join("auditor.pub").as_path()).unwrap();
    let signed = std::fs::read(signed).unwrap();
    assert_eq!(fingerprint::report::Report::open(&signed, &key).unwrap().kind, "inspect");

    // The trace alone answers a second run.
    let trace = std::fs::read_dir(dir.path()).unwrap().find_map(|e| {
        let path = e.unwrap().path();
        path.to_str().filter(|p| p.ends_with(".trace.jsonl")).map(str::to_owned)
    });
    let replay = Served::start(&["fingerprint", "replay", &trace.unwrap(), "--listen", "127.0.0.1:0"]);
    let again = json(0, &["fingerprint", "inspect", &replay.url, "--probe-seed", "5", "--json"]);
    assert!(again["verdict"].as_str().unwrap().contains("surface says lastbit"), "{again:#}");
}

#[test]
fn nobody_there_is_exit_code_three_and_a_dry_run_asks_nobody() {
    let (code, out, err) = run(&["fingerprint", "inspect", "http://127.0.0.1:1/v1", "--json"]);
    assert!(code == 3 && out.contains("\"exit_code\": 3"), "{code} {out} {err}");
    let plan = json(0, &["fingerprint", "inspect", "http://127.0.0.1:1/v1", "--dry-run", "--json"]);
    let requests: u64 = plan["at_most"].as_array().unwrap().iter().map(|s| s["requests"].as_u64().unwrap()).sum();
    assert!((40..=70).contains(&requests), "{requests}");
    let (code, _, err) = run(&["fingerprint", "inspect", "http://example.org/v1", "--key-env", "LASTBIT_NO_SUCH_KEY"]);
    assert!(code == 2 && err.contains("LASTBIT_NO_SUCH_KEY"), "{err}");
    let (code, _, err) = run(&["fingerprint", "identify", "http://127.0.0.1:1/v1", "--library", "/nowhere"]);
    assert!(code == 2 && err.contains("/nowhere"), "{err}");
}
