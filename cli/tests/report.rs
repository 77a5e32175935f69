//! `lastbit report`: signed results verified, and drawn again.

mod common;

use common::{Bench, json, run};

#[test]
fn signed_results_are_verified_before_they_are_believed() {
    let bench = Bench::new("example.org/r");
    let [log, public, auditor, auditor_public, stranger] =
        ["log", "operator.pub", "auditor", "auditor.pub", "stranger.pub"].map(|name| bench.path(name));
    bench.ok(&[
        "generate",
        "--log",
        &log,
        "--key",
        &bench.path("operator"),
        "--prompt",
        "Amen",
        "--max-new-tokens",
        "2",
    ]);
    bench.ok(&["audit", &log, "--key", &public, "--auditor-key", &auditor, "--out", &bench.path("out")]);
    let signed = bench.path("out/log.audit.json");
    let verify = |file: &str, key: &str| ["report", "verify", file, "--key", key, "--json"].map(ToOwned::to_owned);
    let judged = |code: i32, args: [String; 6]| json(code, &args.each_ref().map(String::as_str));

    let good = judged(0, verify(&signed, &auditor_public));
    assert_eq!(good["verified"], true);
    assert_eq!(good["result"]["verdict"], "MATCH");
    assert!(bench.ok(&["report", "verify", &signed, "--key", &auditor_public]).contains("log: MATCH"));

    // The page comes from the signed bytes alone, so it is the page that the audit wrote.
    let page = bench.path("again.html");
    bench.ok(&["report", "html", &signed, "--key", &auditor_public, "--out", &page]);
    assert_eq!(std::fs::read(&page).unwrap(), std::fs::read(bench.at("out/log.html")).unwrap());
    let (code, _, err) = run(&["report", "html", &signed, "--key", &auditor_public, "--out", &page]);
    assert_eq!(code, 2);
    assert!(err.contains("exists already"), "{err}");
    let both = bench.path("both.html");
    bench.ok(&["report", "html", &signed, &signed, "--key", &stranger, "--key", &auditor_public, "--out", &both]);
    assert!(std::fs::read_to_string(&both).unwrap().contains("<title>2 audits"));

    // Altered: a finding, and no page.
    let bytes = std::fs::read_to_string(&signed).unwrap();
    let at = bytes.find("\"payload\":\"").unwrap() + 400;
    let altered = bench.path("altered.audit.json");
    let other = if bytes.as_bytes()[at] == b'A' { "B" } else { "A" };
    std::fs::write(&altered, format!("{}{other}{}", &bytes[..at], &bytes[at + 1..])).unwrap();
    let bad = judged(1, verify(&altered, &auditor_public));
    assert_eq!((&bad["verified"], &bad["result"]), (&false.into(), &serde_json::Value::Null));
    let (code, _, _) = run(&["report", "html", &altered, "--key", &auditor_public, "--out", &bench.path("no.html")]);
    assert_eq!(code, 1);
    assert!(!bench.at("no.html").exists());

    // Another key: nothing can be told. Nor from something that is signed but no report.
    let error = judged(2, verify(&signed, &stranger));
    assert!(error["error"].as_str().unwrap().contains("no signature verified"), "{error}");
    let record = std::fs::read_to_string(bench.at("log/entries")).unwrap();
    let entry = bench.path("entry.json");
    std::fs::write(&entry, record.trim_end()).unwrap();
    let error = judged(2, verify(&entry, &public));
    assert!(error["error"].as_str().unwrap().contains("is not known here"), "{error}");
}
