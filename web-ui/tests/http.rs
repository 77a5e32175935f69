//! The service over HTTP, without a network: what is shown, what is refused, and to whom.

mod common;

use axum::http::{Method, StatusCode};
use common::{Client, Service, hostile, many, result, signed, zip};
use record::{Digest, PrivateKey};
use serde_json::{Value, json};
use web_ui::{Config, Role, Store};

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_seed(&[seed; 32])
}

const PAGES: [&str; 10] =
    ["/", "/logs", "/fingerprints", "/inventory", "/compare", "/keys", "/upload", "/audits", "/access", "/reference"];

#[tokio::test]
async fn an_empty_service_shows_every_page() {
    let service = Service::local();
    for page in PAGES {
        let answer = service.get(page).await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
        assert!(answer.body.contains("<main"), "{page}");
    }
    assert_eq!(service.get("/nowhere").await.status, 404);
    assert_eq!(service.get("/runs/zz").await.status, 404);
    assert_eq!(service.get(&format!("/runs/{}", "0".repeat(64))).await.status, 404);
}

#[tokio::test]
async fn answers_forbid_what_a_page_does_not_need() {
    let service = Service::local();
    for path in ["/", "/api/v1/overview", "/static/app.css", "/nowhere"] {
        let answer = service.get(path).await;
        let csp = answer.header("content-security-policy");
        assert!(csp.contains("default-src 'none'") && !csp.contains("unsafe"), "{path}: {csp}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("x-frame-options"), "DENY");
    }
    let body = service.get("/").await.body;
    // Everything is in files, so the policy needs no exception.
    assert!(
        !body.contains("style=") && !body.contains("onclick") && !body.contains("<style") && !body.contains("<script>")
    );
}

#[tokio::test]
async fn what_no_trusted_key_signed_is_held_until_its_key_is_trusted() {
    let service = Service::local();
    let bytes = signed(&result("first", 3), &key(7));
    let receipt = service.upload("first.audit.json", &bytes).await;
    assert_eq!(receipt["items"][0]["outcome"], "held");
    assert!(!service.get("/").await.body.contains("first"), "nothing of it is read");
    let pem = common::pem(&key(7));
    assert_eq!(service.upload("auditor.pub", pem.as_bytes()).await["items"][0]["outcome"], "taken");
    let id = key(7).public().id().to_hex();
    let receipt = service.post(&format!("/api/v1/keys/{id}/trust"), json!({"trust": "trusted"})).await;
    assert_eq!(receipt.json()["items"][0]["outcome"], "taken", "{}", receipt.body);
    let digest = Digest::of_file(&bytes).to_hex();
    let run = service.get(&format!("/api/v1/runs/{digest}")).await.json();
    assert_eq!(run["run"]["name"], "first");
    assert_eq!(run["custody"]["trust"], "trusted");
    let page = service.get(&format!("/runs/{digest}")).await;
    assert!(page.status == 200 && page.body.contains("first"));
    // The same once more is known; another key's word is held.
    assert_eq!(service.upload("again.audit.json", &bytes).await["items"][0]["outcome"], "known");
    assert_eq!(service.upload("x.audit.json", &signed(&result("x", 1), &key(8))).await["items"][0]["outcome"], "held");
    // Trust can be taken back; what was signed is marked.
    service.post(&format!("/api/v1/keys/{id}/trust"), json!({"trust": "withdrawn"})).await;
    assert!(service.get(&format!("/runs/{digest}")).await.body.contains("withdrawn"));
}

#[tokio::test]
async fn altered_files_are_refused_when_they_come_and_when_they_are_shown() {
    let service = Service::trusting(&key(7));
    let good = signed(&result("good", 2), &key(7));
    let text = String::from_utf8(good.clone()).unwrap();
    let at = text.find("\"payload\":\"").unwrap() + 40;
    let mut altered = good.clone();
    altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
    let receipt = service.upload("altered.audit.json", &altered).await;
    assert_eq!(receipt["items"][0]["outcome"], "refused", "{receipt}");
    assert_eq!(service.get(&format!("/api/v1/blobs/{}", Digest::of_file(&altered).to_hex())).await.status, 404);

    service.upload("good.audit.json", &good).await;
    let digest = Digest::of_file(&good).to_hex();
    let paths = [
        format!("/runs/{digest}"),
        format!("/runs/{digest}/records/0"),
        format!("/runs/{digest}/crosswalk"),
        format!("/api/v1/runs/{digest}"),
        format!("/api/v1/blobs/{digest}"),
        format!("/api/v1/runs/{digest}/exports/sarif"),
    ];
    for path in &paths {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    std::fs::write(service.blob(&digest), &altered).unwrap();
    for path in &paths {
        let answer = service.get(path).await;
        assert_eq!(answer.status, StatusCode::CONFLICT, "{path}");
        assert!(answer.body.contains("refused"), "{path}: {}", answer.body);
    }
    // Handing the original in again mends the store.
    service.upload("good.audit.json", &good).await;
    assert_eq!(service.get(&paths[0]).await.status, 200);
}

#[tokio::test]
async fn text_of_strangers_is_only_text() {
    let service = Service::trusting(&key(7));
    let bytes = signed(&hostile(), &key(7));
    service.upload("<img src=x onerror=alert(1)>.audit.json", &bytes).await;
    let digest = Digest::of_file(&bytes).to_hex();
    let pages = [
        "/".to_owned(),
        format!("/runs/{digest}"),
        format!("/runs/{digest}?text=%3Cscript%3Ealert(1)%3C/script%3E&verdict=%22%3E%3Cb%20id=x%3E"),
        format!("/runs/{digest}/records/0"),
        format!("/runs/{digest}/crosswalk"),
        format!("/compare?a={digest}&b={digest}"),
        "/search?q=%3Cscript%3Ealert(1)%3C/script%3E".to_owned(),
        "/access".to_owned(),
        "/<script>alert(1)</script>".replace('<', "%3C").replace('>', "%3E"),
    ];
    for page in pages {
        let answer = service.get(&page).await;
        assert!(!answer.body.contains("<script>alert") && !answer.body.contains("<img src=x"), "{page}");
        assert!(!answer.body.contains("<b id=x>"), "{page}");
    }
    // Bytes of strangers are saved, never shown in place.
    let raw = service.get(&format!("/api/v1/blobs/{digest}")).await;
    assert!(raw.header("content-disposition").starts_with("attachment"));
    assert!(raw.header("content-security-policy").contains("sandbox"));
}

#[tokio::test]
async fn archives_that_are_no_plain_ones_are_refused() {
    let service = Service::trusting(&key(7));
    let good = signed(&result("good", 1), &key(7));
    let receipt =
        service.upload("b.zip", &zip(&[("demo/audits/good.audit.json", &good), ("demo/notes.txt", b"hello")])).await;
    assert_eq!(receipt["items"][0]["outcome"], "taken", "{receipt}");
    assert_eq!(receipt["items"][1]["outcome"], "ignored");
    let bomb = vec![0_u8; 64 << 20];
    for (bytes, status, says) in [
        (zip(&[("../../outside.audit.json", &good)]), 400, "relative"),
        (zip(&[("/etc/outside", b"x")]), 400, "relative"),
        (zip(&[("a\\..\\b", b"x")]), 400, "relative"),
        (zip(&[("bomb", &bomb)]), 413, "bomb"),
        (b"PK\x03\x04 and then nothing".to_vec(), 400, "archive"),
        (b"\x1f\x8b\x08 gzip".to_vec(), 400, "ZIP"),
    ] {
        let answer = service.send(Method::POST, "/api/v1/bundles?name=x.zip", &[("x-lastbit", "1")], bytes).await;
        assert_eq!(
            (answer.status, answer.body.contains(says)),
            (StatusCode::from_u16(status).unwrap(), true),
            "{}",
            answer.body
        );
    }
    // Malformed documents of every kind end in words.
    for (name, bytes) in [
        ("a.audit.json", &b"{"[..]),
        ("b.json", b"\xff\xfe"),
        ("c.json", br#"{"payload":"!","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"x"}]}"#),
        ("d.pub", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
        ("e.json", &[b'['; 100_000]),
    ] {
        let receipt = service.upload(name, bytes).await;
        assert_ne!(receipt["items"][0]["outcome"], "taken", "{name}: {receipt}");
    }
    let broken_log =
        zip(&[("log/checkpoint", b"x\n1\nAAAA\n"), ("log/entries", b"{}\n"), ("log/records/zz.replay", b"no")]);
    let receipt = service.upload("log.zip", &broken_log).await;
    assert!(["refused", "held"].contains(&receipt["items"][0]["outcome"].as_str().unwrap()), "{receipt}");
}

#[tokio::test]
async fn foreign_pages_can_change_nothing_and_foreign_names_reach_nothing() {
    let service = Service::local();
    let body = || b"{}".to_vec();
    let answer = service.send(Method::POST, "/api/v1/bundles", &[("origin", "http://evil.example")], body()).await;
    assert_eq!(answer.status, 403);
    let answer = service.send(Method::POST, "/api/v1/bundles", &[("sec-fetch-site", "cross-site")], body()).await;
    assert_eq!(answer.status, 403);
    assert_eq!(service.send(Method::POST, "/api/v1/bundles", &[], body()).await.status, 403);
    // From here, but without the token of the session.
    let form = [("origin", "http://localhost"), ("content-type", "application/x-www-form-urlencoded")];
    let answer = service.send(Method::POST, "/keys/00", &form, b"trust=trusted".to_vec()).await;
    assert_eq!((answer.status, answer.body.contains("not from this session")), (StatusCode::FORBIDDEN, true));
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", ""] {
        let answer = service.send(Method::GET, "/", &[("host", host)], Vec::new()).await;
        assert_eq!(answer.status, 403, "{host}");
    }
    for host in ["localhost", "localhost:8090", "127.0.0.1:1", "[::1]:8090"] {
        assert_eq!(service.send(Method::GET, "/", &[("host", host)], Vec::new()).await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn people_sign_in_and_may_do_what_their_role_says() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        || Config { people: true, trust: vec![("a".to_owned(), key(7).public())], ..Config::local(dir.path()) };
    assert!(web_ui::router(config()).is_err(), "nobody could sign in");
    {
        let store = Store::open(dir.path()).unwrap();
        for (name, role) in [("ann", Role::Admin), ("otto", Role::Auditor), ("vera", Role::Viewer)] {
            web_ui::put_user(&store, name, role, &format!("{name} has a long password")).unwrap();
        }
        assert!(web_ui::put_user(&store, "x", Role::Viewer, "short").is_err());
        assert!(web_ui::put_user(&store, "<b>", Role::Viewer, "a long password").is_err());
    }
    let service = Service::of(config(), dir);
    let answer = service.get("/keys").await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "/login?to=/keys"));
    assert_eq!(service.get("/api/v1/overview").await.status, 401);
    assert_eq!(service.get("/static/app.css").await.status, 200);

    let vera = service.sign_in("vera", "vera has a long password").await.unwrap();
    let otto = service.sign_in("otto", "otto has a long password").await.unwrap();
    let ann = service.sign_in("ann", "ann has a long password").await.unwrap();
    assert!(vera.cookie.contains("HttpOnly") && vera.cookie.contains("SameSite=Lax"));
    let get = async |who: &Client, path: &str| who.get(&service, path).await.status.as_u16();
    assert_eq!(get(&vera, "/").await, 200);
    assert_eq!(get(&vera, "/upload").await, 403);
    assert_eq!(get(&otto, "/upload").await, 200);
    assert_eq!(get(&otto, "/access").await, 403);
    assert_eq!(get(&otto, "/api/v1/trail").await, 403);
    assert_eq!(get(&otto, "/api/v1/users").await, 403);
    assert_eq!(get(&ann, "/access").await, 200);
    let bytes = signed(&result("good", 1), &key(7));
    for (who, status) in [(&vera, 403), (&otto, 200)] {
        let answer = who.send(&service, Method::POST, "/api/v1/bundles?name=g.audit.json", bytes.clone()).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let path = format!("/api/v1/keys/{}/trust", key(7).public().id().to_hex());
    for (who, status) in [(&vera, 403), (&otto, 403), (&ann, 200)] {
        let answer = who.send(&service, Method::POST, &path, br#"{"trust":"withdrawn"}"#.to_vec()).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    // Programs: HTTP Basic, on the interface only.
    let basic = common::basic("vera", "vera has a long password");
    assert_eq!(service.send(Method::GET, "/api/v1/overview", &[("authorization", &basic)], vec![]).await.status, 200);
    assert_eq!(service.send(Method::GET, "/", &[("authorization", &basic)], vec![]).await.status, 303);
    // The hash of a password is nowhere, and neither is a password.
    let users = ann.get(&service, "/api/v1/users").await.body + &ann.get(&service, "/access").await.body;
    assert!(!users.contains("argon2") && !users.contains("long password"));
    assert!(users.contains("sign in") && users.contains("handed in"), "the trail says who did what");
    // Signing out ends the session; a made-up one never was.
    let csrf = ann.csrf(&service).await;
    let form = format!("csrf={csrf}");
    assert_eq!(ann.form(&service, "/logout", &form).await.status, 303);
    assert_eq!(get(&ann, "/").await, 303);
    // Closing an account ends its sessions.
    let ann = service.sign_in("ann", "ann has a long password").await.unwrap();
    let csrf = ann.csrf(&service).await;
    assert_eq!(ann.form(&service, "/access/users", &format!("csrf={csrf}&name=vera&active=no")).await.status, 303);
    assert_eq!(get(&vera, "/").await, 303);
    assert!(service.sign_in("vera", "vera has a long password").await.is_err());
}

#[tokio::test]
async fn passwords_cannot_be_tried_for_ever_and_nobody_is_sent_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    web_ui::put_user(&Store::open(dir.path()).unwrap(), "ann", Role::Admin, "a long password").unwrap();
    let service = Service::of(Config { people: true, ..Config::local(dir.path()) }, dir);
    for to in ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"] {
        let page = service.get(&format!("/login?to={to}")).await;
        assert!(page.body.contains("name=\"to\" value=\"/\""), "{to}: {}", page.body);
    }
    for _ in 0..5 {
        assert_eq!(service.sign_in("ann", "wrong").await.unwrap_err(), 403);
    }
    assert_eq!(service.sign_in("ann", "a long password").await.unwrap_err(), 429, "even the right one has to wait");
}

#[tokio::test]
async fn who_asks_too_often_has_to_wait() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::of(Config { requests_per_minute: Some(5), ..Config::local(dir.path()) }, dir);
    for _ in 0..5 {
        assert_eq!(service.get("/").await.status, 200);
    }
    let answer = service.get("/").await;
    assert_eq!(answer.status, 429);
    assert!(!answer.header("retry-after").is_empty());
}

#[tokio::test]
async fn answers_are_what_the_description_says() {
    let service = Service::trusting(&key(7));
    let (one, two) = (signed(&result("one", 3), &key(7)), signed(&hostile(), &key(7)));
    service.upload("one.audit.json", &one).await;
    service.upload("two.audit.json", &two).await;
    let (a, b) = (Digest::of_file(&one).to_hex(), Digest::of_file(&two).to_hex());
    let mut document = service.get("/api/v1/openapi.json").await.json();
    let components = document["components"].take();
    for (path, schema) in [
        ("/overview".to_owned(), "Overview"),
        ("/runs".to_owned(), "RunPage"),
        (format!("/runs/{a}"), "Run"),
        (format!("/runs/{b}/records?verdict=MISMATCH"), "RecordPage"),
        (format!("/runs/{b}/records/0"), "Record"),
        ("/inventory".to_owned(), "Inventory"),
        ("/keys".to_owned(), "Keys"),
        (format!("/compare?a={a}&b={b}"), "Comparison"),
        ("/search?q=one".to_owned(), "Search"),
        ("/trail".to_owned(), "Trail"),
    ] {
        let answer = service.get(&format!("/api/v1{path}")).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let schema = json!({"$ref": format!("#/components/schemas/{schema}"), "components": components});
        let validator = jsonschema::validator_for(&schema).unwrap();
        let body = answer.json();
        let wrong: Vec<String> = validator.iter_errors(&body).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(wrong.is_empty(), "{path}: {wrong:#?}");
    }
}

#[tokio::test]
async fn lists_are_cut_however_long_they_are() {
    let service = Service::trusting(&key(7));
    let bytes = signed(&many(3_000), &key(7));
    service.upload("many.audit.json", &bytes).await;
    let digest = Digest::of_file(&bytes).to_hex();
    let page = service.get(&format!("/runs/{digest}")).await;
    assert!(page.body.len() < 120_000, "{} bytes", page.body.len());
    let mut seen = 0;
    let mut from = Some(0);
    while let Some(at) = from {
        let part = service.get(&format!("/api/v1/runs/{digest}/records?from={at}")).await.json();
        seen += part["items"].as_array().unwrap().len();
        from = part["next"].as_u64();
    }
    assert_eq!(seen, 3_000);
    let odd = service.get(&format!("/api/v1/runs/{digest}/records?verdict=MISMATCH")).await.json();
    assert_eq!(odd["total"], 30);
    let found: Value = service.get("/api/v1/search?q=record+2999+agrees").await.json();
    assert_eq!(found["hits"].as_array().unwrap().len(), 1);
}

#[test]
#[ignore = "writes 100 results with 1,000 records each into the folder LASTBIT_MANY, for measurements in a browser"]
fn a_hundred_thousand_records() {
    let folder = std::path::PathBuf::from(std::env::var_os("LASTBIT_MANY").expect("LASTBIT_MANY names a folder"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("auditor.pub"), common::pem(&key(7))).unwrap();
    for i in 0..100 {
        let mut many = many(1_000);
        many.subject.name = format!("run-{i:03}");
        std::fs::write(folder.join(format!("run-{i:03}.audit.json")), signed(&many, &key(7))).unwrap();
    }
}
