//! SIGKILL at any moment of `generate` loses no acknowledged record.

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use common::{Bench, json, lastbit};

#[test]
fn killed_generation_loses_nothing_acknowledged() {
    let bench = Bench::new("example.org/k");
    let prompts = bench.path("prompts");
    std::fs::write(&prompts, "Amen\n".repeat(400)).unwrap();
    let (log, key, public) = (bench.path("log"), bench.path("operator"), bench.path("operator.pub"));
    let args =
        ["generate", "--log", &log, "--key", &key, "--prompts", &prompts, "--batch", "1", "--max-new-tokens", "1"];
    let mut acknowledged = 0;
    for round in 0..8_u64 {
        let mut child = lastbit(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Some rounds are killed between two acknowledgements, at different distances from the last one.
        let mut seen = 0;
        while seen < 1 + round % 3 {
            let line = lines.next().expect("it ended before it was killed").unwrap();
            seen += u64::from(line.starts_with("acknowledged:"));
        }
        std::thread::sleep(Duration::from_millis(3 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        seen += lines.map_while(Result::ok).filter(|l| l.starts_with("acknowledged:")).count() as u64;
        acknowledged += seen;

        // Restart: opening for writing recovers, and the log verifies with every acknowledged record in it.
        bench.ok(&["generate", "--log", &log, "--key", &key, "--prompt", "Amen", "--max-new-tokens", "1"]);
        acknowledged += 1;
        let report = json(0, &["log", "verify", &log, "--key", &public, "--json"]);
        let found = report["acknowledged"].as_u64().unwrap();
        assert!(found >= acknowledged, "round {round}: {acknowledged} acknowledged, {found} found");
        // What was complete when the process died is adopted: at most one a round.
        assert!(found <= acknowledged + 1, "round {round}");
        acknowledged = found;
    }
}
