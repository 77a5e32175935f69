//! The transparency-log browser: what a stored log's checkpoint says, who signed it, and proofs that entries are in its tree.
//!
//! The tree is built from the leaf hashes of the index and must give the root that the stored, signed checkpoint states; an entry's line must hash to
//! its leaf. So an index or a file that was changed is refused here.

use record::Digest;
use record::log::Checkpoint;
use record::merkle::{self, Tree};
use record::tlog::InclusionProof;
use serde::Serialize;

use super::public;
use crate::App;
use crate::error::{Error, Result, missing};
use crate::ingest::key_history;
use crate::store::{EntryRow, LogFile, LogRow, ROWS, RunRow};

/// A log.
#[derive(Serialize)]
pub(crate) struct Log {
    pub log: LogRow,
    pub checkpoint: Option<CheckpointView>,
    pub entries: Vec<EntryRow>,
    pub next: Option<u64>,
    pub files: Vec<LogFile>,
    pub runs: Vec<RunRow>,
    /// Live audits can be started of it.
    pub auditable: bool,
}

/// A checkpoint, as it was signed.
#[derive(Serialize)]
pub(crate) struct CheckpointView {
    /// The note, signature lines and all.
    pub note: String,
    pub origin: String,
    pub size: u64,
    pub root: String,
    pub chain: String,
    pub key_id: String,
    pub key_public: String,
    /// Names on its signature lines: the log's own, then those of witnesses.
    pub signers: Vec<String>,
}

/// An entry with its proof.
#[derive(Serialize)]
pub(crate) struct Entry {
    pub log: LogRow,
    pub entry: EntryRow,
    pub checkpoint: CheckpointView,
    /// Siblings from the leaf up, with the side on which each stands and the hash that they give.
    pub path: Vec<Sibling>,
    pub leaf: String,
    /// Audits in which its record was judged: run, place, verdict, name.
    pub runs: Vec<(String, u64, String, String)>,
}

/// A step of a proof.
#[derive(Serialize)]
pub(crate) struct Sibling {
    pub hash: String,
    /// `left` or `right`.
    pub side: &'static str,
}

fn file(app: &App, files: &[LogFile], path: &str) -> Result<Option<Vec<u8>>> {
    match files.iter().find(|f| f.path == path) {
        Some(file) => app.store.bytes(&super::digest(&file.digest)?).map(Some),
        None => Ok(None),
    }
}

/// The signed checkpoint of a log that was verified when it came.
fn checkpoint(app: &App, log: &LogRow, files: &[LogFile]) -> Result<(Checkpoint, Vec<u8>, CheckpointView)> {
    let altered = |e: String| Error::Altered(format!("the stored checkpoint no longer verifies: {e}"));
    let note = file(app, files, "checkpoint")?.ok_or_else(|| missing("checkpoint"))?;
    let id = log.key.clone().unwrap_or_default();
    let row = app.store.keys()?.into_iter().find(|k| k.id == id).ok_or_else(|| missing(format!("key {id}")))?;
    let key = public(&row.public).ok_or_else(|| Error::Bug("a key in the index".to_owned()))?;
    let keys = key_history(&file(app, files, "keys")?.unwrap_or_default(), &key)?;
    let read = keys.checkpoint(&note).map_err(|e| altered(e.to_string()))?;
    let text = String::from_utf8_lossy(&note).into_owned();
    let signers = text.lines().filter_map(|l| l.strip_prefix("— ")?.split(' ').next().map(str::to_owned)).collect();
    let current = keys.current();
    let view = CheckpointView {
        origin: read.origin.clone(),
        size: read.size,
        root: read.root.to_string(),
        chain: read.chain.to_string(),
        key_id: current.id().to_hex(),
        key_public: hex::encode(current.as_bytes()),
        signers,
        note: text,
    };
    Ok((read, note, view))
}

pub(crate) fn log(app: &App, id: &Digest, from: u64) -> Result<Log> {
    let log = app.store.log(id)?;
    let files = app.store.log_files(&log.id)?;
    let mut entries = app.store.entries(&log.id, from, ROWS + 1)?;
    let next = if entries.len() as u64 > ROWS { entries.pop().map(|e| e.index) } else { None };
    let checkpoint = if log.state == "verified" { Some(checkpoint(app, &log, &files)?.2) } else { None };
    let runs = log.head.as_ref().map_or(Ok(Vec::new()), |head| app.store.runs_of_head(head))?;
    let auditable = app.auditing.is_some() && log.key.is_some() && log.state != "held";
    Ok(Log { log, checkpoint, entries, next, files, runs, auditable })
}

/// The tree of a log, if it is the one that the checkpoint signs.
fn tree(app: &App, log: &LogRow, signed: &Checkpoint) -> Result<Tree> {
    let mut tree = Tree::default();
    for hash in app.store.leaves(&log.id)? {
        tree.push_hash(super::digest(&hash)?).map_err(|e| Error::Bug(e.to_string()))?;
    }
    match tree.root_at(signed.size) {
        Ok(root) if root == signed.root => Ok(tree),
        _ => Err(Error::Altered("the index of this log does not give the root that its checkpoint signs".to_owned())),
    }
}

fn prove(app: &App, id: &Digest, index: u64) -> Result<(LogRow, EntryRow, CheckpointView, InclusionProof)> {
    let log = app.store.log(id)?;
    if log.state != "verified" {
        return Err(Error::Bad("this log was not verified, so nothing in it is proved".to_owned()));
    }
    let files = app.store.log_files(&log.id)?;
    let (signed, note, view) = checkpoint(app, &log, &files)?;
    let entry = app.store.entries(&log.id, index, 1)?.into_iter().find(|e| e.index == index);
    let entry = entry.ok_or_else(|| missing(format!("entry {index}")))?;
    if index >= signed.size {
        return Err(Error::Bad(format!(
            "entry {index} was appended after the checkpoint, which covers {}",
            signed.size
        )));
    }
    let path = tree(app, &log, &signed)?.prove_at(signed.size, index).map_err(|e| Error::Bug(e.to_string()))?;
    Ok((log, entry, view, InclusionProof { index, path, checkpoint: note }))
}

pub(crate) fn entry(app: &App, id: &Digest, index: u64) -> Result<Entry> {
    let (log, entry, checkpoint, proof) = prove(app, id, index)?;
    // RFC 9162 2.1.3.2: the path from the leaf, with the last subtree skipping levels that it does not fill.
    let (mut at, mut last) = (index, checkpoint.size - 1);
    let mut path = Vec::new();
    for hash in &proof.path {
        while at & 1 == 0 && at == last && last > 0 {
            (at, last) = (at >> 1, last >> 1);
        }
        path.push(Sibling { hash: hash.to_string(), side: if at & 1 == 1 { "left" } else { "right" } });
        (at, last) = (at >> 1, last >> 1);
    }
    let runs = app.store.runs_of_record(&entry.record)?;
    Ok(Entry { leaf: entry.hash.clone(), log, entry, checkpoint, path, runs })
}

/// The inclusion proof of an entry as a C2SP `tlog-proof`.
pub(crate) fn proof(app: &App, id: &Digest, index: u64) -> Result<Vec<u8>> {
    Ok(prove(app, id, index)?.3.to_bytes())
}

/// The line of an entry, which hashes to its leaf.
pub(crate) fn line(app: &App, id: &Digest, index: u64) -> Result<Vec<u8>> {
    let log = app.store.log(id)?;
    let entry = app.store.entries(&log.id, index, 1)?.into_iter().find(|e| e.index == index);
    let entry = entry.ok_or_else(|| missing(format!("entry {index}")))?;
    let bytes = file(app, &app.store.log_files(&log.id)?, "entries")?.ok_or_else(|| missing("entries"))?;
    let line = usize::try_from(entry.at).ok().and_then(|at| bytes.get(at..at + entry.len as usize));
    let line = line.filter(|line| merkle::leaf_hash(line).to_string() == entry.hash);
    line.map(<[u8]>::to_vec)
        .ok_or_else(|| Error::Altered(format!("the stored line of entry {index} is not the leaf of the tree")))
}
