//! Calls that no honest client makes get clear errors, and the service goes on.

mod common;

use std::io::{Read as _, Write as _};
use std::time::Duration;

use common::{Bench, Setup, json};
use lastbit_tests::http;
use server::{Config, Limits};

const OK: &str = r#"{"prompt":"Amen","max_tokens":1,"temperature":0}"#;

#[test]
fn bad_calls_are_refused_one_by_one() {
    let mut bench = Bench::new();
    let deep = format!(r#"{{"prompt":{}"x"{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
    let unknown = format!(r#"{{"prompt":"x","{}":1}}"#, "k".repeat(100_000));
    let cases: Vec<(u16, &str, &[u8])> = vec![
        (400, "JSON", b""),
        (400, "JSON", b"{"),
        (400, "JSON", b"\xff\xfe\x00"),
        (400, "JSON", b"{\"prompt\":\"\xc3\x28\"}"),
        (400, "JSON", b"{\"prompt\":\"\\ud800\"}"),
        (400, "recursion", deep.as_bytes()),
        (400, "object", b"[1]"),
        (400, "`prompt`", b"{}"),
        (400, "`prompt`", br#"{"prompt":[]}"#),
        (400, "`prompt`", br#"{"prompt":[1,"x"]}"#),
        (400, "no token", br#"{"prompt":[[]]}"#),
        (400, "vocabulary", br#"{"prompt":[4294967295]}"#),
        (400, "`prompt`", br#"{"prompt":[4294967296]}"#),
        (400, "positions", br#"{"prompt":"x","max_tokens":60000}"#),
        (400, "`n`", br#"{"prompt":"x","n":1000000000}"#),
        (400, "choices", br#"{"prompt":["x","x","x","x"],"n":16}"#),
        (400, "`max_tokens`", br#"{"prompt":"x","max_tokens":-1}"#),
        (400, "`temperature`", br#"{"prompt":"x","temperature":1e400}"#),
        (400, "`presence_penalty`", br#"{"prompt":"x","presence_penalty":9}"#),
        (400, "`repetition_penalty`", br#"{"prompt":"x","repetition_penalty":-0.0}"#),
        (400, "vocabulary", br#"{"prompt":"x","logit_bias":{"4294967295":1}}"#),
        (400, "token id", br#"{"prompt":"x","logit_bias":{"0x1":1}}"#),
        (400, "`best_of`", br#"{"prompt":"x","n":2,"best_of":1}"#),
        (400, "no stream", br#"{"prompt":"x","best_of":2,"stream":true}"#),
        (400, "choices", br#"{"prompt":["x","x","x"],"best_of":16}"#),
        (400, "`max_tokens`", br#"{"prompt":"x","max_tokens":0,"echo":true,"logprobs":1}"#),
        (400, "`echo`", br#"{"prompt":"x","echo":"yes"}"#),
        (400, "`prompt_logprobs`", br#"{"prompt":"x","prompt_logprobs":1000000}"#),
        (400, "not supported", br#"{"prompt":"x","tools":[{"type":"function"}]}"#),
        (400, "not a parameter", br#"{"prompt":"x","max_token":1}"#),
        (400, "not a parameter", unknown.as_bytes()),
        (404, "not served", br#"{"prompt":"x","model":"gpt-4"}"#),
    ];
    for (status, says, body) in cases {
        let answer = bench.client.call("POST", "/v1/completions", body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        assert_eq!(answer.status, status, "{shown}: {}", answer.body);
        let error = json(&answer.body)["error"].clone();
        // Numbers that no float holds are refused by the JSON reader or by the range: both say so.
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says) || says == "`temperature`" && message.contains("JSON"), "{shown}: {message}");
        assert!(message.len() < 400, "{shown}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    for (method, path, status) in [
        ("GET", "/v1/completions", 405),
        ("POST", "/nowhere", 404),
        ("GET", "/v1/receipts/..%2f..%2fkey", 404),
        ("GET", "/v1/models/other", 404),
    ] {
        let answer = bench.client.call(method, path, b"");
        assert_eq!(
            (answer.status, json(&answer.body)["error"]["type"].clone()),
            (status, "invalid_request_error".into()),
            "{path}"
        );
    }
    let chat = bench.client.post("/v1/chat/completions", r#"{"messages":[{"role":"user","content":"Hi"}]}"#);
    assert!(chat.status == 400 && chat.body.contains("no chat template"), "{}", chat.body);
    assert_eq!(bench.client.post("/v1/completions", OK).status, 200);
    bench.stop().unwrap();
    // None of it left a trace: the log has what was served.
    assert_eq!(bench.records(&[]).iter().map(|r| r.requests.len()).sum::<usize>(), 1);
}

#[test]
fn large_and_slow_bodies_end() {
    let config =
        Config { receive_seconds: 1, limits: Limits { body_bytes: 4096, ..Limits::default() }, ..Config::default() };
    let mut bench = Bench::with(Setup { config, ..Setup::default() });
    let large = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(10 << 20));
    let answer = bench.client.post("/v1/completions", &large);
    assert_eq!((answer.status, json(&answer.body)["error"]["code"].clone()), (413, "request_too_large".into()));

    // A body that never ends, and a header that never does.
    let mut slow = bench.client.connect();
    slow.write_all(
        b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"prompt\"",
    )
    .unwrap();
    assert_eq!(http::read(&mut slow).status, 408);
    let mut header = bench.client.connect();
    header.write_all(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ").unwrap();
    let mut rest = Vec::new();
    let _ = header.read_to_end(&mut rest);
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&rest));

    // One byte at a time is as slow.
    let mut dripping = bench.client.connect();
    dripping
        .write_all(b"POST /tokenize HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
        .unwrap();
    for _ in 0..100 {
        if dripping.write_all(b" ").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(http::read(&mut dripping).status, 408);

    // No HTTP at all.
    let mut noise = bench.client.connect();
    noise.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 0xff, b'\r', b'\n', b'\r', b'\n']).unwrap();
    assert_eq!(http::read(&mut noise).status, 400);
    let mut plain = bench.client.connect();
    plain
        .write_all(b"POST /v1/completions HTTP/1.0\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
        .unwrap();
    assert_eq!(http::read(&mut plain).status, 400);
    assert_eq!(bench.client.post("/v1/completions", OK).status, 200);
    bench.stop().unwrap();
}

#[test]
fn tokens_and_text_go_both_ways() {
    let mut bench = Bench::new();
    let tokens = json(&bench.client.post("/tokenize", r#"{"prompt":"In the beginning"}"#).body);
    let bare =
        json(&bench.client.post("/tokenize", r#"{"prompt":"In the beginning","add_special_tokens":false}"#).body);
    let tokenizer = engine::model::embedded().unwrap().tokenizer;
    assert_eq!(tokens["tokens"], serde_json::json!(tokenizer.encode("In the beginning").unwrap()));
    let special = tokenizer.added_special().unwrap().len();
    assert_eq!(tokens["count"].as_u64().unwrap() as usize, bare["count"].as_u64().unwrap() as usize + special);
    let back = bench.client.post("/detokenize", &serde_json::json!({"tokens": tokens["tokens"]}).to_string());
    assert_eq!(json(&back.body)["prompt"], "In the beginning");
    for bad in [r#"{"tokens":[1024000]}"#, r#"{"tokens":"x"}"#, r#"{"tokens":[-1]}"#, "{}"] {
        assert_eq!(bench.client.post("/detokenize", bad).status, 400, "{bad}");
    }
    let models = json(&bench.client.get("/v1/models").body);
    let name = models["data"][0]["id"].as_str().unwrap();
    assert_eq!(json(&bench.client.get(&format!("/v1/models/{name}")).body)["id"], name);
    bench.stop().unwrap();
}
