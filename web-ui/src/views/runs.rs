//! Overview, and one audit.

use record::Digest;
use serde::Serialize;
use verifier::report::crosswalk::{self, Crosswalk};
use verifier::result::{AuditResult, Channel, Method, Sampling, SetAside};

use super::{opened, trust};
use crate::App;
use crate::charts::{self, Chart};
use crate::error::Result;
use crate::store::{BlobRow, ClaimCount, Filter, LogRow, Page, RecordRow, RunRow, Tally};

/// Audits shown in the charts of the overview.
const CHARTED: usize = 24;

/// Everything at a glance.
#[derive(Serialize)]
pub(crate) struct Overview {
    pub runs: u64,
    pub records: u64,
    pub rows: u64,
    pub tokens: u64,
    pub logs: u64,
    pub held: u64,
    pub tally: Vec<Tally>,
    pub latest: Page<RunRow>,
    pub mix: Chart,
    pub matrix: Chart,
    pub bounds: Chart,
}

pub(crate) fn overview(app: &App, verdict: Option<&str>, from: u64) -> Result<Overview> {
    let store = &app.store;
    let latest = store.runs(verdict, from)?;
    let [runs, records, rows, tokens] = store.sums()?;
    let tally = store.tally(None)?;
    let charted: Vec<RunRow> = store.runs(None, 0)?.items.into_iter().take(CHARTED).collect();
    let claims = store.claims(None, CHARTED as u64)?;
    let logs = store.logs()?;
    let held = store.blobs_in("held")?.len() + logs.iter().filter(|l| l.state == "held").count();
    Ok(Overview {
        runs,
        records,
        rows,
        tokens,
        logs: logs.len() as u64,
        held: held as u64,
        mix: charts::verdicts(&tally),
        matrix: charts::claims(&charted, &claims),
        bounds: charts::bounds(&charted),
        tally,
        latest,
    })
}

/// One audit.
#[derive(Serialize)]
pub(crate) struct Run {
    pub run: RunRow,
    pub note: String,
    pub tally: Vec<Tally>,
    pub mix: Chart,
    pub sampling: Sampling,
    pub method: Method,
    pub refusal: Option<String>,
    pub set_aside: Vec<SetAside>,
    pub channels: Vec<Channel>,
    pub limitations: Vec<String>,
    pub recheck: Vec<String>,
    pub claims: Vec<ClaimCount>,
    pub records: Page<RecordRow>,
    pub custody: Custody,
    pub crosswalk: Crosswalk,
}

/// From whom the bytes are, and where they lie.
#[derive(Serialize)]
pub(crate) struct Custody {
    /// Plain SHA-256 of the signed result.
    pub digest: String,
    pub file: BlobRow,
    /// Key that signed it, and its 32 bytes.
    pub signer: String,
    pub signer_public: String,
    /// `trusted` or `withdrawn`, now.
    pub trust: String,
    /// Stored logs with the head that the result names.
    pub logs: Vec<LogRow>,
}

/// Where the bytes of a result are from.
fn custody(app: &App, id: &Digest, row: &RunRow) -> Result<Custody> {
    let logs = app.store.logs()?.into_iter().filter(|l| l.head.is_some() && l.head == row.head).collect();
    let key = app.store.keys()?.into_iter().find(|k| k.id == row.signer);
    Ok(Custody {
        digest: id.to_hex(),
        file: app.store.blob(id)?.ok_or_else(|| crate::error::missing(id.to_string()))?,
        signer: row.signer.clone(),
        signer_public: key.map(|k| k.public).unwrap_or_default(),
        trust: trust(app, &row.signer)?,
        logs,
    })
}

pub(crate) fn run(app: &App, id: &Digest, filter: &Filter) -> Result<Run> {
    let row = app.store.run(id)?;
    let signed = opened(app, id)?;
    let AuditResult { subject, method, log, sampling, channels, limitations, recheck, .. } = signed.result.clone();
    let hex = id.to_hex();
    let tally = app.store.tally(Some(&hex))?;
    Ok(Run {
        note: subject.note,
        mix: charts::verdicts(&tally),
        tally,
        sampling,
        method,
        refusal: log.refused.map(|r| format!("{}: {}", r.reason, r.detail)),
        set_aside: log.set_aside,
        channels,
        limitations,
        recheck,
        claims: app.store.claims(Some(&hex), 1)?,
        records: app.store.records(&hex, filter)?,
        custody: custody(app, id, &row)?,
        crosswalk: crosswalk::of(&signed).map_err(|e| crate::Error::Bug(e.to_string()))?,
        run: row,
    })
}
