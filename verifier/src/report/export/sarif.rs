//! SARIF 2.1.0 (OASIS): a rule a claim, a result for every claim that does not hold, and one for every record that does.

use super::{file, judged, sampling, uuid};
use crate::result::{ClaimKind, RecordResult, SignedResult};
use crate::verdict::Verdict;
use serde_json::{Value, json};

pub(super) fn document(signed: &SignedResult) -> Value {
    let (result, digest) = (&signed.result, signed.digest());
    let rules: Vec<Value> = ClaimKind::ALL
        .iter()
        .map(|k| json!({"id": k.name(), "name": k.name(), "shortDescription": {"text": k.statement()}}))
        .chain([json!({"id": "log", "name": "log", "shortDescription": {"text": "The log is whole, in order, and signed by its key."}})])
        .collect();
    let place = |name: &str, kind: &str| json!([{"physicalLocation": {"artifactLocation": {"uri": uri(&file(signed)), "index": 0}}, "logicalLocations": [{"name": name, "kind": kind}]}]);
    let mut results = Vec::new();
    if let Some(refused) = &result.log.refused {
        results.push(json!({
            "ruleId": "log", "ruleIndex": ClaimKind::ALL.len(), "kind": "fail", "level": "error",
            "message": {"text": format!("{}: {}", refused.reason, refused.detail)}, "locations": place("log", "module"),
            "partialFingerprints": {"lastbit/v1": uuid(digest, "sarif-log")}, "properties": {"verdict": result.verdict.name()},
        }));
    }
    for record in &result.records {
        let locations = place(&record.name(), "object");
        let open: Vec<_> = judged(signed, record).into_iter().filter(|c| c.verdict != Verdict::Match).collect();
        for claim in &open {
            let (kind, level) = match claim.verdict {
                Verdict::Mismatch | Verdict::Error => ("fail", if claim.required { "error" } else { "note" }),
                _ if claim.required => ("fail", "warning"),
                _ => ("open", "none"),
            };
            let rule = ClaimKind::ALL.iter().position(|k| *k == claim.claim);
            results.push(json!({
                "ruleId": claim.claim.name(), "ruleIndex": rule, "kind": kind, "level": level,
                "message": {"text": format!("{}: {}", claim.verdict, claim.detail)}, "locations": locations,
                "partialFingerprints": {"lastbit/v1": uuid(digest, &format!("sarif-{}-{}", record.seq, claim.claim))},
                "properties": properties(record, claim.verdict),
            }));
        }
        if record.verdict == Verdict::Match {
            results.push(json!({
                "ruleId": "bits", "ruleIndex": ClaimKind::ALL.iter().position(|k| *k == ClaimKind::Bits), "kind": "pass", "level": "none",
                "message": {"text": format!("MATCH: {}", record.headline)}, "locations": locations,
                "partialFingerprints": {"lastbit/v1": uuid(digest, &format!("sarif-{}", record.seq))},
                "properties": properties(record, record.verdict),
            }));
        }
    }
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": result.auditor.tool, "version": result.auditor.version, "rules": rules}},
            "automationDetails": {"id": format!("lastbit/audit/{}", result.subject.name), "guid": uuid(digest, "sarif-run")},
            "artifacts": [{"location": {"uri": uri(&file(signed))}, "mimeType": "application/json", "hashes": {"sha-256": digest.to_hex()}}],
            "results": results,
            "properties": {
                "verdict": result.verdict.name(), "headline": result.headline, "signedResultSha256": digest.to_hex(),
                "auditorKey": signed.signer.to_string(), "sampling": sampling(signed), "limitations": result.limitations,
            },
        }],
    })
}

fn properties(record: &RecordResult, verdict: Verdict) -> Value {
    json!({"verdict": verdict.name(), "recordVerdict": record.verdict.name(), "recordDigest": record.digest})
}

/// A file name as a relative URI reference.
fn uri(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
