//! Errors in the shape that OpenAI's clients read.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
    retry_after: Option<u32>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, code: None, param: None, message: message.into(), retry_after: None }
    }

    /// The request cannot be served as it is.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// One of its parameters is the reason.
    pub fn param(name: &str, message: impl Into<String>) -> Self {
        Self { param: Some(name.into()), ..Self::invalid(message) }
    }

    /// Known, but not here.
    pub fn unsupported(name: &str, message: impl Into<String>) -> Self {
        Self { code: Some("unsupported_parameter"), ..Self::param(name, message) }
    }

    pub fn too_long(message: impl Into<String>) -> Self {
        Self { code: Some("context_length_exceeded"), ..Self::invalid(message) }
    }

    pub fn body_too_large(limit: usize) -> Self {
        let message = format!("the body has more than {limit} bytes");
        Self {
            code: Some("request_too_large"),
            ..Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", message)
        }
    }

    pub fn body_too_slow(seconds: u64) -> Self {
        let message = format!("the body did not arrive within {seconds} seconds");
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request_error", message)
    }

    pub fn unauthorized() -> Self {
        let message = "an API key is needed: send `Authorization: Bearer KEY` with one that this service knows";
        Self { code: Some("invalid_api_key"), ..Self::new(StatusCode::UNAUTHORIZED, "authentication_error", message) }
    }

    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Some(code), ..Self::new(StatusCode::NOT_FOUND, "invalid_request_error", message) }
    }

    pub fn method(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", message)
    }

    pub fn busy(queue: u32) -> Self {
        let message = format!("{queue} choices run or wait already; try again later");
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message);
        Self { code: Some("queue_full"), retry_after: Some(1), ..error }
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable_error", message);
        Self { retry_after: Some(10), ..error }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// The answer's body, and what a stream that has begun says instead.
    pub fn body(&self) -> Value {
        json!({"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
