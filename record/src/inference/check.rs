//! Is a record consistent with itself? A replayer may assume everything checked here.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use thiserror::Error as ThisError;

use super::{Event, Finish, Preemption, Record, RowKind, Rows, Schedule, Step};
use crate::commit::{self, RowId};
use crate::digest::Digest;
use crate::merkle;

/// Most bytes of a request id.
pub const MAX_ID_BYTES: usize = 64;

/// Why a well-formed record contradicts itself. The writer of the record is at fault.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum RecordRefusal {
    /// There is no step, and not only requests that were cancelled: such a record claims nothing.
    #[error("the record has no steps")]
    NoSteps,
    /// A request id is empty, longer than [`MAX_ID_BYTES`], or used twice.
    #[error("request {request}: its id is empty, too long or not unique")]
    RequestId {
        /// Index of the request.
        request: usize,
    },
    /// A nonce is not lower-case hex of at most 16 bytes.
    #[error("request {request}: its nonce is not lower-case hex of at most 16 bytes")]
    Nonce {
        /// Index of the request.
        request: usize,
    },
    /// A prompt is empty.
    #[error("request {request}: the prompt is empty")]
    EmptyPrompt {
        /// Index of the request.
        request: usize,
    },
    /// Output, finish reason, limits and log-probabilities do not fit together.
    #[error("request {request}: {what}")]
    Output {
        /// Index of the request.
        request: usize,
        /// Which rule is broken.
        what: &'static str,
    },
    /// The decoding parameters of a request are out of range or do not fit together.
    #[error("request {request}: inconsistent decode parameters: {what}")]
    Decode {
        /// Index of the request.
        request: usize,
        /// Which rule is broken; it names the parameter.
        what: &'static str,
    },
    /// What is said of the device does not fit together.
    #[error("device: {what}")]
    Device {
        /// Which rule is broken.
        what: &'static str,
    },
    /// A gate is stated and the mode is another, or the other way round.
    #[error("gate: {what}")]
    Gate {
        /// Which rule is broken.
        what: &'static str,
    },
    /// Step indices are not consecutive.
    #[error("step {found} follows, {expected} was expected")]
    StepIndex {
        /// Expected index.
        expected: u64,
        /// Index found.
        found: u64,
    },
    /// An event is impossible.
    #[error("step {step}, event {event}: {what}")]
    Event {
        /// Step index.
        step: u64,
        /// Position of the event in the schedule.
        event: usize,
        /// Which rule is broken.
        what: &'static str,
    },
    /// A group of rows is impossible.
    #[error("step {step}, row group {group}: {what}")]
    Rows {
        /// Step index.
        step: u64,
        /// Position of the group in the schedule.
        group: usize,
        /// Which rule is broken.
        what: &'static str,
    },
    /// Dispatch names a kernel that is not in the table, or no split at all.
    #[error("step {step}: dispatch of {op:?} names an unknown kernel or zero splits")]
    Dispatch {
        /// Step index.
        step: u64,
        /// The operation.
        op: String,
    },
    /// The number of leaves is not the number of rows, or padding is negative.
    #[error("step {step}: {rows} rows, {leaves} leaves, padded to {padded}")]
    LeafCount {
        /// Step index.
        step: u64,
        /// Rows scheduled.
        rows: u64,
        /// Leaves present.
        leaves: usize,
        /// Padded row count.
        padded: u64,
    },
    /// The step root is not the Merkle root of the leaves.
    #[error("step {step}: the step root is not the Merkle root of its leaves")]
    StepRoot {
        /// Step index.
        step: u64,
    },
    /// The chain value of a step does not follow from the one before, its root and its schedule.
    #[error("step {step}: the chain breaks here")]
    ChainBreak {
        /// Step index.
        step: u64,
    },
    /// The record's chain span does not end where its steps end.
    #[error("the chain value after the record is not that of its last step")]
    ChainEnd,
}

/// What the steps of a record show of a request.
#[derive(Debug, Clone, Default)]
struct Seen {
    mentioned: bool,
    /// It arrived in this record, or its first rows are here and nothing says that they are not the first.
    from_its_beginning: bool,
    /// End of the farthest position computed.
    reached: u64,
}

/// Where a request stands while a record is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not mentioned yet; it may have a place from an earlier record.
    Unseen,
    /// Without a place.
    Waiting,
    /// In the cache.
    Held {
        /// The position that its next row has.
        next: u64,
    },
    /// Swapped out.
    Out {
        /// The position that its next row will have.
        next: u64,
    },
    /// Cancelled.
    Gone,
}

/// One row of a step, located.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRef {
    /// Index into the step's leaves.
    pub leaf: usize,
    /// Index into the record's requests.
    pub request: u32,
    /// Position in the request.
    pub position: u32,
    /// Whether logits were computed.
    pub logits: bool,
    /// What the row is.
    pub kind: RowKind,
    /// Logits were computed, but the token waits for a verification.
    pub waits: bool,
}

impl Schedule {
    /// The rows one by one, in batch order.
    pub fn each_row(&self) -> impl Iterator<Item = RowRef> + '_ {
        let rows = self.rows.iter().flat_map(|group| {
            (0..group.count).map(move |offset| RowRef {
                leaf: 0,
                request: group.request,
                position: group.start.saturating_add(offset),
                logits: offset >= group.count.saturating_sub(group.logits),
                kind: group.kind,
                waits: group.gate.is_some_and(|g| g.waits()) && offset + 1 == group.count,
            })
        });
        rows.enumerate().map(|(leaf, row)| RowRef { leaf, ..row })
    }
}

impl Record {
    /// What identifies a row in its leaf. `None` only in a record that [`Record::check`] refuses.
    #[must_use]
    pub fn row_id(&self, row: &RowRef) -> Option<RowId<'_>> {
        let request = self.requests.get(row.request as usize)?;
        let position = u64::from(row.position);
        Some(RowId {
            request: &request.id,
            position: row.position,
            token: request.token_at(position)?,
            chosen: if row.logits && !row.waits { request.chosen_at(position) } else { None },
        })
    }

    /// Checks that the record is consistent with itself: device and decoding parameters, then all of [`Record::check_structure`].
    ///
    /// It does not recompute a single tensor (that is the verifier's work) and does not look at the log.
    ///
    /// # Errors
    /// The first [`RecordRefusal`] in document order.
    pub fn check(&self) -> Result<(), RecordRefusal> {
        self.check_device()?;
        self.check_decoding()?;
        self.check_structure()
    }

    /// Checks that kind, GPU model and driver of the device fit together. No bit depends on them.
    ///
    /// # Errors
    /// [`RecordRefusal::Device`].
    pub fn check_device(&self) -> Result<(), RecordRefusal> {
        self.stack.device.check().map_err(|what| RecordRefusal::Device { what })
    }

    /// Checks the decoding parameters of every request. The bits of a forward pass do not depend on them, only the choice of tokens does.
    ///
    /// # Errors
    /// [`RecordRefusal::Decode`] for the first request that is wrong.
    pub fn check_decoding(&self) -> Result<(), RecordRefusal> {
        for (request, found) in self.requests.iter().enumerate() {
            found.decode.check().map_err(|what| RecordRefusal::Decode { request, what })?;
        }
        Ok(())
    }

    /// Checks requests, schedule, leaves, roots and chain: what a replay of the forward passes relies on.
    ///
    /// # Errors
    /// The first [`RecordRefusal`] in document order.
    pub fn check_structure(&self) -> Result<(), RecordRefusal> {
        self.check_requests()?;
        let ended = !self.requests.is_empty() && self.requests.iter().all(|r| r.finish == Finish::Cancelled);
        let first = match self.steps.first() {
            Some(step) => step.index,
            None if ended && self.chain.before == self.chain.after => return Ok(()),
            None => return Err(RecordRefusal::NoSteps),
        };
        let mut places = vec![Place::Unseen; self.requests.len()];
        let mut chain = self.chain.before;
        for (expected, step) in (first..).zip(&self.steps) {
            if step.index != expected {
                return Err(RecordRefusal::StepIndex { expected, found: step.index });
            }
            self.check_step(step, &mut places)?;
            chain = check_chain(step, &chain)?;
        }
        if chain != self.chain.after {
            return Err(RecordRefusal::ChainEnd);
        }
        self.check_gate(false)?;
        self.check_coverage(&places, false)
    }

    /// Checks a record that stands for all that is known of its session so far, such as [`join`](super::join) makes: requests, events and
    /// rows as [`Record::check`] does, and besides that nothing came from an earlier record and nothing is cached that was not
    /// computed. Commitments are not looked at.
    ///
    /// # Errors
    /// The first [`RecordRefusal`] in document order.
    pub fn check_whole(&self) -> Result<(), RecordRefusal> {
        self.check_requests()?;
        let mut places = vec![Place::Unseen; self.requests.len()];
        // Positions that each request held after each step in which it had rows.
        let mut held: BTreeMap<(&str, u64), u64> = BTreeMap::new();
        for step in &self.steps {
            for (event, what) in step.schedule.events.iter().enumerate() {
                let Event::Admit { cached, .. } = what else { continue };
                let mut positions = 0;
                for part in cached {
                    positions += u64::from(part.pages) * u64::from(self.stack.kv.page_size);
                    if held.get(&(part.source.as_str(), part.step)).is_none_or(|h| *h < positions) {
                        let what = "cached pages that their source did not hold after that step";
                        return Err(RecordRefusal::Event { step: step.index, event, what });
                    }
                }
            }
            let unseen: Vec<bool> = places.iter().map(|p| *p == Place::Unseen).collect();
            self.check_step(step, &mut places)?;
            for (group, rows) in step.schedule.rows.iter().enumerate() {
                let index = rows.request as usize;
                let admitted = step.schedule.events.iter().any(|e| e.request() == rows.request);
                if rows.start > 0 && unseen[index] && !admitted {
                    let what = "begins in a record that is not at hand";
                    return Err(RecordRefusal::Rows { step: step.index, group, what });
                }
                held.insert((&self.requests[index].id, step.index), u64::from(rows.start) + u64::from(rows.count));
            }
        }
        self.check_gate(true)?;
        self.check_coverage(&places, true)
    }

    fn check_requests(&self) -> Result<(), RecordRefusal> {
        let mut ids = HashSet::new();
        for (index, request) in self.requests.iter().enumerate() {
            let length = request.id.len();
            if length == 0 || length > MAX_ID_BYTES || !ids.insert(&request.id) {
                return Err(RecordRefusal::RequestId { request: index });
            }
            if request.nonce.as_deref().is_some_and(|nonce| !is_nonce(nonce)) {
                return Err(RecordRefusal::Nonce { request: index });
            }
            if request.prompt.is_empty() {
                return Err(RecordRefusal::EmptyPrompt { request: index });
            }
            let refuse = |what| Err(RecordRefusal::Output { request: index, what });
            let (decode, chosen) = (&request.decode, request.output.len() as u64);
            if chosen > u64::from(decode.max_new_tokens) {
                return refuse("more output than max_new_tokens");
            }
            if request.logprobs.as_ref().is_some_and(|bits| bits.len() as u64 != chosen) {
                return refuse("not one log-probability a token");
            }
            if let Some(bits) = &request.prompt_logprobs {
                let (stated, all) = (bits.len(), request.prompt.len() - 1);
                let early = matches!(request.finish, Finish::Cancelled | Finish::Continues) && chosen == 0;
                if stated > all || (stated < all && !early) {
                    return refuse("not one log-probability a prompt token after the first");
                }
            }
            let last_stops = request.output.last().is_some_and(|last| decode.stop_ids.contains(last));
            match request.finish {
                Finish::Length if chosen != u64::from(decode.max_new_tokens) => {
                    return refuse("finished by length before max_new_tokens");
                }
                Finish::Stop if !last_stops && decode.stop_strings.is_empty() => {
                    return refuse("finished by a stop token that is not one");
                }
                Finish::Length | Finish::Continues | Finish::Cancelled if last_stops => {
                    return refuse("ends in a stop token, but says otherwise");
                }
                Finish::Cancelled if chosen == u64::from(decode.max_new_tokens) => {
                    return refuse("has max_new_tokens, but says otherwise");
                }
                _ => {}
            }
            let stops = request.output.iter().rev().skip(1).any(|token| decode.stop_ids.contains(token));
            if stops {
                return refuse("goes on after a stop token");
            }
        }
        Ok(())
    }

    fn check_step(&self, step: &Step, places: &mut [Place]) -> Result<(), RecordRefusal> {
        for (at, event) in step.schedule.events.iter().enumerate() {
            self.check_event(event, places).map_err(|what| RecordRefusal::Event {
                step: step.index,
                event: at,
                what,
            })?;
        }
        for (group, rows) in step.schedule.rows.iter().enumerate() {
            self.check_rows(rows, places).map_err(|what| RecordRefusal::Rows { step: step.index, group, what })?;
        }
        for op in &step.schedule.dispatch.ops {
            let known = op.kernels.iter().all(|kernel| (*kernel as usize) < self.stack.kernels.len());
            if !known || op.splits == 0 {
                return Err(RecordRefusal::Dispatch { step: step.index, op: op.op.clone() });
            }
        }
        let (rows, padded) = (step.schedule.row_count(), step.schedule.padded_rows);
        if rows == 0 || rows != step.leaves.len() as u64 || padded < rows {
            return Err(RecordRefusal::LeafCount { step: step.index, rows, leaves: step.leaves.len(), padded });
        }
        Ok(())
    }

    /// What an event makes of its request's place; what an earlier record may have done is not doubted here.
    fn check_event(&self, event: &Event, places: &mut [Place]) -> Result<(), &'static str> {
        let place = places.get_mut(event.request() as usize).ok_or("no such request")?;
        *place = match (event, *place) {
            (Event::Arrive { .. }, Place::Unseen) => Place::Waiting,
            (Event::Arrive { .. }, _) => return Err("a request arrives that was there before"),
            (_, Place::Gone) => return Err("something happens to a request after it was cancelled"),
            (Event::Cancel { .. }, _) => Place::Gone,
            (Event::Admit { cached, .. }, Place::Unseen | Place::Waiting) => {
                let pages: u64 = cached.iter().map(|c| u64::from(c.pages)).sum();
                Place::Held { next: pages.saturating_mul(self.stack.kv.page_size.into()) }
            }
            (Event::Admit { .. }, _) => return Err("a request is admitted that has a place"),
            (Event::Preempt { .. }, Place::Waiting | Place::Out { .. }) => {
                return Err("a request is preempted that has no place");
            }
            (Event::Preempt { how: Preemption::Swap, .. }, Place::Held { next }) => Place::Out { next },
            (Event::Preempt { how: Preemption::Swap, .. }, Place::Unseen) => Place::Unseen,
            (Event::Preempt { how: Preemption::Recompute, .. }, _) => Place::Waiting,
            (Event::Resume { .. }, Place::Out { next }) => Place::Held { next },
            (Event::Resume { .. }, Place::Unseen) => Place::Unseen,
            (Event::Resume { .. }, _) => return Err("a request is resumed that was not swapped out"),
        };
        Ok(())
    }

    fn check_rows(&self, rows: &Rows, places: &mut [Place]) -> Result<(), &'static str> {
        let index = rows.request as usize;
        let request = self.requests.get(index).ok_or("no such request")?;
        let (start, end) = (u64::from(rows.start), u64::from(rows.start) + u64::from(rows.count));
        if rows.count == 0 {
            return Err("no rows");
        }
        if rows.logits > rows.count {
            return Err("logits of more rows than there are");
        }
        if rows.kind == RowKind::Decode && rows.count != 1 {
            return Err("a decode group has exactly one row");
        }
        if rows.kind == RowKind::Verify {
            let one = rows.count == 1 && rows.logits == 1;
            return match places[index] {
                _ if !one && !self.catches_up() => Err("a verification is of one row with logits"),
                _ if rows.logits > 1 => Err("a verification has logits of one row"),
                Place::Unseen => request.token_at(end - 1).map(drop).ok_or("reaches beyond the request's tokens"),
                Place::Held { next } if next == end || (next > end && rows.logits == 0) => Ok(()),
                _ => Err("verifies rows that do not end with the request's last"),
            };
        }
        match places[index] {
            Place::Unseen => {}
            Place::Held { next } if next == start => {}
            Place::Held { .. } => return Err("does not continue where the request's rows ended"),
            Place::Waiting | Place::Out { .. } | Place::Gone => return Err("has no place in the cache"),
        }
        if request.token_at(end - 1).is_none() {
            return Err("reaches beyond the request's tokens");
        }
        places[index] = Place::Held { next: end };
        Ok(())
    }

    /// Every token of the output was chosen by a row that had logits, and every such row chose one. `all`: nothing came from an earlier
    /// record.
    fn check_coverage(&self, places: &[Place], all: bool) -> Result<(), RecordRefusal> {
        let seen = self.seen();
        for (index, (request, place)) in self.requests.iter().zip(places).enumerate() {
            let refuse = |what| Err(RecordRefusal::Output { request: index, what });
            // The last output token was chosen at the position before it and never fed back.
            let tokens = (request.prompt.len() + request.output.len()) as u64;
            let needed = if request.output.is_empty() { 0 } else { tokens - 1 };
            match (place, request.finish) {
                (Place::Unseen, _) => return refuse("no row of any step belongs to it"),
                (Place::Gone, finish) if finish != Finish::Cancelled => {
                    return refuse("it was cancelled, but says otherwise");
                }
                (_, Finish::Cancelled | Finish::Continues) => {
                    if (all || seen[index].from_its_beginning) && seen[index].reached < needed {
                        return refuse("states tokens that no row chose");
                    }
                }
                (Place::Held { next }, _) if *next == needed.max(request.prompt.len() as u64) => {}
                _ => return refuse("its rows end before the row that chose its last token"),
            }
        }
        // Positions that are computed again after a preemption choose nothing a second time.
        let mut chosen = BTreeSet::new();
        for row in self.steps.iter().flat_map(|step| step.schedule.each_row()) {
            let index = row.request as usize;
            let (request, position) = (&self.requests[index], u64::from(row.position));
            let refuse = |what| Err(RecordRefusal::Output { request: index, what });
            match (request.chosen_at(position), row.logits) {
                (_, true) if row.waits => {}
                (Some(_), true) => {
                    chosen.insert((index, position));
                }
                (None, true) if position + 1 >= request.prompt.len() as u64 => {
                    return refuse("a row with logits chose no token");
                }
                (Some(_), false)
                    if !chosen.contains(&(index, position))
                        && (row.kind == RowKind::Decode || all || seen[index].from_its_beginning) =>
                {
                    return refuse("a token was chosen from a row without logits");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What the steps show of each request.
    fn seen(&self) -> Vec<Seen> {
        let mut seen = vec![Seen::default(); self.requests.len()];
        for step in &self.steps {
            for event in &step.schedule.events {
                if let Some(seen) = seen.get_mut(event.request() as usize) {
                    seen.from_its_beginning |= matches!(event, Event::Arrive { .. });
                    seen.mentioned = true;
                }
            }
            for rows in &step.schedule.rows {
                if let Some(seen) = seen.get_mut(rows.request as usize) {
                    seen.from_its_beginning |= !seen.mentioned && rows.start == 0 && rows.kind != RowKind::Verify;
                    seen.mentioned = true;
                    seen.reached = seen.reached.max(u64::from(rows.start) + u64::from(rows.count));
                }
            }
        }
        seen
    }
}

fn check_chain(step: &Step, before: &Digest) -> Result<Digest, RecordRefusal> {
    let index = step.index;
    let root = merkle::root(&step.leaves).map_err(|_| RecordRefusal::StepRoot { step: index })?;
    if root != step.root {
        return Err(RecordRefusal::StepRoot { step: index });
    }
    let schedule = commit::schedule_digest(&step.schedule).map_err(|_| RecordRefusal::ChainBreak { step: index })?;
    let chain = commit::chain(before, &root, &schedule);
    if chain != step.chain {
        return Err(RecordRefusal::ChainBreak { step: index });
    }
    Ok(chain)
}

/// Lower-case hex of 1 to 16 bytes.
pub(crate) fn is_nonce(text: &str) -> bool {
    let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    digits && (2..=32).contains(&text.len()) && text.len().is_multiple_of(2)
}
