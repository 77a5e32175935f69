//! `POST /v1/completions`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::scores::Score;
use serde_json::{Value, json};

use super::answer::{self, Call};
use super::ask::{Ask, MAX_TOP_LOGPROBS};
use super::choices::{Choice, Made, Prompt, start};
use super::error::ApiError;
use super::fields::Fields;
use super::logprobs::{self, Scored};
use super::{Client, Service, system};
use crate::worker::Token;

/// Most tokens where none are stated, as OpenAI has it.
const DEFAULT_NEW_TOKENS: u32 = 16;

/// A prompt as it came.
enum Asked {
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
    ask.echo = fields.bool("echo")?.unwrap_or(false);
    fields.finish()?;
    if prompts.len() > service.config.limits.choices as usize {
        let message = format!("{} prompts; one call may have {}", prompts.len(), service.config.limits.choices);
        return Err(ApiError::param("prompt", message));
    }
    let mut encoded = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        encoded.push(match prompt {
            Asked::Ids(ids) if ask.echo => Prompt { text: service.model.tokenizer.decode(&ids)?, ids },
            Asked::Ids(ids) => Prompt { text: String::new(), ids },
            Asked::Text(text) => Prompt { ids: system::encode(&service, text.clone()).await?, text },
        });
    }
    let choices = start(&service, client, encoded, &ask).await?;
    let id = format!("cmpl-{}", choices.first().map_or("", |c| c.id.as_str()));
    let (logprobs, prompt_logprobs, echo) = (ask.logprobs, ask.prompt_logprobs, ask.echo);
    let shape = Shape { service: service.clone(), id, created: system::now(), logprobs, prompt_logprobs, echo };
    Call { service, client, choices, ask, shape }.answer().await
}

fn prompts(value: Option<Value>) -> Result<Vec<Asked>, ApiError> {
    let refuse = || ApiError::param("prompt", "`prompt` is a string, a list of token ids, or a list of either");
    let ids = |all: &[Value]| -> Option<Vec<u32>> {
        all.iter().map(|v| v.as_u64().and_then(|n| u32::try_from(n).ok())).collect()
    };
    match value {
        Some(Value::String(text)) => Ok(vec![Asked::Text(text)]),
        Some(Value::Array(all)) if all.is_empty() => Err(refuse()),
        Some(Value::Array(all)) if all[0].is_number() => Ok(vec![Asked::Ids(ids(&all).ok_or_else(refuse)?)]),
        Some(Value::Array(all)) => all
            .into_iter()
            .map(|one| match one {
                Value::String(text) => Ok(Asked::Text(text)),
                Value::Array(inner) => ids(&inner).map(Asked::Ids).ok_or_else(refuse),
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
    logprobs: Option<u32>,
    prompt_logprobs: Option<u32>,
    echo: bool,
}

impl Shape {
    fn logprobs(&self, tokens: &[Scored<'_>], offset: &mut usize) -> Result<Value, ApiError> {
        match self.logprobs {
            Some(top) => logprobs::completion(&self.service.model.tokenizer, tokens, top, offset),
            None => Ok(Value::Null),
        }
    }

    /// The member `prompt_logprobs`, where it was asked for.
    fn of_prompt(&self, choice: &mut Value, tokens: &[Scored<'_>]) -> Result<(), ApiError> {
        if let Some(top) = self.prompt_logprobs {
            choice["prompt_logprobs"] = logprobs::of_prompt(&self.service.model.tokenizer, tokens, top)?;
        }
        Ok(())
    }
}

impl answer::Shape for Shape {
    const WHOLE: &'static str = "text_completion";

    fn common(&self) -> Value {
        json!({"id": self.id, "object": "text_completion", "created": self.created, "model": self.service.model.name})
    }

    fn whole(&self, choice: &Choice, made: &Made) -> Result<Value, ApiError> {
        let prompt = logprobs::prompt(&choice.prompt.ids, &made.scores);
        let mut tokens = logprobs::chosen(&made.tokens);
        let mut text = made.text.clone();
        if self.echo {
            tokens = [prompt.clone(), tokens].concat();
            text.insert_str(0, &choice.prompt.text);
        }
        let mut whole = json!({"text": text, "logprobs": self.logprobs(&tokens, &mut 0)?});
        self.of_prompt(&mut whole, &prompt)?;
        Ok(whole)
    }

    fn first(&self) -> Option<Value> {
        None
    }

    fn prompt(&self, choice: &Choice, scores: &[Score], offset: &mut usize) -> Result<Option<Value>, ApiError> {
        if !self.echo && self.prompt_logprobs.is_none() {
            return Ok(None);
        }
        let tokens = logprobs::prompt(&choice.prompt.ids, scores);
        let (text, logprobs) = match self.echo {
            true => (choice.prompt.text.as_str(), self.logprobs(&tokens, offset)?),
            false => ("", Value::Null),
        };
        let mut piece = json!({"text": text, "logprobs": logprobs, "finish_reason": null});
        self.of_prompt(&mut piece, &tokens)?;
        Ok(Some(piece))
    }

    fn piece(&self, text: &str, tokens: &[Token], offset: &mut usize) -> Result<Value, ApiError> {
        let tokens = logprobs::chosen(tokens);
        let logprobs = if tokens.is_empty() { Value::Null } else { self.logprobs(&tokens, offset)? };
        Ok(json!({"text": text, "logprobs": logprobs, "finish_reason": null}))
    }

    fn last(&self) -> Value {
        json!({"text": "", "logprobs": null})
    }
}
