//! `lastbit serve` as an operator runs it: signals, crashes, audits of what was served, settings.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Bench, json, lastbit, run};
use lastbit_tests::http::{Client, read};
use serde_json::Value;

/// A running service.
struct Served {
    child: Child,
    client: Client,
}

impl Served {
    fn begin(args: &[&str]) -> Self {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--slots", "8"];
        all.extend(args);
        let mut child = lastbit(&all).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("it says where it listens").unwrap();
        let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
        Self { child, client: Client::new(address) }
    }

    fn of(bench: &Bench, more: &[&str]) -> Self {
        let (log, key) = (bench.path("log"), bench.path("operator"));
        let mut args = vec!["--log", &log, "--key", &key];
        args.extend(more);
        Self::begin(&args)
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for a clean end.
    fn end(mut self) -> i32 {
        self.child.wait().unwrap().code().expect("it ends by itself")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn end_of(events: &[String]) -> Option<Value> {
    let chunks = events.iter().filter(|e| *e != "[DONE]").map(|e| serde_json::from_str::<Value>(e).unwrap());
    chunks.into_iter().find(|c| !c["lastbit"].is_null())
}

#[test]
fn killed_service_loses_nothing_acknowledged() {
    let bench = Bench::new("example.org/k");
    let (log, public) = (bench.path("log"), bench.path("operator.pub"));
    let mut promised: BTreeSet<(u64, String)> = BTreeSet::new();
    for round in 0..4u64 {
        let mut served = Served::of(&bench, &[]);
        let clients: Vec<_> = (0..4u64)
            .map(|i| {
                let client = served.client.clone();
                std::thread::spawn(move || {
                    let mut ends = Vec::new();
                    for n in 0..50 {
                        let ask = format!(r#"{{"prompt":"Amen","max_tokens":{},"stream":true}}"#, 1 + (i + n) % 3);
                        // Killed in the middle, a service answers nothing, or half.
                        let Ok(mut stream) = std::net::TcpStream::connect(client.address) else { break };
                        use std::io::{Read as _, Write as _};
                        let head = format!("POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{ask}", ask.len());
                        let _ = stream.write_all(head.as_bytes());
                        let mut text = String::new();
                        let _ = stream.read_to_string(&mut text);
                        // Whole lines only: the last one may have been cut.
                        let whole = text.rfind("\n\n").map_or("", |at| &text[..at]);
                        let events: Vec<String> =
                            whole.lines().filter_map(|l| l.strip_prefix("data: ")).map(str::to_owned).collect();
                        ends.extend(end_of(&events));
                    }
                    ends
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(400 + 130 * round));
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        for client in clients {
            for end in client.join().unwrap() {
                let place = &end["lastbit"]["choices"][0]["record"];
                promised.insert((place["index"].as_u64().unwrap(), place["digest"].as_str().unwrap().to_owned()));
            }
        }
        // A restart recovers; what was promised is there.
        let served = Served::of(&bench, &[]);
        assert_eq!(served.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":1}"#).status, 200);
        served.signal("-TERM");
        assert_eq!(served.end(), 0);
        let report = json(0, &["log", "verify", &log, "--key", &public, "--json"]);
        let found = report["acknowledged"].as_u64().unwrap();
        assert!(promised.iter().all(|(index, _)| *index < found), "round {round}");
        for (_, digest) in &promised {
            let name = digest.strip_prefix("sha256:").unwrap();
            assert!(bench.at("log").join("records").join(format!("{name}.replay")).exists(), "{digest}");
        }
    }
    assert!(!promised.is_empty(), "nothing was acknowledged before it was killed");
}

#[test]
fn a_signal_drains_and_the_log_of_sequential_calls_audits_as_match() {
    let bench = Bench::new("example.org/t");
    let served = Served::of(&bench, &[]);
    let ask =
        r#"{"prompt":"In the beginning","max_tokens":5,"nonce":"00ff","n":2,"stop":["no such words"],"logprobs":1}"#;
    assert_eq!(served.client.post("/v1/completions", ask).status, 200);
    let mut running = served.client.send(
        "POST",
        "/v1/completions",
        br#"{"prompt":"And the LORD said","max_tokens":8,"temperature":0}"#,
    );
    // Until it is running, a drain would refuse it.
    while !served.client.get("/metrics").body.contains("lastbit_prompt_tokens_total 1") {
        std::thread::sleep(Duration::from_millis(5));
    }
    while served.client.get("/metrics").body.contains("lastbit_requests_running 0") {
        std::thread::sleep(Duration::from_millis(1));
    }
    served.signal("-INT");
    assert_eq!(read(&mut running).status, 200);
    assert_eq!(served.end(), 0);
    bench.audit(0, &[]);
}

#[test]
fn a_burst_of_streams_that_come_and_leave_audits_as_match() {
    let bench = Bench::new("example.org/b");
    let served = Served::of(&bench, &["--chunk", "16", "--prefix-cache", "--swap-pages", "8", "--pages", "20"]);
    let streams: Vec<_> = (0..14u64)
        .map(|i| {
            let client = served.client.clone();
            std::thread::spawn(move || {
                let prompt = "And God said, Let there be light: and there was light. ".repeat(1 + (i % 3) as usize);
                let stop = if i % 3 == 0 { r#"["the ", "LORD"]"# } else { "null" };
                let ask = format!(
                    r#"{{"prompt":"{prompt}","max_tokens":{},"temperature":{},"stop":{stop},"logprobs":{},"stream":true,
                        "prompt_logprobs":{},"presence_penalty":{},"min_p":{},"repetition_penalty":1.{},"logit_bias":{{"{i}":2.5}}}}"#,
                    3 + i % 7,
                    i % 2,
                    if i % 4 == 0 { "1" } else { "null" },
                    if i % 3 == 1 { "0" } else { "null" },
                    i % 3,
                    if i % 4 == 1 { "0.125" } else { "null" },
                    i % 5
                );
                let mut stream = client.send("POST", "/v1/completions", ask.as_bytes());
                if i % 5 == 3 {
                    std::thread::sleep(Duration::from_millis(30 * i));
                    return None;
                }
                let answer = read(&mut stream);
                assert_eq!(answer.status, 200, "{}", answer.body);
                end_of(&answer.events())
            })
        })
        .collect();
    let ends: Vec<Value> = streams.into_iter().filter_map(|s| s.join().unwrap()).collect();
    assert_eq!(ends.len(), 11);
    served.signal("-TERM");
    assert_eq!(served.end(), 0);
    // Each client's receipt is one that the log keeps, and all that was computed is what the log says.
    let mut receipts = Vec::new();
    for (number, end) in ends.iter().enumerate() {
        let path = bench.path(&format!("{number}.receipt"));
        std::fs::write(&path, end["lastbit"]["choices"][0]["receipt"].as_str().unwrap()).unwrap();
        receipts.extend(["--receipt".to_owned(), path]);
    }
    let receipts: Vec<&str> = receipts.iter().map(String::as_str).collect();
    let report = bench.audit(0, &receipts);
    assert_eq!(report["verdict"], "MATCH", "{report}");
}

#[test]
fn a_service_with_faults_says_so_and_no_audit_takes_it_for_another() {
    let bench = Bench::new("example.org/f");
    let served = Served::of(&bench, &["--fault", "swap@2", "--fault", "rows=1"]);
    let answer =
        served.client.post("/v1/completions", r#"{"prompt":"In the beginning","max_tokens":4,"temperature":0}"#);
    assert_eq!((answer.status, answer.header("x-lastbit-faults")), (200, Some("swap@2 rows=1")));
    assert!(served.client.get("/health").body.contains("swap@2 rows=1"));
    served.signal("-TERM");
    assert_eq!(served.end(), 0);
    let report = bench.audit(2, &[]);
    assert_eq!(report["verdict"], "UNVERIFIABLE");
    assert!(report["headline"].as_str().unwrap().contains("throughput+swap@2+rows=1"), "{}", report["headline"]);
}

#[test]
fn conversations_are_rendered_in_a_process_of_their_own_and_audit_as_match() {
    let bench = Bench::new("example.org/c");
    let folder = bench.at("model");
    std::fs::create_dir(&folder).unwrap();
    let files = engine::model::embedded_files();
    for name in
        ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
    {
        if let Some(bytes) = files.optional(name) {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    // A template that answers those who ask as it likes, and never ends for the others.
    let template = "{% for m in messages %}{{ m.content }}{% if m.content == 'loop' %}\
        {% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}\
        {% endif %}{% endfor %} said:";
    std::fs::write(folder.join("chat_template.jinja"), template).unwrap();
    let model = bench.path("model");
    let served = Served::of(&bench, &["--model", &model]);
    let ask = |said: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"{said}"}}],"max_tokens":4,"n":2}}"#);
        served.client.post("/v1/chat/completions", &body)
    };
    let answer = ask("And the LORD");
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(served.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":2}"#).status, 200);
    let endless = ask("loop");
    assert!(endless.status == 400 && endless.body.contains("template"), "{}", endless.body);
    assert_eq!(ask("And the LORD").status, 200);
    served.signal("-TERM");
    assert_eq!(served.end(), 0);
    bench.audit(0, &["--model", &model]);
}

#[test]
fn settings_are_checked_before_anything_is_served() {
    let bench = Bench::new("example.org/s");
    let (log, key) = (bench.path("log"), bench.path("operator"));
    let config = |text: &str| {
        let path = bench.path("config.toml");
        std::fs::write(&path, text).unwrap();
        path
    };
    let refused = |args: &[&str], says: &str| {
        let (code, _, err) = run(args);
        assert!(code == 2 && err.contains(says), "{args:?}: {code} {err}");
    };
    refused(&["serve"], "--no-log");
    refused(&["serve", "--log", &log], "--key");
    refused(&["serve", "--log", &log, "--key", &key, "--no-log"], "--no-log");
    refused(&["serve", "--no-log", "--config", &config("lisen = 1")], "lisen");
    refused(&["serve", "--no-log", "--config", &config("mode = \"fast\"")], "mode");
    refused(&["serve", "--no-log", "--config", &config("[service.limits]\nqueue = 0")], "room");
    refused(&["serve", "--no-log", "--listen", "0.0.0.0:0"], "API keys");
    refused(&["serve", "--no-log", "--fault", "logits"], "a fault is");
    refused(&["serve", "--log", &log, "--key", &key, "--mode", "invariant", "--fault", "logit"], "throughput");
    std::fs::write(bench.at("keys"), "short\n").unwrap();
    refused(&["serve", "--no-log", "--api-keys", &bench.path("keys")], "16 characters");

    // File, then environment, then options.
    let file =
        config(&format!("log = {log:?}\nkey = {key:?}\nlisten = \"127.0.0.1:1\"\n[service.limits]\nnew_tokens = 3\n"));
    let served = Served::begin(&["--config", &file]);
    assert_eq!(served.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":4}"#).status, 400);
    let answer = served.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":3}"#);
    assert!(answer.status == 200 && answer.body.contains("example.org/s"), "{}", answer.body);
    served.signal("-TERM");
    assert_eq!(served.end(), 0);
}
