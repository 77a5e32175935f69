//! A request for completions or chat.

use serde_json::{Map, Value, json};

/// Which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST completions`.
    Completions,
    /// `POST chat/completions`.
    Chat,
}

impl Route {
    /// Path below the base address.
    pub fn path(self) -> &'static str {
        match self {
            Route::Completions => "completions",
            Route::Chat => "chat/completions",
        }
    }
}

/// What is continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text; for chat, what the user says.
    Text(String),
    /// Token ids; completions only.
    Ids(Vec<u32>),
}

impl Prompt {
    /// At least as many tokens as it can have: one a byte.
    pub fn most_tokens(&self) -> u64 {
        match self {
            // A chat template adds a few.
            Prompt::Text(text) => text.len() as u64 + 64,
            Prompt::Ids(ids) => ids.len() as u64 + 2,
        }
    }

    /// Its text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Prompt::Text(text) => Some(text),
            Prompt::Ids(_) => None,
        }
    }
}

/// A request. Members that are none are left out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Which call.
    pub route: Route,
    /// Model name.
    pub model: Option<String>,
    /// What is continued.
    pub prompt: Prompt,
    /// Most new tokens.
    pub max_tokens: u32,
    /// Temperature.
    pub temperature: Option<f64>,
    /// Seed.
    pub seed: Option<u64>,
    /// How many most likely tokens are to be named at each step.
    pub logprobs: Option<u32>,
    /// Choices.
    pub n: Option<u32>,
    /// As events.
    pub stream: bool,
    /// Whatever else, verbatim.
    pub extra: Map<String, Value>,
}

impl Ask {
    /// A greedy request without log-probabilities.
    pub fn new(route: Route, model: Option<&str>, prompt: Prompt, max_tokens: u32) -> Self {
        Self {
            route,
            model: model.map(ToOwned::to_owned),
            prompt,
            max_tokens,
            temperature: Some(0.0),
            seed: None,
            logprobs: None,
            n: None,
            stream: false,
            extra: Map::new(),
        }
    }

    /// With log-probabilities of the `k` most likely tokens.
    #[must_use]
    pub fn logprobs(mut self, k: Option<u32>) -> Self {
        self.logprobs = k;
        self
    }

    /// At another temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// With a seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// With one more member.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.extra.insert(name.to_owned(), value);
        self
    }

    /// The request's body.
    pub fn body(&self) -> Value {
        let mut body = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        put("model", self.model.as_deref().map(Value::from));
        match (self.route, &self.prompt) {
            (Route::Completions, Prompt::Text(text)) => put("prompt", Some(json!(text))),
            (Route::Completions, Prompt::Ids(ids)) => put("prompt", Some(json!(ids))),
            (Route::Chat, Prompt::Text(text)) => put("messages", Some(json!([{"role": "user", "content": text}]))),
            // No chat call takes ids; an endpoint that is asked so refuses it.
            (Route::Chat, Prompt::Ids(ids)) => put("messages", Some(json!(ids))),
        }
        put("max_tokens", Some(json!(self.max_tokens)));
        put("temperature", self.temperature.map(whole));
        put("seed", self.seed.map(Value::from));
        match (self.route, self.logprobs) {
            (Route::Completions, k) => put("logprobs", k.map(Value::from)),
            (Route::Chat, Some(k)) => {
                put("logprobs", Some(json!(true)));
                put("top_logprobs", Some(json!(k)));
            }
            (Route::Chat, None) => {}
        }
        put("n", self.n.map(Value::from));
        if self.stream {
            put("stream", Some(json!(true)));
            put("stream_options", Some(json!({"include_usage": true})));
        }
        body.extend(self.extra.clone());
        Value::Object(body)
    }

    /// The most tokens it can use: prompt, and answers.
    pub fn most(&self) -> (u64, u64) {
        (self.prompt.most_tokens(), u64::from(self.max_tokens.max(1)) * u64::from(self.n.unwrap_or(1).max(1)))
    }
}

/// 0 and 1 as integers: some servers want no `0.0`, none minds `0`.
fn whole(t: f64) -> Value {
    if t == 0.0 {
        json!(0)
    } else if t == 1.0 {
        json!(1)
    } else {
        json!(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_what_the_interface_takes() {
        let ask = Ask::new(Route::Completions, Some("m"), Prompt::Ids(vec![1, 2]), 3).logprobs(Some(5)).seed(7);
        let expected = json!({"model":"m","prompt":[1,2],"max_tokens":3,"temperature":0,"seed":7,"logprobs":5});
        assert_eq!(ask.body(), expected);
        let ask = Ask::new(Route::Chat, None, Prompt::Text("hi".into()), 1).logprobs(Some(2)).temperature(0.5);
        let expected = json!({"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"temperature":0.5,"logprobs":true,"top_logprobs":2});
        assert_eq!(ask.body(), expected);
    }
}
