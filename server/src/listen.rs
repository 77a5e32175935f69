//! Connections: accepted, bounded, ended in order.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::chat::{ChatTemplate, Message};
use engine::fault::{Fault, Faults};
use engine::scheduler::Settings;
use engine::{Engine, Model};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::api::{Service, router};
use crate::config::Config;
use crate::keys::ApiKeys;
use crate::worker::{Handle, Ledger, Stopped, Work};

/// Makes the text of a prompt from a conversation, or says why not. Templates are foreign programs: whoever renders them bounds their time and
/// memory.
pub type Render = Arc<dyn Fn(&ChatTemplate, &[Message]) -> Result<String, String> + Send + Sync>;

/// What is served, to whom, and where it is put on record.
pub struct Serving {
    /// The engine; nobody else holds a slot of it.
    pub engine: Engine,
    /// What the scheduling rule depends on.
    pub settings: Settings,
    /// Where steps are put on record.
    pub ledger: Ledger,
    /// What goes wrong on purpose, for tests of clients and audits; usually nothing. The log, every answer and `/health` say so.
    pub faults: Vec<Fault>,
    /// Who may ask.
    pub keys: ApiKeys,
    /// Limits and times.
    pub config: Config,
    /// Renders conversations.
    pub render: Render,
}

/// Why serving ended, or could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Anybody could ask, from anywhere.
    #[error(
        "{address} can be reached from other machines and no API keys are set; set keys, listen on 127.0.0.1, or allow anonymous use explicitly"
    )]
    Open {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// The listening socket failed.
    #[error("listening: {0}")]
    Listen(#[from] std::io::Error),
    /// The engine could not be set up.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// Serving stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Serves on `listener` until `stop` is done, then lets running requests end, for as long as the configuration allows.
///
/// # Errors
/// [`Error`]. An engine or a log that fails ends the service: every waiting client is told before this returns.
pub async fn serve(listener: TcpListener, serving: Serving, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let Serving { engine, settings, ledger, faults, keys, config, render } = serving;
    let address = listener.local_addr()?;
    if keys.is_empty() && !config.anonymous && !address.ip().is_loopback() {
        return Err(Error::Open { address });
    }
    let model: Arc<Model> = engine.model().clone();
    let added_special = model.tokenizer.added_special()?;
    let origin = ledger.origin().map(ToOwned::to_owned);
    let faults = Faults::new(faults, &engine)?;
    let words = faults.words();
    if let Some(faults) = &words {
        tracing::warn!(%faults, "FAULTS ON PURPOSE: what is served is wrong, and records say so");
    }
    let work = Work { engine, settings, ledger, faults };
    let (handle, ended) = Handle::start(work, config.limits.queue)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let drain = Duration::from_secs(config.drain_seconds);
    let service = Arc::new(Service {
        handle: handle.clone(),
        model,
        keys,
        origin,
        faults: words,
        added_special,
        created: since.as_secs(),
        draining: AtomicBool::new(false),
        receipts: Default::default(),
        render,
        config,
    });
    tracing::info!(%address, model = service.model.name, log = service.origin.as_deref().unwrap_or("none"), "serving");

    let connections = GracefulShutdown::new();
    let (mut stop, mut ended) = (pin!(stop), pin!(ended));
    let mut result = None;
    {
        let mut accepting = pin!(accept(&listener, service.clone(), &connections));
        tokio::select! {
            () = &mut accepting => {}
            () = &mut stop => tracing::info!("stopping: no new work, running requests may end"),
            early = &mut ended => result = Some(early.unwrap_or(Err(Stopped::Panic))),
        }
    }
    drop(listener);
    service.draining.store(true, Ordering::Release);
    let mut finished = pin!(connections.shutdown());
    let in_time = tokio::time::timeout(drain, &mut finished).await.is_ok();
    if !in_time {
        tracing::warn!("withdrawing what has not ended");
    }
    handle.abort();
    if result.is_none() {
        result = Some(ended.await.unwrap_or(Err(Stopped::Panic)));
    }
    // Told of their end, connections close; one that does not read it is left behind.
    if !in_time && tokio::time::timeout(Duration::from_secs(5), &mut finished).await.is_err() {
        tracing::warn!("some connections did not take their answer");
    }
    tracing::info!("stopped");
    Ok(result.unwrap_or(Ok(()))?)
}

/// Accepts connections for ever.
async fn accept(listener: &TcpListener, service: Arc<Service>, connections: &GracefulShutdown) {
    let places = Arc::new(Semaphore::new(service.config.connections.max(1) as usize));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(service.config.receive()).max_buf_size(64 << 10);
    let app = router(service);
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, or the peer was gone: the next one may succeed.
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Tokens are small and should not wait for each other.
        let _ = stream.set_nodelay(true);
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
}
