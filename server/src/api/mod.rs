//! The HTTP interface: what OpenAI's clients speak, and where a call is on record.

mod answer;
mod ask;
mod chat;
mod choices;
mod completions;
mod error;
mod fields;
mod logprobs;
mod receipts;
mod stream;
mod system;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use engine::Model;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tower_http::catch_panic::CatchPanicLayer;

use self::error::ApiError;
use self::receipts::Receipts;
use crate::config::Config;
use crate::keys::ApiKeys;
use crate::worker::Handle;

/// Says with every answer of a faulty engine what goes wrong on purpose.
const FAULTS_HEADER: HeaderName = HeaderName::from_static("x-lastbit-faults");

/// What every call can see.
pub(crate) struct Service {
    pub handle: Handle,
    pub model: Arc<Model>,
    pub config: Config,
    pub keys: ApiKeys,
    /// The log's name; none when nothing is logged.
    pub origin: Option<String>,
    /// What goes wrong on purpose.
    pub faults: Option<String>,
    /// Ids of special tokens that the tokenizer puts before a text.
    pub added_special: Vec<u32>,
    /// When the service started, in seconds since 1970.
    pub created: u64,
    pub draining: AtomicBool,
    pub receipts: Receipts,
    /// Renders conversations.
    pub render: crate::Render,
}

/// The number of the client that makes a call: of its key, or 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(pub u32);

impl Service {
    /// Refuses new work while the service is on its way out.
    pub fn admits(&self) -> Result<(), ApiError> {
        if self.handle.is_closed() {
            return Err(ApiError::unavailable("the service has stopped serving; see its log"));
        }
        if self.draining.load(Ordering::Acquire) {
            return Err(ApiError::unavailable("the service is about to stop and takes no new work"));
        }
        Ok(())
    }

    /// A call's body: JSON, as large and as slow as is allowed.
    pub async fn body(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
        // Also keeps web pages from calling without being asked first: a browser sends JSON across origins only if the service lets it.
        let kind = headers.get(header::CONTENT_TYPE).and_then(|t| t.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(ApiError::invalid("the body must be JSON, sent with `Content-Type: application/json`"));
        }
        let limit = self.config.limits.body_bytes;
        let collected = tokio::time::timeout(self.config.receive(), Limited::new(body, limit).collect()).await;
        match collected {
            Err(_) => Err(ApiError::body_too_slow(self.config.receive().as_secs())),
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(e)) if e.is::<LengthLimitError>() => Err(ApiError::body_too_large(limit)),
            Ok(Err(e)) => Err(ApiError::invalid(format!("the body did not arrive: {e}"))),
        }
    }
}

/// All routes.
pub(crate) fn router(service: Arc<Service>) -> Router {
    let guarded = Router::new()
        .route("/v1/completions", post(completions::create))
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/models", get(system::models))
        .route("/v1/models/{id}", get(system::model))
        .route("/v1/receipts/{id}", get(receipts::find))
        .route("/tokenize", post(system::tokenize))
        .route("/detokenize", post(system::detokenize))
        .route("/metrics", get(system::metrics))
        .layer(middleware::from_fn_with_state(service.clone(), authenticate));
    Router::new()
        .route("/health", get(system::health))
        .merge(guarded)
        .fallback(async || ApiError::not_found("unknown_url", "there is nothing at this path"))
        .method_not_allowed_fallback(async || ApiError::method("this path takes another method"))
        .layer(CatchPanicLayer::custom(|_| ApiError::internal("this call failed; the service goes on").into_response()))
        .layer(middleware::from_fn_with_state(service.clone(), account))
        .with_state(service)
}

async fn authenticate(State(service): State<Arc<Service>>, mut request: Request, next: Next) -> Response {
    let client = if service.keys.is_empty() {
        Some(0)
    } else {
        let presented = request.headers().get(header::AUTHORIZATION).and_then(|h| h.to_str().ok());
        let key = presented.and_then(|h| h.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        key.and_then(|(_, key)| service.keys.find(key.trim()))
    };
    match client {
        Some(client) => {
            request.extensions_mut().insert(Client(client));
            next.run(request).await
        }
        None => ApiError::unauthorized().into_response(),
    }
}

/// Counts and logs answers. Neither bodies nor keys enter the log.
async fn account(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let (begun, method, path) = (Instant::now(), request.method().clone(), request.uri().path().to_owned());
    let mut response = next.run(request).await;
    if let Some(faults) = service.faults.as_deref().and_then(|f| HeaderValue::from_str(f).ok()) {
        response.headers_mut().insert(FAULTS_HEADER, faults);
    }
    let status = response.status().as_u16();
    if let Some(class) = service.handle.metrics.answers.get(usize::from(status / 100)) {
        class.add(1);
    }
    let path: String = path.chars().take(128).collect();
    tracing::info!(%method, path, status, micros = begun.elapsed().as_micros() as u64, "answered");
    response
}
