//! Answers as server-sent events: a piece of text as soon as it is certain, the end once it is on record.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use engine::scores::Score;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream, SelectAll};
use serde_json::{Value, json};

use super::answer::{Call, Shape, usage};
use super::choices::{Choice, finish_reason, gone};
use super::error::ApiError;
use crate::worker::Event;

struct Telling<S> {
    call: Call<S>,
    events: SelectAll<BoxStream<'static, (usize, Event)>>,
    told: Vec<Told>,
    ready: VecDeque<sse::Event>,
    done: bool,
}

/// How far a choice has been told.
#[derive(Clone, Default)]
struct Told {
    offset: usize,
    tokens: usize,
    /// Of its prompt, until the first token comes.
    scores: Vec<Score>,
    ended: bool,
}

/// Streams choices. When the client goes away, they are withdrawn.
pub(super) fn answer<S: Shape>(mut call: Call<S>) -> Response {
    let listen = |(index, choice): (usize, &mut Choice)| {
        let (_, nobody) = tokio::sync::mpsc::unbounded_channel();
        let mut events = std::mem::replace(&mut choice.events, nobody);
        stream::poll_fn(move |cx| events.poll_recv(cx)).map(move |event| (index, event)).boxed()
    };
    let events = stream::select_all(call.choices.iter_mut().enumerate().map(listen));
    let told = vec![Told::default(); call.choices.len()];
    let mut telling = Telling { call, events, told, ready: VecDeque::new(), done: false };
    for index in 0..telling.told.len() {
        if let Some(first) = telling.call.shape.first() {
            telling.tell(index, first, None);
        }
    }
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
        let Some((index, event)) = heard else { return self.finish() };
        match event {
            Event::Accepted { .. } => {}
            Event::Prompt(scores) => self.told[index].scores.extend(scores),
            Event::Token(token) => {
                self.begin(index)?;
                self.told[index].tokens += 1;
                let text = self.call.choices[index].text.push(token.id)?;
                if !text.is_empty() || token.logprobs.is_some() {
                    let piece = self.call.shape.piece(&text, &[token], &mut self.told[index].offset)?;
                    self.tell(index, piece, None);
                }
            }
            Event::Ended(ended) => {
                self.told[index].ended = true;
                let reason = finish_reason(ended.finish)?;
                let choice = &mut self.call.choices[index];
                let text = choice.text.finish()?;
                let record = choice.record(&self.call.service, self.call.client, Some(index), &ended);
                if !text.is_empty() {
                    let piece = self.call.shape.piece(&text, &[], &mut self.told[index].offset)?;
                    self.tell(index, piece, None);
                }
                let mut last = self.call.shape.last();
                last["finish_reason"] = json!(reason);
                self.tell(index, last, Some(record));
            }
            Event::Failed(failure) => return Err(failure.into()),
        }
        Ok(())
    }

    /// Before the first token: what is to be told of the prompt.
    fn begin(&mut self, index: usize) -> Result<(), ApiError> {
        let told = &mut self.told[index];
        if told.tokens == 0 {
            let scores = std::mem::take(&mut told.scores);
            let prompt = self.call.shape.prompt(&self.call.choices[index], &scores, &mut told.offset)?;
            if let Some(prompt) = prompt {
                self.tell(index, prompt, None);
            }
        }
        Ok(())
    }

    /// After the last event.
    fn finish(&mut self) -> Result<(), ApiError> {
        if self.told.iter().any(|t| !t.ended) {
            return Err(gone());
        }
        if self.call.ask.usage {
            let mut chunk = self.call.shape.common();
            chunk["choices"] = json!([]);
            chunk["usage"] = usage(self.call.prompt_tokens(), self.told.iter().map(|t| t.tokens).sum());
            self.ready.push_back(data(&chunk));
        }
        self.ready.push_back(sse::Event::default().data("[DONE]"));
        self.done = true;
        Ok(())
    }

    fn tell(&mut self, index: usize, mut choice: Value, record: Option<Value>) {
        choice["index"] = json!(index);
        let mut chunk = self.call.shape.common();
        chunk["choices"] = json!([choice]);
        if let Some(record) = record {
            chunk["lastbit"] = json!({"logged": self.call.service.origin.is_some(), "choices": [record]});
        }
        self.ready.push_back(data(&chunk));
    }
}

fn data(value: &Value) -> sse::Event {
    sse::Event::default().data(value.to_string())
}
