//! Answers to calls that make choices: what completions and chat have in common.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use engine::scores::Score;
use serde_json::{Value, json};

use super::ask::Ask;
use super::choices::{Choice, Made, finish_reason};
use super::error::ApiError;
use super::stream;
use super::{Client, Service};
use crate::worker::Token;

/// How a call words its choices.
pub(super) trait Shape: Send + Sync + 'static {
    /// The `object` of a whole answer.
    const WHOLE: &'static str;
    /// The members that an answer has, or every chunk of a stream.
    fn common(&self) -> Value;
    /// A whole choice, without its index and its end.
    fn whole(&self, choice: &Choice, made: &Made) -> Result<Value, ApiError>;
    /// Sent before anything of a choice is known.
    fn first(&self) -> Option<Value>;
    /// Sent before a choice's first piece; `scores` are those of its prompt. `offset` counts characters of the choice's text.
    fn prompt(&self, choice: &Choice, scores: &[Score], offset: &mut usize) -> Result<Option<Value>, ApiError>;
    /// A choice's piece of text with the tokens it came with.
    fn piece(&self, text: &str, tokens: &[Token], offset: &mut usize) -> Result<Value, ApiError>;
    /// A choice's end.
    fn last(&self) -> Value;
}

/// A call whose choices are on their way.
pub(super) struct Call<S> {
    pub service: Arc<Service>,
    pub client: Client,
    pub choices: Vec<Choice>,
    pub ask: Ask,
    pub shape: S,
}

impl<S: Shape> Call<S> {
    /// The answer, whole or as a stream.
    pub async fn answer(self) -> Result<Response, ApiError> {
        if self.ask.stream { Ok(stream::answer(self)) } else { self.whole().await }
    }

    async fn whole(mut self) -> Result<Response, ApiError> {
        let mut made = Vec::with_capacity(self.choices.len());
        for choice in &mut self.choices {
            made.push(choice.make().await?);
        }
        let (mut told, mut records, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let each = self.ask.best_of as usize;
        for first in (0..made.len()).step_by(each) {
            for (rank, at) in self.ranked(&made[first..first + each]).into_iter().enumerate() {
                let (choice, made) = (&self.choices[first + at], &made[first + at]);
                let reason = finish_reason(made.ended.finish)?;
                let index = (rank < self.ask.n as usize).then_some(told.len());
                let mut record = choice.record(&self.service, self.client, index, &made.ended);
                if each > self.ask.n as usize {
                    record["mean_logprob"] = json!(made.likelihood());
                }
                match index {
                    Some(index) => {
                        let mut whole = self.shape.whole(choice, made)?;
                        whole["index"] = json!(index);
                        whole["finish_reason"] = json!(reason);
                        told.push(whole);
                        records.push(record);
                    }
                    None => others.push(record),
                }
            }
        }
        let mut answer = self.shape.common();
        answer["object"] = json!(S::WHOLE);
        answer["choices"] = Value::Array(told);
        answer["usage"] = usage(self.prompt_tokens(), made.iter().map(|m| m.tokens.len()).sum());
        answer["lastbit"] = json!({"logged": self.service.origin.is_some(), "choices": records});
        if !others.is_empty() {
            answer["lastbit"]["others"] = Value::Array(others);
        }
        Ok(Json(answer).into_response())
    }

    /// Places of a prompt's choices: as they were numbered, or the likeliest first and the lower number among equals, where some are not told.
    fn ranked(&self, made: &[Made]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..made.len()).collect();
        if self.ask.best_of > self.ask.n {
            order.sort_by(|a, b| made[*b].likelihood().total_cmp(&made[*a].likelihood()));
        }
        order
    }

    /// Tokens of all prompts, each counted once.
    pub fn prompt_tokens(&self) -> usize {
        self.choices.iter().step_by(self.ask.best_of as usize).map(|c| c.prompt.ids.len()).sum()
    }
}

/// Tokens of a call.
pub(super) fn usage(prompt: usize, new: usize) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new})
}
