//! What is served, tokens and text, health and counters.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Service;
use super::error::ApiError;
use super::fields::Fields;

/// Seconds since 1970, for answers only.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Refuses a call for another model. A call that names none means the one there is.
pub(super) fn check_model(service: &Service, asked: Option<String>) -> Result<(), ApiError> {
    match asked {
        Some(name) if name != service.model.name => {
            let name: String = name.chars().take(128).collect();
            let message = format!("the model `{name}` is not served here; `{}` is", service.model.name);
            Err(ApiError::not_found("model_not_found", message))
        }
        _ => Ok(()),
    }
}

/// Ids of a text, special tokens added. Long texts take long, so connections do not wait for it.
pub(super) async fn encode(service: &Arc<Service>, text: String) -> Result<Vec<u32>, ApiError> {
    let tokenizer = service.model.tokenizer.clone();
    let encoded = tokio::task::spawn_blocking(move || tokenizer.encode(&text)).await;
    Ok(encoded.map_err(|e| ApiError::internal(format!("encoding the text failed: {e}")))??)
}

fn card(service: &Service) -> Value {
    json!({
        "id": service.model.name, "object": "model", "created": service.created, "owned_by": "lastbit",
        "max_model_len": service.model.config.max_positions,
    })
}

pub(super) async fn models(State(service): State<Arc<Service>>) -> Json<Value> {
    Json(json!({"object": "list", "data": [card(&service)]}))
}

pub(super) async fn model(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    check_model(&service, Some(id))?;
    Ok(Json(card(&service)))
}

/// `{"prompt": text, "add_special_tokens": true}` to `{"tokens": ids, "count", "max_model_len"}`.
pub(super) async fn tokenize(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let mut fields = Fields::parse(&service.body(&headers, body).await?)?;
    check_model(&service, fields.string("model")?)?;
    let text = fields.string("prompt")?.ok_or_else(|| ApiError::param("prompt", "`prompt` is missing"))?;
    let special = fields.bool("add_special_tokens")?.unwrap_or(true);
    fields.finish()?;
    let mut ids = encode(&service, text).await?;
    if !special && ids.starts_with(&service.added_special) {
        ids.drain(..service.added_special.len());
    }
    Ok(Json(json!({"count": ids.len(), "max_model_len": service.model.config.max_positions, "tokens": ids})))
}

/// `{"tokens": ids}` to `{"prompt": text}`; special tokens have no text.
pub(super) async fn detokenize(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let mut fields = Fields::parse(&service.body(&headers, body).await?)?;
    check_model(&service, fields.string("model")?)?;
    let refuse = || ApiError::param("tokens", "`tokens` is a list of ids of the vocabulary");
    let Some(Value::Array(all)) = fields.take("tokens") else { return Err(refuse()) };
    fields.finish()?;
    let vocabulary = u64::from(service.model.config.vocab_size);
    let id = |v: &Value| v.as_u64().filter(|n| *n < vocabulary).map(|n| n as u32);
    let ids: Vec<u32> = all.iter().map(id).collect::<Option<_>>().ok_or_else(refuse)?;
    Ok(Json(json!({"prompt": service.model.tokenizer.decode(&ids)?})))
}

pub(super) async fn health(State(service): State<Arc<Service>>) -> Response {
    let status = if service.handle.is_closed() {
        "stopped"
    } else if service.draining.load(Ordering::Acquire) {
        "draining"
    } else {
        "ok"
    };
    let mut body = json!({"status": status});
    if let Some(faults) = &service.faults {
        body["faults"] = json!(faults);
    }
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(body)).into_response()
}

pub(super) async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, service.handle.metrics.text()).into_response()
}
