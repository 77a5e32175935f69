//! P8: has an endpoint changed since it was first seen, and what of it?

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::api::Answer;
use crate::classify::{Classes, distance};
use crate::error::{Error, Result, file};
use crate::feature::Pair;
use crate::library::{GREEDY, Library};
use crate::stage::lattice::{Grid, lattice};
use crate::stats::{E_REJECT, Evidence};
use crate::trace::{Stack, Trace};

/// Version of the state file.
pub const SCHEMA: &str = "lastbit/fingerprint-watch/v1";
/// Batches in a row that must speak of a change before an alarm.
pub const PERSISTENCE: usize = 3;
/// Batches after an alarm in which there is no other.
pub const COOL_DOWN: usize = 10;
/// Most batches that are kept.
const MAX_BATCHES: usize = 10_000;

/// What of an endpoint may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    /// Headers, fingerprint, members of answers.
    Surface,
    /// Prompts are counted otherwise.
    Tokenizer,
    /// The grid of logits.
    Format,
    /// Numbers beyond the reference's own noise.
    Numerics,
}

impl Moved {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Moved::Surface => "surface",
            Moved::Tokenizer => "tokenizer",
            Moved::Format => "format",
            Moved::Numerics => "numerics",
        }
    }
}

/// One look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Seconds since 1970.
    pub date: u64,
    /// Digest of its trace.
    pub trace: String,
    /// What moved against the reference.
    pub moved: Vec<Moved>,
    /// Evidence of this batch alone that numbers moved (e-value, decimal).
    pub e: String,
}

/// What a watch remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// [`SCHEMA`].
    pub schema: String,
    /// Endpoint.
    pub endpoint: String,
    /// Seed of the probes, decimal.
    pub seed: String,
    /// File names of the reference's draws, beside the state.
    pub reference: Vec<String>,
    /// Looks, oldest first.
    pub batches: Vec<Batch>,
    /// Places of alarms in `batches`.
    pub alarms: Vec<usize>,
}

/// What a look says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// What moved in every batch since the onset.
    pub moved: Vec<Moved>,
    /// When the first of them was.
    pub since: u64,
}

impl State {
    /// A new watch.
    pub fn new(endpoint: &str, seed: u64, reference: Vec<String>) -> Self {
        let (endpoint, seed) = (endpoint.to_owned(), seed.to_string());
        Self { schema: SCHEMA.to_owned(), endpoint, seed, reference, batches: Vec::new(), alarms: Vec::new() }
    }

    /// Reads a state file.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Trace`] for what is no state of this version.
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = record::file::read(path, 1 << 26).map_err(file(path))?;
        let refuse = |why: String| Error::Trace { trace: path.display().to_string(), line: 0, why };
        let state: Self = serde_json::from_slice(&bytes).map_err(|e| refuse(e.to_string()))?;
        if state.schema != SCHEMA {
            return Err(refuse(format!("schema {:?}; this version reads {SCHEMA:?}", state.schema)));
        }
        Ok(state)
    }

    /// Replaces the state file, whole or not at all.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|e| Error::Report(e.to_string()))?;
        let part = path.with_extension("part");
        std::fs::write(&part, text).map_err(file(&part))?;
        std::fs::rename(&part, path).map_err(file(path))
    }

    /// Takes a look in, and raises an alarm if the last [`PERSISTENCE`] batches all speak of a change and the last alarm is
    /// [`COOL_DOWN`] batches ago. Numbers count only once the product of the batches' evidence has reached 1 / 0.01.
    pub fn look(&mut self, reference: &[Trace], trace: &Trace, digest: String, date: u64) -> Option<Alarm> {
        let (moved, e) = moved(reference, trace);
        self.batches.push(Batch { date, trace: digest, moved, e: format!("{e:.6e}") });
        if self.batches.len() > MAX_BATCHES {
            self.batches.remove(0);
            self.alarms = self.alarms.iter().filter_map(|a| a.checked_sub(1)).collect();
        }
        let n = self.batches.len();
        if n < PERSISTENCE || self.alarms.last().is_some_and(|last| n - 1 - last < COOL_DOWN) {
            return None;
        }
        let last = &self.batches[n - PERSISTENCE..];
        let mut all: Vec<Moved> = last[0].moved.clone();
        all.retain(|m| last.iter().all(|b| b.moved.contains(m)));
        let mut evidence = Evidence::default();
        last.iter().for_each(|b| evidence.add(b.e.parse().unwrap_or(1.0)));
        if evidence.now() < E_REJECT {
            all.retain(|m| *m != Moved::Numerics);
        }
        if all.is_empty() {
            return None;
        }
        self.alarms.push(n - 1);
        let onset = self.batches.iter().rposition(|b| !all.iter().all(|m| b.moved.contains(m))).map_or(0, |i| i + 1);
        Some(Alarm { moved: all, since: self.batches[onset].date })
    }
}

/// What moved between a reference and a trace, and the evidence that its numbers did.
pub fn moved(reference: &[Trace], trace: &Trace) -> (Vec<Moved>, f64) {
    let Some(first) = reference.first() else { return (Vec::new(), 1.0) };
    let mut moved = Vec::new();
    let answers = |t: &'_ Trace| t.under(GREEDY).filter_map(|r| r.good().cloned()).collect::<Vec<Answer>>();
    let (old, new) = (answers(first), answers(trace));
    let surface = |a: &Answer| (a.fingerprint.clone(), a.keys.clone(), a.model.clone());
    if let (Some(a), Some(b)) = (old.first(), new.first())
        && surface(a) != surface(b)
    {
        moved.push(Moved::Surface);
    }
    let counts = |t: &Trace, probe: &str| t.get(probe).and_then(|r| r.good()).and_then(|a| a.usage).map(|u| u.prompt);
    let counted = first
        .under(GREEDY)
        .any(|r| matches!((counts(first, &r.probe), counts(trace, &r.probe)), (Some(a), Some(b)) if a != b));
    if counted {
        moved.push(Moved::Tokenizer);
    }
    let grid = |answers: &[Answer]| lattice(answers.iter().flat_map(|a| a.steps()), 1.0).grid;
    let (a, b) = (grid(&old), grid(&new));
    if a != b && !matches!((a, b), (Grid::TooFew, _) | (_, Grid::TooFew)) {
        moved.push(Moved::Format);
    }
    let e = evidence(reference, trace);
    // A batch speaks for a change if its own evidence does.
    if e > 1.0 {
        moved.push(Moved::Numerics);
    }
    (moved, e)
}

/// Evidence of a batch that its numbers are not the reference's. With one draw of the reference its noise is unknown: only a text or number
/// that repeats could not give counts as much as nothing.
fn evidence(reference: &[Trace], trace: &Trace) -> f64 {
    let stack = Stack {
        format: "watched".into(),
        engine: String::new(),
        version: String::new(),
        backend: String::new(),
        hardware: String::new(),
    };
    let named = |t: &Trace| {
        let mut t = t.clone();
        t.header.stack = Some(stack.clone());
        (String::new(), t)
    };
    let Ok(library) = Library::new(reference.iter().map(named).collect()) else { return 1.0 };
    let classes = Classes::of(&library, 0);
    classes.classes.first().map_or(1.0, |c| classes.evidence(trace, c).now())
}

/// How far a trace is from the nearest draw of the reference: mean over probes, nats.
pub fn far(reference: &[Trace], trace: &Trace) -> f64 {
    let probes = trace.under(GREEDY).map(|r| &r.probe);
    let nearest = |probe: &String| reference.iter().filter_map(|r| distance(trace, r, probe)).reduce(f64::min);
    crate::stats::mean(&probes.filter_map(nearest).collect::<Vec<_>>())
}

/// Texts of the reference that are the same in a trace: share.
pub fn same_texts(reference: &Trace, trace: &Trace) -> (usize, usize) {
    let pairs: Vec<Pair> =
        reference.under(GREEDY).filter_map(|r| Some(Pair::of(r.good()?, trace.get(&r.probe)?.good()?))).collect();
    (pairs.iter().filter(|p| !p.parts).count(), pairs.len())
}
