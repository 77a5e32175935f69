//! A run against an endpoint: every request is charged, recorded, and sent once even if the run is interrupted and taken up again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use crate::api::Ask;
use crate::client::{Budget, Client, Meter, Usage};
use crate::error::{Error, Result, file};
use crate::trace::{self, Header, Record, Trace};

/// Failed exchanges in a row after which an endpoint counts as not there.
const PATIENCE: u32 = 3;

/// A run.
#[derive(Debug)]
pub struct Session {
    client: Client,
    meter: Meter,
    header: Header,
    done: Mutex<BTreeMap<String, Record>>,
    journal: Option<Mutex<File>>,
    raw: Option<PathBuf>,
    begun: Instant,
    time: Duration,
    failed: AtomicU32,
}

impl Session {
    /// A run within a budget and a time.
    pub fn new(client: Client, budget: Budget, header: Header, time: Duration) -> Self {
        Self {
            client,
            meter: Meter::new(budget),
            header,
            done: Mutex::default(),
            journal: None,
            raw: None,
            begun: Instant::now(),
            time,
            failed: AtomicU32::new(0),
        }
    }

    /// Keeps every exchange in `journal` as it happens, and takes up what an interrupted run left there.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Trace`] if the journal is another run's.
    pub fn journal(mut self, journal: &Path) -> Result<Self> {
        if journal.exists() {
            let mut bytes = record::file::read(journal, trace::MAX_BYTES).map_err(file(journal))?;
            // The last line may have been cut.
            bytes.truncate(bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1));
            std::fs::write(journal, &bytes).map_err(file(journal))?;
            if !bytes.is_empty() {
                let name = journal.display().to_string();
                let found = Trace::read(&name, &bytes)?;
                let same = Header { date: self.header.date, ..found.header.clone() } == self.header;
                if !same {
                    let why = "it belongs to a run with other settings; name another file".to_owned();
                    return Err(Error::Trace { trace: name, line: 1, why });
                }
                self.header = found.header;
                self.done = Mutex::new(found.records.into_iter().map(|r| (r.probe.clone(), r)).collect());
            }
        }
        let open = || File::options().create(true).append(true).open(journal);
        let mut sink = open().map_err(file(journal))?;
        if sink.metadata().map_err(file(journal))?.len() == 0 {
            sink.write_all(&trace::line(&self.header)?).map_err(file(journal))?;
        }
        self.journal = Some(Mutex::new(sink));
        Ok(self)
    }

    /// Keeps each body as received, the key struck out, in a folder under its digest.
    #[must_use]
    pub fn raw(mut self, folder: PathBuf) -> Self {
        self.raw = Some(folder);
        self
    }

    /// What was used so far; requests that an earlier run sent are not counted again.
    pub fn used(&self) -> Usage {
        self.meter.used()
    }

    /// The limits.
    pub fn budget(&self) -> &Budget {
        self.meter.budget()
    }

    /// What it is about.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Gets a path.
    ///
    /// # Errors
    /// [`Error::Budget`], [`Error::Endpoint`], [`Error::File`].
    pub async fn get(&self, probe: &str, path: &str) -> Result<Record> {
        self.exchange(probe, path, None, (0, 0)).await
    }

    /// Asks.
    ///
    /// # Errors
    /// As [`Session::get`].
    pub async fn ask(&self, probe: &str, ask: &Ask) -> Result<Record> {
        self.exchange(probe, ask.route.path(), Some(ask.body()), ask.most()).await
    }

    /// Posts a body that no [`Ask`] makes. `most`: prompt and output tokens it can use.
    ///
    /// # Errors
    /// As [`Session::get`].
    pub async fn post(&self, probe: &str, path: &str, body: Value, most: (u64, u64)) -> Result<Record> {
        self.exchange(probe, path, Some(body), most).await
    }

    /// Asks several, `at_once` at a time; answers in the order asked.
    ///
    /// # Errors
    /// As [`Session::get`], the first one.
    pub async fn ask_all(&self, asks: Vec<(String, Ask)>, at_once: usize) -> Result<Vec<Record>> {
        let one = |(probe, ask): (String, Ask)| async move { self.ask(&probe, &ask).await };
        let mut running = stream::iter(asks).map(one).buffered(at_once.max(1));
        let mut out = Vec::new();
        while let Some(record) = running.next().await {
            out.push(record?);
        }
        Ok(out)
    }

    async fn exchange(&self, probe: &str, path: &str, body: Option<Value>, most: (u64, u64)) -> Result<Record> {
        if let Some(record) = lock(&self.done).get(probe)
            && record.path == path
            && record.request == body
        {
            return Ok(record.clone());
        }
        if self.begun.elapsed() > self.time {
            let left = "0 s".to_owned();
            return Err(Error::Budget { what: "time", need: "another request".into(), left });
        }
        let charged = Usage { requests: 1, prompt: most.0, output: most.1 };
        self.meter.charge(charged)?;
        let exchange = self.client.send(path, body.as_ref()).await;
        let record = Record::new(probe, path, body, &exchange);
        let told = record.answer.as_ref().and_then(|a| a.usage);
        let (prompt, output) = match told {
            // No more than was charged: what an endpoint claims to have used is not believed beyond what it can have.
            Some(t) => (t.prompt.min(most.0), t.output.min(most.1)),
            None if record.refused() => (0, 0),
            None => most,
        };
        self.meter.settle(charged, Usage { requests: 1 + u64::from(record.retries), prompt, output });
        if exchange.status.is_some() && exchange.fault.is_none() {
            self.failed.store(0, Ordering::Relaxed);
        } else if self.failed.fetch_add(1, Ordering::Relaxed) + 1 >= PATIENCE {
            return Err(Error::Endpoint(format!("{PATIENCE} exchanges in a row failed, the last by {}", record.why())));
        }
        if let Some(folder) = &self.raw {
            let path = folder.join(record.body.to_hex());
            std::fs::write(&path, &exchange.body).map_err(file(&path))?;
        }
        self.keep(record)
    }

    fn keep(&self, record: Record) -> Result<Record> {
        // The last barrier: escapes in a body may spell the key that its bytes did not show.
        let text = String::from_utf8_lossy(&trace::line(&record)?).into_owned();
        let hidden = self.client.hide(&text);
        let record = if hidden == text {
            record
        } else {
            serde_json::from_str(&hidden).map_err(|e| Error::Report(e.to_string()))?
        };
        if let Some(journal) = &self.journal {
            let path = || PathBuf::from("the journal");
            let mut sink = lock(journal);
            sink.write_all(hidden.as_bytes()).map_err(|source| Error::File { path: path(), source })?;
        }
        lock(&self.done).insert(record.probe.clone(), record.clone());
        Ok(record)
    }

    /// Everything exchanged so far.
    pub fn trace(&self) -> Trace {
        Trace { header: self.header.clone(), records: lock(&self.done).values().cloned().collect() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
