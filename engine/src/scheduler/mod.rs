//! Continuous batching by a rule that can be checked: what the requests are and when they came decides every step, so a log proves that
//! its schedule was the declared one. Specified by `docs/spec/schedulers.md`.
//!
//! [`Scheduler`] is a state machine on the host. It is told what arrives, what is cancelled and which tokens were chosen, and says
//! which requests take part in the next step, which are admitted, preempted or resumed, and which cached pages they begin with. It touches no
//! device: an auditor runs the same code on [`KvTables`] of his own and compares.

mod entry;
mod rule;

use std::collections::{BTreeMap, BTreeSet};

use self::entry::{Entry, State};
use crate::error::{Error, Result};
use crate::kernels::PAGE;
use crate::kv::{Adopted, KvTables, Slot, Source};
use crate::step::Logits;

/// Identifier of the scheduling rule, for records.
pub const SCHEDULER: &str = "continuous/1";

/// Identifier of the rule of a session with a gate: requests whose last row waits sit out, and provisional columns are not shared.
pub const GATED_SCHEDULER: &str = "continuous-gated/1";

/// A request's number: how many arrived before it.
pub type RequestKey = u64;

/// What the rule depends on besides the cache's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Rows of one step, at most.
    pub max_rows: u32,
    /// Most prompt tokens of one request in one step; none for whole prompts.
    pub chunk: Option<u32>,
    /// Computed prefixes are shared.
    pub prefix_cache: bool,
    /// Pages of host memory for preempted requests; without room there, a preempted request is computed again.
    pub swap_pages: u32,
}

impl Settings {
    /// Whole prompts, nothing shared, nothing swapped.
    pub fn plain(max_rows: u32) -> Self {
        Self { max_rows, chunk: None, prefix_cache: false, swap_pages: 0 }
    }
}

/// A request as the rule sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Prompt ids.
    pub prompt: Vec<u32>,
    /// Most tokens to choose.
    pub max_new_tokens: u32,
    /// Larger goes first.
    pub priority: i32,
    /// Whose request it is; clients of one priority get equal shares.
    pub client: u32,
    /// Every row of the prompt gets logits.
    pub prompt_logits: bool,
}

/// How a request lost its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// They are computed again later.
    Recompute,
    /// They wait in host memory.
    Swap,
}

/// What happened to a request before a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It came.
    Arrive {
        /// Which.
        request: RequestKey,
        /// Its priority.
        priority: i32,
        /// Its client.
        client: u32,
    },
    /// It was withdrawn.
    Cancel {
        /// Which.
        request: RequestKey,
    },
    /// It got a slot, and begins with these computed pages.
    Admit {
        /// Which.
        request: RequestKey,
        /// Where its first pages come from.
        cached: Vec<Adopted>,
    },
    /// It lost its slot.
    Preempt {
        /// Which.
        request: RequestKey,
        /// How.
        how: Preemption,
    },
    /// It got a slot again, with the positions it had.
    Resume {
        /// Which.
        request: RequestKey,
    },
}

impl Event {
    /// The request it is about.
    pub fn request(&self) -> RequestKey {
        match self {
            Event::Arrive { request, .. }
            | Event::Cancel { request }
            | Event::Admit { request, .. }
            | Event::Preempt { request, .. }
            | Event::Resume { request } => *request,
        }
    }
}

/// Pages to move between device and host, before the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copy {
    /// To the host.
    Out {
        /// Whose.
        request: RequestKey,
        /// Device pages in order of position.
        pages: Vec<u32>,
    },
    /// Back to the device.
    In {
        /// Whose.
        request: RequestKey,
        /// Device pages in order of position; as many as went out.
        pages: Vec<u32>,
    },
}

/// Prompt positions, or a token chosen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A prompt or a chunk of one, or tokens computed again after a preemption.
    Prefill,
    /// The token chosen last.
    Decode,
    /// The last position once more, by the reference, and with it columns before it that are caught up. No decision of the scheduler has it: a gate
    /// makes it.
    Verify,
}

/// Rows of one request in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which request.
    pub request: RequestKey,
    /// Its slot.
    pub slot: Slot,
    /// First position.
    pub start: u32,
    /// Token ids.
    pub tokens: Vec<u32>,
    /// Rows that get logits: the last one when a token is to be chosen, otherwise none; all rows of a prompt whose arrival asked for that.
    pub logits: Logits,
    /// A token is chosen from the last row.
    pub chooses: bool,
    /// What the rows are.
    pub kind: Kind,
}

/// One step's worth of decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// In the order in which they happened.
    pub events: Vec<Event>,
    /// To carry out in this order.
    pub copies: Vec<Copy>,
    /// In batch order; not empty.
    pub turns: Vec<Turn>,
}

/// The state of the rule `continuous/1`.
#[derive(Clone, Debug)]
pub struct Scheduler {
    settings: Settings,
    entries: BTreeMap<RequestKey, Entry>,
    arrived: RequestKey,
    /// Requests with a slot, in order of admission.
    running: Vec<RequestKey>,
    /// To be reported with the next decision.
    events: Vec<Event>,
    cancelled: BTreeSet<RequestKey>,
    /// Rows computed for each client.
    served: BTreeMap<u32, u64>,
    swapped_pages: u32,
    /// Steps computed.
    steps: u64,
    sharing: Sharing,
}

/// Which computed pages other requests may begin with, where prefixes are shared at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sharing {
    /// All full pages.
    #[default]
    All,
    /// Those whose columns are the reference's, over the reference's: all others are provisional.
    Clean,
}

impl Scheduler {
    /// A scheduler for a cache that nobody else uses.
    ///
    /// # Errors
    /// [`Error::Plan`] if a step has no room for one row of every slot, or a chunk is 0.
    pub fn new(settings: Settings, kv: &KvTables) -> Result<Self> {
        let slots = kv.open_slots();
        if settings.max_rows < slots {
            let detail = format!("{slots} slots, but only {} rows a step; every request needs one", settings.max_rows);
            return Err(Error::Plan { detail });
        }
        if settings.chunk == Some(0) {
            return Err(Error::Plan { detail: "a chunk of 0 tokens".into() });
        }
        Ok(Self {
            settings,
            entries: BTreeMap::new(),
            arrived: 0,
            running: Vec::new(),
            events: Vec::new(),
            cancelled: BTreeSet::new(),
            served: BTreeMap::new(),
            swapped_pages: 0,
            steps: 0,
            sharing: Sharing::All,
        })
    }

    /// Shares only some computed pages.
    #[must_use]
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// Can a step be made without taking room from a request whose last row waits for verification? Some other request with a slot can take part,
    /// and every request with a slot could get a page.
    pub fn may_step(&self, kv: &KvTables) -> bool {
        let able = self.running.iter().any(|r| self.entries.get(r).is_some_and(|e| e.left() > 0));
        able && kv.available() as usize >= self.running.len()
    }

    /// What it was made with.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Requests that have neither ended nor been withdrawn: with a slot, and without.
    pub fn load(&self) -> (usize, usize) {
        let left = |r: &&RequestKey| !self.cancelled.contains(*r);
        let running = self.running.iter().filter(left).count();
        (running, self.entries.keys().filter(left).count() - running)
    }

    /// Takes a request in. The caller has checked that it fits the cache when alone.
    pub fn arrive(&mut self, arrival: Arrival) -> RequestKey {
        let request = self.arrived;
        self.arrived += 1;
        let Arrival { priority, client, .. } = arrival;
        self.entries.insert(request, Entry::new(arrival));
        self.events.push(Event::Arrive { request, priority, client });
        request
    }

    /// Withdraws a request before the next step. False if it has ended already.
    pub fn cancel(&mut self, request: RequestKey) -> bool {
        self.entries.contains_key(&request) && self.cancelled.insert(request)
    }

    /// Decides the next step, and makes its changes to the cache's tables. None when no request is left that was not
    /// cancelled; such a cancellation is carried out with the next step there is.
    ///
    /// # Errors
    /// None in practice: the tables refuse what the rule has checked.
    pub fn next(&mut self, kv: &mut KvTables) -> Result<Option<Decision>> {
        rule::next(self, kv)
    }

    /// Tells what a step computed: its turns, and for each the token chosen from its last row with whether the request ends with it. A request whose
    /// last row chose nothing although it was to sits out until [`Scheduler::verified`]. `reference`: the step left the reference's columns.
    ///
    /// # Errors
    /// [`Error::Plan`] for a turn that is not of the last decision.
    pub fn computed(
        &mut self,
        turns: &[Turn],
        chosen: &[Option<(u32, bool)>],
        reference: bool,
        kv: &mut KvTables,
    ) -> Result<()> {
        for (turn, chosen) in turns.iter().zip(chosen) {
            let unknown = || Error::Plan { detail: format!("request {} is not running", turn.request) };
            let entry = self.entries.get_mut(&turn.request).ok_or_else(unknown)?;
            entry.fed = turn.start + turn.tokens.len() as u32;
            kv.extend(turn.slot, entry.fed)?;
            *self.served.entry(entry.arrival.client).or_default() += turn.tokens.len() as u64;
            if reference {
                entry.cleaned(turn.start, entry.fed);
            }
            self.settle(turn, *chosen, kv)?;
        }
        self.steps += 1;
        Ok(())
    }

    /// The rows that verify the last position of a request that waits. With `catch_up` they begin with its first column that is not the reference's; then
    /// there may be more than a step takes, and `most` of them come first, without logits.
    ///
    /// # Errors
    /// [`Error::Plan`] for a request that does not wait.
    pub fn verification(&self, request: RequestKey, catch_up: bool, most: u32) -> Result<Turn> {
        let entry = self.entries.get(&request).filter(|e| e.left() == 0);
        let Some((entry, State::Running(slot))) = entry.map(|e| (e, e.state)) else {
            return Err(Error::Plan { detail: format!("request {request} waits for no verification") });
        };
        let last = entry.fed.saturating_sub(1);
        let start = if catch_up { entry.clean.min(last) } else { last };
        let end = entry.fed.min(start.saturating_add(most.max(1)));
        let whole = end == entry.fed;
        Ok(Turn {
            request,
            slot,
            start,
            tokens: entry.tokens[start as usize..end as usize].to_vec(),
            logits: if whole { Logits::Last } else { Logits::None },
            chooses: whole,
            kind: Kind::Verify,
        })
    }

    /// Tells what a verification step chose for rows that waited: its turns, for each whether its columns are the reference's from here on, and the token
    /// with whether the request ends with it; none for a turn that only caught up.
    ///
    /// # Errors
    /// [`Error::Plan`] for a request that is not known or did not wait.
    pub fn verified(
        &mut self,
        turns: &[Turn],
        repaired: &[bool],
        chosen: &[Option<(u32, bool)>],
        kv: &mut KvTables,
    ) -> Result<()> {
        for ((turn, repaired), chosen) in turns.iter().zip(repaired).zip(chosen) {
            let unknown = || Error::Plan { detail: format!("request {} waits for no verification", turn.request) };
            let entry = self.entries.get_mut(&turn.request).filter(|e| e.left() == 0).ok_or_else(unknown)?;
            if *repaired {
                entry.cleaned(turn.start, turn.start + turn.tokens.len() as u32);
            }
            self.settle(turn, *chosen, kv)?;
        }
        self.steps += 1;
        Ok(())
    }

    /// A running request's slot.
    #[cfg(test)]
    pub(crate) fn slot_of(&self, request: RequestKey) -> Option<Slot> {
        match self.entries.get(&request)?.state {
            State::Running(slot) => Some(slot),
            _ => None,
        }
    }

    /// Are a request's columns before this position the reference's, over the reference's?
    pub fn is_clean(&self, request: RequestKey, position: u32) -> bool {
        self.entries.get(&request).is_some_and(|e| e.clean >= position)
    }

    /// Publishes the pages that others may begin with, and takes the token in.
    fn settle(&mut self, turn: &Turn, chosen: Option<(u32, bool)>, kv: &mut KvTables) -> Result<()> {
        let Some(entry) = self.entries.get_mut(&turn.request) else { return Ok(()) };
        if self.settings.prefix_cache {
            let shared = match self.sharing {
                Sharing::All => entry.fed,
                Sharing::Clean => entry.clean,
            };
            let full = (shared / PAGE) as usize;
            let source = Source { request: turn.request, step: self.steps };
            kv.publish(turn.slot, &entry.names()[..full], source)?;
        }
        if let Some((token, ends)) = chosen {
            entry.tokens.push(token);
            if ends {
                self.end(turn.request, kv)?;
            }
        }
        Ok(())
    }

    /// Forgets a request and gives its pages back.
    fn end(&mut self, request: RequestKey, kv: &mut KvTables) -> Result<()> {
        self.running.retain(|r| *r != request);
        match self.entries.remove(&request).map(|e| e.state) {
            Some(State::Running(slot)) => kv.close(slot)?,
            Some(State::Swapped { pages }) => self.swapped_pages -= pages,
            Some(State::Waiting) | None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
