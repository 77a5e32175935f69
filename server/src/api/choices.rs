//! Choices: each is one request to the engine.

use std::sync::Arc;

use engine::batch::Finish;
use engine::scores::Score;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::ask::Ask;
use super::error::ApiError;
use super::{Client, Service};
use crate::text::TextStream;
use crate::worker::{Ended, Event, Failure, Job, Token};

/// A prompt.
pub(super) struct Prompt {
    pub ids: Vec<u32>,
    pub text: String,
}

/// A choice that is being made. Dropping it withdraws it.
pub(super) struct Choice {
    /// Its id in records.
    pub id: String,
    pub nonce: String,
    pub seed: Option<u64>,
    pub prompt: Arc<Prompt>,
    pub text: TextStream,
    pub events: UnboundedReceiver<Event>,
}

/// A choice that was made.
pub(super) struct Made {
    pub text: String,
    pub tokens: Vec<Token>,
    /// Of the prompt's tokens from the second on, if that was asked for.
    pub scores: Vec<Score>,
    pub ended: Ended,
}

impl Made {
    /// Mean log-probability of the tokens, in f64 and their order; what choices are ranked by.
    pub fn likelihood(&self) -> f64 {
        let known = self.tokens.iter().filter_map(|t| t.logprobs.as_ref());
        let mut sum = 0.0;
        for score in known {
            sum += f64::from(score.token.value());
        }
        sum / self.tokens.len().max(1) as f64
    }
}

/// Hands every prompt's choices to the engine, all or none. They are numbered prompt by prompt.
pub(super) async fn start(
    service: &Arc<Service>,
    client: Client,
    prompts: Vec<Prompt>,
    ask: &Ask,
) -> Result<Vec<Choice>, ApiError> {
    service.admits()?;
    let (limits, config) = (&service.config.limits, &service.model.config);
    let total = u32::try_from(prompts.len()).unwrap_or(u32::MAX).saturating_mul(ask.best_of);
    let most = limits.choices.min(limits.queue);
    if total > most {
        let message = format!("{total} choices are asked for; one call may ask for {most}");
        return Err(ApiError::param(if ask.best_of > ask.n { "best_of" } else { "n" }, message));
    }
    if let Some((id, _)) = ask.adjust.bias.iter().find(|(id, _)| *id >= config.vocab_size) {
        let message = format!("token {id} is beyond the vocabulary of {}", config.vocab_size);
        return Err(ApiError::param("logit_bias", message));
    }
    let mut requests = Vec::with_capacity(total as usize);
    for prompt in prompts {
        let new = room(service, &prompt.ids, ask.max_new_tokens)?;
        let prompt = Arc::new(prompt);
        for _ in 0..ask.best_of {
            let request = ask.request(prompt.ids.clone(), new, &config.eos, client.0);
            requests.push((prompt.clone(), request));
        }
    }
    let Some(places) = service.handle.places(total) else {
        service.handle.metrics.refused_busy.add(1);
        return Err(ApiError::busy(limits.queue));
    };
    let mut waiting = Vec::with_capacity(requests.len());
    for ((number, (prompt, request)), place) in (0u32..).zip(requests).zip(places) {
        let (events, heard) = unbounded_channel();
        let job = Job {
            request,
            seed: ask.seed_of(number % ask.best_of),
            nonce: ask.nonce.clone(),
            logprobs: ask.scored_output(),
            prompt_logprobs: ask.scored_prompt(),
            events,
            place,
        };
        if !service.handle.submit(job) {
            return Err(gone());
        }
        waiting.push((prompt, heard));
    }
    let mut choices = Vec::with_capacity(waiting.len());
    for (prompt, mut events) in waiting {
        let (id, seed) = match events.recv().await {
            Some(Event::Accepted { id, seed }) => (id, seed),
            Some(Event::Failed(failure)) => return Err(failure.into()),
            _ => return Err(gone()),
        };
        let text = TextStream::new(service.model.tokenizer.clone(), ask.stop.clone());
        choices.push(Choice { id, nonce: ask.nonce.clone(), seed, prompt, text, events });
    }
    Ok(choices)
}

/// New tokens for a prompt: as many as were asked for, or else as many as fit.
fn room(service: &Service, prompt: &[u32], wanted: Option<u32>) -> Result<u32, ApiError> {
    let (limits, config) = (&service.config.limits, &service.model.config);
    let length = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
    if length == 0 {
        return Err(ApiError::param("prompt", "the prompt has no token"));
    }
    if let Some(id) = prompt.iter().find(|id| **id >= config.vocab_size) {
        let message = format!("token {id} is beyond the vocabulary of {}", config.vocab_size);
        return Err(ApiError::param("prompt", message));
    }
    if length > limits.prompt_tokens {
        let message = format!("the prompt has {length} tokens; this service takes {}", limits.prompt_tokens);
        return Err(ApiError::too_long(message));
    }
    // The last token is never fed back, so it needs no position.
    let most = (config.max_positions + 1).saturating_sub(length);
    match wanted {
        _ if most == 0 => {
            let message = format!("the prompt has {length} tokens; the model has {} positions", config.max_positions);
            Err(ApiError::too_long(message))
        }
        None => Ok(most.min(limits.new_tokens)),
        Some(n) if n <= most => Ok(n),
        Some(n) => {
            let message = format!(
                "{length} prompt tokens and {n} new ones do not fit: the model has {} positions, so {most} new tokens at most",
                config.max_positions
            );
            Err(ApiError::too_long(message))
        }
    }
}

impl Choice {
    /// Waits for the end.
    pub async fn make(&mut self) -> Result<Made, ApiError> {
        let (mut text, mut tokens, mut scores) = (String::new(), Vec::new(), Vec::new());
        loop {
            match self.events.recv().await {
                Some(Event::Token(token)) => {
                    text += &self.text.push(token.id)?;
                    tokens.push(token);
                }
                Some(Event::Ended(ended)) => {
                    text += &self.text.finish()?;
                    return Ok(Made { text, tokens, scores, ended });
                }
                Some(Event::Prompt(more)) => scores.extend(more),
                Some(Event::Failed(failure)) => return Err(failure.into()),
                Some(Event::Accepted { .. }) => {}
                None => return Err(gone()),
            }
        }
    }

    /// What an answer says of where the choice is on record.
    pub fn record(&self, service: &Service, client: Client, index: Option<usize>, ended: &Ended) -> Value {
        if let Some(place) = &ended.place {
            service.receipts.add(&self.id, client, place.clone());
        }
        let place = ended.place.as_ref();
        json!({
            "index": index,
            "id": self.id,
            "nonce": self.nonce,
            "seed": self.seed.map(|s| s.to_string()),
            "record": place.map(|p| json!({
                "origin": service.origin, "index": p.index, "digest": p.record, "request": p.request,
            })),
            "receipt": place.map(|p| p.receipt.as_str()),
        })
    }
}

/// The word for an end; an error for one that the client did not bring about.
pub(super) fn finish_reason(finish: Finish) -> Result<&'static str, ApiError> {
    match finish {
        Finish::Stop => Ok("stop"),
        Finish::Length => Ok("length"),
        Finish::Cancelled => Err(ApiError::unavailable("withdrawn before its end: the service stops")),
    }
}

pub(super) fn gone() -> ApiError {
    ApiError::unavailable("the service has stopped serving; see its log")
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Request(what) => ApiError::invalid(what),
            Failure::Service(what) => ApiError::unavailable(format!("nothing is served that cannot be logged: {what}")),
        }
    }
}

impl From<engine::Error> for ApiError {
    fn from(error: engine::Error) -> Self {
        ApiError::internal(error.to_string())
    }
}
