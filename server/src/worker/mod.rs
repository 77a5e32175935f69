//! The engine thread, and how connections speak with it.

mod ledger;
mod run;
mod watch;

pub use ledger::{Evidence, Ledger};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use engine::Engine;
use engine::batch::Request;
use engine::fault::Faults;
use engine::scheduler::Settings;
use engine::scores::Score;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::metrics::Metrics;

/// Where a request's seed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// Nothing is drawn.
    None,
    /// The client's own.
    Client(u64),
    /// Derived from nonce, key and request id, as `docs/spec/sampling.md` says; without a log, from the operating system's randomness.
    Derived,
}

/// A request on its way to the engine.
pub(crate) struct Job {
    /// What to serve; the seed in it is filled in by the engine thread.
    pub request: Request,
    /// Its seed.
    pub seed: Seed,
    /// The client's nonce, lower-case hex.
    pub nonce: String,
    /// How many most likely tokens to name besides the chosen one; none when no log-probability is wanted.
    pub logprobs: Option<u32>,
    /// The same for the tokens of the prompt.
    pub prompt_logprobs: Option<u32>,
    /// Where tokens go. When nobody listens any more, the request is withdrawn.
    pub events: tokio::sync::mpsc::UnboundedSender<Event>,
    /// Its place in the queue.
    pub place: OwnedSemaphorePermit,
}

/// What a connection hears of its request, in this order: accepted, of its prompt, tokens, ended. Failed may come instead of any.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// It is in the session.
    Accepted {
        /// Its id in records.
        id: String,
        /// The seed it is sampled with.
        seed: Option<u64>,
    },
    /// Log-probabilities of prompt tokens, from the second on; perhaps in several parts.
    Prompt(Vec<Score>),
    /// A token was chosen.
    Token(Token),
    /// It is over, and on record where there is one.
    Ended(Ended),
    /// It cannot be served, or what was served could not be logged.
    Failed(Failure),
}

/// A chosen token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub id: u32,
    pub logprobs: Option<Score>,
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Why.
    pub finish: engine::batch::Finish,
    /// Where it is on record; none if nothing is logged, or if it was withdrawn before it came into any record.
    pub place: Option<Place>,
}

/// Where a request is on record, and the operator's promise.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// Index of the log entry.
    pub index: u64,
    /// Digest of the record.
    pub record: String,
    /// Index of the request in the record.
    pub request: u32,
    /// The receipt, a signed note.
    pub receipt: String,
}

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The request's fault.
    #[error("{0}")]
    Request(String),
    /// Ours.
    #[error("{0}")]
    Service(String),
}

enum Command {
    Submit(Box<Job>),
    /// Withdraw all and take nothing more.
    Abort,
}

/// Why the engine thread stopped serving.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A record could not be written: nothing is served that is not logged.
    #[error("the log cannot be written any more: {0}")]
    Log(#[source] record::Error),
    /// The engine failed.
    #[error("the engine failed: {0}")]
    Engine(#[from] engine::Error),
    /// The engine thread is gone.
    #[error("the engine thread ended by a panic; see the lines before")]
    Panic,
}

/// What the engine thread works with.
pub struct Work {
    /// The engine; nobody else holds a slot of it.
    pub engine: Engine,
    /// What the scheduling rule depends on.
    pub settings: Settings,
    /// Where steps are put on record.
    pub ledger: Ledger,
    /// What goes wrong on purpose.
    pub faults: Faults,
}

/// The engine thread, seen from connections.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    queue: Arc<Semaphore>,
    closed: Arc<AtomicBool>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Handle {
    /// Starts the engine thread. At most `queue` requests run or wait. The receiver hears how the thread ended.
    ///
    /// # Errors
    /// [`engine::Error`] for settings that do not fit the engine, and when there can be no thread.
    pub fn start(work: Work, queue: u32) -> engine::Result<(Self, oneshot::Receiver<Result<(), Stopped>>)> {
        let (commands, inbox) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let (done, ended) = oneshot::channel();
        let (metrics, closed) = (Arc::new(Metrics::default()), Arc::new(AtomicBool::new(false)));
        let (counts, stopped) = (metrics.clone(), closed.clone());
        let body = move || {
            let _closes = Closes(stopped.clone());
            let result = run::serve(work, &inbox, &counts, &stopped, &ready);
            // Nobody may listen any more.
            let _ = done.send(result);
        };
        let spawned = std::thread::Builder::new().name("engine".into()).spawn(body);
        spawned.map_err(|e| engine::Error::Plan { detail: format!("no thread for the engine: {e}") })?;
        match started.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(engine::Error::Plan { detail: "the engine thread did not start".into() }),
        }
        let queue = Arc::new(Semaphore::new(queue as usize));
        Ok((Self { commands, queue, closed, metrics }, ended))
    }

    /// Places for `n` requests in the queue, all or none.
    pub(crate) fn places(&self, n: u32) -> Option<Vec<OwnedSemaphorePermit>> {
        let mut all = self.queue.clone().try_acquire_many_owned(n).ok()?;
        (0..n).map(|_| all.split(1)).collect()
    }

    /// Hands a request over; false if the engine thread takes none any more.
    pub(crate) fn submit(&self, job: Job) -> bool {
        !self.is_closed() && self.commands.send(Command::Submit(Box::new(job))).is_ok()
    }

    /// Withdraws every request; the thread ends after it has logged what was computed.
    pub fn abort(&self) {
        self.closed.store(true, Ordering::Release);
        // The thread may be gone already.
        let _ = self.commands.send(Command::Abort);
    }

    /// True once the engine thread takes no request any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// Marks the thread as closed however it ends.
struct Closes(Arc<AtomicBool>);

impl Drop for Closes {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
