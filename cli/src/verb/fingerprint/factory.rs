//! Stacks of GPUs that are not there: our own engine and service, in this process, on an emulated device.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use engine::runtime::Limits;
use engine::scheduler::Settings;
use engine::{Engine, Mode};
use fingerprint::trace::{Model, Stack};
use server::worker::Ledger;
use server::{ApiKeys, Config, Serving};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::source::{self, Emulation};

/// A model's weights.
pub fn load(place: Option<&Path>) -> anyhow::Result<Arc<engine::Model>> {
    Ok(Arc::new(source::model(place)?))
}

/// Digests of weights and tokenizer: references of other weights are not compared with these.
pub fn about(model: &engine::Model) -> anyhow::Result<Model> {
    let stated = engine::journal::model(model);
    let weights: Vec<_> = stated.files.iter().filter(|f| f.path != model.tokenizer_file).collect();
    let tokenizer = stated.files.iter().find(|f| f.path == model.tokenizer_file);
    Ok(Model {
        name: Some(model.name.clone()),
        weights: Some(record::digest::of_json("lastbit/fingerprint-weights/v1", &weights)?.to_string()),
        tokenizer: tokenizer.map(|f| f.sha256.to_string()),
    })
}

/// What a trace says of such a stack.
pub fn stack(profile: &str, mode: Mode) -> Stack {
    Stack {
        format: "bf16".to_owned(),
        engine: "lastbit".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        backend: mode.name().to_owned(),
        hardware: profile.to_owned(),
    }
}

/// A service on a port of this machine.
pub struct Served {
    address: SocketAddr,
    runtime: tokio::runtime::Runtime,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), server::Error>>,
}

impl Served {
    /// Starts one.
    pub fn start(model: Arc<engine::Model>, profile: &str, mode: Mode, emulation: &Emulation) -> anyhow::Result<Self> {
        let limits = Limits::default();
        let engine = Engine::new(model, Box::new(emulation.device(profile)?), mode, limits)?;
        let settings = Settings::plain(limits.max_rows);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("starting the runtime")?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let render: server::Render = Arc::new(|template, messages| {
            crate::chat::render(template, messages).map_err(|e| crate::output::sentence(&e))
        });
        let (keys, config) = (ApiKeys::default(), Config::default());
        let serving = Serving { engine, settings, ledger: Ledger::Nowhere, faults: Vec::new(), keys, config, render };
        let served = runtime.spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            server::serve(listener, serving, stop).await
        });
        Ok(Self { address, runtime, stop, served })
    }

    /// Its base address.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Runs asynchronous work beside it.
    pub fn block_on<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        self.runtime.block_on(work)
    }

    /// Ends it.
    pub fn stop(self) -> anyhow::Result<()> {
        // It may have ended by itself; then the join says why.
        let _ = self.stop.send(());
        self.runtime.block_on(self.served).context("the emulated service")??;
        Ok(())
    }
}
