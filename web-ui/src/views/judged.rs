//! One audited record: what the audit says of it, and what the log that holds it shows.

use std::collections::BTreeMap;

use record::inference::{RowGate, RowKind};
use record::{Digest, Evidence};
use serde::Serialize;
use verifier::result::RecordResult;

use super::opened;
use crate::App;
use crate::charts::{self, Chart};
use crate::error::{Result, missing};
use crate::store::RunRow;

/// Evidence larger than this is not opened for a page.
const MAX_EVIDENCE: u64 = 256 << 20;

/// A record.
#[derive(Serialize)]
pub(crate) struct Record {
    pub run: RunRow,
    pub before: Option<u64>,
    pub after: Option<u64>,
    pub result: RecordResult,
    pub required: Vec<String>,
    /// First difference in words; empty when nothing differs.
    pub divergence: String,
    /// Both bit patterns as a table; empty when they are not known.
    #[serde(skip)]
    pub bits: String,
    pub causes: Vec<String>,
    pub alternatives: Vec<String>,
    #[serde(skip)]
    pub matrix: String,
    pub growth: Chart,
    pub margins: Chart,
    pub schedule: Chart,
    /// Stored logs that hold it, with the place.
    pub places: Vec<(String, u64)>,
    /// Other audits of it: run, place, verdict, name.
    pub others: Vec<(String, u64, String, String)>,
    pub ops: Option<Ops>,
    pub tokens: Vec<RequestTokens>,
    /// Where margins are from, or why there are none.
    pub margin_source: String,
}

/// How the operations of a step ran.
#[derive(Serialize)]
pub(crate) struct Ops {
    pub step: u64,
    pub mode: String,
    pub profile: String,
    pub policy: String,
    pub execution: String,
    pub rows: Vec<String>,
    pub ops: Vec<OpRow>,
}

/// An operation, its kernels by name and digest of their text, and its splits.
type OpRow = (String, Vec<(String, String)>, u32);

/// A request, token by token.
#[derive(Serialize)]
pub(crate) struct RequestTokens {
    pub id: String,
    pub sampler: String,
    pub finish: String,
    pub tokens: Vec<Token>,
}

/// A token.
#[derive(Serialize)]
pub(crate) struct Token {
    pub position: u32,
    pub id: u32,
    /// By the tokenizer at hand, if that is the record's.
    pub text: Option<String>,
    pub output: bool,
    /// Distance between the two best logits where it was chosen.
    pub margin: Option<String>,
    /// 0 not known, 1 below 2^-5, 2 below 2^-2, 3 below 1, 4 one or more.
    pub class: u8,
    /// The audit names it as one that does not follow.
    pub flagged: bool,
}

pub(crate) fn record(app: &App, id: &Digest, seq: u64) -> Result<Record> {
    let run = app.store.run(id)?;
    let signed = opened(app, id)?;
    let found =
        signed.result.records.binary_search_by_key(&seq, |r| r.seq).ok().and_then(|i| signed.result.records.get(i));
    let result = found.or_else(|| signed.result.records.iter().find(|r| r.covers(seq))).cloned();
    let result = result.ok_or_else(|| missing(format!("record {seq} of this audit")))?;
    let [before, after] = app.store.beside(&run.digest, result.seq)?;
    let places = app.store.places(&result.digest)?;
    let mut view = Record {
        before,
        after,
        required: signed.result.method.required.iter().map(|k| k.name().to_owned()).collect(),
        divergence: result.divergence.as_ref().map(verifier::explain::divergence).unwrap_or_default(),
        bits: result
            .divergence
            .as_ref()
            .and_then(|d| d.bits.as_ref())
            .map(verifier::report::bits::table)
            .unwrap_or_default(),
        causes: result.causes.iter().map(|c| c.headline()).collect(),
        alternatives: verifier::explain::alternatives(&result),
        matrix: verifier::report::svg::matrix(&result.matrix),
        growth: charts::growth(&result.growth),
        margins: charts::margins(&result.margins),
        schedule: charts::schedule(&result.matrix),
        others: app.store.runs_of_record(&result.digest)?.into_iter().filter(|(r, ..)| *r != run.digest).collect(),
        ops: None,
        tokens: Vec::new(),
        margin_source: "The log that holds this record is not in the store, so its tokens are not known here."
            .to_owned(),
        places,
        result,
        run,
    };
    if let Some((log, _)) = view.places.first().cloned() {
        from_log(app, &log, &mut view)?;
    }
    Ok(view)
}

/// Adds what the stored record and its evidence show.
fn from_log(app: &App, log: &str, view: &mut Record) -> Result<()> {
    let hex = view.result.digest.trim_start_matches("sha256:").to_owned();
    let files = app.store.log_files(log)?;
    let read = |path: String| -> Result<Option<Vec<u8>>> {
        match files.iter().find(|f| f.path == path && f.size <= MAX_EVIDENCE) {
            Some(file) => app.store.bytes(&super::digest(&file.digest)?).map(Some),
            None => Ok(None),
        }
    };
    let Some(bytes) = read(format!("records/{hex}.replay"))? else { return Ok(()) };
    let record =
        record::replay::from_file(&bytes).map_err(|e| crate::Error::Altered(format!("the stored record: {e}")))?;
    let same = record.digest().is_ok_and(|d| d.to_string() == view.result.digest);
    if !same {
        return Err(crate::Error::Altered("the stored record is not the one that was audited".to_owned()));
    }
    let (margins, source) = match read(format!("evidence/{hex}.evidence"))? {
        Some(bytes) => match opened_margins(&bytes, &record) {
            Ok(found) if !found.is_empty() => (found, "Margins are computed from the logits that the operator opened, after they were checked against the record's commitments.".to_owned()),
            Ok(_) => (gate_margins(&record), "The opened evidence has no logits; margins are those that the gate logged, where there is one.".to_owned()),
            Err(e) => (gate_margins(&record), format!("The evidence beside the log is set aside ({e}); margins are those that the gate logged, where there is one.")),
        },
        None => (gate_margins(&record), "No evidence was opened; margins are those that the gate logged, where there is one.".to_owned()),
    };
    view.margin_source = source;
    let flagged: Vec<(String, u32)> = view
        .result
        .causes
        .iter()
        .flat_map(|c| match c {
            verifier::result::Cause::TokenSwapped { tokens, .. } => tokens.as_slice(),
            _ => &[],
        })
        .map(|t| (t.request.clone(), t.output_index))
        .collect();
    let tokenizer = record.text.tokenizer.known().copied().flatten();
    for (number, request) in record.requests.iter().enumerate() {
        let ids: Vec<u32> = request.prompt.iter().chain(&request.output).copied().collect();
        let texts = match (&app.tokens, tokenizer) {
            (Some(tokens), Some(tokenizer)) => tokens(&tokenizer, &ids),
            _ => None,
        };
        let tokens = ids.iter().enumerate().map(|(at, token)| {
            let index = at.checked_sub(request.prompt.len());
            let margin = index.and_then(|_| margins.get(&(number as u32, at as u32))).copied();
            Token {
                position: at as u32,
                id: *token,
                text: texts.as_ref().and_then(|t| t.get(at).cloned()),
                output: index.is_some(),
                margin: margin.map(|m| fingerprint::report::figure(f64::from(m))),
                class: margin.map_or(0, class),
                flagged: index.is_some_and(|i| flagged.contains(&(request.id.clone(), i as u32))),
            }
        });
        view.tokens.push(RequestTokens {
            id: request.id.clone(),
            sampler: request.decode.sampler.clone(),
            finish: format!("{:?}", request.finish).to_lowercase(),
            tokens: tokens.collect(),
        });
    }
    view.ops = ops(&record, view.result.divergence.as_ref().map_or(0, |d| d.step as usize));
    Ok(())
}

/// For ink only.
fn class(margin: f32) -> u8 {
    match margin {
        m if m < 0.031_25 => 1,
        m if m < 0.25 => 2,
        m if m < 1.0 => 3,
        _ => 4,
    }
}

type Margins = BTreeMap<(u32, u32), f32>;

/// Best minus second logit of every opened row that chose a token, by request and position of the token.
fn opened_margins(file: &[u8], record: &record::Record) -> Result<Margins, record::Error> {
    let evidence = Evidence::from_file(file)?;
    evidence.check(record)?;
    let mut out = Margins::new();
    for row in &evidence.rows {
        let Some(tensor) = row.logits.and_then(|digest| evidence.tensor(&digest)) else { continue };
        let Some(step) = record.steps.iter().find(|s| s.index == row.step) else { continue };
        let Some(place) = step.schedule.each_row().nth(row.leaf as usize) else { continue };
        let logits: Vec<f32> = match tensor.dtype {
            record::DType::F32 => {
                tensor.bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
            }
            record::DType::Bf16 => tensor
                .bytes
                .chunks_exact(2)
                .map(|b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16))
                .collect(),
            _ => continue,
        };
        let (mut best, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for x in logits {
            if x > best {
                (best, second) = (x, best);
            } else if x > second {
                second = x;
            }
        }
        if second.is_finite() {
            out.insert((place.request, place.position + 1), best - second);
        }
    }
    Ok(out)
}

/// Margins that a gate logged.
fn gate_margins(record: &record::Record) -> Margins {
    let mut out = Margins::new();
    for rows in record.steps.iter().flat_map(|s| &s.schedule.rows) {
        let margin = match rows.gate {
            Some(
                RowGate::Commit { margin }
                | RowGate::Reference { margin }
                | RowGate::Hold { margin, .. }
                | RowGate::Probe { margin, .. },
            ) => margin,
            _ => continue,
        };
        out.insert((rows.request, rows.start + rows.count), margin.value());
    }
    out
}

fn ops(record: &record::Record, step: usize) -> Option<Ops> {
    let step = record.steps.get(step)?;
    let stack = &record.stack;
    let kernel = |i: &u32| {
        let k = stack.kernels.get(*i as usize);
        k.map_or_else(|| ("unknown".to_owned(), String::new()), |k| (k.name.clone(), k.ptx_sha256.to_hex()))
    };
    let kind = |k: RowKind| format!("{k:?}").to_lowercase();
    let request = |i: u32| record.requests.get(i as usize).map_or_else(|| i.to_string(), |r| r.id.clone());
    Some(Ops {
        step: step.index,
        mode: stack.mode.clone(),
        profile: stack.device.profile.clone(),
        policy: stack.dispatch_policy.clone(),
        execution: format!("{:?}", step.schedule.execution).to_lowercase(),
        rows: step
            .schedule
            .rows
            .iter()
            .map(|r| format!("{}: {} {} from position {}", request(r.request), r.count, kind(r.kind), r.start))
            .collect(),
        ops: step
            .schedule
            .dispatch
            .ops
            .iter()
            .map(|o| (o.op.clone(), o.kernels.iter().map(kernel).collect(), o.splits))
            .collect(),
    })
}
