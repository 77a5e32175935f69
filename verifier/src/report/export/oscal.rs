//! NIST OSCAL assessment results, version 1.0.6: an observation a verdict, a finding a `MISMATCH` or `ERROR`.

use super::{file, judged, line, sampling, uuid};
use crate::result::{ClaimKind, SignedResult};
use crate::verdict::Verdict;
use serde_json::{Value, json};

/// The OSCAL version whose schema the documents follow.
const VERSION: &str = "1.0.6";
/// Names of our own properties belong to it.
const NAMESPACE: &str = "https://lastbit.dev/ns/oscal";

fn prop(name: &str, value: &str) -> Value {
    json!({"name": name, "ns": NAMESPACE, "value": line(value)})
}

pub(super) fn document(signed: &SignedResult, time: &str) -> Value {
    let (result, digest) = (&signed.result, signed.digest());
    let id = |what: &str| uuid(digest, what);
    let evidence =
        json!([{"href": format!("#{}", id("signed")), "description": "The signed result that this is drawn from."}]);
    let mut observations = Vec::new();
    let mut findings = Vec::new();
    if let Some(refused) = &result.log.refused {
        let uuid = id("log");
        observations.push(json!({
            "uuid": uuid, "title": "the log", "description": line(&format!("The log is refused ({}): {}", refused.reason, refused.detail)),
            "props": [prop("verdict", result.verdict.name())], "methods": ["TEST"], "collected": time, "relevant-evidence": evidence,
        }));
        if matches!(result.verdict, Verdict::Mismatch | Verdict::Error) {
            findings.push(finding(&id("log-finding"), "the log", &refused.detail, "lastbit-log", &uuid));
        }
    }
    for record in &result.records {
        let key = format!("record-{}", record.seq);
        let uuid = id(&key);
        let mut props = vec![
            prop("verdict", record.verdict.name()),
            prop("record-digest", &record.digest),
            prop("level", &record.level.map_or("none".to_owned(), |l| l.to_string())),
        ];
        for claim in judged(signed, record) {
            let name = format!("claim-{}", claim.claim.name());
            props.push(json!({
                "name": name, "ns": NAMESPACE, "value": claim.verdict.name(),
                "class": if claim.required { "required" } else { "not-required" }, "remarks": line(claim.detail),
            }));
        }
        observations.push(json!({
            "uuid": uuid, "title": record.name(), "description": line(&record.headline), "props": props, "methods": ["TEST"],
            "collected": time, "relevant-evidence": evidence,
        }));
        if matches!(record.verdict, Verdict::Mismatch | Verdict::Error) {
            let worst = record.claims.iter().find(|c| c.verdict == record.verdict).map_or(ClaimKind::Bits, |c| c.claim);
            let target = format!("lastbit-{}", worst.name());
            findings.push(finding(&id(&format!("{key}-finding")), &record.name(), &record.headline, &target, &uuid));
        }
    }
    let controls: Vec<Value> =
        result.method.required.iter().map(|k| json!({"control-id": format!("lastbit-{}", k.name())})).collect();
    let controls = if controls.is_empty() { json!({"include-all": {}}) } else { json!({"include-controls": controls}) };
    let mut of_result = json!({
        "uuid": id("result"),
        "title": line(&format!("Audit of {}", result.subject.name)),
        "description": line(&result.headline),
        "start": time,
        "props": [
            prop("verdict", result.verdict.name()),
            prop("signed-result-sha256", &digest.to_hex()),
            prop("auditor-key", &signed.signer.to_string()),
            prop("operator-key", result.log.key.as_deref().unwrap_or("none")),
            prop("log-origin", result.log.origin.as_deref().unwrap_or("none")),
            prop("log-head", result.log.head.as_deref().unwrap_or("none")),
            prop("sampling", &sampling(signed)),
            prop("numerics-revision", &result.auditor.numerics_revision.to_string()),
        ],
        "reviewed-controls": {
            "description": "The claims that the verdict requires; docs/spec/audit-result.md says what each means.",
            "control-selections": [controls],
        },
        "remarks": result.limitations.join("\n\n"),
    });
    if !observations.is_empty() {
        of_result["observations"] = observations.into();
    }
    if !findings.is_empty() {
        of_result["findings"] = findings.into();
    }
    json!({"assessment-results": {
        "uuid": id("document"),
        "metadata": {
            "title": line(&format!("Audit of {}", result.subject.name)),
            "last-modified": time,
            "version": digest.to_hex(),
            "oscal-version": VERSION,
            "remarks": "Drawn from a signed audit result, which states no time. Evidence, not a statement of conformity.",
        },
        "import-ap": {"href": format!("#{}", id("signed")), "remarks": "The plan is the sampling and method of the signed result."},
        "results": [of_result],
        "back-matter": {"resources": [{
            "uuid": id("signed"),
            "title": "The signed audit result",
            "rlinks": [{"href": file(signed), "media-type": "application/json", "hashes": [{"algorithm": "SHA-256", "value": digest.to_hex()}]}],
        }]},
    }})
}

fn finding(uuid: &str, title: &str, description: &str, target: &str, observation: &str) -> Value {
    json!({
        "uuid": uuid, "title": line(title), "description": line(description),
        "target": {"type": "objective-id", "target-id": target, "status": {"state": "not-satisfied", "reason": "fail"}},
        "related-observations": [{"observation-uuid": observation}],
    })
}
