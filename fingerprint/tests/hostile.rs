//! Endpoints that mean harm: none may hang the client, crash it, fill its memory, or see or spread the key.

mod toy;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fingerprint::Error;
use fingerprint::api::{Ask, Prompt, Route};
use fingerprint::client::{Client, Fault, Key, Patience};
use fingerprint::stage::inspect::{Claim, Plan, inspect};
use fingerprint::trace::Record;

const KEY: &str = "sk-very-secret-0123456789";

fn patience() -> Patience {
    Patience {
        connect: Duration::from_secs(5),
        idle: Duration::from_millis(400),
        total: Duration::from_millis(1500),
        bytes: 1 << 20,
        retry_after: Duration::from_secs(2),
        retries: 2,
    }
}

/// Serves connections with `act`, and keeps the requests it got.
fn serve(act: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let (kept, act) = (requests.clone(), Arc::new(act));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let (kept, act) = (kept.clone(), act.clone());
            std::thread::spawn(move || {
                let mut buffer = [0; 65536];
                let n = stream.read(&mut buffer).unwrap_or(0);
                kept.lock().unwrap().push(String::from_utf8_lossy(&buffer[..n]).into_owned());
                act(&mut stream);
            });
        }
    });
    (address, requests)
}

fn head(kind: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n")
}

fn ask() -> Ask {
    Ask::new(Route::Completions, None, Prompt::Text("a".into()), 1)
}

async fn record(address: SocketAddr) -> Record {
    let session = toy::with_key(&format!("http://{address}/v1"), KEY, patience());
    let record = session.ask("x", &ask()).await.unwrap();
    let bytes = session.trace().to_bytes().unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("very-secret"), "the key is in the trace");
    record
}

#[tokio::test]
async fn endless_streams_and_gigabyte_bodies_end_at_the_limit() {
    for kind in ["text/event-stream", "application/json"] {
        let (address, _) = serve(move |s| {
            let _ = s.write_all(head(kind).as_bytes());
            let piece = "data: {\"choices\":[]}\n\n".repeat(1000);
            while s.write_all(piece.as_bytes()).is_ok() {}
        });
        let found = record(address).await;
        assert_eq!(found.fault.as_deref(), Some("the answer is longer than is read here"), "{kind}");
        assert_eq!(found.bytes, 1 << 20);
    }
    // A length that is only stated.
    let (address, _) = serve(|s| {
        let _ = s.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999999\r\n\r\n{}",
        );
        std::thread::sleep(Duration::from_secs(5));
    });
    assert_eq!(record(address).await.fault.as_deref(), Some("no more bytes came in time"));
}

#[tokio::test]
async fn slow_drips_and_silence_end_in_time() {
    let (address, _) = serve(|s| {
        let _ = s.write_all(head("application/json").as_bytes());
        while s.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_eq!(record(address).await.fault.as_deref(), Some("the answer was not complete in time"));
    let (address, _) = serve(|_| std::thread::sleep(Duration::from_secs(10)));
    assert_eq!(record(address).await.fault.as_deref(), Some("the answer was not complete in time"));
    // A header that drips.
    let (address, _) = serve(|s| {
        let _ = s.write_all(b"HTTP/1.1 200 OK\r\n");
        while s.write_all(b"X-A: b\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert!(record(address).await.fault.is_some());
}

#[tokio::test]
async fn redirects_are_not_followed_and_see_no_key() {
    let (elsewhere, visited) = serve(|s| drop(s.write_all(head("application/json").as_bytes())));
    let (address, requests) = serve(move |s| {
        let text = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{elsewhere}/steal?k={KEY}\r\nContent-Length: 0\r\n\r\n"
        );
        let _ = s.write_all(text.as_bytes());
    });
    let found = record(address).await;
    assert!(found.fault.as_deref().unwrap().contains("not followed"), "{:?}", found.fault);
    assert!(visited.lock().unwrap().is_empty());
    assert!(requests.lock().unwrap()[0].contains(&format!("Bearer {KEY}")), "the endpoint itself is shown the key");
}

#[tokio::test]
async fn bytes_that_are_no_answer_are_faults() {
    let cases: [(&str, &[u8], &str); 6] = [
        ("application/json", b"\xff\xfe{}", "UTF-8"),
        ("text/event-stream", b"data: {\"choices\":[{\"text\":\"\xff\"}]}\n\n", "UTF-8"),
        ("text/html", b"<html>sign in</html>", "text/html"),
        ("application/json", b"", "no JSON object"),
        ("application/json", b"[[[[[[[[[[[[", "no JSON object"),
        ("text/event-stream", b"data: {\n\n", "no JSON object"),
    ];
    for (kind, body, says) in cases {
        let body = body.to_vec();
        let (address, _) = serve(move |s| {
            let _ = s.write_all(head(kind).as_bytes());
            let _ = s.write_all(&body);
        });
        let found = record(address).await;
        assert!(found.fault.as_deref().is_some_and(|f| f.contains(says)), "{says}: {:?}", found.fault);
    }
    // Nested beyond any parser's stack.
    let (address, _) = serve(|s| {
        let _ = s.write_all(head("application/json").as_bytes());
        let _ = s.write_all(format!("{{\"choices\":{}", "[".repeat(900_000)).as_bytes());
    });
    assert!(record(address).await.fault.is_some());
}

#[tokio::test]
async fn nan_and_absurd_numbers_are_counted_and_not_believed() {
    let body = r#"{"choices":[{"index":0,"text":"a","logprobs":{"tokens":["a","b"],"token_logprobs":[NaN,1e999],"top_logprobs":[{"a":-Infinity},{"b":5}]}}],"usage":{"prompt_tokens":18446744073709551615,"completion_tokens":18446744073709551615}}"#;
    let (address, _) = serve(move |s| {
        let _ = s.write_all(head("application/json").as_bytes());
        let _ = s.write_all(body.as_bytes());
    });
    let session = toy::with_key(&format!("http://{address}/v1"), KEY, patience());
    let found = session.ask("x", &ask()).await.unwrap();
    let answer = found.good().unwrap();
    assert_eq!((answer.nan, answer.steps()[0].logprob.is_none(), answer.steps()[1].logprob.is_none()), (2, true, true));
    assert!(session.used().tokens() < 1000, "an endpoint cannot make itself expensive");
}

#[tokio::test]
async fn a_key_that_is_repeated_is_struck_out_even_in_escapes() {
    let escaped: String = KEY.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    let body = format!(r#"{{"error":{{"message":"bad key {KEY} or {escaped}","type":"{KEY}"}}}}"#);
    let (address, _) = serve(move |s| {
        let head = format!(
            "HTTP/1.1 401 No\r\nServer: {KEY}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}"
        );
        let _ = s.write_all(head.as_bytes());
    });
    let found = record(address).await;
    assert!(found.refused() && found.why().contains("[key]"), "{}", found.why());
    let session = toy::with_key(&format!("http://{address}/v1"), KEY, patience());
    let error = inspect(&session, None, Plan::QUICK, 1, &Claim::default()).await.unwrap_err();
    assert!(matches!(error, Error::Endpoint(_)) && !error.to_string().contains("very-secret"), "{error}");
}

#[tokio::test]
async fn retry_after_is_honoured_within_reason() {
    let (address, requests) = serve(|s| {
        let text = "HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        let _ = s.write_all(text.as_bytes());
    });
    let found = record(address).await;
    assert_eq!((found.status, found.retries, requests.lock().unwrap().len()), (Some(429), 2, 3));
    let same: Vec<String> =
        requests.lock().unwrap().iter().map(|r| r.split("\r\n\r\n").nth(1).unwrap_or("").to_owned()).collect();
    assert!(same.windows(2).all(|w| w[0] == w[1]), "the same bytes each time");
    let (address, requests) = serve(|s| {
        let text = "HTTP/1.1 503 Later\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n";
        let _ = s.write_all(text.as_bytes());
    });
    assert_eq!((record(address).await.retries, requests.lock().unwrap().len()), (0, 1), "a day is not waited");
}

#[tokio::test]
async fn an_endpoint_that_never_answers_ends_the_run() {
    let (address, requests) = serve(|s| {
        let _ = s.write_all(head("application/json").as_bytes());
        std::thread::sleep(Duration::from_secs(5));
    });
    let session = toy::with_key(&format!("http://{address}/v1"), KEY, patience());
    let error = inspect(&session, None, Plan::QUICK, 1, &Claim::default()).await.unwrap_err();
    assert!(matches!(error, Error::Endpoint(_)), "{error}");
    assert!(requests.lock().unwrap().len() <= 3);
    let nobody = toy::with_key("http://127.0.0.1:1/v1", KEY, patience());
    let error = inspect(&nobody, None, Plan::QUICK, 1, &Claim::default()).await.unwrap_err();
    assert!(matches!(error, Error::Endpoint(_)), "{error}");
}

#[test]
fn addresses_that_would_show_the_key_are_refused() {
    let key = || Some(Key::new(KEY).unwrap());
    let refused = |url: &str| Client::new(url, key(), patience()).unwrap_err();
    assert!(matches!(refused("http://example.org/v1"), Error::Unencrypted { .. }));
    assert!(matches!(refused("ftp://example.org"), Error::Url { .. }));
    let secret = refused("https://user:hunter2@example.org/v1").to_string();
    assert!(!secret.contains("hunter2"), "{secret}");
    for good in ["https://example.org/v1", "http://127.0.0.1:8000/v1", "http://[::1]:1/v1", "http://localhost/v1"] {
        assert!(Client::new(good, key(), patience()).is_ok(), "{good}");
    }
    assert!(
        !format!("{:?}", Client::new("https://example.org/v1", key(), patience()).unwrap()).contains("very-secret")
    );
    assert_eq!(Fault::Large.to_string(), "the answer is longer than is read here");
}
