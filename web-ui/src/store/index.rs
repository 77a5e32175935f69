//! Writing the index: what was taken in, by what it says.

use fingerprint::report::Report;
use record::{Digest, PublicKey};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;
use verifier::result::SignedResult;

use super::{Store, now_us};
use crate::error::{Result, missing};

/// A log in the index.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LogRow {
    /// Digest of the list of its files: its permanent name.
    pub id: String,
    pub name: String,
    pub origin: Option<String>,
    pub size: u64,
    pub root: Option<String>,
    pub head: Option<String>,
    pub key: Option<String>,
    /// `verified`, `refused`, or `held` until a key is trusted.
    pub state: String,
    pub reason: Option<String>,
    pub bytes: u64,
    pub added_us: u64,
}

/// A file of a log.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LogFile {
    pub path: String,
    pub digest: String,
    pub size: u64,
}

/// An entry of a log.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EntryRow {
    pub index: u64,
    pub record: String,
    /// RFC 6962 hash of the leaf.
    pub hash: String,
    pub time_unix_us: u64,
    #[serde(skip)]
    pub at: u64,
    #[serde(skip)]
    pub len: u64,
    pub model: Option<String>,
    pub stack: Option<String>,
    pub requests: Option<u64>,
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
}

/// What a record runs on, as the inventory shows it.
pub(crate) struct Part {
    pub digest: Digest,
    pub kind: &'static str,
    pub name: String,
    pub facts: serde_json::Value,
}

impl Store {
    /// Indexes an audit result whose signature has been verified.
    pub(crate) fn index_run(&self, signed: &SignedResult) -> Result<()> {
        let (r, run) = (&signed.result, signed.digest().to_hex());
        let mut db = self.db();
        let tx = db.transaction()?;
        forget_run(&tx, &run)?;
        let miss = r.sampling.bounds.first().map(|b| b.miss.clone());
        let (rows, tokens) = r.records.iter().fold((0_u64, 0_u64), |(rows, tokens), x| {
            (rows + u64::from(x.size.rows), tokens + u64::from(x.size.tokens))
        });
        tx.execute(
            "INSERT INTO runs VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20)",
            params![
                run,
                r.subject.name,
                r.log.origin,
                int(r.log.entries),
                int(r.sampling.population),
                int(r.sampling.audited),
                r.sampling.plan,
                miss,
                r.verdict.name(),
                r.level.map(|l| l.to_string()),
                r.headline,
                signed.signer.to_hex(),
                format!("{} {}, numerics {}", r.auditor.tool, r.auditor.version, r.auditor.numerics_revision),
                r.log.head,
                r.log.key,
                r.log.refused.as_ref().map(|x| x.reason.clone()),
                int(r.records.len() as u64),
                int(rows),
                int(tokens),
                int(now_us()),
            ],
        )?;
        {
            let mut insert = tx.prepare("INSERT INTO records VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)")?;
            let mut tally = tx.prepare("INSERT INTO tallies VALUES(?1,?2,1) ON CONFLICT DO UPDATE SET n=n+1")?;
            let mut claims = tx.prepare("INSERT INTO claims VALUES(?1,?2,?3,1) ON CONFLICT DO UPDATE SET n=n+1")?;
            for x in &r.records {
                insert.execute(params![
                    run,
                    int(x.seq),
                    int(x.last),
                    x.digest,
                    x.verdict.name(),
                    x.level.map(|l| l.to_string()),
                    x.headline,
                    x.size.requests,
                    x.size.steps,
                    x.size.rows,
                    x.size.tokens,
                    x.causes.first().map(|c| c.kind()),
                    x.divergence.as_ref().map(|d| d.place()),
                ])?;
                tally.execute(params![run, x.verdict.name()])?;
                for claim in &x.claims {
                    claims.execute(params![run, claim.claim.name(), claim.verdict.name()])?;
                }
            }
            if r.records.is_empty() {
                tally.execute(params![run, r.verdict.name()])?;
            }
        }
        tx.commit()?;
        Ok(())
    }

    /// Indexes a fingerprint report whose signature has been verified.
    pub(crate) fn index_fingerprint(&self, digest: &Digest, report: &Report, signer: &Digest) -> Result<()> {
        let outcome =
            serde_json::to_value(report.outcome).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
        self.db().execute(
            "INSERT OR REPLACE INTO fingerprints VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)",
            params![
                digest.to_hex(),
                report.kind,
                report.subject,
                report.model,
                report.tier,
                outcome,
                report.verdict,
                signer.to_hex(),
                int(now_us())
            ],
        )?;
        Ok(())
    }

    /// Indexes a log with its files and, when it was verified, its entries and what they ran on.
    pub(crate) fn index_log(
        &self,
        log: &LogRow,
        files: &[LogFile],
        entries: &[EntryRow],
        parts: &[Part],
    ) -> Result<()> {
        let mut db = self.db();
        let tx = db.transaction()?;
        for table in ["log_files", "entries"] {
            tx.execute(&format!("DELETE FROM {table} WHERE log=?1"), [&log.id])?;
        }
        tx.execute(
            "INSERT OR REPLACE INTO logs VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)",
            params![
                log.id,
                log.name,
                log.origin,
                int(log.size),
                log.root,
                log.head,
                log.key,
                log.state,
                log.reason,
                int(log.bytes),
                int(log.added_us)
            ],
        )?;
        {
            let mut insert = tx.prepare("INSERT INTO log_files VALUES(?1,?2,?3,?4)")?;
            for file in files {
                insert.execute(params![log.id, file.path, file.digest, int(file.size)])?;
            }
            let mut insert = tx.prepare("INSERT INTO entries VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)")?;
            for e in entries {
                insert.execute(params![
                    log.id,
                    int(e.index),
                    e.record,
                    e.hash,
                    int(e.time_unix_us),
                    int(e.at),
                    int(e.len),
                    e.model,
                    e.stack,
                    e.requests.map(int),
                    e.steps.map(int),
                    e.tokens.map(int)
                ])?;
            }
            let mut insert = tx.prepare("INSERT OR IGNORE INTO parts VALUES(?1,?2,?3,?4)")?;
            for part in parts {
                insert.execute(params![part.digest.to_hex(), part.kind, part.name, part.facts.to_string()])?;
            }
        }
        tx.commit()?;
        Ok(())
    }

    pub(crate) fn log(&self, id: &Digest) -> Result<LogRow> {
        let row = self.db().query_row("SELECT * FROM logs WHERE id=?1", [id.to_hex()], log_row).optional()?;
        row.ok_or_else(|| missing(format!("log {id}")))
    }

    pub(crate) fn logs(&self) -> Result<Vec<LogRow>> {
        let db = self.db();
        let mut query = db.prepare("SELECT * FROM logs ORDER BY added_us DESC, name LIMIT 1000")?;
        Ok(query.query_map([], log_row)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn log_files(&self, id: &str) -> Result<Vec<LogFile>> {
        let db = self.db();
        let mut query = db.prepare("SELECT path, digest, size FROM log_files WHERE log=?1 ORDER BY path")?;
        let row = |r: &rusqlite::Row<'_>| Ok(LogFile { path: r.get(0)?, digest: r.get(1)?, size: r.get(2)? });
        Ok(query.query_map([id], row)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn entries(&self, log: &str, from: u64, most: u64) -> Result<Vec<EntryRow>> {
        let db = self.db();
        let mut query = db.prepare("SELECT * FROM entries WHERE log=?1 AND idx>=?2 ORDER BY idx LIMIT ?3")?;
        Ok(query.query_map(params![log, int(from), int(most)], entry_row)?.collect::<Result<_, _>>()?)
    }

    /// Leaf hashes of a log, in order.
    pub(crate) fn leaves(&self, log: &str) -> Result<Vec<String>> {
        let db = self.db();
        let mut query = db.prepare("SELECT hash FROM entries WHERE log=?1 ORDER BY idx")?;
        Ok(query.query_map([log], |r| r.get(0))?.collect::<Result<_, _>>()?)
    }

    /// Logs that hold a record, with the place.
    pub(crate) fn places(&self, record: &str) -> Result<Vec<(String, u64)>> {
        let db = self.db();
        let mut query = db.prepare(
            "SELECT e.log, e.idx FROM entries e JOIN logs l ON l.id=e.log WHERE e.record=?1 AND l.state='verified' ORDER BY l.added_us DESC LIMIT 10",
        )?;
        Ok(query.query_map([record], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_, _>>()?)
    }

    /// Keys with their trust. A key that is there keeps its trust unless `trust` raises it.
    pub(crate) fn add_key(&self, key: &PublicKey, name: &str, trust: &str, source: &str) -> Result<bool> {
        let changed = self.db().execute(
            "INSERT INTO keys VALUES(?1,?2,?3,?4,?5,?6) ON CONFLICT(id) DO UPDATE SET trust='trusted'
             WHERE excluded.trust='trusted' AND keys.trust<>'trusted'",
            params![key.id().to_hex(), hex::encode(key.as_bytes()), name, trust, source, int(now_us())],
        )?;
        Ok(changed > 0)
    }
}

fn forget_run(db: &Connection, run: &str) -> rusqlite::Result<()> {
    for (table, column) in [("runs", "digest"), ("records", "run"), ("tallies", "run"), ("claims", "run")] {
        db.execute(&format!("DELETE FROM {table} WHERE {column}=?1"), [run])?;
    }
    Ok(())
}

/// SQLite's integers are signed; nothing here comes near the end of them.
fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn log_row(r: &rusqlite::Row<'_>) -> rusqlite::Result<LogRow> {
    Ok(LogRow {
        id: r.get("id")?,
        name: r.get("name")?,
        origin: r.get("origin")?,
        size: r.get("size")?,
        root: r.get("root")?,
        head: r.get("head")?,
        key: r.get("key")?,
        state: r.get("state")?,
        reason: r.get("reason")?,
        bytes: r.get("bytes")?,
        added_us: r.get("added_us")?,
    })
}

fn entry_row(r: &rusqlite::Row<'_>) -> rusqlite::Result<EntryRow> {
    Ok(EntryRow {
        index: r.get("idx")?,
        record: r.get("record")?,
        hash: r.get("hash")?,
        time_unix_us: r.get("time_us")?,
        at: r.get("at")?,
        len: r.get("len")?,
        model: r.get("model")?,
        stack: r.get("stack")?,
        requests: r.get("requests")?,
        steps: r.get("steps")?,
        tokens: r.get("tokens")?,
    })
}
