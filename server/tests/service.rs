//! Keys, limits, full queues, clients that leave, a service that is told to stop.

mod common;

use std::io::Read as _;
use std::time::Duration;

use common::{Bench, Setup, json};
use engine::Limits;
use engine::scheduler::Settings;
use lastbit_tests::http;
use record::inference::{Finish, join};
use server::config;
use server::{ApiKeys, Config, Serving};

/// Runs for as long as the model has positions.
const LONG: &str = r#"{"prompt":"In the beginning","max_tokens":900,"temperature":0,"stream":true,"logit_bias":{}}"#;

#[test]
fn only_keys_open_the_door() {
    let keys = ApiKeys::parse("first-key-0123456789\nsecond-key-0123456789").unwrap();
    let mut bench = Bench::with(Setup { keys, ..Setup::default() });
    let ask = r#"{"prompt":"Amen","max_tokens":2}"#;
    for (name, value) in [
        ("X-Nothing", "x"),
        ("Authorization", "Bearer first-key-012345678"),
        ("Authorization", "Basic first-key-0123456789"),
    ] {
        let client = bench.client.clone().with(name, value);
        for answer in [client.post("/v1/completions", ask), client.get("/v1/models"), client.get("/metrics")] {
            assert_eq!(answer.status, 401);
            assert_eq!(json(&answer.body)["error"]["code"], "invalid_api_key");
        }
    }
    assert_eq!(bench.client.get("/health").status, 200);
    let first = bench.client.clone().with("Authorization", "Bearer first-key-0123456789");
    let second = bench.client.clone().with("authorization", "bearer second-key-0123456789");
    let answer = json(&first.post("/v1/completions", ask).body);
    let path = format!("/v1/receipts/{}", answer["id"].as_str().unwrap());
    assert_eq!(first.get(&path).status, 200);
    assert_eq!(second.get(&path).status, 404, "another client's receipt");
    bench.stop().unwrap();
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let limits = config::Limits { queue: 2, ..config::Limits::default() };
    let mut bench = Bench::with(Setup { config: Config { limits, ..Config::default() }, ..Setup::default() });
    let running: Vec<_> = (0..2).map(|_| bench.client.send("POST", "/v1/completions", LONG.as_bytes())).collect();
    bench.wait_for("lastbit_requests_running", |n| n == 2.0);
    let refused = bench.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":1}"#);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.body);
    assert_eq!(json(&refused.body)["error"]["type"], "rate_limit_error");
    assert_eq!(bench.metric("lastbit_busy_total"), 1.0);
    // More than ever fit at once is not a matter of time.
    let never = bench.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":1,"n":3}"#);
    assert_eq!(never.status, 400, "{}", never.body);
    // They leave; their places are free again.
    drop(running);
    bench.wait_for("lastbit_requests_running", |n| n == 0.0);
    assert_eq!(bench.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":1}"#).status, 200);
    bench.stop().unwrap();
}

#[test]
fn clients_that_leave_are_cancelled_and_the_log_says_so() {
    let mut bench = Bench::new();
    let mut leaving = bench.client.send("POST", "/v1/completions", LONG.as_bytes());
    let mut some = [0; 2000];
    leaving.read_exact(&mut some).unwrap();
    // Someone else keeps the session going, so that a step states the cancellation.
    let mut other =
        bench.client.send("POST", "/v1/completions", br#"{"prompt":"Amen","max_tokens":40,"temperature":0}"#);
    bench.wait_for("lastbit_requests_running", |n| n == 2.0);
    drop(leaving);
    assert_eq!(http::read(&mut other).status, 200);
    assert_eq!(bench.metric("lastbit_requests_ended_total{finish=\"cancelled\"}"), 1.0);
    // A client that leaves alone: the session has nobody else, so no step states it until the next one comes.
    let mut alone = bench.client.send("POST", "/v1/completions", LONG.as_bytes());
    alone.read_exact(&mut some).unwrap();
    drop(alone);
    bench.wait_for("lastbit_requests_ended_total{finish=\"cancelled\"}", |n| n == 2.0);
    assert_eq!(bench.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":1}"#).status, 200);
    bench.stop().unwrap();

    let records = bench.records(&[]);
    let whole = join(&records.iter().collect::<Vec<_>>()).unwrap();
    whole.check_whole().unwrap();
    let finishes: Vec<Finish> = whole.requests.iter().map(|r| r.finish).collect();
    assert_eq!(finishes, [Finish::Cancelled, Finish::Length, Finish::Cancelled, Finish::Length]);
}

#[test]
fn a_drain_lets_requests_end_and_takes_no_more() {
    let mut bench = Bench::new();
    let ask = br#"{"prompt":"In the beginning","max_tokens":60,"temperature":0,"stream":true}"#;
    let mut running = bench.client.send("POST", "/v1/completions", ask);
    bench.wait_for("lastbit_requests_running", |n| n == 1.0);
    bench.stop().unwrap();
    let answer = http::read(&mut running);
    let events = answer.events();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{}", answer.body);
    let end = events.iter().map(|e| e.as_str()).filter(|e| *e != "[DONE]").map(json).find(|c| !c["lastbit"].is_null());
    let receipts = bench.receipts(&end.expect("an end on record"));
    assert_eq!(bench.records(&receipts).last().unwrap().requests[0].output.len(), 60);
    assert!(std::net::TcpStream::connect(bench.client.address).is_err(), "nobody listens any more");
}

#[test]
fn what_does_not_end_in_time_is_withdrawn_and_logged() {
    let config = Config { drain_seconds: 0, ..Config::default() };
    let mut bench = Bench::with(Setup { config, ..Setup::default() });
    let mut running = bench.client.send("POST", "/v1/completions", LONG.as_bytes());
    bench.wait_for("lastbit_generated_tokens_total", |n| n > 3.0);
    bench.stop().unwrap();
    let events = http::read(&mut running).events();
    let last = json(events.last().unwrap());
    assert_eq!(last["error"]["type"], "service_unavailable_error", "{last}");
    // What was computed is on record, as going on, and after it that the request was withdrawn: no step was left to state that.
    let records = bench.records(&[]);
    let [.., steps, end] = records.as_slice() else { panic!("{} records", records.len()) };
    assert_eq!((steps.requests[0].finish, end.requests[0].finish), (Finish::Continues, Finish::Cancelled));
    assert!(end.steps.is_empty() && end.requests[0].output == steps.requests[0].output);
    assert!(end.requests[0].output.len() > 3);
    join(&records.iter().collect::<Vec<_>>()).unwrap().check_whole().unwrap();
}

#[test]
fn a_log_that_cannot_be_written_ends_the_service() {
    let mut bench = Bench::new();
    assert_eq!(bench.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":1}"#).status, 200);
    // Records have nowhere to go any more.
    let records = bench.log_path().join("records");
    std::fs::rename(&records, bench.log_path().join("moved")).unwrap();
    let answer = bench.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":2}"#);
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("cannot be logged"), "{}", answer.body);
    assert!(matches!(bench.stop(), Err(server::Error::Stopped(_))));
    std::fs::rename(bench.log_path().join("moved"), records).unwrap();
    assert_eq!(bench.records(&[]).len(), 1);
}

#[test]
fn bursts_of_every_kind_leave_one_consistent_history() {
    let settings = |limits: Limits| Settings {
        chunk: Some(24),
        prefix_cache: true,
        swap_pages: 16,
        ..Settings::plain(limits.max_rows)
    };
    let limits = Limits { slots: 4, pages: 24, max_rows: 64 };
    let mut bench = Bench::with(Setup { limits, settings, ..Setup::default() });
    let threads: Vec<_> = (0..12u32)
        .map(|i| {
            let client = bench.client.clone();
            std::thread::spawn(move || {
                let prompt = "In the beginning God created the heaven and the earth. ".repeat(1 + (i % 3) as usize);
                let (temperature, logprobs) = (i % 2, if i % 4 == 1 { "1" } else { "null" });
                let ask = format!(
                    r#"{{"prompt":"{prompt}","max_tokens":{},"temperature":{temperature},"logprobs":{logprobs},"stream":true}}"#,
                    4 + i
                );
                if i % 5 == 4 {
                    // Leaves after a while.
                    let stream = client.send("POST", "/v1/completions", ask.as_bytes());
                    std::thread::sleep(Duration::from_millis(u64::from(i) * 20));
                    drop(stream);
                    return None;
                }
                let answer = client.post("/v1/completions", &ask);
                assert_eq!(answer.status, 200, "{}", answer.body);
                answer.events().iter().filter(|e| *e != "[DONE]").map(|e| json(e)).find(|c| !c["lastbit"].is_null())
            })
        })
        .collect();
    let ends: Vec<_> = threads.into_iter().filter_map(|t| t.join().unwrap()).collect();
    assert_eq!(ends.len(), 10);
    bench.stop().unwrap();
    let receipts: Vec<_> = ends.iter().flat_map(|e| bench.receipts(e)).collect();
    let records = bench.records(&receipts);
    let whole = join(&records.iter().collect::<Vec<_>>()).unwrap();
    whole.check_whole().unwrap();
    for (end, receipt) in ends.iter().zip(&receipts) {
        let id = end["lastbit"]["choices"][0]["id"].as_str().unwrap();
        let request = whole.requests.iter().find(|r| r.id == id).unwrap();
        // A sampled request may end by itself.
        let finish = match end["choices"][0]["finish_reason"].as_str() {
            Some("stop") => Finish::Stop,
            Some("length") => Finish::Length,
            other => panic!("{id} ended with {other:?}"),
        };
        assert_eq!((request.finish, receipt.output), (finish, request.output_digest()));
    }
}

#[test]
fn open_doors_need_a_word() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let model = std::sync::Arc::new(engine::model::embedded().unwrap());
    let device = Box::new(engine::device::EmulatedDevice::new("sm_90").unwrap());
    let limits = Limits { slots: 1, pages: 4, max_rows: 16 };
    let engine = engine::Engine::new(model, device, engine::Mode::Invariant, limits).unwrap();
    let refused = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        let ledger = server::worker::Ledger::Nowhere;
        let render: server::Render = std::sync::Arc::new(|_, _| Err("not here".into()));
        let (keys, config) = (ApiKeys::default(), Config::default());
        let faults = Vec::new();
        let serving = Serving { engine, settings: Settings::plain(16), ledger, faults, keys, config, render };
        server::serve(listener, serving, std::future::pending()).await
    });
    assert!(matches!(refused, Err(server::Error::Open { .. })));
}
