//! `POST /v1/completions`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::ask::Ask;
use super::choices::{finish_reason, start};
use super::error::ApiError;
use super::fields::Fields;
use super::stream::{self, usage};
use super::{Client, Service, logprobs, system};
use crate::worker::Token;

/// Most tokens where none are stated, as OpenAI has it.
const DEFAULT_NEW_TOKENS: u32 = 16;
/// Most likely tokens that can be named.
pub(super) const MAX_TOP_LOGPROBS: u32 = 20;

/// A prompt as it came.
enum Prompt {
    Text(String),
    Ids(Vec<u32>),
}

pub(super) async fn create(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.admits()?;
    let body = service.body(&headers, body).await?;
    let mut fields = Fields::parse(&body)?;
    system::check_model(&service, fields.string("model")?)?;
    let prompts = prompts(fields.take("prompt"))?;
    let mut ask = Ask::take(&mut fields, &headers, &service.config.limits)?;
    ask.max_new_tokens.get_or_insert(DEFAULT_NEW_TOKENS);
    ask.logprobs = fields.count("logprobs", 0, MAX_TOP_LOGPROBS)?;
    fields.finish()?;
    if prompts.len() > service.config.limits.choices as usize {
        let message = format!("{} prompts; one call may have {}", prompts.len(), service.config.limits.choices);
        return Err(ApiError::param("prompt", message));
    }
    let mut encoded = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        encoded.push(match prompt {
            Prompt::Ids(ids) => ids,
            Prompt::Text(text) => system::encode(&service, text).await?,
        });
    }
    let mut choices = start(&service, client, encoded, &ask).await?;
    let id = format!("cmpl-{}", choices.first().map_or("", |c| c.id.as_str()));
    let shape = Shape { service: service.clone(), id, created: system::now() };
    if ask.stream {
        return Ok(stream::answer(service, client, choices, shape, ask.usage, ask.logprobs.is_some()));
    }
    let (mut made, mut records, mut new) = (Vec::new(), Vec::new(), 0);
    for (index, choice) in choices.iter_mut().enumerate() {
        let done = choice.make().await?;
        let reason = finish_reason(done.ended.finish)?;
        new += done.tokens.len();
        records.push(choice.record(&service, client, index, &done.ended));
        let logprobs = match ask.logprobs {
            None => Value::Null,
            Some(_) => logprobs::completion(&service.model.tokenizer, &done.tokens, &mut 0)?,
        };
        made.push(json!({"index": index, "text": done.text, "logprobs": logprobs, "finish_reason": reason}));
    }
    let prompt = choices.iter().map(|c| c.prompt_tokens).sum();
    let mut answer = stream::Shape::chunk(&shape);
    answer["choices"] = Value::Array(made);
    answer["usage"] = usage(prompt, new);
    answer["lastbit"] = json!({"logged": service.origin.is_some(), "choices": records});
    Ok(Json(answer).into_response())
}

fn prompts(value: Option<Value>) -> Result<Vec<Prompt>, ApiError> {
    let refuse = || ApiError::param("prompt", "`prompt` is a string, a list of token ids, or a list of either");
    let ids = |all: &[Value]| -> Option<Vec<u32>> {
        all.iter().map(|v| v.as_u64().and_then(|n| u32::try_from(n).ok())).collect()
    };
    match value {
        Some(Value::String(text)) => Ok(vec![Prompt::Text(text)]),
        Some(Value::Array(all)) if all.is_empty() => Err(refuse()),
        Some(Value::Array(all)) if all[0].is_number() => Ok(vec![Prompt::Ids(ids(&all).ok_or_else(refuse)?)]),
        Some(Value::Array(all)) => all
            .into_iter()
            .map(|one| match one {
                Value::String(text) => Ok(Prompt::Text(text)),
                Value::Array(inner) => ids(&inner).map(Prompt::Ids).ok_or_else(refuse),
                _ => Err(refuse()),
            })
            .collect(),
        _ => Err(refuse()),
    }
}

struct Shape {
    service: Arc<Service>,
    id: String,
    created: u64,
}

impl stream::Shape for Shape {
    fn first(&self, _: usize) -> Option<Value> {
        None
    }

    fn piece(&self, index: usize, text: &str, tokens: &[Token], offset: &mut usize) -> Result<Value, ApiError> {
        let logprobs = if tokens.iter().any(|t| t.logprobs.is_some()) {
            logprobs::completion(&self.service.model.tokenizer, tokens, offset)?
        } else {
            Value::Null
        };
        Ok(json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": null}))
    }

    fn last(&self, index: usize, reason: &str) -> Value {
        json!({"index": index, "text": "", "logprobs": null, "finish_reason": reason})
    }

    fn chunk(&self) -> Value {
        json!({"id": self.id, "object": "text_completion", "created": self.created, "model": self.service.model.name})
    }
}
