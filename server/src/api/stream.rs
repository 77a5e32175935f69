//! Answers as server-sent events: a piece of text as soon as it is certain, the end once it is on record.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream, SelectAll};
use serde_json::{Value, json};

use super::choices::{Choice, finish_reason, gone};
use super::error::ApiError;
use super::{Client, Service};
use crate::worker::{Event, Token};

/// How a call words its pieces.
pub(super) trait Shape: Send + Sync + 'static {
    /// Sent before a choice's first piece.
    fn first(&self, index: usize) -> Option<Value>;
    /// A choice's piece of text with the tokens it came with; `offset` counts characters of the choice's text.
    fn piece(&self, index: usize, text: &str, tokens: &[Token], offset: &mut usize) -> Result<Value, ApiError>;
    /// A choice's end.
    fn last(&self, index: usize, reason: &str) -> Value;
    /// The members that every chunk has.
    fn chunk(&self) -> Value;
}

struct Telling<S> {
    service: Arc<Service>,
    client: Client,
    shape: S,
    events: SelectAll<BoxStream<'static, (usize, Event)>>,
    choices: Vec<Told>,
    usage: bool,
    ready: VecDeque<sse::Event>,
    done: bool,
}

/// A choice that is told piece by piece.
struct Told {
    choice: Choice,
    offset: usize,
    tokens: usize,
    logprobs: bool,
    ended: bool,
}

/// Streams choices. When the client goes away, they are withdrawn.
pub(super) fn answer<S: Shape>(
    service: Arc<Service>,
    client: Client,
    mut choices: Vec<Choice>,
    shape: S,
    usage: bool,
    logprobs: bool,
) -> Response {
    let listen = |(index, choice): (usize, &mut Choice)| {
        let (_, nobody) = tokio::sync::mpsc::unbounded_channel();
        let mut events = std::mem::replace(&mut choice.events, nobody);
        stream::poll_fn(move |cx| events.poll_recv(cx)).map(move |event| (index, event)).boxed()
    };
    let events = stream::select_all(choices.iter_mut().enumerate().map(listen));
    let ready = (0..choices.len()).filter_map(|i| Some(data(&merged(&shape, shape.first(i)?)))).collect();
    let told = |choice| Told { choice, offset: 0, tokens: 0, logprobs, ended: false };
    let choices = choices.into_iter().map(told).collect();
    let telling = Telling { service, client, shape, events, choices, usage, ready, done: false };
    let body = stream::unfold(telling, |mut telling| async move {
        let event = telling.next().await?;
        Some((Ok::<_, Infallible>(event), telling))
    });
    Sse::new(body).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

impl<S: Shape> Telling<S> {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.done {
                return None;
            }
            let heard = self.events.next().await;
            if let Err(error) = self.hear(heard) {
                // The status has been sent; the body says what happened, and the other choices are withdrawn.
                self.ready.push_back(data(&error.body()));
                self.events.clear();
                self.done = true;
            }
        }
    }

    fn hear(&mut self, heard: Option<(usize, Event)>) -> Result<(), ApiError> {
        let Some((index, event)) = heard else {
            if self.choices.iter().any(|c| !c.ended) {
                return Err(gone());
            }
            if self.usage {
                let prompt: usize = self.choices.iter().map(|c| c.choice.prompt_tokens).sum();
                let new: usize = self.choices.iter().map(|c| c.tokens).sum();
                let mut chunk = self.shape.chunk();
                chunk["choices"] = json!([]);
                chunk["usage"] = usage(prompt, new);
                self.ready.push_back(data(&chunk));
            }
            self.ready.push_back(sse::Event::default().data("[DONE]"));
            self.done = true;
            return Ok(());
        };
        let told = &mut self.choices[index];
        match event {
            Event::Accepted { .. } => {}
            Event::Token(token) => {
                told.tokens += 1;
                let text = told.choice.text.push(token.id)?;
                if !text.is_empty() || told.logprobs {
                    let piece = self.shape.piece(index, &text, &[token], &mut told.offset)?;
                    self.ready.push_back(data(&merged(&self.shape, piece)));
                }
            }
            Event::Ended(ended) => {
                told.ended = true;
                let reason = finish_reason(ended.finish)?;
                let text = told.choice.text.finish()?;
                if !text.is_empty() {
                    let piece = self.shape.piece(index, &text, &[], &mut told.offset)?;
                    self.ready.push_back(data(&merged(&self.shape, piece)));
                }
                let record = told.choice.record(&self.service, self.client, index, &ended);
                let mut chunk = merged(&self.shape, self.shape.last(index, reason));
                chunk["lastbit"] = json!({"logged": self.service.origin.is_some(), "choices": [record]});
                self.ready.push_back(data(&chunk));
            }
            Event::Failed(failure) => return Err(failure.into()),
        }
        Ok(())
    }
}

fn merged<S: Shape>(shape: &S, choice: Value) -> Value {
    let mut chunk = shape.chunk();
    chunk["choices"] = json!([choice]);
    chunk
}

fn data(value: &Value) -> sse::Event {
    sse::Event::default().data(value.to_string())
}

/// Tokens of a call.
pub(super) fn usage(prompt: usize, new: usize) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new})
}
