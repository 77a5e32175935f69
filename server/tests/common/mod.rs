//! A service on a loopback port, with a log of its own.
#![allow(dead_code, reason = "each test file uses its own part of the bench")]

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use engine::device::EmulatedDevice;
use engine::scheduler::Settings;
use engine::{Engine, Limits, Mode};
use lastbit_tests::http::Client;
use record::log::{Directory, Expect, VerifiedLog, verify};
use record::receipt::Receipt;
use record::{EvidenceLevel, Log, PrivateKey, Record};
use serde_json::Value;
use server::worker::{Evidence, Ledger};
use server::{ApiKeys, Config, Serving};
use tokio::sync::oneshot;

pub const ORIGIN: &str = "example.org/served";

/// How a service is to be.
pub struct Setup {
    pub config: Config,
    pub keys: ApiKeys,
    pub mode: Mode,
    pub limits: Limits,
    pub settings: fn(Limits) -> Settings,
    pub logged: bool,
    /// A chat template for the model inside the binary, which has none.
    pub template: Option<&'static str>,
    /// What goes wrong on purpose.
    pub faults: &'static [&'static str],
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: Config { drain_seconds: 600, ..Config::default() },
            keys: ApiKeys::default(),
            mode: Mode::Throughput,
            limits: Limits { slots: 8, pages: 256, max_rows: 512 },
            settings: |limits| Settings::plain(limits.max_rows),
            logged: true,
            template: None,
            faults: &[],
        }
    }
}

pub struct Bench {
    pub client: Client,
    folder: tempfile::TempDir,
    key: PrivateKey,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<Result<(), server::Error>>>,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(Setup::default())
    }

    /// A service whose answers do not depend on what is computed beside them.
    pub fn invariant() -> Self {
        Self::with(Setup { mode: Mode::Invariant, ..Setup::default() })
    }

    pub fn with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = PrivateKey::from_seed(&[7; 32]);
        let log = folder.path().join("log");
        Log::init(&log, ORIGIN, &key).unwrap();
        let ledger = if setup.logged {
            let evidence = Evidence { level: EvidenceLevel::S, kept: false };
            Ledger::Log { log: Log::open(&log, PrivateKey::from_seed(&[7; 32])).unwrap().0, evidence }
        } else {
            Ledger::Nowhere
        };
        let mut model = engine::model::embedded().unwrap();
        model.chat = setup.template.map(|t| engine::chat::ChatTemplate::new(t, Vec::new()).unwrap());
        let model = Arc::new(model);
        let device = Box::new(EmulatedDevice::new("sm_90").unwrap());
        let engine = Engine::new(model, device, setup.mode, setup.limits).unwrap();
        let settings = (setup.settings)(setup.limits);
        let (stop, stopped) = oneshot::channel::<()>();
        let (send, address) = std::sync::mpsc::channel();
        let served = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                send.send(listener.local_addr().unwrap()).unwrap();
                let stop = async {
                    let _ = stopped.await;
                };
                let Setup { keys, config, .. } = setup;
                // The templates of these tests are their own.
                let render: server::Render = Arc::new(|t, messages| t.render(messages).map_err(|e| e.to_string()));
                let faults = setup.faults.iter().map(|f| f.parse().unwrap()).collect();
                server::serve(listener, Serving { engine, settings, ledger, faults, keys, config, render }, stop).await
            })
        });
        let client = Client::new(address.recv().unwrap());
        Self { client, folder, key, stop: Some(stop), served: Some(served) }
    }

    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Tells the service to stop.
    pub fn tell(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Stops the service and waits for its end.
    pub fn stop(&mut self) -> Result<(), server::Error> {
        self.tell();
        self.served.take().map_or(Ok(()), |s| s.join().expect("the service does not panic"))
    }

    /// Every record of the log, after its signatures and chain were verified, and that it keeps these receipts.
    pub fn records(&self, receipts: &[Receipt]) -> Vec<Record> {
        let directory = Directory::new(self.log_path());
        let expect = Expect { origin: Some(ORIGIN), checkpoint: None, receipts };
        let log: VerifiedLog<'_> = verify(&directory, &self.key.public(), &expect).unwrap();
        assert_eq!(log.unacknowledged(), 0);
        (0..log.entries.len() as u64).map(|i| log.record(i).unwrap()).collect()
    }

    /// The receipts in an answer's `lastbit` member, their signatures verified.
    pub fn receipts(&self, answer: &Value) -> Vec<Receipt> {
        let choices = answer["lastbit"]["choices"].as_array().expect("choices on record");
        let one = |c: &Value| {
            let text = c["receipt"].as_str().expect("a receipt");
            Receipt::verify(text.as_bytes(), ORIGIN, &self.key.public()).unwrap()
        };
        choices.iter().map(one).collect()
    }

    /// A counter's value.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.client.get("/metrics").body;
        let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    }

    /// Waits until a counter has a value.
    pub fn wait_for(&self, name: &str, holds: impl Fn(f64) -> bool) {
        for _ in 0..3000 {
            if holds(self.metric(name)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("{name} stays at {}", self.metric(name));
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.tell();
    }
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("no JSON ({e}): {text}"))
}
