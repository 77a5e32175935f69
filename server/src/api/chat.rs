//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::chat::{MAX_MESSAGE_BYTES, Message};
use engine::scores::Score;
use serde_json::{Map, Value, json};

use super::answer::{self, Call};
use super::ask::{Ask, MAX_TOP_LOGPROBS};
use super::choices::{Choice, Made, Prompt, start};
use super::error::ApiError;
use super::fields::Fields;
use super::{Client, Service, logprobs, system};
use crate::worker::Token;

/// Most messages of a conversation.
const MAX_MESSAGES: usize = 4096;

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
    if service.model.chat.is_none() {
        return Err(ApiError::invalid("this model has no chat template; use /v1/completions"));
    }
    let messages = messages(fields.take("messages"))?;
    let mut ask = Ask::take(&mut fields, &headers, &service.config.limits)?;
    let newer = fields.count("max_completion_tokens", 1, service.config.limits.new_tokens)?;
    if ask.max_new_tokens.is_some() && newer.is_some() && ask.max_new_tokens != newer {
        return Err(ApiError::param("max_tokens", "`max_tokens` and `max_completion_tokens` differ; state one"));
    }
    ask.max_new_tokens = newer.or(ask.max_new_tokens);
    let wanted = fields.bool("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0, MAX_TOP_LOGPROBS)?;
    if top.is_some_and(|n| n > 0) && !wanted {
        return Err(ApiError::param("top_logprobs", "`top_logprobs` needs `logprobs`"));
    }
    ask.logprobs = wanted.then(|| top.unwrap_or(0));
    fields.finish()?;

    let ids = prompt(&service, messages).await?;
    // A rendered conversation is told to nobody.
    let prompt = Prompt { ids, text: String::new() };
    let choices = start(&service, client, vec![prompt], &ask).await?;
    let id = format!("chatcmpl-{}", choices.first().map_or("", |c| c.id.as_str()));
    let (logprobs, prompt_logprobs) = (ask.logprobs.is_some(), ask.prompt_logprobs);
    let shape = Shape { service: service.clone(), id, created: system::now(), logprobs, prompt_logprobs };
    Call { service, client, choices, ask, shape }.answer().await
}

/// The ids that the model's template makes of a conversation. A template is a foreign program: the renderer bounds it.
async fn prompt(service: &Arc<Service>, messages: Vec<Message>) -> Result<Vec<u32>, ApiError> {
    let service = service.clone();
    let work = move || {
        let template = service.model.chat.as_ref().ok_or_else(|| "this model has no chat template".to_owned())?;
        let text = (service.render)(template, &messages)?;
        service.model.tokenizer.encode_rendered(&text).map_err(|e| e.to_string())
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| ApiError::internal(format!("rendering the conversation failed: {e}")))?
        .map_err(|e| ApiError::param("messages", e))
}

fn messages(value: Option<Value>) -> Result<Vec<Message>, ApiError> {
    let refuse = |what: String| ApiError::param("messages", what);
    let Some(Value::Array(all)) = value else {
        return Err(refuse("`messages` is a list of messages".into()));
    };
    if all.is_empty() || all.len() > MAX_MESSAGES {
        return Err(refuse(format!("a conversation has 1 to {MAX_MESSAGES} messages")));
    }
    let messages = all.into_iter().enumerate().map(|(at, one)| match one {
        Value::Object(map) => message(map).map_err(|what| refuse(format!("message {at}: {what}"))),
        _ => Err(refuse(format!("message {at} is no object"))),
    });
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    if messages.iter().map(|m| m.role.len() + m.content.len()).sum::<usize>() > MAX_MESSAGE_BYTES {
        return Err(refuse(format!("a conversation has at most {MAX_MESSAGE_BYTES} bytes")));
    }
    Ok(messages)
}

/// A message of text. What a template could not be told is refused.
fn message(mut map: Map<String, Value>) -> Result<Message, &'static str> {
    let role = match map.remove("role") {
        Some(Value::String(role)) if ["system", "developer", "user", "assistant"].contains(&role.as_str()) => role,
        _ => return Err("`role` is system, developer, user or assistant"),
    };
    let content = match map.remove("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => {
            let text = |part: &Value| match part["type"].as_str() {
                Some("text") => part["text"].as_str().map(ToOwned::to_owned),
                _ => None,
            };
            parts.iter().map(text).collect::<Option<String>>().ok_or("only parts of type text are understood here")?
        }
        _ => return Err("`content` is text, or a list of parts of type text"),
    };
    if map.values().any(|v| !v.is_null()) {
        return Err("`role` and `content` are all that is understood here");
    }
    Ok(Message::new(&role, &content))
}

struct Shape {
    service: Arc<Service>,
    id: String,
    created: u64,
    logprobs: bool,
    prompt_logprobs: Option<u32>,
}

impl Shape {
    fn logprobs(&self, tokens: &[Token]) -> Result<Value, ApiError> {
        match self.logprobs {
            true => logprobs::chat(&self.service.model.tokenizer, tokens),
            false => Ok(Value::Null),
        }
    }

    /// The member `prompt_logprobs`, where it was asked for.
    fn of_prompt(&self, choice: &Choice, scores: &[Score]) -> Result<Option<Value>, ApiError> {
        let tokens = logprobs::prompt(&choice.prompt.ids, scores);
        let value = |top| logprobs::of_prompt(&self.service.model.tokenizer, &tokens, top);
        self.prompt_logprobs.map(value).transpose()
    }
}

impl answer::Shape for Shape {
    const WHOLE: &'static str = "chat.completion";

    fn common(&self) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.service.model.name})
    }

    fn whole(&self, choice: &Choice, made: &Made) -> Result<Value, ApiError> {
        let message = json!({"role": "assistant", "content": made.text, "refusal": null});
        let mut whole = json!({"message": message, "logprobs": self.logprobs(&made.tokens)?});
        if let Some(prompt) = self.of_prompt(choice, &made.scores)? {
            whole["prompt_logprobs"] = prompt;
        }
        Ok(whole)
    }

    fn first(&self) -> Option<Value> {
        let delta = json!({"role": "assistant", "content": "", "refusal": null});
        Some(json!({"delta": delta, "logprobs": null, "finish_reason": null}))
    }

    fn prompt(&self, choice: &Choice, scores: &[Score], _: &mut usize) -> Result<Option<Value>, ApiError> {
        let of_prompt = self.of_prompt(choice, scores)?;
        Ok(of_prompt.map(|p| json!({"delta": {}, "logprobs": null, "prompt_logprobs": p, "finish_reason": null})))
    }

    fn piece(&self, text: &str, tokens: &[Token], _: &mut usize) -> Result<Value, ApiError> {
        let logprobs = if tokens.is_empty() { Value::Null } else { self.logprobs(tokens)? };
        Ok(json!({"delta": {"content": text}, "logprobs": logprobs, "finish_reason": null}))
    }

    fn last(&self) -> Value {
        json!({"delta": {}, "logprobs": null})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_roles_and_text() {
        let read = |json: &str| messages(Some(serde_json::from_str(json).unwrap()));
        let parts =
            r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":null}]"#;
        assert_eq!(read(parts).unwrap(), [Message::new("user", "ab")]);
        for bad in [
            "[]",
            "3",
            "[3]",
            r#"[{"role":"user"}]"#,
            r#"[{"role":"tool","content":"x"}]"#,
            r#"[{"role":"user","content":"x","name":"y"}]"#,
            r#"[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]"#,
            r#"[{"role":"assistant","content":null,"tool_calls":[{}]}]"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(messages(None).is_err());
    }
}
