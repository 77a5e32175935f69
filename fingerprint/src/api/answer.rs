//! What an answer says, whole or in events.

use eventsource_stream::Eventsource as _;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};

use super::logprobs::{self, Step};
use crate::client::{Exchange, Fault};
use crate::json::{self, Object};

/// How log-probabilities stood in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// No such member.
    #[default]
    Absent,
    /// The member is null, or of no known shape.
    Null,
    /// Lists side by side, as completions have them.
    Classic,
    /// A list of entries, as chat has them.
    Entries,
}

/// Tokens as the endpoint counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// Of the prompt.
    pub prompt: u64,
    /// Generated.
    pub output: u64,
}

/// One continuation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Its text, or the message's content.
    pub text: String,
    /// Reasoning that was told apart from the text.
    pub reasoning: String,
    /// Calls of tools that were told apart from the text.
    pub tool_calls: usize,
    /// Why it ended.
    pub finish: Option<String>,
    /// How log-probabilities stood.
    pub shape: Shape,
    /// Generated tokens that have an entry.
    pub steps: Vec<Step>,
    /// Prompt tokens that have one.
    pub prompt_steps: Vec<Option<Step>>,
    /// Members, in the order written.
    pub keys: Vec<String>,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Name of the answer.
    pub id: Option<String>,
    /// Model that is said to answer.
    pub model: Option<String>,
    /// `system_fingerprint`; empty if it is there and null.
    pub fingerprint: Option<String>,
    /// Models, if it is a list of them.
    pub models: Vec<String>,
    /// Continuations.
    pub choices: Vec<Choice>,
    /// Counts.
    pub usage: Option<Tokens>,
    /// An error's message and type.
    pub error: Option<(String, Option<String>)>,
    /// Members, in the order written.
    pub keys: Vec<String>,
    /// Events, if it came in events; without the closing one.
    pub events: usize,
    /// An event stream was closed by `[DONE]`.
    pub done: bool,
    /// Numbers that are none (`NaN`), which JSON does not have.
    pub nan: usize,
}

/// Most choices that are looked at: no request asks for more.
const MAX_CHOICES: usize = 1024;
/// Most models of a list.
const MAX_MODELS: usize = 4096;

impl Answer {
    /// Reads what came back.
    ///
    /// # Errors
    /// The exchange's own fault; [`Fault::Malformed`] for what is no JSON object or event stream.
    pub fn read(exchange: &Exchange) -> Result<Self, Fault> {
        if let Some(fault) = &exchange.fault {
            return Err(fault.clone());
        }
        let kind = exchange.header("content-type").unwrap_or_default().to_owned();
        let text = std::str::from_utf8(&exchange.body)
            .map_err(|e| Fault::Malformed(format!("not UTF-8 from byte {} on", e.valid_up_to())))?;
        let mut answer = Answer::default();
        if kind.starts_with("text/event-stream") {
            answer.events(&exchange.body)?;
        } else {
            answer.absorb(text).map_err(|()| {
                let begins: String = text.chars().take(60).collect();
                Fault::Malformed(format!("no JSON object ({kind}), it begins {begins:?}"))
            })?;
        }
        Ok(answer)
    }

    fn events(&mut self, body: &[u8]) -> Result<(), Fault> {
        let pieces = futures_util::stream::iter([Ok::<_, std::convert::Infallible>(body)]);
        let mut events = std::pin::pin!(pieces.eventsource());
        // Nothing is waited for: all bytes are there.
        while let Some(Some(event)) = events.next().now_or_never() {
            let event = event.map_err(|e| Fault::Malformed(format!("event {}: {e}", self.events)))?;
            if event.data.trim() == "[DONE]" {
                self.done = true;
                return Ok(());
            }
            self.absorb(&event.data)
                .map_err(|()| Fault::Malformed(format!("event {} is no JSON object", self.events)))?;
            self.events += 1;
        }
        Ok(())
    }

    /// Adds a whole answer, or a piece of one.
    fn absorb(&mut self, text: &str) -> Result<(), ()> {
        let mut clean = std::borrow::Cow::Borrowed(text);
        if Object::parse(text).is_none() {
            let (replaced, found) = json::without_nan(text);
            self.nan += found;
            clean = replaced;
        }
        let object = Object::parse(&clean).ok_or(())?;
        if self.keys.is_empty() {
            self.keys = object.names();
        }
        self.id = self.id.take().or_else(|| object.text("id"));
        self.model = self.model.take().or_else(|| object.text("model"));
        if let Some(value) = object.get("system_fingerprint") {
            self.fingerprint = Some(json::text(value).unwrap_or_default());
        }
        if let Some(usage) = object.object("usage") {
            let (prompt, output) = (usage.count("prompt_tokens"), usage.count("completion_tokens"));
            self.usage = prompt.map(|prompt| Tokens { prompt, output: output.unwrap_or(0) }).or(self.usage);
        }
        self.error(&object);
        let listed = object.list("data").unwrap_or_default().into_iter().take(MAX_MODELS);
        self.models.extend(listed.filter_map(|m| Object::parse(m.get())?.text("id")));
        for (place, value) in object.list("choices").unwrap_or_default().into_iter().enumerate() {
            let Some(choice) = Object::parse(value.get()) else { continue };
            let index = choice.count("index").and_then(|i| usize::try_from(i).ok()).unwrap_or(place);
            if index >= MAX_CHOICES {
                continue;
            }
            if self.choices.len() <= index {
                self.choices.resize_with(index + 1, Choice::default);
            }
            self.choices[index].absorb(&choice);
        }
        // vLLM's chat puts it beside the choices.
        if let (Some(value), Some(first)) = (object.some("prompt_logprobs"), self.choices.first_mut()) {
            first.prompt_steps = logprobs::prompt(value).unwrap_or_default();
        }
        Ok(())
    }

    fn error(&mut self, object: &Object<'_>) {
        let message = |o: &Object<'_>| o.text("message").map(|m| (m, o.text("type")));
        let found = match object.some("error") {
            Some(value) => json::text(value).map(|m| (m, None)).or_else(|| message(&Object::parse(value.get())?)),
            None if object.get("choices").is_none() && object.get("data").is_none() => {
                message(object).or_else(|| Some((object.some("detail")?.get().to_owned(), None)))
            }
            None => None,
        };
        self.error = found.or(self.error.take());
    }

    /// The first choice's text; empty without one.
    pub fn text(&self) -> &str {
        self.choices.first().map_or("", |c| &c.text)
    }

    /// The first choice's steps.
    pub fn steps(&self) -> &[Step] {
        self.choices.first().map_or(&[], |c| &c.steps)
    }
}

impl Choice {
    fn absorb(&mut self, choice: &Object<'_>) {
        if self.keys.is_empty() {
            self.keys = choice.names();
        }
        self.text.extend(choice.text("text"));
        for name in ["message", "delta"] {
            let Some(message) = choice.object(name) else { continue };
            self.text.extend(message.text("content"));
            self.reasoning.extend(message.text("reasoning_content").or_else(|| message.text("reasoning")));
            self.tool_calls += message.list("tool_calls").map_or(0, |all| all.len());
        }
        self.finish = choice.text("finish_reason").or(self.finish.take());
        if let Some(value) = choice.get("logprobs") {
            match logprobs::read(value) {
                Some(steps) => {
                    let entries = Object::parse(value.get()).is_some_and(|o| o.get("content").is_some());
                    self.shape = if entries { Shape::Entries } else { Shape::Classic };
                    self.steps.extend(steps);
                }
                None if self.shape == Shape::Absent => self.shape = Shape::Null,
                None => {}
            }
        }
        if let Some(value) = choice.some("prompt_logprobs") {
            self.prompt_steps = logprobs::prompt(value).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(kind: &str, body: &str) -> Exchange {
        Exchange {
            status: Some(200),
            headers: vec![("content-type".into(), kind.into())],
            body: body.as_bytes().to_vec(),
            ..Exchange::default()
        }
    }

    #[test]
    fn events_fold_into_the_answer_they_are_pieces_of() {
        let whole = r#"{"id":"cmpl-1","model":"m","choices":[{"index":0,"text":" a b","logprobs":{"tokens":[" a"," b"],"token_logprobs":[-0.1,-0.2],"top_logprobs":[{" a":-0.1},{" b":-0.2}]},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
        let events = concat!(
            "data: {\"id\":\"cmpl-1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\" a\",\"logprobs\":{\"tokens\":[\" a\"],\"token_logprobs\":[-0.1],\"top_logprobs\":[{\" a\":-0.1}]},\"finish_reason\":null}]}\n\n",
            ": a comment\n\n",
            "data: {\"choices\":[{\"index\":0,\"text\":\" b\",\"logprobs\":{\"tokens\":[\" b\"],\"token_logprobs\":[-0.2],\"top_logprobs\":[{\" b\":-0.2}]},\"finish_reason\":\"length\"}]}\r\n\r\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n"
        );
        let whole = Answer::read(&exchange("application/json", whole)).unwrap();
        let folded = Answer::read(&exchange("text/event-stream; charset=utf-8", events)).unwrap();
        assert_eq!((whole.text(), whole.steps(), whole.usage), (folded.text(), folded.steps(), folded.usage));
        assert_eq!((folded.events, folded.done, folded.choices[0].finish.as_deref()), (3, true, Some("length")));
    }

    #[test]
    fn errors_are_found_in_each_shape() {
        for body in [
            r#"{"error":{"message":"no","type":"t"}}"#,
            r#"{"error":"no"}"#,
            r#"{"object":"error","message":"no","type":"t"}"#,
        ] {
            assert_eq!(Answer::read(&exchange("application/json", body)).unwrap().error.unwrap().0, "no", "{body}");
        }
        assert!(Answer::read(&exchange("application/json", r#"{"detail":[1]}"#)).unwrap().error.is_some());
    }

    #[test]
    fn nonsense_is_a_fault_and_nan_is_counted() {
        for (kind, body) in [("text/html", "<html>"), ("application/json", "[]"), ("text/event-stream", "data: x\n\n")]
        {
            assert!(matches!(Answer::read(&exchange(kind, body)), Err(Fault::Malformed(_))), "{body}");
        }
        let nan = r#"{"choices":[{"index":0,"text":"a","logprobs":{"tokens":["a"],"token_logprobs":[NaN],"top_logprobs":[{"a":NaN}]}}]}"#;
        let answer = Answer::read(&exchange("application/json", nan)).unwrap();
        assert_eq!((answer.nan, answer.steps()[0].logprob.is_none(), answer.steps()[0].top.len()), (2, true, 0));
        let far = r#"{"choices":[{"index":99999999999,"text":"a"}]}"#;
        assert!(Answer::read(&exchange("application/json", far)).unwrap().choices.is_empty());
    }
}
