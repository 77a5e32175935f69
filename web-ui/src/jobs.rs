//! Live audits: one at a time, on a thread of its own; everybody may watch.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use record::{Digest, PrivateKey, PublicKey};
use serde::Serialize;
use tokio::sync::watch;
use verifier::result::{AuditResult, SignedResult};

use crate::App;
use crate::error::{Error, Result, missing};
use crate::ingest::{self, Files};
use crate::store::now_us;
use crate::views;

/// Audits that wait, at most.
const QUEUE: usize = 16;
/// Audits remembered, the oldest forgotten first.
const KEPT: usize = 100;

/// Audits a log folder under an operator's key; told of passes done, of all.
pub type AuditFn =
    dyn Fn(&Path, &str, &PublicKey, &dyn Fn(usize, usize)) -> std::result::Result<AuditResult, String> + Send + Sync;

/// What live audits need.
#[derive(Clone)]
pub struct Auditing {
    /// Audits.
    pub audit: Arc<AuditFn>,
    /// Signs results. Its public key is trusted here.
    pub key: PrivateKey,
}

/// How an audit stands.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Job {
    pub number: u64,
    pub log: String,
    pub name: String,
    pub by: String,
    pub begun_us: u64,
    /// `waits`, `runs`, `done`, `failed`.
    pub state: &'static str,
    pub done: usize,
    pub of: usize,
    pub note: String,
    /// Digest of the signed result.
    pub run: Option<String>,
    pub verdict: Option<String>,
}

impl Job {
    pub(crate) fn ended(&self) -> bool {
        matches!(self.state, "done" | "failed")
    }
}

/// All audits that were started here.
pub(crate) struct Jobs {
    list: Mutex<Vec<watch::Sender<Job>>>,
    queue: mpsc::SyncSender<u64>,
    waiting: Mutex<Option<mpsc::Receiver<u64>>>,
}

impl Default for Jobs {
    fn default() -> Self {
        let (queue, waiting) = mpsc::sync_channel(QUEUE);
        Self { list: Mutex::default(), queue, waiting: Mutex::new(Some(waiting)) }
    }
}

impl Jobs {
    /// Starts the thread that audits. It ends with the process: an audit that was not finished left nothing behind.
    pub(crate) fn start(app: &Arc<App>) -> Result<()> {
        let Some(waiting) = app.jobs.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let weak = Arc::downgrade(app);
        std::thread::Builder::new().name("audits".to_owned()).spawn(move || {
            while let (Ok(number), Some(app)) = (waiting.recv(), weak.upgrade()) {
                let work = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&app, number)));
                let end = match work {
                    Ok(Ok(())) => continue,
                    Ok(Err(e)) => e.words(),
                    Err(_) => "an error of this program; its log says which".to_owned(),
                };
                app.jobs.change(number, |job| (job.state, job.note) = ("failed", end.clone()));
                let _ = app.store.note("service", "", "audit failed", &number.to_string(), &end);
            }
        })?;
        Ok(())
    }

    pub(crate) fn all(&self) -> Vec<Job> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().rev().map(|job| job.borrow().clone()).collect()
    }

    pub(crate) fn follow(&self, number: u64) -> Result<watch::Receiver<Job>> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let job = list.iter().find(|job| job.borrow().number == number);
        Ok(job.ok_or_else(|| missing(format!("audit number {number}")))?.subscribe())
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Job)) {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = list.iter().find(|job| job.borrow().number == number) {
            job.send_modify(change);
        }
    }
}

/// Puts an audit of a stored log in the queue.
pub(crate) fn submit(app: &App, log: &Digest, by: &str) -> Result<Job> {
    if app.auditing.is_none() {
        return Err(Error::Bad("live audits need an auditor's key: start the service with --auditor-key".to_owned()));
    }
    let row = app.store.log(log)?;
    if row.key.is_none() {
        return Err(Error::Bad("no trusted key signed this log; trust its operator's key first".to_owned()));
    }
    let job = {
        let mut list = app.jobs.list.lock().unwrap_or_else(PoisonError::into_inner);
        let number = list.last().map_or(1, |job| job.borrow().number + 1);
        let job = Job {
            number,
            log: row.id,
            name: row.name,
            by: by.to_owned(),
            begun_us: now_us(),
            state: "waits",
            done: 0,
            of: 0,
            note: String::new(),
            run: None,
            verdict: None,
        };
        list.push(watch::channel(job.clone()).0);
        if list.len() > KEPT {
            list.remove(0);
        }
        job
    };
    if app.jobs.queue.try_send(job.number).is_err() {
        app.jobs.change(job.number, |job| (job.state, job.note) = ("failed", "too many audits wait".to_owned()));
        return Err(Error::Slower(60));
    }
    Ok(job)
}

fn run(app: &App, number: u64) -> Result<()> {
    let auditing = app.auditing.as_ref().ok_or_else(|| Error::Bug("an audit without an auditor".to_owned()))?;
    let log = app.jobs.follow(number)?.borrow().log.clone();
    app.jobs.change(number, |job| job.state = "runs");
    let row = app.store.log(&views::digest(&log)?)?;
    let key = app.store.keys()?.into_iter().find(|k| Some(&k.id) == row.key.as_ref() && k.trust == "trusted");
    let key = key
        .and_then(|k| views::public(&k.public))
        .ok_or_else(|| Error::Bad("the operator's key is no longer trusted".to_owned()))?;
    // Laid out as a folder again; every file's digest is computed on the way.
    let folder = tempfile::Builder::new().prefix("audit-").tempdir_in(app.store.folder())?;
    for file in app.store.log_files(&row.id)? {
        let path = folder.path().join(ingest::plain(&file.path)?);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, app.store.bytes(&views::digest(&file.digest)?)?)?;
    }
    let told = |done: usize, of: usize| app.jobs.change(number, |job| (job.done, job.of) = (done, of));
    let result = (auditing.audit)(folder.path(), &row.name, &key, &told).map_err(Error::Bad)?;
    let verdict = result.verdict.name().to_owned();
    let signed = SignedResult::sign(result, &auditing.key).map_err(|e| Error::Bug(e.to_string()))?;
    let files = Files::from([(format!("{}.audit.json", row.name), signed.bytes.clone())]);
    ingest::take(&app.store, &files, "a live audit")?;
    let run = signed.digest().to_hex();
    app.store.note("service", "", "audit done", &run, &verdict)?;
    app.jobs.change(number, |job| {
        (job.state, job.run, job.verdict) = ("done", Some(run), Some(verdict));
        job.done = job.of;
    });
    Ok(())
}
