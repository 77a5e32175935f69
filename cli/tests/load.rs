//! Sixty-four streams at a time, for a few seconds here and for as long as `LASTBIT_LOAD_SECONDS` says by hand: every answer is whole and on record,
//! and memory does not grow with what was served.

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Bench, json, lastbit};
use lastbit_tests::http::Client;

const STREAMS: u64 = 64;

/// Resident memory of a process, in KiB.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("Linux tells of processes");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("a resident size");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

#[test]
fn many_streams_are_all_answered_and_memory_stays() {
    let seconds = std::env::var("LASTBIT_LOAD_SECONDS").map_or(4, |s| s.parse::<u64>().expect("whole seconds"));
    let bench = Bench::new("example.org/load");
    let (log, key) = (bench.path("log"), bench.path("operator"));
    let args = ["serve", "--listen", "127.0.0.1:0", "--log", &log, "--key", &key, "--queue", "80", "--pages", "320"];
    let mut served = lastbit(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let line = BufReader::new(served.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let process = served.id();

    let (answers, tokens, left) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let until = Instant::now() + Duration::from_secs(seconds);
    let streams: Vec<_> = (0..STREAMS)
        .map(|stream| {
            let (client, answers, tokens, left) = (Client::new(address), answers.clone(), tokens.clone(), left.clone());
            std::thread::spawn(move || {
                let mut round = 0;
                // A slow machine gets its answers too.
                while round < 3 || Instant::now() < until {
                    let new = 1 + (stream * 7 + round * 3) % 13;
                    let ask = format!(
                        r#"{{"prompt":"In the beginning {stream} {round}","max_tokens":{new},"temperature":{},"stream":true,"stream_options":{{"include_usage":true}}}}"#,
                        stream % 2
                    );
                    round += 1;
                    if (stream + round) % 17 == 0 {
                        // Some leave without waiting.
                        drop(client.send("POST", "/v1/completions", ask.as_bytes()));
                        left.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let answer = client.post("/v1/completions", &ask);
                    if answer.status == 429 {
                        // Those who left may still have their places.
                        std::thread::sleep(Duration::from_millis(50));
                        continue;
                    }
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    let events = answer.events();
                    assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{}", answer.body);
                    assert!(answer.body.contains("\"receipt\""), "{}", answer.body);
                    answers.fetch_add(1, Ordering::Relaxed);
                    tokens.fetch_add(new, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // Samples begin once buffers have their sizes.
    let mut samples = Vec::new();
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(500));
        samples.push(resident(process));
    }
    for stream in streams {
        stream.join().unwrap();
    }
    Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap();
    assert_eq!(served.wait().unwrap().code(), Some(0));
    let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let quarter = samples.len() / 4;
    let (early, late) = (samples[quarter], samples.iter().rev().take(quarter.max(1)).copied().max().unwrap_or(0));
    let _ = writeln!(
        std::io::stderr(),
        "load: {} answers, {} tokens, {} left early, in {seconds} s with {STREAMS} streams; resident {} KiB at a quarter of the time, at most {} in the last quarter",
        count(&answers),
        count(&tokens),
        count(&left),
        early,
        late
    );
    assert!(count(&answers) >= STREAMS, "{} answers", count(&answers));
    // Far below what keeping every answer's record would take; allocators keep some slack.
    assert!(late < early + early / 4 + 32 * 1024, "{early} KiB, then {late} KiB");
    let report = json(0, &["log", "verify", &log, "--key", &bench.path("operator.pub"), "--json"]);
    assert!(report["acknowledged"].as_u64().unwrap() > 0);
}

/// `bench serve` measures what it asked for, verifies receipts, and says so when they are another key's. The served log, of an fp8 cache and
/// of streams, audits as a match.
#[test]
fn a_service_is_measured_from_outside() {
    let bench = Bench::new("example.org/measured");
    let (log, key) = (bench.path("log"), bench.path("operator"));
    let args = ["--log", &log, "--key", &key, "--mode", "throughput/2", "--kv", "fp8"];
    let args = [&["serve", "--listen", "127.0.0.1:0"][..], &args].concat();
    let mut served = lastbit(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let line = BufReader::new(served.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let url = format!("{}/v1", line.strip_prefix("listening on ").unwrap());
    let measure = |code, public: &str| {
        let asked = ["--streams", "3", "--requests", "7", "--max-tokens", "4", "--key", &bench.path(public), "--json"];
        json(code, &[&["bench", "serve", "--url", &url][..], &asked].concat())
    };
    let report = measure(0, "operator.pub");
    assert_eq!(
        (&report["answered"], &report["failed"], &report["receipts"]["valid"]),
        (&7.into(), &0.into(), &7.into())
    );
    assert!(report["tokens"].as_u64().is_some_and(|n| (7..=28).contains(&n)), "{report}");
    assert!(report["first_token_ms"]["p50"].as_f64() <= report["first_token_ms"]["most"].as_f64());
    assert_eq!(measure(1, "stranger.pub")["receipts"]["valid"], 0);
    Command::new("kill").args(["-TERM", &served.id().to_string()]).status().unwrap();
    assert_eq!(served.wait().unwrap().code(), Some(0));
    // Exit code 0: all of it matches.
    json(0, &["audit", &log, "--key", &bench.path("operator.pub"), "--json"]);
}
