//! What an endpoint offers a tester: the first requests of every run.

use serde_json::json;

use crate::api::{Ask, Prompt, Route, Shape};
use crate::error::{Error, Result};
use crate::session::Session;
use crate::trace::Record;

/// What of its numbers an endpoint shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Tokens only.
    A,
    /// The chosen token's log-probability.
    B,
    /// The most likely tokens'.
    C,
    /// The prompt's as well.
    D,
}

impl Tier {
    /// In words.
    pub fn meaning(self) -> &'static str {
        match self {
            Tier::A => "A (tokens only)",
            Tier::B => "B (log-probability of the chosen token)",
            Tier::C => "C (log-probabilities of the most likely tokens)",
            Tier::D => "D (log-probabilities of prompts too)",
        }
    }
}

/// How prompts are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// `echo` with `logprobs`.
    Echo,
    /// `prompt_logprobs`.
    PromptLogprobs,
}

/// What an endpoint offers.
#[derive(Clone, Debug)]
pub struct Capability {
    /// Highest tier.
    pub tier: Tier,
    /// Call that probes use: completions where there are any.
    pub route: Route,
    /// Both calls answer.
    pub both: bool,
    /// Model to ask for.
    pub model: Option<String>,
    /// Models that are listed.
    pub models: Vec<String>,
    /// Largest number of most likely tokens that was granted, of those tried.
    pub top: u32,
    /// Significant digits of log-probabilities: the most that were seen.
    pub digits: usize,
    /// Prompts may be token ids.
    pub ids: bool,
    /// Tokens come with ids.
    pub token_ids: bool,
    /// How prompts are scored.
    pub scoring: Option<Scoring>,
    /// `n` is granted.
    pub many: bool,
    /// Log-probabilities were asked for and came back null.
    pub null: bool,
}

impl Capability {
    /// A greedy request as probes make them.
    pub fn greedy(&self, prompt: Prompt, tokens: u32) -> Ask {
        let k = (self.tier >= Tier::B).then_some(self.top);
        Ask::new(self.route, self.model.as_deref(), prompt, tokens).logprobs(k)
    }

    /// For the head of a report.
    pub fn summary(&self) -> String {
        if self.tier < Tier::B {
            return self.tier.meaning().to_owned();
        }
        format!("{}, top {}, {} digits", self.tier.meaning(), self.top, self.digits)
    }
}

/// The prompt of these requests.
const PROMPT: &str = "The quick brown fox jumps over";
/// Numbers of most likely tokens that are tried.
const TOPS: [u32; 2] = [5, 20];

/// Finds out what is offered, in at most nine requests.
///
/// # Errors
/// [`Error::Endpoint`] when neither call gives an answer; what [`Session::get`] fails with.
pub async fn detect(session: &Session, model: Option<&str>) -> Result<Capability> {
    let listed = session.get("t/models", "models").await?;
    if matches!(listed.status, Some(401 | 403)) {
        return Err(Error::Endpoint(format!("it refuses the key or wants one ({})", listed.why())));
    }
    let models = listed.answer.as_ref().map(|a| a.models.clone()).unwrap_or_default();
    let model = model.map(ToOwned::to_owned).or_else(|| models.first().cloned());
    let ask = |route, k| Ask::new(route, model.as_deref(), Prompt::Text(PROMPT.into()), 4).logprobs(k);
    let mut first = session.ask("t/completions", &ask(Route::Completions, Some(TOPS[0]))).await?;
    if first.refused() {
        // Some refuse log-probabilities instead of leaving them out.
        let plain = session.ask("t/completions/plain", &ask(Route::Completions, None)).await?;
        if plain.good().is_some() {
            first = plain;
        }
    }
    let mut chat = session.ask("t/chat", &ask(Route::Chat, Some(TOPS[0]))).await?;
    if chat.refused() && first.good().is_none() {
        let plain = session.ask("t/chat/plain", &ask(Route::Chat, None)).await?;
        if plain.good().is_some() {
            chat = plain;
        }
    }
    let (route, good) = match (first.good(), chat.good()) {
        (Some(answer), _) => (Route::Completions, answer),
        (None, Some(answer)) => (Route::Chat, answer),
        (None, None) => return Err(Error::Endpoint(format!("completions: {}; chat: {}", first.why(), chat.why()))),
    };
    let steps = good.steps();
    let shape = good.choices[0].shape;
    let mut found = Capability {
        tier: match steps.first() {
            Some(step) if step.top.len() > 1 => Tier::C,
            Some(step) if step.logprob.is_some() => Tier::B,
            _ => Tier::A,
        },
        route,
        both: first.good().is_some() && chat.good().is_some(),
        model: model.clone(),
        models,
        top: TOPS[0],
        digits: 0,
        ids: false,
        token_ids: steps.iter().any(|s| s.id.is_some()),
        scoring: None,
        many: false,
        null: shape == Shape::Null,
    };
    found.digits = digits(&first).max(digits(&chat));
    if found.tier == Tier::C {
        let more = session.ask("t/top", &ask(route, Some(TOPS[1]))).await?;
        let granted = more.good().and_then(|a| a.steps().first()).map_or(0, |s| s.top.len());
        if granted > TOPS[0] as usize {
            found.top = TOPS[1];
            found.digits = found.digits.max(digits(&more));
        }
    }
    let many = Ask { n: Some(2), ..ask(route, None) }.temperature(1.0);
    found.many = session.ask("t/many", &many).await?.good().is_some_and(|a| a.choices.len() == 2);
    if route == Route::Completions {
        let ids = Ask::new(route, model.as_deref(), Prompt::Ids(vec![5, 6, 7, 8, 9]), 1);
        found.ids = session.ask("t/ids", &ids).await?.good().is_some();
    }
    found.scoring = scoring(session, &ask(route, Some(TOPS[0])), found.tier).await?;
    if found.scoring.is_some() {
        found.tier = Tier::D;
    }
    Ok(found)
}

/// Tries the two ways of scoring a prompt.
async fn scoring(session: &Session, ask: &Ask, tier: Tier) -> Result<Option<Scoring>> {
    if tier < Tier::C {
        return Ok(None);
    }
    if ask.route == Route::Completions {
        let echo = Ask { max_tokens: 1, ..ask.clone() }.with("echo", json!(true));
        let record = session.ask("t/echo", &echo).await?;
        if record.good().is_some_and(|a| a.steps().len() > 2 && a.steps()[0].logprob.is_none()) {
            return Ok(Some(Scoring::Echo));
        }
    }
    let prompt = Ask { max_tokens: 1, ..ask.clone() }.with("prompt_logprobs", json!(1));
    let record = session.ask("t/prompt_logprobs", &prompt).await?;
    let scored = record.good().is_some_and(|a| a.choices[0].prompt_steps.iter().flatten().count() > 1);
    Ok(scored.then_some(Scoring::PromptLogprobs))
}

fn digits(record: &Record) -> usize {
    let steps = record.good().map(|a| a.steps()).unwrap_or_default();
    steps.iter().flat_map(|s| s.logprob.iter().chain(s.top.iter().map(|t| &t.2))).map(|d| d.digits()).max().unwrap_or(0)
}
