//! Connections: accepted, bounded, ended in order.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::access::Peer;

/// Connections at a time.
const MOST: usize = 512;
/// Time for a request's header.
const HEADER: Duration = Duration::from_secs(30);
/// Time that running requests get when the service stops.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until `stop` is done.
pub(crate) async fn listen(listener: TcpListener, app: axum::Router, stop: impl Future<Output = ()>) {
    let connections = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MOST));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER).max_buf_size(64 << 10);
    let mut stop = std::pin::pin!(stop);
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(app.clone().layer(axum::Extension(Peer(peer))));
        let connection = connections.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, connections.shutdown()).await.is_err() {
        tracing::info!("some connections were cut");
    }
}
