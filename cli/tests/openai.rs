//! The official OpenAI client for Python speaks with the service. Installed into a scratch folder; skipped by name where there is no package index.

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use common::{Bench, lastbit};

const KEY: &str = "a-key-for-one-test-0123456789";

#[test]
#[ignore = "deep: installs a Python package"]
fn the_official_client_is_content() {
    let bench = Bench::new("example.org/o");
    let venv = bench.path("venv");
    let pip = format!("{venv}/bin/pip");
    let made = Command::new("python3").args(["-m", "venv", &venv]).output().is_ok_and(|o| o.status.success())
        && Command::new(&pip).args(["install", "-q", "openai>=1.60,<4"]).output().is_ok_and(|o| o.status.success());
    if !made {
        // The harness captures `eprintln!`; a direct write is seen.
        let _ =
            writeln!(std::io::stderr(), "SKIPPED the_official_client_is_content: needs python3 and a package index");
        return;
    }
    std::fs::write(bench.at("keys"), KEY).unwrap();
    let (log, key, keys) = (bench.path("log"), bench.path("operator"), bench.path("keys"));
    let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--log", &log, "--key", &key, "--api-keys", &keys];
    // A queue that one call can fill.
    args.extend(["--queue", "4"]);
    let mut served = lastbit(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let line = BufReader::new(served.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let address = line.strip_prefix("listening on ").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/serve/openai_client.py");
    let client = Command::new(format!("{venv}/bin/python")).args([script, address, KEY]).output().unwrap();
    Command::new("kill").args(["-TERM", &served.id().to_string()]).status().unwrap();
    let code = served.wait().unwrap().code();
    assert!(client.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
    assert_eq!(code, Some(0));
    bench.audit(0, &[]);
}
