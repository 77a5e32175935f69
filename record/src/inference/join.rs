//! Records of one session that only make sense together: a request goes on from one to the next, or begins with what another computed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use thiserror::Error as ThisError;

use super::{Event, Finish, Record, Request};
use crate::scalar::F32Bits;

/// Why records do not join.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum JoinRefusal {
    /// There is none.
    #[error("no records to join")]
    Nothing,
    /// Steps are missing between two records.
    #[error("step {expected} is missing: record {record} begins with step {found}")]
    Gap {
        /// Which of the records, from 0.
        record: usize,
        /// The step that should have come.
        expected: u64,
        /// The step that came.
        found: u64,
    },
    /// What ran changed in the middle of a session.
    #[error("record {record} states another {what} than the one before it in the same session")]
    Changed {
        /// Which of the records, from 0.
        record: usize,
        /// What differs.
        what: &'static str,
    },
    /// A request is told differently in two records.
    #[error("request {id:?}: record {record} {what}")]
    Request {
        /// Its id.
        id: String,
        /// Which of the records, from 0.
        record: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// What a record says of its neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mentions {
    /// It begins a session.
    begins: bool,
    /// Requests that it is about.
    requests: BTreeSet<String>,
    /// Requests that computed what others begin with.
    sources: BTreeSet<String>,
}

impl Mentions {
    /// Those of a record.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        let sources = record.steps.iter().flat_map(|s| &s.schedule.events).flat_map(|e| match e {
            Event::Admit { cached, .. } => cached.as_slice(),
            _ => &[],
        });
        Self {
            begins: record.steps.first().is_some_and(|s| s.index == 0),
            requests: record.requests.iter().map(|r| r.id.clone()).collect(),
            sources: sources.map(|c| c.source.clone()).collect(),
        }
    }
}

/// The smallest runs of neighbouring records such that no request and no cached prefix crosses from one run to another, in order. `records`
/// are consecutive; an absent one ends a session.
#[must_use]
pub fn runs(records: &[Option<Mentions>]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    // Where each request of the session was seen first.
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        runs.push(at..at + 1);
        let Some(record) = record else {
            first.clear();
            continue;
        };
        if record.begins {
            first.clear();
        }
        let known = record.requests.iter().chain(&record.sources);
        let earliest = known.filter_map(|id| first.get(id.as_str())).min().copied().unwrap_or(at);
        while runs.len() > 1 && runs[runs.len() - 2].end > earliest {
            runs.pop();
            if let Some(last) = runs.last_mut() {
                last.end = at + 1;
            }
        }
        for request in &record.requests {
            first.entry(request).or_insert(at);
        }
    }
    runs
}

/// One record that says what several consecutive ones of a session say. Its digest, chain and link are of no use: only what was
/// computed, and for whom. Each of the records is one that [`Record::check`] accepts.
///
/// # Errors
/// [`JoinRefusal`] for records that contradict one another.
pub fn join(records: &[&Record]) -> Result<Record, JoinRefusal> {
    let (first, rest) = records.split_first().ok_or(JoinRefusal::Nothing)?;
    let mut joined = Record::clone(first);
    for (record, next) in (1..).zip(rest) {
        let expected = joined.steps.last().map_or(0, |s| s.index + 1);
        if let Some(found) = next.steps.first().map(|s| s.index).filter(|found| *found != expected) {
            return Err(JoinRefusal::Gap { record, expected, found });
        }
        let same = [
            ("model", next.model == joined.model),
            ("text", next.text == joined.text),
            ("stack", next.stack == joined.stack),
            ("parallelism", next.parallelism == joined.parallelism),
            ("evidence level", next.evidence == joined.evidence),
        ];
        if let Some((what, _)) = same.iter().find(|s| !s.1) {
            return Err(JoinRefusal::Changed { record, what });
        }
        let mut places = Vec::with_capacity(next.requests.len());
        for request in &next.requests {
            let known = joined.requests.iter().position(|r| r.id == request.id);
            places.push(known.unwrap_or(joined.requests.len()) as u32);
            match known {
                None => joined.requests.push(request.clone()),
                Some(at) => {
                    let wrong = |what| JoinRefusal::Request { id: request.id.clone(), record, what };
                    goes_on(&joined.requests[at], request).map_err(wrong)?;
                    joined.requests[at] = request.clone();
                }
            }
        }
        for step in &next.steps {
            let mut step = step.clone();
            for rows in &mut step.schedule.rows {
                rows.request = places.get(rows.request as usize).copied().unwrap_or(u32::MAX);
            }
            for event in &mut step.schedule.events {
                let at = event.request_mut();
                *at = places.get(*at as usize).copied().unwrap_or(u32::MAX);
            }
            joined.steps.push(step);
        }
        joined.chain.after = next.chain.after;
        joined.link = next.link.clone();
    }
    Ok(joined)
}

/// Can `later` be what became of `earlier`?
fn goes_on(earlier: &Request, later: &Request) -> Result<(), &'static str> {
    // One that was withdrawn while nothing ran may be mentioned again when its pages are given back.
    let only_mentioned = earlier.finish == Finish::Cancelled && later == earlier;
    if earlier.finish != Finish::Continues && !only_mentioned {
        return Err("goes on with it after its end");
    }
    if earlier.prompt != later.prompt || earlier.decode != later.decode || earlier.nonce != later.nonce {
        return Err("states another prompt, nonce or decoding for it");
    }
    if !later.output.starts_with(&earlier.output) {
        return Err("states other output than the record before");
    }
    if !extends(&earlier.logprobs, &later.logprobs) || !extends(&earlier.prompt_logprobs, &later.prompt_logprobs) {
        return Err("states other log-probabilities than the record before");
    }
    Ok(())
}

/// Does `later` begin with what `earlier` says, or do both say nothing?
fn extends(earlier: &Option<Vec<F32Bits>>, later: &Option<Vec<F32Bits>>) -> bool {
    match (earlier, later) {
        (None, None) => true,
        (Some(earlier), Some(later)) => later.starts_with(earlier),
        _ => false,
    }
}
