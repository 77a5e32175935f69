//! What the service allows, and for how long it waits.

use std::time::Duration;

use serde::Deserialize;

/// Settings of the HTTP side.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What requests may ask for.
    pub limits: Limits,
    /// Seconds in which a request's header, and then its body, must have arrived.
    pub receive_seconds: u64,
    /// Seconds that running requests get to end in when the service is told to stop; then they are withdrawn.
    pub drain_seconds: u64,
    /// Connections at a time; more wait to be accepted.
    pub connections: u32,
    /// Serve on other addresses than this machine's own without API keys.
    pub anonymous: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { limits: Limits::default(), receive_seconds: 30, drain_seconds: 60, connections: 1024, anonymous: false }
    }
}

impl Config {
    /// Time for a header, and for a body.
    pub(crate) fn receive(&self) -> Duration {
        Duration::from_secs(self.receive_seconds.max(1))
    }
}

/// Limits of requests. What exceeds one is refused, never cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Tokens of a prompt.
    pub prompt_tokens: u32,
    /// New tokens of one choice.
    pub new_tokens: u32,
    /// Choices of one call: `n` times the number of prompts.
    pub choices: u32,
    /// Choices that run or wait, over all calls. A call beyond that is answered with 429.
    pub queue: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes: 1 << 20, prompt_tokens: 1 << 17, new_tokens: 1 << 16, choices: 16, queue: 256 }
    }
}
