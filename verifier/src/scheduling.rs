//! Runs the declared scheduling rule again: is the logged schedule the one that arrivals and cancellations leave no choice about?
//!
//! Needs no model and no arithmetic, only the records, from the beginning of a session on. Source: `docs/spec/schedulers.md`.

use crate::gate;
use crate::verdict::Verdict;
use engine::gated::Setup;
use engine::kv::{Adopted, KvTables};
use engine::scheduler::{
    Arrival, Event, GATED_SCHEDULER, Kind, Preemption, RequestKey, SCHEDULER, Scheduler, Settings, Sharing, Turn,
};
use margingate::WriteBack;
use record::inference as rec;
use record::inference::Finish;
use record::{Fact, Record};
use std::collections::BTreeMap;

/// What the rule says of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `Match`, `Mismatch`, `Unverifiable` for a rule that is not known here, or `Inconclusive`.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub detail: String,
}

impl Outcome {
    fn new(verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { verdict, detail: detail.into() }
    }
}

/// Follows a log record by record.
#[derive(Default)]
pub struct Follower {
    session: Option<Session>,
}

/// The rule's state after the last record.
struct Session {
    stated: rec::Scheduler,
    scheduler: Scheduler,
    kv: KvTables,
    keys: BTreeMap<String, RequestKey>,
    next_step: u64,
    /// Rows that wait, under the rule of a session with a gate.
    gate: Option<margingate::Gate<()>>,
}

impl Follower {
    /// Judges the next record of the log; none for one that could not be read.
    pub fn record(&mut self, record: Option<&Record>) -> Outcome {
        let session = self.session.take();
        let Some(record) = record.filter(|r| r.check_structure().is_ok()) else {
            return Outcome::new(Verdict::Inconclusive, "not followed: the record cannot be relied on");
        };
        let Fact::Known(stated) = &record.stack.scheduler else {
            return Outcome::new(Verdict::Inconclusive, "the scheduling rule is not stated");
        };
        let known = if record.stack.gate.is_some() { GATED_SCHEDULER } else { SCHEDULER };
        if stated.rule != known {
            return Outcome::new(
                Verdict::Unverifiable,
                format!("the scheduling rule {} is not known here", stated.rule),
            );
        }
        let first = record.steps.first().map_or(0, |s| s.index);
        let session = match session {
            _ if first == 0 && !record.steps.is_empty() => Session::new(stated, record.stack.gate.as_ref()),
            Some(session) if record.steps.is_empty() || (session.next_step == first && session.stated == *stated) => {
                Ok(session)
            }
            _ => {
                let detail =
                    format!("the session's steps before {first} are not at hand, or its rule changed on the way");
                return Outcome::new(Verdict::Inconclusive, detail);
            }
        };
        let followed = session.and_then(|mut session| {
            for step in &record.steps {
                session.step(record, step).map_err(|what| format!("step {}: {what}", step.index))?;
            }
            Ok(session)
        });
        match followed {
            Ok(session) => {
                self.session = Some(session);
                let steps = record.steps.len();
                Outcome::new(Verdict::Match, format!("{steps} steps, each the one that {known} makes"))
            }
            Err(detail) => Outcome::new(Verdict::Mismatch, detail),
        }
    }
}

impl Session {
    fn new(stated: &rec::Scheduler, gate: Option<&rec::Gate>) -> Result<Self, String> {
        // A table of what no machine holds is not built.
        const MOST: u32 = 1 << 20;
        if stated.pages > MOST || stated.slots > MOST {
            return Err(format!("{} pages and {} slots are more than any engine here has", stated.pages, stated.slots));
        }
        let kv = KvTables::new(stated.pages, stated.slots, u32::MAX);
        let settings = Settings {
            max_rows: stated.max_rows,
            chunk: stated.chunk,
            prefix_cache: stated.prefix_cache,
            swap_pages: stated.swap_pages,
        };
        let mut scheduler = Scheduler::new(settings, &kv).map_err(|e| e.to_string())?;
        let setup = gate.map(Setup::from_record).transpose().map_err(|e| e.to_string())?;
        if setup.is_some() {
            scheduler = scheduler.sharing(Sharing::Clean);
        }
        let gate = setup.map(|s| margingate::Gate::new(s.settings)).transpose().map_err(|e| e.to_string())?;
        Ok(Self { stated: stated.clone(), scheduler, kv, keys: BTreeMap::new(), next_step: 0, gate })
    }

    /// A verification: due by the rule, of the rows that have waited longest, each with the columns that the policy has it catch up.
    fn verification(&mut self, record: &Record, step: &rec::Step) -> Result<(), String> {
        let (gate, most) = (self.gate.as_mut().ok_or("a verification without a gate")?, self.stated.max_rows);
        let catch_up = gate.settings().write_back == WriteBack::CatchUp;
        let turn = |s: &Scheduler, key| s.verification(key, catch_up, most).map_err(|e| e.to_string());
        let oldest = gate.held().next().map(|h| h.request).ok_or("a verification of nothing")?;
        let first = turn(&self.scheduler, oldest)?;
        let made: Vec<Turn> = if first.chooses {
            let rows = |key| turn(&self.scheduler, key).map_or(1, |t| t.tokens.len() as u32);
            let count = gate.fitting(most, |h| rows(h.request));
            let batch = gate.next_batch(count);
            batch.iter().map(|h| turn(&self.scheduler, h.request)).collect::<Result<_, String>>()?
        } else {
            vec![first]
        };
        let (mut logged, mut decided, mut repaired) = (Vec::new(), Vec::new(), Vec::new());
        for rows in &step.schedule.rows {
            let r = record.requests.get(rows.request as usize).ok_or("an unknown request")?;
            let last = u64::from(rows.start) + u64::from(rows.count) - 1;
            logged.push((self.key(&r.id)?, rows.start, rows.count, rows.logits));
            let token = if rows.logits == 0 { None } else { r.chosen_at(last) };
            decided.push(token.map(|token| (token, ends(r, last))));
            repaired.push(!matches!(rows.gate, Some(rec::RowGate::Verified { repaired: false, .. })));
        }
        let made_rows: Vec<_> =
            made.iter().map(|t| (t.request, t.start, t.tokens.len() as u32, u32::from(t.chooses))).collect();
        if let Some(at) = differs(&logged, &made_rows) {
            let side = |all: &[(RequestKey, u32, u32, u32)]| match all.get(at) {
                Some((key, start, count, _)) => format!("positions {start}..{} of {}", start + count, self.name(*key)),
                None => "nothing more".to_owned(),
            };
            return Err(format!("where the log verifies {}, the rule has {}", side(&logged), side(&made_rows)));
        }
        self.scheduler.verified(&made, &repaired, &decided, &mut self.kv).map_err(|e| e.to_string())?;
        self.next_step = step.index + 1;
        Ok(())
    }

    fn step(&mut self, record: &Record, step: &rec::Step) -> Result<(), String> {
        let verifies = step.schedule.rows.iter().any(|r| r.kind == rec::RowKind::Verify);
        let due = self.gate.as_ref().is_some_and(|g| g.due(self.scheduler.may_step(&self.kv)));
        match (verifies, due) {
            (true, true) => return self.verification(record, step),
            (true, false) => return Err("the rule verifies nothing yet".to_owned()),
            (false, true) => return Err("the rule verifies first".to_owned()),
            (false, false) => {}
        }
        let request = |index: u32| record.requests.get(index as usize).ok_or("an unknown request");
        for event in &step.schedule.events {
            match event {
                rec::Event::Arrive { request: index, priority, client } => {
                    let r = request(*index)?;
                    let key = self.scheduler.arrive(Arrival {
                        prompt: r.prompt.clone(),
                        max_new_tokens: r.decode.max_new_tokens,
                        priority: *priority,
                        client: *client,
                        prompt_logits: r.prompt_logprobs.is_some(),
                    });
                    if self.keys.insert(r.id.clone(), key).is_some() {
                        return Err(format!("request {} arrives twice", r.id));
                    }
                }
                rec::Event::Cancel { request: index } => {
                    let key = self.key(&request(*index)?.id)?;
                    self.scheduler.cancel(key);
                }
                _ => {}
            }
        }
        let decision = self.scheduler.next(&mut self.kv).map_err(|e| e.to_string())?;
        let decision = decision.ok_or("the rule makes no step here: no request is left")?;
        let logged: Vec<Event> =
            step.schedule.events.iter().map(|e| self.event(record, e)).collect::<Result<_, _>>()?;
        if let Some(at) = differs(&logged, &decision.events) {
            let (a, b) = (logged.get(at), decision.events.get(at));
            return Err(format!("the log says {}, the rule {}", self.words(a), self.words(b)));
        }
        let rows = |t: &Turn| {
            let count = t.tokens.len() as u32;
            (t.request, t.start, count, t.kind == Kind::Decode, t.logits.count(count))
        };
        let made: Vec<_> = decision.turns.iter().map(rows).collect();
        let mut stated = Vec::new();
        for r in &step.schedule.rows {
            let key = self.key(&request(r.request)?.id)?;
            stated.push((key, r.start, r.count, r.kind == rec::RowKind::Decode, r.logits));
        }
        if let Some(at) = differs(&stated, &made) {
            let side = |rows: &[(RequestKey, u32, u32, bool, u32)]| match rows.get(at) {
                Some((key, start, count, _, logits)) => {
                    format!("positions {start}..{} of {} with {logits} rows of logits", start + count, self.name(*key))
                }
                None => "nothing more".to_owned(),
            };
            return Err(format!("where the log has {}, the rule has {}", side(&stated), side(&made)));
        }
        for event in &decision.events {
            if let (Some(gate), Event::Cancel { request } | Event::Preempt { request, how: Preemption::Recompute }) =
                (&mut self.gate, event)
            {
                gate.forget(*request);
            }
        }
        let mut chosen = Vec::new();
        for (rows, turn) in step.schedule.rows.iter().zip(&decision.turns) {
            let r = request(rows.request)?;
            let last = u64::from(rows.start) + u64::from(rows.count) - 1;
            let waits = rows.gate.is_some_and(|g| g.waits());
            if let (Some(gate), true) = (&mut self.gate, waits) {
                gate.hold(turn.request, 0, margingate::Margin::new(0.0), margingate::Decision::Hold, ());
            }
            let token = r.chosen_at(last).filter(|_| rows.logits > 0 && !waits);
            chosen.push(token.map(|token| (token, ends(r, last))));
        }
        if let Some(gate) = &mut self.gate {
            gate.step_done();
        }
        let reference = gate::ran_reference(record, step);
        self.scheduler.computed(&decision.turns, &chosen, reference, &mut self.kv).map_err(|e| e.to_string())?;
        self.next_step = step.index + 1;
        Ok(())
    }

    fn key(&self, id: &str) -> Result<RequestKey, String> {
        self.keys.get(id).copied().ok_or_else(|| format!("request {id} never arrived"))
    }

    /// A logged event in the scheduler's words.
    fn event(&self, record: &Record, event: &rec::Event) -> Result<Event, String> {
        let id = record.requests.get(event.request() as usize).map(|r| r.id.as_str()).unwrap_or_default();
        let request = self.key(id)?;
        Ok(match event {
            rec::Event::Arrive { priority, client, .. } => {
                Event::Arrive { request, priority: *priority, client: *client }
            }
            rec::Event::Cancel { .. } => Event::Cancel { request },
            rec::Event::Admit { cached, .. } => {
                let part = |c: &rec::CachedPages| {
                    let source = engine::kv::Source { request: self.key(&c.source)?, step: c.step };
                    Ok(Adopted { source, pages: c.pages })
                };
                Event::Admit { request, cached: cached.iter().map(part).collect::<Result<_, String>>()? }
            }
            rec::Event::Preempt { how, .. } => {
                let how = match how {
                    rec::Preemption::Recompute => Preemption::Recompute,
                    rec::Preemption::Swap => Preemption::Swap,
                };
                Event::Preempt { request, how }
            }
            rec::Event::Resume { .. } => Event::Resume { request },
        })
    }

    fn name(&self, key: RequestKey) -> String {
        let found = self.keys.iter().find(|(_, k)| **k == key);
        found.map_or_else(|| format!("request {key}"), |(id, _)| format!("request {id}"))
    }

    fn words(&self, event: Option<&Event>) -> String {
        let Some(event) = event else { return "nothing more".to_owned() };
        let name = self.name(event.request());
        match event {
            Event::Arrive { .. } => format!("{name} arrives"),
            Event::Cancel { .. } => format!("{name} is cancelled"),
            Event::Admit { cached, .. } => {
                let pages: u32 = cached.iter().map(|c| c.pages).sum();
                format!("{name} is admitted with {pages} cached pages")
            }
            Event::Preempt { how: Preemption::Recompute, .. } => format!("{name} is preempted and its pages dropped"),
            Event::Preempt { how: Preemption::Swap, .. } => format!("{name} is preempted and its pages swapped out"),
            Event::Resume { .. } => format!("{name} is resumed"),
        }
    }
}

/// Does a request end with the token chosen after its position `last`?
fn ends(request: &rec::Request, last: u64) -> bool {
    let ended = matches!(request.finish, Finish::Stop | Finish::Length);
    ended && last + 2 == (request.prompt.len() + request.output.len()) as u64
}

/// What the outcomes of records that are audited as one come to: the worst.
pub fn worst(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let nothing = || Outcome::new(Verdict::Inconclusive, "there is no schedule");
    outcomes.into_iter().max_by_key(|o| o.verdict).unwrap_or_else(nothing)
}

/// The first place where two lists differ.
fn differs<T: PartialEq>(a: &[T], b: &[T]) -> Option<usize> {
    (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i))
}
