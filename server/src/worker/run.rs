//! The engine thread: takes requests in, runs steps, puts them on record, tells who waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use engine::Error;
use engine::batch::{self, Finish, Outcome};
use engine::journal::{Asked, derived_seed};
use engine::sampler::{SEED_DERIVATION, Sampling};
use engine::scheduler::RequestKey;
use engine::scores::Wanted;
use engine::session::{Progress, Session};
use record::F32Bits;
use record::inference as rec;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;

use super::ledger::Records;
use super::watch::Watch;
use super::{Command, Ended, Event, Failure, Job, Place, Seed, Stopped, Token, Work};
use crate::metrics::Metrics;

/// Most steps of a record: what a crash may lose, and what a record may weigh, have a bound even while nothing ends.
const STEPS_OF_A_RECORD: usize = 256;

/// Serves until it is told to stop, until nobody can submit any more, or until it must not go on.
pub(super) fn serve(
    work: Work,
    inbox: &mpsc::Receiver<Command>,
    metrics: &Metrics,
    closed: &AtomicBool,
    ready: &mpsc::Sender<engine::Result<()>>,
) -> Result<(), Stopped> {
    let Work { mut engine, settings, ledger, faults } = work;
    let observe = ledger.observe();
    let prepared = Records::new(ledger, &engine, settings, &faults).and_then(|records| {
        let journal = records.journal(&engine);
        Ok((records, journal, Session::new(&mut engine, settings, observe)?))
    });
    let (records, journal, session) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            // Whoever started the thread waits for this; the error is theirs.
            let _ = ready.send(Err(error));
            return Ok(());
        }
    };
    let _ = ready.send(Ok(()));
    let mut worker = Worker {
        session,
        records,
        watch: Watch::new(journal, faults),
        told: BTreeMap::new(),
        live: BTreeMap::new(),
        swept: BTreeSet::new(),
        arrived: 0,
        metrics,
    };
    let result = worker.run(inbox);
    closed.store(true, Ordering::Release);
    if let Err(stopped) = &result {
        tracing::error!(error = %stopped, "serving stops");
        // The steps before the failure did happen.
        if matches!(stopped, Stopped::Engine(_))
            && let Err(error) = worker.commit(&[])
        {
            tracing::error!(%error, "the last steps could not be logged");
        }
        worker.fail_all(&Failure::Service(stopped.to_string()));
    }
    result
}

struct Worker<'e, 'm> {
    session: Session<'e>,
    records: Records,
    watch: Watch,
    /// What records say of requests that they have not told the end of.
    told: BTreeMap<RequestKey, Told>,
    /// Requests that somebody waits for.
    live: BTreeMap<RequestKey, Live>,
    /// Withdrawn requests whose cancellation no step has stated yet.
    swept: BTreeSet<RequestKey>,
    /// Requests of the session so far: the next one's number.
    arrived: RequestKey,
    metrics: &'m Metrics,
}

/// A request as records state it.
struct Told {
    asked: Asked,
    request: batch::Request,
    output: Vec<u32>,
    logprobs: Option<Vec<F32Bits>>,
    prompt_logprobs: Option<Vec<F32Bits>>,
    /// None while it goes on.
    finish: Option<Finish>,
    /// A record tells of it.
    on_record: bool,
}

struct Live {
    events: UnboundedSender<Event>,
    withdrawn: bool,
    /// Given back when the request ends.
    _place: OwnedSemaphorePermit,
}

impl Worker<'_, '_> {
    fn run(&mut self, inbox: &mpsc::Receiver<Command>) -> Result<(), Stopped> {
        let mut open = true;
        while open || !self.live.is_empty() {
            if open && self.live.is_empty() {
                match inbox.recv() {
                    Ok(command) => open = self.obey(command),
                    Err(mpsc::RecvError) => open = false,
                }
            }
            while open {
                match inbox.try_recv() {
                    Ok(command) => open = self.obey(command),
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => open = false,
                }
            }
            self.withdraw(!open);
            self.step()?;
        }
        self.close().map_err(Stopped::Log)
    }

    /// Carries out a command; false if it was the last one.
    fn obey(&mut self, command: Command) -> bool {
        match command {
            Command::Submit(job) => {
                self.submit(*job);
                true
            }
            Command::Abort => false,
        }
    }

    fn submit(&mut self, job: Job) {
        let Job { mut request, seed, nonce, logprobs, prompt_logprobs, events, place } = job;
        let key = self.arrived;
        let id = format!("{}{key}", self.records.prefix);
        let mut asked = Asked { id: id.clone(), nonce: Some(nonce), seed_derivation: "none" };
        let drawn = match seed {
            Seed::None => Ok(None),
            Seed::Client(seed) => Ok(Some((seed, "client"))),
            Seed::Derived => self.derive(&asked).map(|seed| Some((seed, SEED_DERIVATION))),
        };
        let accepted = drawn.and_then(|drawn| {
            if let (Some((seed, rule)), Sampling::Seeded(s)) = (drawn, &mut request.sampling) {
                s.seed = seed;
                asked.seed_derivation = rule;
            }
            let key = self.session.submit(request.clone())?;
            Ok((key, drawn.map(|d| d.0)))
        });
        // Whoever asked may be gone; then the request is withdrawn before the next step.
        let (key, seed) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                let text = match error {
                    Error::Request { detail, .. } => detail,
                    other => other.to_string(),
                };
                let _ = events.send(Event::Failed(Failure::Request(text)));
                return;
            }
        };
        self.arrived = key + 1;
        let _ = events.send(Event::Accepted { id, seed });
        let prompt = prompt_logprobs.map(|top| (top, request.prompt.clone()));
        self.watch.scores.want(key, Wanted { output: logprobs, prompt });
        self.metrics.prompt_tokens.add(request.prompt.len() as u64);
        let (logprobs, prompt_logprobs) = (logprobs.map(|_| Vec::new()), prompt_logprobs.map(|_| Vec::new()));
        let told =
            Told { asked, request, output: Vec::new(), logprobs, prompt_logprobs, finish: None, on_record: false };
        self.told.insert(key, told);
        self.live.insert(key, Live { events, withdrawn: false, _place: place });
    }

    fn derive(&self, asked: &Asked) -> engine::Result<u64> {
        match self.records.key_id() {
            Some(key) => derived_seed(asked.nonce.as_deref(), &key, &asked.id),
            None => {
                let unavailable = |e: getrandom::Error| Error::Plan { detail: format!("no randomness to be had: {e}") };
                getrandom::u64().map_err(unavailable)
            }
        }
    }

    /// Withdraws requests that nobody waits for any more, or all of them.
    fn withdraw(&mut self, all: bool) {
        for (key, live) in &mut self.live {
            if (all || live.events.is_closed()) && !live.withdrawn {
                live.withdrawn = true;
                self.session.cancel(*key);
            }
        }
    }

    fn step(&mut self) -> Result<(), Stopped> {
        let begun = Instant::now();
        let steps = self.watch.journal.as_ref().map_or(0, |j| j.steps().len());
        let Some(progress) = self.session.step(&mut self.watch)? else {
            self.observe_load();
            return Ok(());
        };
        if !progress.chosen.is_empty() {
            self.metrics.step_seconds.observe(begun.elapsed());
            self.metrics.rows.add(self.watch.rows);
        }
        self.deliver(&progress);
        for key in std::mem::take(&mut self.watch.cancelled) {
            if self.swept.remove(&key)
                && let Some(told) = self.told.get_mut(&key)
            {
                told.finish = Some(Finish::Cancelled);
            }
        }
        let ended = self.note_ends(progress.ended, steps);
        let full = self.watch.journal.as_ref().is_some_and(|j| j.steps().len() >= STEPS_OF_A_RECORD);
        if full || !ended.is_empty() {
            let keys: Vec<RequestKey> = ended.iter().map(|(key, _)| *key).collect();
            let places = match self.commit(&keys) {
                Ok(places) => places,
                Err(error) => return Err(Stopped::Log(error)),
            };
            self.tell_ends(ended, places);
        }
        self.observe_load();
        Ok(())
    }

    fn deliver(&mut self, progress: &Progress) {
        self.metrics.generated_tokens.add(progress.chosen.len() as u64);
        for (key, scores) in std::mem::take(&mut self.watch.scores.prompt) {
            if let Some(all) = self.told.get_mut(&key).and_then(|told| told.prompt_logprobs.as_mut()) {
                all.extend(scores.iter().map(|s| s.token));
            }
            if let Some(live) = self.live.get(&key) {
                // Whoever listened may be gone.
                let _ = live.events.send(Event::Prompt(scores));
            }
        }
        for (key, token) in &progress.chosen {
            let logprobs = self.watch.scores.chosen.remove(key);
            if let Some(told) = self.told.get_mut(key) {
                told.output.push(*token);
                if let (Some(all), Some(own)) = (&mut told.logprobs, &logprobs) {
                    all.push(own.token);
                }
            }
            if let Some(live) = self.live.get(key) {
                // Whoever listened may be gone.
                let _ = live.events.send(Event::Token(Token { id: *token, logprobs }));
            }
        }
    }

    /// Notes why requests ended. `steps` is how many the journal held before this step.
    fn note_ends(&mut self, ended: Vec<(RequestKey, Outcome)>, steps: usize) -> Vec<(RequestKey, Finish)> {
        let stepped = self.watch.journal.as_ref().is_some_and(|j| j.steps().len() > steps);
        for (key, outcome) in &ended {
            self.watch.scores.forget(*key);
            // Withdrawn with all the others, a request has its cancellation stated by the next step, if one ever comes. Until then
            // records say that it goes on, as the rule sees it.
            if outcome.finish == Finish::Cancelled && !stepped {
                self.swept.insert(*key);
            } else if let Some(told) = self.told.get_mut(key) {
                told.finish = Some(outcome.finish);
            }
        }
        ended.into_iter().map(|(key, outcome)| (key, outcome.finish)).collect()
    }

    /// Puts the steps so far on record, and forgets requests whose end is on record now.
    fn commit(&mut self, ended: &[RequestKey]) -> Result<Vec<(RequestKey, Place)>, record::Error> {
        let mut places = Vec::new();
        if let Some(journal) = self.watch.journal.as_mut().filter(|j| !j.is_empty()) {
            let begun = Instant::now();
            let told = &mut self.told;
            places = self.records.commit(journal, |key| state(told.get_mut(&key)), ended)?;
            self.metrics.records.add(1);
            self.metrics.commit_seconds.observe(begun.elapsed());
        }
        self.told.retain(|_, told| told.finish.is_none());
        if self.watch.journal.is_none() {
            // Nothing is logged, so nothing will ever state their cancellation.
            for key in std::mem::take(&mut self.swept) {
                self.told.remove(&key);
            }
        }
        Ok(places)
    }

    /// Puts the last steps on record, and then, in a record without steps, what no step could state: that requests were withdrawn and nothing
    /// came after.
    fn close(&mut self) -> Result<(), record::Error> {
        self.commit(&[])?;
        let mut withdrawn = false;
        for key in std::mem::take(&mut self.swept) {
            if let (Some(told), Some(journal)) = (self.told.get_mut(&key), self.watch.journal.as_mut())
                && told.on_record
            {
                told.finish = Some(Finish::Cancelled);
                journal.mention(key);
                withdrawn = true;
            }
        }
        if withdrawn {
            self.commit(&[])?;
        }
        Ok(())
    }

    fn tell_ends(&mut self, ended: Vec<(RequestKey, Finish)>, places: Vec<(RequestKey, Place)>) {
        let mut places: BTreeMap<RequestKey, Place> = places.into_iter().collect();
        for (key, finish) in ended {
            self.metrics.finished(finish);
            if let Some(live) = self.live.remove(&key) {
                let _ = live.events.send(Event::Ended(Ended { finish, place: places.remove(&key) }));
            }
        }
    }

    fn fail_all(&mut self, failure: &Failure) {
        for (_, live) in std::mem::take(&mut self.live) {
            let _ = live.events.send(Event::Failed(failure.clone()));
        }
    }

    fn observe_load(&self) {
        let (running, waiting) = self.session.load();
        self.metrics.running.set(running as u64);
        self.metrics.waiting.set(waiting as u64);
    }
}

/// What a record says of a request so far.
fn state(told: Option<&mut Told>) -> rec::Request {
    let Some(told) = told else {
        // A step spoke of a request that nobody asked for. No log takes a record with a request that has neither id nor prompt.
        let nobody = Asked { id: String::new(), nonce: None, seed_derivation: "none" };
        let nothing = Outcome { output: Vec::new(), finish: Finish::Cancelled };
        return engine::journal::request(&nobody, &batch::Request::new(Vec::new(), 1), &nothing);
    };
    told.on_record = true;
    let outcome = Outcome { output: told.output.clone(), finish: told.finish.unwrap_or(Finish::Cancelled) };
    let mut request = engine::journal::request(&told.asked, &told.request, &outcome);
    if told.finish.is_none() {
        request.finish = rec::Finish::Continues;
    }
    request.logprobs.clone_from(&told.logprobs);
    request.prompt_logprobs.clone_from(&told.prompt_logprobs);
    request
}
