//! CycloneDX 1.6: the audited model as a component of a machine-learning bill of materials, the audit as declarations about it.

use super::{file, judged, sampling, uuid};
use crate::result::{ClaimKind, RecordResult, SignedResult};
use crate::verdict::Verdict;
use serde_json::{Value, json};

pub(super) fn document(signed: &SignedResult) -> Value {
    let (result, digest) = (&signed.result, signed.digest());
    // Records of one identity share a component.
    let mut identities: Vec<(&RecordResult, Vec<&RecordResult>)> = Vec::new();
    for record in &result.records {
        match identities.iter_mut().find(|(first, _)| first.identity == record.identity) {
            Some((_, all)) => all.push(record),
            None => identities.push((record, vec![record])),
        }
    }
    let component_of =
        |record: &RecordResult| identities.iter().position(|(first, _)| first.identity == record.identity).unwrap_or(0);
    let components: Vec<Value> =
        identities.iter().enumerate().map(|(i, (first, all))| component(i, first, all)).collect();
    let (mut claims, mut maps) = (Vec::new(), Vec::new());
    for kind in ClaimKind::ALL {
        let (mut held, mut failed, mut score) = (Vec::new(), Vec::new(), Some(1));
        for record in &result.records {
            for claim in judged(signed, record).into_iter().filter(|c| c.claim == kind) {
                let reference = format!("claim-{}-{}", record.seq, kind.name());
                claims.push(json!({
                    "bom-ref": reference, "target": format!("model-{}", component_of(record)), "predicate": kind.statement(),
                    "reasoning": format!("{}: {}: {}", record.name(), claim.verdict, claim.detail), "evidence": ["signed-result"],
                }));
                match claim.verdict {
                    Verdict::Match => held.push(reference),
                    Verdict::Mismatch | Verdict::Error => {
                        failed.push(reference);
                        score = Some(0);
                    }
                    // What could not be told has no score: it is neither.
                    _ => {
                        held.push(reference);
                        score = score.filter(|s| *s == 0);
                    }
                }
            }
        }
        if held.is_empty() && failed.is_empty() {
            continue;
        }
        let required = if result.method.required.contains(&kind) { "required" } else { "not required" };
        let mut conformance = json!({"rationale": format!("over {} audited records; this claim is {required} for the verdict", result.records.len())});
        if let Some(score) = score {
            conformance["score"] = score.into();
        }
        maps.push(json!({
            "requirement": format!("requirement-{}", kind.name()), "claims": held, "counterClaims": failed, "conformance": conformance,
        }));
    }
    let requirements: Vec<Value> = ClaimKind::ALL
        .iter()
        .map(|k| json!({"bom-ref": format!("requirement-{}", k.name()), "identifier": k.name(), "title": k.name(), "text": k.statement()}))
        .collect();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": format!("urn:uuid:{}", uuid(digest, "bom")),
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": result.auditor.tool, "version": result.auditor.version}]},
            "component": {"type": "application", "bom-ref": "system", "name": result.subject.name, "description": result.subject.note},
            "properties": [
                {"name": "lastbit:verdict", "value": result.verdict.name()},
                {"name": "lastbit:headline", "value": result.headline},
                {"name": "lastbit:signed-result-sha256", "value": digest.to_hex()},
                {"name": "lastbit:sampling", "value": sampling(signed)},
            ],
        },
        "components": components,
        "declarations": {
            "assessors": [{"bom-ref": "assessor", "organization": {"name": format!("holder of the key {}", signed.signer)}}],
            "attestations": [{"summary": result.headline, "assessor": "assessor", "map": maps}],
            "claims": claims,
            "evidence": [{
                "bom-ref": "signed-result",
                "description": "The signed audit result that this document is drawn from.",
                "data": [{"name": file(signed), "contents": {"url": file(signed)}, "sensitiveData": []}],
            }],
        },
        "externalReferences": [{
            "type": "evidence", "url": file(signed), "comment": "signed audit result", "hashes": [{"alg": "SHA-256", "content": digest.to_hex()}],
        }],
        "definitions": {"standards": [{
            "bom-ref": "lastbit-claims", "name": "lastbit audit claims", "version": "audit-result/v1",
            "description": "What a replay record claims, each judged on its own.", "requirements": requirements,
        }]},
    })
}

fn component(index: usize, first: &RecordResult, all: &[&RecordResult]) -> Value {
    let declared = |field: &str| first.identity.iter().find(|f| f.field == field).map(|f| f.declared.as_str());
    let mut properties: Vec<Value> = first
        .identity
        .iter()
        .map(|f| {
            let state = if f.agrees { "as at hand" } else { "not as at hand" };
            json!({"name": format!("lastbit:declared:{}", f.field), "value": format!("{} ({state})", f.declared)})
        })
        .collect();
    properties.push(json!({"name": "lastbit:records", "value": all.len().to_string()}));
    json!({
        "type": "machine-learning-model",
        "bom-ref": format!("model-{index}"),
        "name": declared("model architecture").unwrap_or("not stated"),
        "version": declared("model files").unwrap_or("not stated"),
        "modelCard": {"modelParameters": {"modelArchitecture": declared("model architecture").unwrap_or("not stated")}},
        "properties": properties,
    })
}
