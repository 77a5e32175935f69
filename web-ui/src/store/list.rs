//! Reading the index: lists, counts, pages. Every list is cut by SQL, so a page costs the same with a hundred records and with a hundred thousand.

use record::Digest;
use rusqlite::{OptionalExtension as _, params};
use serde::Serialize;

use super::Store;
use crate::error::{Result, missing};

/// Rows of a page.
pub(crate) const ROWS: u64 = 50;

/// A part of a list, and where the next part begins.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Page<T> {
    pub items: Vec<T>,
    /// All there are.
    pub total: u64,
    /// Give this as `from` for the next part.
    pub next: Option<u64>,
}

/// How many records have a verdict.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tally {
    pub verdict: String,
    pub n: u64,
}

/// An audit in the index.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunRow {
    /// Plain SHA-256 of the signed result: its permanent name.
    pub digest: String,
    pub name: String,
    pub origin: Option<String>,
    pub entries: u64,
    pub population: u64,
    pub audited: u64,
    pub plan: String,
    /// Upper bound of the chance that a single dishonest record was missed.
    pub miss: Option<String>,
    pub verdict: String,
    pub level: Option<String>,
    pub headline: String,
    pub signer: String,
    pub tool: String,
    pub head: Option<String>,
    pub operator: Option<String>,
    pub refused: Option<String>,
    pub records: u64,
    pub rows: u64,
    pub tokens: u64,
    pub added_us: u64,
}

/// A record of an audit in the index.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RecordRow {
    pub seq: u64,
    pub last: u64,
    pub digest: String,
    pub verdict: String,
    pub level: Option<String>,
    pub headline: String,
    pub requests: u64,
    pub steps: u64,
    pub rows: u64,
    pub tokens: u64,
    pub cause: Option<String>,
    pub place: Option<String>,
}

/// Which records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub verdict: Option<String>,
    pub text: Option<String>,
    pub from: u64,
}

/// A fingerprint report in the index.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FingerprintRow {
    pub digest: String,
    pub kind: String,
    pub subject: String,
    pub model: Option<String>,
    pub tier: String,
    pub outcome: String,
    pub verdict: String,
    pub signer: String,
    pub added_us: u64,
}

/// A model or stack, and how much of the logs it made.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PartRow {
    pub digest: String,
    pub kind: String,
    pub name: String,
    pub facts: serde_json::Value,
    pub records: u64,
    pub logs: u64,
    pub first_us: Option<u64>,
    pub last_us: Option<u64>,
}

/// A key.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KeyRow {
    pub id: String,
    pub public: String,
    pub name: String,
    /// `trusted`, `proposed` (it came with a bundle), `withdrawn`.
    pub trust: String,
    pub source: String,
    pub added_us: u64,
    /// Audit results and fingerprint reports that it signed.
    pub signed: u64,
    /// Logs that it signed.
    pub logs: u64,
}

/// A run's claims: how many records have which verdict on which claim.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClaimCount {
    pub run: String,
    pub claim: String,
    pub verdict: String,
    pub n: u64,
}

/// Something that a search found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Hit {
    /// `run`, `record`, `log`, `entry`, `fingerprint`, `model`, `stack`, `key`.
    pub kind: String,
    pub name: String,
    pub detail: String,
    /// Permanent address within this service.
    pub href: String,
}

impl Store {
    pub(crate) fn run(&self, digest: &Digest) -> Result<RunRow> {
        let row = self.db().query_row("SELECT * FROM runs WHERE digest=?1", [digest.to_hex()], run_row).optional()?;
        row.ok_or_else(|| missing(format!("audit {digest}")))
    }

    pub(crate) fn runs(&self, verdict: Option<&str>, from: u64) -> Result<Page<RunRow>> {
        let db = self.db();
        let total =
            db.query_row("SELECT count(*) FROM runs WHERE ?1 IS NULL OR verdict=?1", [verdict], |r| r.get(0))?;
        let mut query = db.prepare(
            "SELECT * FROM runs WHERE ?1 IS NULL OR verdict=?1 ORDER BY added_us DESC, digest LIMIT ?2 OFFSET ?3",
        )?;
        let items: Vec<RunRow> = query.query_map(params![verdict, ROWS, from], run_row)?.collect::<Result<_, _>>()?;
        Ok(Page { next: next(from, items.len(), total), items, total })
    }

    /// Verdicts of all records; of one run if it is given. A refused log counts once.
    pub(crate) fn tally(&self, run: Option<&str>) -> Result<Vec<Tally>> {
        let db = self.db();
        let mut query =
            db.prepare("SELECT verdict, sum(n) FROM tallies WHERE ?1 IS NULL OR run=?1 GROUP BY verdict")?;
        let rows = query.query_map([run], |r| Ok(Tally { verdict: r.get(0)?, n: r.get(1)? }))?;
        let found: Vec<Tally> = rows.collect::<Result<_, _>>()?;
        let n = |v: &str| found.iter().find(|t| t.verdict == v).map_or(0, |t| t.n);
        Ok(verifier::Verdict::ALL.iter().map(|v| Tally { verdict: v.name().to_owned(), n: n(v.name()) }).collect())
    }

    pub(crate) fn records(&self, run: &str, filter: &Filter) -> Result<Page<RecordRow>> {
        let db = self.db();
        let like = filter.text.as_ref().map(|t| format!("%{}%", escape_like(t)));
        let wanted = "run=?1 AND (?2 IS NULL OR verdict=?2) AND (?3 IS NULL OR headline LIKE ?3 ESCAPE '\\' OR digest LIKE ?3 ESCAPE '\\')";
        let total = match (&filter.verdict, &like) {
            // Counted when it was taken in.
            (None, None) => {
                db.query_row("SELECT records FROM runs WHERE digest=?1", [run], |r| r.get(0)).optional()?.unwrap_or(0)
            }
            _ => db.query_row(
                &format!("SELECT count(*) FROM records WHERE {wanted}"),
                params![run, filter.verdict, like],
                |r| r.get(0),
            )?,
        };
        let mut query =
            db.prepare(&format!("SELECT * FROM records WHERE {wanted} AND seq>=?4 ORDER BY seq LIMIT {}", ROWS + 1))?;
        let mut items: Vec<RecordRow> =
            query.query_map(params![run, filter.verdict, like, filter.from], record_row)?.collect::<Result<_, _>>()?;
        let next = if items.len() as u64 > ROWS { items.pop().map(|r| r.seq) } else { None };
        Ok(Page { items, total, next })
    }

    /// The records before and after one.
    pub(crate) fn beside(&self, run: &str, seq: u64) -> Result<[Option<u64>; 2]> {
        let db = self.db();
        let before =
            db.query_row("SELECT max(seq) FROM records WHERE run=?1 AND seq<?2", params![run, seq], |r| r.get(0))?;
        let after =
            db.query_row("SELECT min(seq) FROM records WHERE run=?1 AND seq>?2", params![run, seq], |r| r.get(0))?;
        Ok([before, after])
    }

    /// Claims of the runs taken in last.
    pub(crate) fn claims(&self, run: Option<&str>, most: u64) -> Result<Vec<ClaimCount>> {
        let db = self.db();
        let mut query = db.prepare(
            "SELECT c.run, c.claim, c.verdict, c.n FROM claims c JOIN
             (SELECT digest, added_us FROM runs WHERE ?1 IS NULL OR digest=?1 ORDER BY added_us DESC, digest LIMIT ?2) r ON r.digest=c.run
             ORDER BY r.added_us DESC, c.run, c.claim, c.verdict",
        )?;
        let row = |r: &rusqlite::Row<'_>| {
            Ok(ClaimCount { run: r.get(0)?, claim: r.get(1)?, verdict: r.get(2)?, n: r.get(3)? })
        };
        Ok(query.query_map(params![run, most], row)?.collect::<Result<_, _>>()?)
    }

    /// Sums over everything: runs, records, rows, tokens.
    pub(crate) fn sums(&self) -> Result<[u64; 4]> {
        Ok(self.db().query_row(
            "SELECT count(*), coalesce(sum(records),0), coalesce(sum(row_count),0), coalesce(sum(tokens),0) FROM runs",
            [],
            |r| Ok([r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?]),
        )?)
    }

    /// Audits of the log with this head.
    pub(crate) fn runs_of_head(&self, head: &str) -> Result<Vec<RunRow>> {
        let db = self.db();
        let mut query = db.prepare("SELECT * FROM runs WHERE head=?1 ORDER BY added_us DESC LIMIT 20")?;
        Ok(query.query_map([head], run_row)?.collect::<Result<_, _>>()?)
    }

    /// Audits in which a record was judged.
    pub(crate) fn runs_of_record(&self, digest: &str) -> Result<Vec<(String, u64, String, String)>> {
        let db = self.db();
        let mut query = db.prepare(
            "SELECT x.run, x.seq, x.verdict, r.name FROM records x JOIN runs r ON r.digest=x.run WHERE x.digest=?1 ORDER BY r.added_us DESC LIMIT 20",
        )?;
        Ok(query
            .query_map([digest], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?
            .collect::<Result<_, _>>()?)
    }

    pub(crate) fn fingerprints(&self) -> Result<Vec<FingerprintRow>> {
        let db = self.db();
        let mut query = db.prepare("SELECT * FROM fingerprints ORDER BY added_us DESC LIMIT 500")?;
        let row = |r: &rusqlite::Row<'_>| {
            Ok(FingerprintRow {
                digest: r.get("digest")?,
                kind: r.get("kind")?,
                subject: r.get("subject")?,
                model: r.get("model")?,
                tier: r.get("tier")?,
                outcome: r.get("outcome")?,
                verdict: r.get("verdict")?,
                signer: r.get("signer")?,
                added_us: r.get("added_us")?,
            })
        };
        Ok(query.query_map([], row)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn parts(&self) -> Result<Vec<PartRow>> {
        let db = self.db();
        let mut query = db.prepare(
            "SELECT p.*, count(e.idx) AS records, count(DISTINCT e.log) AS logs, min(e.time_us) AS first_us, max(e.time_us) AS last_us
             FROM parts p LEFT JOIN entries e ON (p.kind='model' AND e.model=p.digest) OR (p.kind='stack' AND e.stack=p.digest)
             GROUP BY p.digest ORDER BY p.kind, records DESC, p.name LIMIT 500",
        )?;
        let row = |r: &rusqlite::Row<'_>| {
            let facts: String = r.get("facts")?;
            Ok(PartRow {
                digest: r.get("digest")?,
                kind: r.get("kind")?,
                name: r.get("name")?,
                facts: serde_json::from_str(&facts).unwrap_or_default(),
                records: r.get("records")?,
                logs: r.get("logs")?,
                first_us: r.get("first_us")?,
                last_us: r.get("last_us")?,
            })
        };
        Ok(query.query_map([], row)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn keys(&self) -> Result<Vec<KeyRow>> {
        let db = self.db();
        let mut query = db.prepare(
            "SELECT k.*, (SELECT count(*) FROM runs WHERE signer=k.id)+(SELECT count(*) FROM fingerprints WHERE signer=k.id) AS signed,
             (SELECT count(*) FROM logs WHERE key=k.id) AS logs FROM keys k ORDER BY trust='proposed' DESC, added_us, id",
        )?;
        let row = |r: &rusqlite::Row<'_>| {
            Ok(KeyRow {
                id: r.get("id")?,
                public: r.get("public")?,
                name: r.get("name")?,
                trust: r.get("trust")?,
                source: r.get("source")?,
                added_us: r.get("added_us")?,
                signed: r.get("signed")?,
                logs: r.get("logs")?,
            })
        };
        Ok(query.query_map([], row)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn set_trust(&self, id: &Digest, trust: &str) -> Result<()> {
        match self.db().execute("UPDATE keys SET trust=?2 WHERE id=?1", params![id.to_hex(), trust])? {
            0 => Err(missing(format!("key {id}"))),
            _ => Ok(()),
        }
    }

    /// Digests by their first digits, names and findings by a part of them.
    pub(crate) fn search(&self, text: &str) -> Result<Vec<Hit>> {
        let text = text.trim();
        let mut hits = Vec::new();
        if text.is_empty() {
            return Ok(hits);
        }
        let hex = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
        let digest = hex.len() >= 4 && hex.len() <= 64 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        // A range and not a pattern, so that the index serves it.
        let (low, high) = (hex.clone(), format!("{hex}g"));
        let (tagged_low, tagged_high) = (format!("sha256:{low}"), format!("sha256:{high}"));
        let like = format!("%{}%", escape_like(text));
        let db = self.db();
        let mut add = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<()> {
            let mut query = db.prepare(sql)?;
            let row = |r: &rusqlite::Row<'_>| {
                Ok(Hit { kind: r.get(0)?, name: r.get(1)?, detail: r.get(2)?, href: r.get(3)? })
            };
            hits.extend(query.query_map(values, row)?.collect::<rusqlite::Result<Vec<_>>>()?);
            Ok(())
        };
        if digest {
            add(
                "SELECT 'run', name, verdict||' '||headline, '/runs/'||digest FROM runs WHERE digest BETWEEN ?1 AND ?2 LIMIT 20",
                &[&low, &high],
            )?;
            add(
                "SELECT 'record', 'record '||seq, verdict||' '||headline, '/runs/'||run||'/records/'||seq FROM records WHERE digest BETWEEN ?1 AND ?2 LIMIT 20",
                &[&tagged_low, &tagged_high],
            )?;
            add(
                "SELECT 'log', name, state, '/logs/'||id FROM logs WHERE id BETWEEN ?1 AND ?2 OR root BETWEEN ?3 AND ?4 OR head BETWEEN ?3 AND ?4 LIMIT 20",
                &[&low, &high, &tagged_low, &tagged_high],
            )?;
            add(
                "SELECT 'entry', 'entry '||idx, record, '/logs/'||log||'/entries/'||idx FROM entries WHERE record BETWEEN ?1 AND ?2 LIMIT 20",
                &[&tagged_low, &tagged_high],
            )?;
            add(
                "SELECT 'fingerprint', subject, verdict, '/fingerprints/'||digest FROM fingerprints WHERE digest BETWEEN ?1 AND ?2 LIMIT 20",
                &[&low, &high],
            )?;
            add(
                "SELECT kind, name, digest, '/inventory#'||kind||'-'||digest FROM parts WHERE digest BETWEEN ?1 AND ?2 LIMIT 20",
                &[&low, &high],
            )?;
            add(
                "SELECT 'key', name, trust, '/keys#key-'||id FROM keys WHERE id BETWEEN ?1 AND ?2 LIMIT 20",
                &[&low, &high],
            )?;
        }
        add(
            "SELECT 'run', name, verdict||' '||headline, '/runs/'||digest FROM runs WHERE name LIKE ?1 ESCAPE '\\' OR headline LIKE ?1 ESCAPE '\\' ORDER BY added_us DESC LIMIT 30",
            &[&like],
        )?;
        add(
            "SELECT 'record', 'record '||seq, verdict||' '||headline, '/runs/'||run||'/records/'||seq FROM records WHERE headline LIKE ?1 ESCAPE '\\' LIMIT 30",
            &[&like],
        )?;
        add(
            "SELECT 'log', name, state, '/logs/'||id FROM logs WHERE name LIKE ?1 ESCAPE '\\' OR origin LIKE ?1 ESCAPE '\\' LIMIT 20",
            &[&like],
        )?;
        add(
            "SELECT 'fingerprint', subject, verdict, '/fingerprints/'||digest FROM fingerprints WHERE subject LIKE ?1 ESCAPE '\\' OR verdict LIKE ?1 ESCAPE '\\' OR model LIKE ?1 ESCAPE '\\' LIMIT 20",
            &[&like],
        )?;
        add(
            "SELECT kind, name, digest, '/inventory#'||kind||'-'||digest FROM parts WHERE name LIKE ?1 ESCAPE '\\' LIMIT 20",
            &[&like],
        )?;
        add("SELECT 'key', name, trust, '/keys#key-'||id FROM keys WHERE name LIKE ?1 ESCAPE '\\' LIMIT 20", &[&like])?;
        Ok(hits)
    }
}

fn next(from: u64, found: usize, total: u64) -> Option<u64> {
    let to = from + found as u64;
    (to < total && found > 0).then_some(to)
}

fn escape_like(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn run_row(r: &rusqlite::Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        digest: r.get("digest")?,
        name: r.get("name")?,
        origin: r.get("origin")?,
        entries: r.get("entries")?,
        population: r.get("population")?,
        audited: r.get("audited")?,
        plan: r.get("plan")?,
        miss: r.get("miss")?,
        verdict: r.get("verdict")?,
        level: r.get("level")?,
        headline: r.get("headline")?,
        signer: r.get("signer")?,
        tool: r.get("tool")?,
        head: r.get("head")?,
        operator: r.get("operator")?,
        refused: r.get("refused")?,
        records: r.get("records")?,
        rows: r.get("row_count")?,
        tokens: r.get("tokens")?,
        added_us: r.get("added_us")?,
    })
}

fn record_row(r: &rusqlite::Row<'_>) -> rusqlite::Result<RecordRow> {
    Ok(RecordRow {
        seq: r.get("seq")?,
        last: r.get("last")?,
        digest: r.get("digest")?,
        verdict: r.get("verdict")?,
        level: r.get("level")?,
        headline: r.get("headline")?,
        requests: r.get("requests")?,
        steps: r.get("steps")?,
        rows: r.get("row_count")?,
        tokens: r.get("tokens")?,
        cause: r.get("cause")?,
        place: r.get("place")?,
    })
}
