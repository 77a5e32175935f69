//! Logs: all their files by digest; entries and what they ran on once a trusted key's signatures verify.

use std::collections::BTreeMap;

use record::inference::{Model, Stack};
use record::log::{self, Expect, KeyHistory, Memory};
use record::{Digest, PublicKey, Record};
use serde_json::json;

use super::{Files, Receipt};
use crate::error::Result;
use crate::store::{EntryRow, LogFile, LogRow, Part, Store, now_us};

/// The folders that are logs: those with `checkpoint` and `entries`.
pub(super) fn folders(files: &Files) -> Vec<String> {
    let parent = |path: &str, name: &str| -> Option<String> {
        let folder = path.strip_suffix(name)?;
        Some(folder.strip_suffix('/').unwrap_or(folder).to_owned())
            .filter(|_| folder.is_empty() || folder.ends_with('/'))
    };
    let found = files.keys().filter_map(|path| parent(path, "entries"));
    found.filter(|folder| files.contains_key(&join(folder, "checkpoint"))).collect()
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The part of a path below a folder.
pub(super) fn prefix_of<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    if folder.is_empty() { Some(path) } else { path.strip_prefix(folder)?.strip_prefix('/') }
}

/// Files of a log that are kept: the format's own, and nothing else that lies in its folder.
fn belongs(path: &str) -> bool {
    match path.split_once('/') {
        None => matches!(path, "checkpoint" | "entries" | "keys"),
        Some(("records", name)) => name.ends_with(".replay") && !name.contains('/'),
        Some(("evidence", name)) => name.ends_with(".evidence") && !name.contains('/'),
        Some(("receipts", name)) => name.ends_with(".receipt") && !name.contains('/'),
        Some(_) => false,
    }
}

/// Takes a log in.
pub(super) fn take(store: &Store, folder: &str, all: &Files, keys: &[PublicKey], receipt: &mut Receipt) -> Result<()> {
    let files: BTreeMap<&str, &Vec<u8>> = all
        .iter()
        .filter_map(|(path, bytes)| Some((prefix_of(folder, path)?, bytes)))
        .filter(|(p, _)| belongs(p))
        .collect();
    let mut kept = Vec::new();
    for (path, bytes) in &files {
        let digest = store.keep(bytes, "log-file", &join(folder, path), "stored", "")?;
        kept.push(LogFile { path: (*path).to_owned(), digest: digest.to_hex(), size: bytes.len() as u64 });
    }
    let manifest: String = kept.iter().map(|f| format!("{}  {}\n", f.digest, f.path)).collect();
    let id = Digest::of_file(manifest.as_bytes());
    let name = folder.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or("log").to_owned();
    let mut row = LogRow {
        id: id.to_hex(),
        name,
        origin: None,
        size: 0,
        root: None,
        head: None,
        key: None,
        state: "held".to_owned(),
        reason: Some("no key that is trusted here signed its checkpoint".to_owned()),
        bytes: kept.iter().map(|f| f.size).sum(),
        added_us: now_us(),
    };
    let memory = memory(&files);
    let (mut entries, mut parts) = (Vec::new(), Vec::new());
    for key in keys {
        match log::verify_entries(&memory, key, &Expect::default()) {
            Ok(verified) => {
                row.state = "verified".to_owned();
                row.reason = None;
                row.origin = Some(verified.checkpoint.origin.clone());
                row.size = verified.checkpoint.size;
                row.root = Some(verified.checkpoint.root.to_string());
                row.head = Some(verified.checkpoint.chain.to_string());
                row.key = Some(key.id().to_hex());
                let mut at = 0_u64;
                verified
                    .each_line(|index, line| {
                        if let Some(entry) = verified.entries.get(index as usize) {
                            let record = verified.stored(index).ok();
                            entries.push(entry_row(index, at, line, entry, record.as_ref(), &mut parts));
                        }
                        at += line.len() as u64 + 1;
                        Ok(())
                    })
                    .map_err(|e| crate::Error::Bad(e.to_string()))?;
                break;
            }
            // Another key's signature says nothing against this log.
            Err(refusal) if matches!(refusal.code(), "checkpoint-re-signed" | "re-signed") => {}
            Err(refusal) => {
                row.state = "refused".to_owned();
                row.key = Some(key.id().to_hex());
                row.reason = Some(format!("{}: {refusal}", refusal.code()));
                break;
            }
        }
    }
    // What is known stays known by the time it first came.
    let before = store.log(&id).ok();
    let known = before.as_ref().is_some_and(|old| old.state == row.state);
    if let Some(old) = before {
        row.added_us = old.added_us;
    }
    store.index_log(&row, &kept, &entries, &parts)?;
    let outcome = match row.state.as_str() {
        "verified" if known => "known",
        "verified" => "taken",
        state @ ("held" | "refused") => {
            if state == "held" {
                "held"
            } else {
                "refused"
            }
        }
        _ => "ignored",
    };
    let detail = row.reason.clone().unwrap_or_else(|| format!("{} entries", row.size));
    receipt.add(folder, "log", outcome, detail, Some(format!("/logs/{}", row.id)));
    Ok(())
}

/// A log's files as a source that the verifier reads.
fn memory(files: &BTreeMap<&str, &Vec<u8>>) -> Memory {
    let get = |name: &str| files.get(name).map(|b| (*b).clone()).unwrap_or_default();
    let records = files.iter().filter_map(|(path, bytes)| {
        let hex = path.strip_prefix("records/")?.strip_suffix(".replay")?;
        Some((format!("sha256:{hex}").parse::<Digest>().ok()?, (*bytes).clone()))
    });
    Memory { checkpoint: get("checkpoint"), entries: get("entries"), keys: get("keys"), records: records.collect() }
}

fn entry_row(
    index: u64,
    at: u64,
    line: &[u8],
    entry: &log::VerifiedEntry,
    record: Option<&Record>,
    parts: &mut Vec<Part>,
) -> EntryRow {
    let mut part = |part: Option<Part>| -> Option<String> {
        let part = part?;
        let hex = part.digest.to_hex();
        if !parts.iter().any(|p| p.digest == part.digest) {
            parts.push(part);
        }
        Some(hex)
    };
    EntryRow {
        index,
        record: entry.header.record.to_string(),
        // The leaf of the published tree, not the tagged hash by which entries name each other.
        hash: record::merkle::leaf_hash(line).to_string(),
        time_unix_us: entry.header.time_unix_us,
        at,
        len: line.len() as u64,
        model: part(record.and_then(|r| model(&r.model))),
        stack: part(record.and_then(|r| stack(&r.stack))),
        requests: record.map(|r| r.requests.len() as u64),
        steps: record.map(|r| r.steps.len() as u64),
        tokens: record.map(|r| r.requests.iter().map(|q| q.output.len() as u64).sum()),
    }
}

fn model(model: &Model) -> Option<Part> {
    let files: Vec<_> =
        model.files.iter().map(|f| json!({"path": f.path, "size": f.size, "sha256": f.sha256})).collect();
    Some(Part {
        digest: model.digest().ok()?,
        kind: "model",
        name: model.name.clone(),
        facts: json!({
            "architecture": model.architecture, "stored as": model.dtype_stored, "computed as": model.dtype_computed,
            "configuration": model.config.to_string(), "files": files,
        }),
    })
}

fn stack(stack: &Stack) -> Option<Part> {
    let kernels: Vec<_> = stack.kernels.iter().map(|k| json!({"name": k.name, "ptx sha256": k.ptx_sha256})).collect();
    Some(Part {
        digest: stack.digest().ok()?,
        kind: "stack",
        name: format!("{} on {}, {}", stack.engine.name, stack.device.profile, stack.mode),
        facts: json!({
            "mode": stack.mode, "profile": stack.device.profile, "device": stack.device.kind, "dispatch policy": stack.dispatch_policy,
            "key-value cache": stack.kv.dtype, "kernels": kernels,
        }),
    })
}

/// The keys of a stored log, as far as one trusted key leads.
pub(crate) fn key_history(statements: &[u8], key: &PublicKey) -> Result<KeyHistory> {
    if statements.is_empty() {
        return Ok(KeyHistory::of_key(key.clone()));
    }
    KeyHistory::verify(statements, key).map_err(|e| crate::Error::Altered(format!("the log's key statements: {e}")))
}
