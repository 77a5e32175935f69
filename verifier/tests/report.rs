//! The signed document and the page drawn from it.

#[path = "report/exports.rs"]
mod exports;
mod toy;

use record::{PrivateKey, PublicKey};
use toy::Operator;
use verifier::replay::Machine;
use verifier::result::*;
use verifier::verdict::{Verdict, fold_records};
use verifier::{challenge, disclosure, headline, report};

fn result(name: &str, record: RecordResult) -> AuditResult {
    let mut r = AuditResult {
        schema: SCHEMA.into(),
        subject: Subject { name: name.into(), note: String::new() },
        auditor: Auditor { tool: "lastbit".into(), version: "0".into(), numerics_revision: 1 },
        method: Method {
            replay: "emulate".into(),
            schedule: "schedule".into(),
            required: ClaimKind::DEFAULT_REQUIRED.to_vec(),
            limits: Limits::default(),
        },
        log: LogFacts {
            origin: Some("toy".into()),
            entries: 1,
            first: Some(0),
            last: Some(0),
            head: None,
            key: None,
            refused: None,
            set_aside: Vec::new(),
        },
        sampling: challenge::describe(&challenge::Plan::All, 1, 0, &challenge::Drawn::all(1)),
        verdict: fold_records([record.verdict]),
        level: record.level,
        headline: String::new(),
        channels: disclosure::channels(&[(None, &record)]),
        limitations: disclosure::limitations(&[]),
        recheck: disclosure::recheck("log", "model", "key.pub", verifier::plan::Mode::Schedule),
        records: vec![record],
    };
    r.headline = headline::log(&r);
    r
}

fn refused() -> AuditResult {
    let mut r = result("altered", Operator::default().serve().audit());
    r.records.clear();
    r.log.refused =
        Some(Refusal { reason: "record-altered".into(), detail: "the record of entry 0 has been altered".into() });
    r.verdict = Verdict::Error;
    r.level = None;
    r.headline = headline::log(&r);
    r
}

fn several() -> Vec<AuditResult> {
    let cheat = |o: Operator| o.serve().audit();
    vec![
        result("honest", Operator::default().serve().audit()),
        result("another GPU", cheat(Operator { machine: Machine::declared("sm_80"), ..Operator::default() })),
        result("two rows more", cheat(Operator { extra_rows: |s| 2 * u32::from(s > 0), ..Operator::default() })),
        result(
            "runner-up",
            cheat(Operator { emit: |r, i, ranked| ranked[usize::from(r == 1 && i == 3)], ..Operator::default() }),
        ),
        refused(),
    ]
}

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_seed(&[seed; 32])
}

fn signed() -> Vec<SignedResult> {
    several().into_iter().map(|r| SignedResult::sign(r, &key(7)).unwrap()).collect()
}

#[test]
fn signed_results_come_back_and_only_under_a_trusted_key() {
    for one in signed() {
        let public = key(7).public();
        let back = SignedResult::open(&one.bytes, &[&public]).unwrap();
        assert_eq!(back, one);
        let other: PublicKey = key(8).public();
        assert!(SignedResult::open(&one.bytes, &[&other]).is_err());
        let mut altered = one.bytes.clone();
        let at = altered.len() / 2;
        altered[at] ^= 1;
        assert!(SignedResult::open(&altered, &[&public]).is_err());
    }
}

#[test]
fn signing_twice_gives_the_same_bytes() {
    let bytes = |all: Vec<SignedResult>| all.into_iter().map(|s| s.bytes).collect::<Vec<_>>();
    assert_eq!(bytes(signed()), bytes(signed()));
}

#[test]
fn another_schema_is_refused() {
    let mut r = refused();
    r.schema = "audit-result/v2".into();
    let signed = SignedResult::sign(r, &key(7)).unwrap();
    let error = SignedResult::open(&signed.bytes, &[&key(7).public()]).unwrap_err();
    assert!(error.to_string().contains("audit-result/v2"), "{error}");
}

#[test]
fn the_page_stands_alone_and_says_everything() {
    let signed = signed();
    let page = report::render(&signed, "Five logs").unwrap();
    // LASTBIT_PAGE=path keeps the page, to look at.
    if let Some(path) = std::env::var_os("LASTBIT_PAGE") {
        std::fs::write(path, &page).unwrap();
    }
    // One script, which the page's policy names by hash; it verifies the signed bytes that are in the page.
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("script-src 'sha256-") && !page.contains("unsafe-inline"));
    for forbidden in ["<script ", "http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    for one in &signed {
        assert!(page.contains(&one.digest().to_string()), "the digest of the signed JSON");
        assert!(page.contains(one.result.verdict.name()));
    }
    for words in [
        "2 or 3 extra rows explain the bits of all 7 steps",
        "the bits are those of sm_80 or sm_86, not sm_90; they part at the first tensor-core operation",
        "it ranks 2",
        "the record of entry 0 has been altered",
        "Limitations",
        "How to check this again",
        "@media print",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // A reader who has not met the words finds them explained, and what was not checked said.
    for v in Verdict::ALL {
        assert!(page.contains(v.meaning()), "{v}");
    }
    assert!(page.contains("An auditor who requires the claims rows or hardware gets INDISTINGUISHABLE"));
    assert!(page.contains("<b>not verified</b>"));
    // What is the same for all four records stands there once.
    assert_eq!(page.matches("Model, software and hardware as declared").count(), 1);
    assert_eq!(page.matches("at most 64 extra rows").count(), 1);
    assert!(page.contains("@media (max-width: 42rem)"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.matches("<caption>").count() >= page.matches("<svg").count(), "every chart has its table");
    assert_eq!(page, report::render(&signed, "Five logs").unwrap());
}

#[test]
fn hostile_text_stays_text() {
    let mut served = Operator { machine: Machine::declared("sm_80"), ..Operator::default() }.serve().audit();
    let hostile = "<script>alert(1)</script>\"'&";
    for row in &mut served.matrix.requests {
        row.request = hostile.into();
    }
    served.divergence.as_mut().unwrap().request = hostile.into();
    served.headline = hostile.into();
    let mut r = result(hostile, served);
    r.subject.note = hostile.into();
    r.channels[0].note = hostile.into();
    r.recheck.push(hostile.into());
    let page = report::render(&[SignedResult::sign(r, &key(7)).unwrap()], hostile).unwrap();
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("&#60;script&#62;") || page.contains("&lt;script&gt;"));
}

#[test]
fn a_finding_in_words_names_both_patterns() {
    let r = Operator { machine: Machine::declared("sm_80"), ..Operator::default() }.serve().audit();
    let words = verifier::explain::words(&r);
    let bits = r.divergence.as_ref().unwrap().bits.clone().unwrap();
    for part in [&bits.logged, &bits.replayed, "qkv of layer 0", "sm_80", "How it grows", "Tried"] {
        assert!(words.contains(part), "{part} is not in:\n{words}");
    }
}
