//! A service in memory, somebody who asks, and results to hand in.

use std::io::{Cursor, Write as _};
use std::path::PathBuf;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use base64::Engine as _;
use http_body_util::BodyExt as _;
use record::{Digest, PrivateKey};
use serde_json::Value;
use tower::ServiceExt as _;
use verifier::challenge::{Drawn, Plan, describe};
use verifier::result::*;
use verifier::verdict::fold_records;
use verifier::{Level, Verdict, disclosure, headline};
use web_ui::Config;

/// A service with its store.
pub struct Service {
    router: Router,
    dir: tempfile::TempDir,
}

/// An answer.
pub struct Answer {
    pub status: StatusCode,
    headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}

impl Service {
    pub fn local() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::of(Config::local(dir.path()), dir)
    }

    pub fn trusting(key: &PrivateKey) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::of(Config { trust: vec![("auditor".to_owned(), key.public())], ..Config::local(dir.path()) }, dir)
    }

    pub fn of(config: Config, dir: tempfile::TempDir) -> Self {
        Self { router: web_ui::router(config).unwrap(), dir }
    }

    /// Where stored bytes lie.
    pub fn blob(&self, digest: &str) -> PathBuf {
        self.dir.path().join("blobs").join(&digest[..2]).join(digest)
    }

    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body: String::from_utf8_lossy(&body).into_owned() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        let headers = [("x-lastbit", "1"), ("content-type", "application/json")];
        self.send(Method::POST, path, &headers, body.to_string().into_bytes()).await
    }

    pub async fn upload(&self, name: &str, bytes: &[u8]) -> Value {
        let name: String = name.bytes().map(|b| format!("%{b:02X}")).collect();
        let path = format!("/api/v1/bundles?name={name}");
        let answer = self.send(Method::POST, &path, &[("x-lastbit", "1")], bytes.to_vec()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    /// Signs in, or says with which status that was refused.
    pub async fn sign_in(&self, name: &str, password: &str) -> Result<Client, u16> {
        let form = format!("name={name}&password={}&to=/", password.replace(' ', "+"));
        let headers = [("origin", "http://localhost"), ("content-type", "application/x-www-form-urlencoded")];
        let answer = self.send(Method::POST, "/login", &headers, form.into_bytes()).await;
        match answer.status.as_u16() {
            303 => Ok(Client { cookie: answer.header("set-cookie").to_owned() }),
            status => Err(status),
        }
    }
}

/// Somebody who signed in.
#[derive(Debug)]
pub struct Client {
    pub cookie: String,
}

impl Client {
    fn pair(&self) -> &str {
        self.cookie.split(';').next().unwrap()
    }

    pub async fn get(&self, service: &Service, path: &str) -> Answer {
        service.send(Method::GET, path, &[("cookie", self.pair())], Vec::new()).await
    }

    pub async fn send(&self, service: &Service, method: Method, path: &str, body: Vec<u8>) -> Answer {
        let headers = [("cookie", self.pair()), ("x-lastbit", "1"), ("content-type", "application/json")];
        service.send(method, path, &headers, body).await
    }

    pub async fn form(&self, service: &Service, path: &str, form: &str) -> Answer {
        let headers = [
            ("cookie", self.pair()),
            ("origin", "http://localhost"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        service.send(Method::POST, path, &headers, form.as_bytes().to_vec()).await
    }

    /// What forms of this session carry.
    pub async fn csrf(&self, service: &Service) -> String {
        let page = self.get(service, "/").await.body;
        page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }
}

pub fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}")))
}

pub fn pem(key: &PrivateKey) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("k.pub");
    key.public().write_new(&path).unwrap();
    std::fs::read_to_string(path).unwrap()
}

pub fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub fn signed(result: &AuditResult, key: &PrivateKey) -> Vec<u8> {
    SignedResult::sign(result.clone(), key).unwrap().bytes
}

fn record(seq: u64, verdict: Verdict, says: &str) -> RecordResult {
    RecordResult {
        seq,
        last: seq,
        digest: Digest::of_file(format!("{says}{seq}").as_bytes()).to_string(),
        further: Vec::new(),
        identity: vec![IdentityField { field: "profile".into(), declared: says.into(), found: None, agrees: false }],
        unverified: Vec::new(),
        set_aside: vec![SetAside { name: says.into(), reason: says.into() }],
        size: RecordSize { requests: 1, steps: 2, rows: 3, tokens: 4 },
        verdict,
        level: Some(Level::S),
        headline: format!("record {seq} {says}"),
        claims: vec![ClaimResult::new(ClaimKind::Bits, verdict, says), ClaimResult::holds(ClaimKind::Tokens, says)],
        divergence: None,
        growth: Vec::new(),
        causes: Vec::new(),
        alternatives: Alternatives::default(),
        tried: vec![Trial { hypothesis: says.into(), outcome: Outcome::Contradicted, detail: says.into() }],
        matrix: StepMatrix {
            steps: vec![
                StepColumn { rows: 3, choices: vec![says.into()] },
                StepColumn { rows: 1, choices: Vec::new() },
            ],
            requests: vec![MatrixRow {
                request: says.into(),
                cells: vec![Cell { rows: 3, state: CellState::Match }, Cell { rows: 1, state: CellState::Mismatch }],
            }],
        },
        margins: Margins { bins: vec![MarginBin { exponent: -3, count: 2 }], ties: 0, positions: 2 },
    }
}

fn of(name: &str, records: Vec<RecordResult>) -> AuditResult {
    let count = records.len() as u64;
    let mut r = AuditResult {
        schema: SCHEMA.into(),
        subject: Subject { name: name.into(), note: name.into() },
        auditor: Auditor { tool: "lastbit".into(), version: "0".into(), numerics_revision: 1 },
        method: verifier::result::Method {
            replay: "emulate".into(),
            schedule: "schedule".into(),
            required: ClaimKind::DEFAULT_REQUIRED.to_vec(),
            limits: Limits::default(),
        },
        log: LogFacts {
            origin: Some("toy".into()),
            entries: count,
            first: Some(0),
            last: Some(count.saturating_sub(1)),
            head: Some(Digest::of_file(name.as_bytes()).to_string()),
            key: None,
            refused: None,
            set_aside: Vec::new(),
        },
        sampling: describe(&Plan::All, count, 0, &Drawn::all(count)),
        verdict: fold_records(records.iter().map(|r| r.verdict)),
        level: Some(Level::S),
        headline: String::new(),
        channels: disclosure::channels(&[]),
        limitations: disclosure::limitations(&[]),
        recheck: vec!["lastbit audit".into()],
        records,
    };
    r.headline = headline::log(&r);
    r
}

/// A result whose records agree.
pub fn result(name: &str, records: u64) -> AuditResult {
    of(name, (0..records).map(|seq| record(seq, Verdict::Match, "agrees")).collect())
}

/// A result with many records, of which every hundredth differs.
pub fn many(records: u64) -> AuditResult {
    let verdict = |seq: u64| if seq.is_multiple_of(100) { Verdict::Mismatch } else { Verdict::Match };
    of("many", (0..records).map(|seq| record(seq, verdict(seq), "agrees")).collect())
}

/// A result whose every text tries to be more than text.
pub fn hostile() -> AuditResult {
    let says = "\"><script>alert(1)</script><img src=x onerror=alert(1)>' </svg></title>";
    let mut r = of(says, vec![record(0, Verdict::Mismatch, says)]);
    r.log.origin = Some(says.into());
    r.recheck = vec![says.into()];
    r.limitations = vec![says.into()];
    r.records[0].divergence = Some(Divergence {
        step: 0,
        request: says.into(),
        position: 1,
        op: Some(verifier::ops::Op::Qkv),
        layer: Some(0),
        index: Some(3),
        bits: Some(Bits { dtype: says.into(), logged: says.into(), replayed: says.into() }),
        digests: Some([says.into(), says.into()]),
        differing: Some(1),
        elements: 2,
        rows_differing: 1,
        rows: 3,
        agrees_until: Some(says.into()),
        between: vec![says.into()],
        origin: Some(says.into()),
    });
    r.records[0].growth =
        vec![GrowthPoint { op: verifier::ops::Op::Qkv, layer: Some(0), differing: 1, elements: 2, max_ulp: 1 }];
    r.records[0].causes = vec![Cause::Unexplained { narrowed: says.into(), needed: says.into() }];
    r
}
