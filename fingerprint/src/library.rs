//! Reference traces of known stacks, several draws of each.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result, file};
use crate::probe::Probe;
use crate::session::Session;
use crate::tier::Capability;
use crate::trace::{Header, Record, SUFFIX, Stack, Trace};

/// Name of greedy probes' records.
pub const GREEDY: &str = "p5/";

/// A stack and what it answered, under several settings of noise.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The stack.
    pub stack: Stack,
    /// One trace a draw.
    pub draws: Vec<Trace>,
}

/// References that can be compared with each other.
#[derive(Clone, Debug)]
pub struct Library {
    /// Sorted by stack.
    pub references: Vec<Reference>,
}

impl Library {
    /// Puts traces together.
    ///
    /// # Errors
    /// [`Error::Trace`] for a trace without a stack, [`Error::Unlike`] for traces of another model, tokenizer or seed of probes than the
    /// first.
    pub fn new(traces: Vec<(String, Trace)>) -> Result<Self> {
        let mut references: Vec<Reference> = Vec::new();
        let first = traces.first().map(|(name, t)| (name.clone(), t.header.clone()));
        for (name, trace) in traces {
            let Some(stack) = trace.header.stack.clone() else {
                return Err(Error::Trace {
                    trace: name,
                    line: 1,
                    why: "it states no stack, so it is no reference".into(),
                });
            };
            if let Some((other, header)) = &first {
                alike((other, header), (&name, &trace.header))?;
            }
            match references.iter_mut().find(|r| r.stack == stack) {
                Some(reference) => reference.draws.push(trace),
                None => references.push(Reference { stack, draws: vec![trace] }),
            }
        }
        references.sort_by(|a, b| a.stack.cmp(&b.stack));
        for reference in &mut references {
            reference.draws.sort_by_key(|t| (t.header.batch, t.header.draw));
        }
        Ok(Self { references })
    }

    /// All traces of a folder.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Trace`]; as [`Library::new`]; [`Error::Unlike`] for a folder without traces.
    pub fn open(folder: &Path) -> Result<Self> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(file(folder))? {
            let path = entry.map_err(file(folder))?.path();
            if path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.ends_with(SUFFIX) && !n.starts_with('.')) {
                paths.push(path);
            }
        }
        paths.sort();
        if paths.is_empty() {
            return Err(Error::Unlike(format!("{} holds no traces; make some with `enroll`", folder.display())));
        }
        let read = |path: PathBuf| Ok((path.display().to_string(), Trace::open(&path)?));
        Self::new(paths.into_iter().map(read).collect::<Result<_>>()?)
    }

    /// Checks that a trace of an endpoint can be compared with these.
    ///
    /// # Errors
    /// [`Error::Unlike`].
    pub fn admits(&self, trace: &Trace) -> Result<()> {
        let Some(first) = self.references.first().and_then(|r| r.draws.first()) else { return Ok(()) };
        alike(("the library", &first.header), ("the target", &trace.header))
    }

    /// Seed of the probes.
    pub fn seed(&self) -> Option<u64> {
        self.references.first()?.draws.first()?.header.seed.parse().ok()
    }

    /// Number of greedy probes that every draw has, and tokens of each.
    pub fn probes(&self) -> (usize, u32) {
        let draws = self.references.iter().flat_map(|r| &r.draws);
        let count = draws.map(|t| t.under(GREEDY).count()).min().unwrap_or(0);
        let first = self.references.first().and_then(|r| r.draws.first()).and_then(|t| t.under(GREEDY).next());
        let tokens = first.and_then(|r| r.request.as_ref()?["max_tokens"].as_u64()).unwrap_or(0);
        (count, u32::try_from(tokens).unwrap_or(u32::MAX))
    }
}

/// Two traces are of one model and one set of probes, as far as both say.
fn alike(a: (&str, &Header), b: (&str, &Header)) -> Result<()> {
    let differ = |what: &str, x: &str, y: &str| {
        Err(Error::Unlike(format!(
            "{} and {} are of different {what} ({x} and {y}); they cannot be compared",
            a.0, b.0
        )))
    };
    let (x, y) = (&a.1.model, &b.1.model);
    for (what, x, y) in [("weights", &x.weights, &y.weights), ("tokenizers", &x.tokenizer, &y.tokenizer)] {
        if let (Some(x), Some(y)) = (x, y)
            && x != y
        {
            return differ(what, x, y);
        }
    }
    if a.1.seed != b.1.seed { differ("seeds of probes", &a.1.seed, &b.1.seed) } else { Ok(()) }
}

/// Sends the greedy probes, `at_once` at a time. Returns how many were answered.
///
/// # Errors
/// What [`Session::ask_all`] fails with.
pub async fn record(session: &Session, cap: &Capability, probes: &[Probe], at_once: usize) -> Result<usize> {
    let asks = probes.iter().map(|p| (p.id.clone(), cap.greedy(p.prompt.clone(), p.tokens))).collect();
    let records = session.ask_all(asks, at_once).await?;
    Ok(records.iter().filter(|r| r.good().is_some()).count())
}

/// Leaves only the greedy probes of a trace, without what differs from run to run: a reference.
#[must_use]
pub fn reference(trace: &Trace, header: Header) -> Trace {
    let bare = |r: &Record| Record { first_us: 0, total_us: 0, retries: 0, headers: Vec::new(), ..r.clone() };
    Trace { header, records: trace.under(GREEDY).map(bare).collect() }
}
