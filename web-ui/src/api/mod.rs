//! The REST interface, described by `static/openapi.json`, and the router of everything.
//!
//! A test compares the routes here with the description, and answers with its schemas.

mod change;
mod read;

pub(crate) use change::{receive, trust_key};
pub(crate) use read::{Part, Sought, Two};

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use serde::Serialize;

use crate::App;
use crate::access;
use crate::error::Error;
use crate::pages;

/// An error as JSON.
#[derive(Serialize)]
struct Failure {
    schema: &'static str,
    error: String,
    status: u16,
}

/// The answer to a request that failed.
pub(crate) fn failure(error: &Error) -> Response {
    let status = error.status();
    if status.is_server_error() {
        tracing::error!(%error, "a request failed");
    }
    let body = Failure { schema: "lastbit/web-error/v1", error: error.words(), status: status.as_u16() };
    let mut answer = (status, axum::Json(body)).into_response();
    if matches!(error, Error::Unknown) {
        answer
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Basic realm=\"lastbit\""));
    }
    if let Error::Slower(seconds) = error {
        answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(*seconds));
    }
    answer
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        failure(&self)
    }
}

/// Method, path below `/api/v1`, handler.
type Route = (&'static str, &'static str, MethodRouter<Arc<App>>);

fn routes() -> Vec<Route> {
    vec![
        ("get", "/overview", get(read::overview)),
        ("get", "/runs", get(read::runs)),
        ("get", "/runs/{digest}", get(read::run)),
        ("get", "/runs/{digest}/records", get(read::records)),
        ("get", "/runs/{digest}/records/{seq}", get(read::record)),
        ("get", "/runs/{digest}/exports/{format}", get(read::export)),
        ("get", "/fingerprints", get(read::fingerprints)),
        ("get", "/fingerprints/{digest}", get(read::fingerprint)),
        ("get", "/logs", get(read::logs)),
        ("get", "/logs/{id}", get(read::log)),
        ("get", "/logs/{id}/entries/{index}", get(read::entry)),
        ("get", "/logs/{id}/entries/{index}/line", get(read::line)),
        ("get", "/logs/{id}/entries/{index}/proof", get(read::proof)),
        ("get", "/inventory", get(read::inventory)),
        ("get", "/keys", get(read::keys)),
        ("post", "/keys/{id}/trust", post(change::trust)),
        ("get", "/compare", get(read::compare)),
        ("get", "/search", get(read::search)),
        ("get", "/blobs/{digest}", get(read::blob)),
        ("post", "/bundles", post(change::bundle)),
        ("get", "/audits", get(read::audits)),
        ("post", "/audits", post(change::audit)),
        ("get", "/audits/{number}", get(read::audit)),
        ("get", "/audits/{number}/events", get(read::events)),
        ("get", "/trail", get(read::trail)),
        ("get", "/users", get(read::users)),
        ("get", "/openapi.json", get(read::openapi)),
    ]
}

/// Pages, interface and static files.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for (_, path, handler) in routes() {
        router = router.route(&format!("/api/v1{path}"), handler);
    }
    router
        .merge(pages::router())
        .layer(DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(app.clone(), access::admit))
        .layer(tower_http::catch_panic::CatchPanicLayer::new())
        .with_state(app)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_description_has_every_route_and_no_other() {
        let document: serde_json::Value = serde_json::from_str(include_str!("../../static/openapi.json")).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let mut described: Vec<String> = Vec::new();
        for (path, methods) in paths {
            described.extend(
                methods.as_object().unwrap().keys().filter(|k| *k != "parameters").map(|m| format!("{m} {path}")),
            );
        }
        let mut served: Vec<String> = super::routes().iter().map(|(m, p, _)| format!("{m} {p}")).collect();
        described.sort();
        served.sort();
        assert_eq!(described, served);
    }
}
