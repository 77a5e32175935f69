//! A witness on the network, and asking one: `c2sp.org/tlog-witness`. What is cosigned and what is not, [`record::tlog::Witness`] decides.
//!
//! Plain HTTP/1.1 on either side: put a proxy with TLS before a witness that others use, and a tunnel before one that is asked.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use record::tlog::{MAX_PROOF_BYTES, Witness, WitnessRefusal};
use tokio::net::{TcpListener, TcpStream};
use tower_http::catch_panic::CatchPanicLayer;

use crate::listen::accept;

/// Connections at a time; more wait to be accepted.
const CONNECTIONS: u32 = 64;
/// A request that has not arrived by then is dropped; so is an answer that is asked for.
const PATIENCE: Duration = Duration::from_secs(30);

type Shared = Arc<Mutex<Witness>>;

/// Answers `POST /add-checkpoint` until `stop` is done.
pub async fn serve(listener: TcpListener, witness: Witness, stop: impl Future<Output = ()>) {
    let app = Router::new()
        .route("/add-checkpoint", post(add_checkpoint))
        .layer(CatchPanicLayer::new())
        .with_state(Arc::new(Mutex::new(witness)));
    let connections = GracefulShutdown::new();
    {
        let (mut accepting, mut stop) =
            (pin!(accept(&listener, app, (CONNECTIONS, PATIENCE), &connections)), pin!(stop));
        tokio::select! { () = &mut accepting => {}, () = &mut stop => {} }
    }
    drop(listener);
    if tokio::time::timeout(PATIENCE, connections.shutdown()).await.is_err() {
        tracing::warn!("some connections did not take their answer");
    }
}

async fn add_checkpoint(State(witness): State<Shared>, body: Body) -> Response {
    let collected = tokio::time::timeout(PATIENCE, Limited::new(body, MAX_PROOF_BYTES).collect()).await;
    let Ok(Ok(body)) = collected.map(|body| body.map(http_body_util::Collected::to_bytes)) else {
        return (StatusCode::BAD_REQUEST, "the request is too long, too slow or broken off\n").into_response();
    };
    // Reads and syncs files: not on a thread that serves others.
    let judged = tokio::task::spawn_blocking(move || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // One that panicked left its state on disk as it was.
        witness.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add_checkpoint(&body, now)
    });
    match judged.await {
        Ok(Ok(lines)) => ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], lines).into_response(),
        Ok(Err(refusal)) => refused(&refusal),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn refused(refusal: &WitnessRefusal) -> Response {
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match refusal {
        WitnessRefusal::Conflict { size } => {
            (status, [(header::CONTENT_TYPE, "text/x.tlog.size")], format!("{size}\n")).into_response()
        }
        WitnessRefusal::State(error) => {
            tracing::error!(%error, "the witness cannot use its state");
            (status, "the state of this witness cannot be used\n").into_response()
        }
        other => (status, format!("{other}\n")).into_response(),
    }
}

/// Why a witness did not cosign.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The address is not one. The caller's mistake.
    #[error("{0} is not of the form http://HOST[:PORT][/PATH]")]
    Address(String),
    /// It cannot be reached, or broke off.
    #[error("asking {url}: {reason}")]
    Unreachable {
        /// Where it was asked.
        url: String,
        /// What failed.
        reason: String,
    },
    /// It answered, and did not cosign.
    #[error("{url} answered {status}: {text}")]
    Refused {
        /// Where it was asked.
        url: String,
        /// Its status.
        status: u16,
        /// Its words, cut.
        text: String,
    },
}

/// Asks a witness for its cosignature. `request` makes the body from the size that the witness cosigned last; the first is tried with size `old`.
///
/// # Errors
/// [`AskError`].
pub async fn ask(url: &str, old: u64, request: impl Fn(u64) -> Option<Vec<u8>>) -> Result<Vec<u8>, AskError> {
    let refused = |status: u16, text: &[u8]| AskError::Refused {
        url: url.to_owned(),
        status,
        text: String::from_utf8_lossy(&text[..text.len().min(200)]).trim().to_owned(),
    };
    let mut from = old;
    for attempt in 0..2 {
        let Some(body) = request(from) else { return Err(refused(409, b"it has cosigned a larger log than this")) };
        match send(url, body).await? {
            (200, answer) => return Ok(answer),
            (409, answer) if attempt == 0 => {
                let size = std::str::from_utf8(&answer).ok().and_then(|text| text.trim().parse().ok());
                from = size.ok_or_else(|| refused(409, &answer))?;
            }
            (status, answer) => return Err(refused(status, &answer)),
        }
    }
    Err(refused(409, b"the witness changes its mind"))
}

async fn send(url: &str, body: Vec<u8>) -> Result<(u16, Vec<u8>), AskError> {
    let address = || AskError::Address(url.to_owned());
    let (host, prefix) = match url.strip_prefix("http://").ok_or_else(address)? {
        "" => return Err(address()),
        rest => rest.split_once('/').unwrap_or((rest, "")),
    };
    let with_port = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let prefix = prefix.trim_end_matches('/');
    let path = if prefix.is_empty() { "/add-checkpoint".to_owned() } else { format!("/{prefix}/add-checkpoint") };
    let request = hyper::Request::post(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(Full::new(axum::body::Bytes::from(body)))
        .map_err(|_| address())?;
    let exchange = async {
        let stream = TcpStream::connect(with_port).await.map_err(|e| e.to_string())?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
        let driver = tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MAX_PROOF_BYTES).collect().await.map_err(|e| e.to_string())?;
        drop(sender);
        driver.abort();
        Ok((status, body.to_bytes().to_vec()))
    };
    let unreachable = |reason: String| AskError::Unreachable { url: url.to_owned(), reason };
    match tokio::time::timeout(PATIENCE, exchange).await {
        Ok(answer) => answer.map_err(unreachable),
        Err(_) => Err(unreachable("no answer in time".to_owned())),
    }
}
