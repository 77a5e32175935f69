//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::error::ApiError;
use super::fields::Fields;
use super::{Client, Service, system};

pub(super) async fn create(
    State(service): State<Arc<Service>>,
    Extension(_): Extension<Client>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.admits()?;
    let body = service.body(&headers, body).await?;
    let mut fields = Fields::parse(&body)?;
    system::check_model(&service, fields.string("model")?)?;
    Err(ApiError::invalid("this model has no chat template; use /v1/completions"))
}
