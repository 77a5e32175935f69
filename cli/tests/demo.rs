//! The main job: every operator gets the verdict and the cause it deserves.

mod common;

use common::json;
use serde_json::Value;

#[test]
fn every_operator_is_judged_rightly() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("demo");
    let summary = json(0, &["demo", "--json", "--out", out.to_str().unwrap()]);
    assert_eq!(summary["as_expected"], Value::Bool(true), "{summary:#}");
    let operators = summary["operators"].as_array().unwrap();
    assert_eq!(operators.len(), 9);
    let verdict = |name: &str| operators.iter().find(|o| o["operator"] == name).unwrap()["verdict"].as_str().unwrap();
    assert_eq!(verdict("honest"), "MATCH");
    assert_eq!(verdict("g-edited-log"), "ERROR");
    assert_eq!(operators.iter().filter(|o| o["verdict"] == "MISMATCH").count(), 7);

    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for operator in operators {
        assert!(page.contains(operator["operator"].as_str().unwrap()));
        assert!(
            page.contains(operator["digest"].as_str().unwrap().trim_start_matches("sha256:")),
            "digest of the signed file"
        );
    }
    for outside in ["http-equiv=\"refresh\"", "<script src", "<link ", "@import", "url("] {
        assert!(!page.contains(outside), "the page must not load anything: {outside}");
    }

    // The signed summary covers the nine signed results beside it.
    let (summary, key) = (out.join("report.json"), out.join("keys/auditor.pub"));
    let verify = ["report", "verify", summary.to_str().unwrap(), "--key", key.to_str().unwrap(), "--json"];
    let verified = json(0, &verify);
    assert_eq!(verified["covers"].as_array().unwrap().iter().filter(|c| c["state"] == "matches").count(), 9);
    let honest = out.join("audits/honest.audit.json");
    std::fs::copy(out.join("audits/a-weight-bit.audit.json"), &honest).unwrap();
    assert_eq!(json(1, &verify)["covers"][0]["state"], "differs");
    std::fs::remove_file(&honest).unwrap();
    json(2, &verify);

    // Nothing is ever overwritten.
    let (code, _, err) = common::run(&["demo", "--out", out.to_str().unwrap()]);
    assert_eq!(code, 2);
    assert!(err.contains("not an empty folder"), "{err}");
}
