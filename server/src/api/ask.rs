//! What a call asks for, in words that completions and chat share.

use axum::http::HeaderMap;
use engine::batch::Request;
use engine::sampler::{Adjust, Sampling, Seeded};
use serde_json::Value;
use unicode_normalization::is_nfc;

use super::error::ApiError;
use super::fields::Fields;
use crate::config::Limits;
use crate::worker::Seed;

/// Most stop strings of a call.
const MAX_STOPS: usize = 4;
/// Most logits with a bias.
const MAX_BIASES: usize = 1024;
/// Most bytes of a stop string.
const MAX_STOP_BYTES: usize = 256;
/// Most likely tokens that can be named.
pub(super) const MAX_TOP_LOGPROBS: u32 = 20;
/// Header with the client's nonce.
pub(super) const NONCE_HEADER: &str = "x-lastbit-nonce";

/// How choices are to be made and told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ask {
    /// Choices for each prompt.
    pub n: u32,
    /// Choices made for each prompt; the `n` likeliest are told.
    pub best_of: u32,
    /// Most new tokens; none for as many as fit.
    pub max_new_tokens: Option<u32>,
    /// How tokens are chosen; a seed in it is not filled in yet.
    pub sampling: Sampling,
    /// What is done to logits before that.
    pub adjust: Adjust,
    /// The client's seed.
    pub seed: Option<u64>,
    /// The client's nonce, or a random one.
    pub nonce: String,
    /// Text that ends a choice.
    pub stop: Vec<String>,
    /// Answer token by token.
    pub stream: bool,
    /// Streams end with a count of tokens.
    pub usage: bool,
    /// Log-probabilities, and of how many most likely tokens.
    pub logprobs: Option<u32>,
    /// The same for the prompt's tokens.
    pub prompt_logprobs: Option<u32>,
    /// Text and log-probabilities of a completion begin with those of its prompt.
    pub echo: bool,
}

impl Ask {
    /// Takes what both calls know. `logprobs` and the names for `max_tokens` are theirs.
    pub fn take(fields: &mut Fields, headers: &HeaderMap, limits: &Limits) -> Result<Self, ApiError> {
        let n = fields.count("n", 1, limits.choices)?.unwrap_or(1);
        let best_of = fields.count("best_of", 1, limits.choices)?.unwrap_or(n);
        let stream = fields.bool("stream")?.unwrap_or(false);
        if best_of < n {
            return Err(ApiError::param("best_of", format!("`best_of` is {best_of}; it must be at least `n`, {n}")));
        }
        if stream && best_of > n {
            return Err(ApiError::param(
                "best_of",
                "which choices are best is known at their end: no stream can tell them",
            ));
        }
        let max_new_tokens = fields.count("max_tokens", 1, limits.new_tokens)?;
        Ok(Self {
            n,
            best_of,
            max_new_tokens,
            sampling: sampling(fields)?,
            adjust: adjust(fields)?,
            seed: seed(fields.take("seed"))?,
            nonce: nonce(fields.string("nonce")?, headers)?,
            stop: stop(fields.take("stop"))?,
            stream,
            usage: usage(fields.take("stream_options"), stream)?,
            logprobs: None,
            prompt_logprobs: fields.count("prompt_logprobs", 0, MAX_TOP_LOGPROBS)?,
            echo: false,
        })
    }

    /// The engine's request for a prompt.
    pub fn request(&self, prompt: Vec<u32>, max_new_tokens: u32, stop_ids: &[u32], client: u32) -> Request {
        Request {
            sampling: self.sampling,
            adjust: self.adjust.clone(),
            prompt_logprobs: self.scored_prompt().is_some(),
            stop: stop_ids.to_vec(),
            stop_strings: self.stop.clone(),
            client,
            ..Request::new(prompt, max_new_tokens)
        }
    }

    /// How many most likely tokens are wanted at each place of the prompt, if its log-probabilities are wanted.
    pub fn scored_prompt(&self) -> Option<u32> {
        self.prompt_logprobs.max(self.logprobs.filter(|_| self.echo))
    }

    /// How many are wanted at each place of the output; ranking needs the chosen token's.
    pub fn scored_output(&self) -> Option<u32> {
        self.logprobs.or((self.best_of > self.n).then_some(0))
    }

    /// Where the seed of choice number `choice` comes from. The client's seed is for the first one; the others count up from it.
    pub fn seed_of(&self, choice: u32) -> Seed {
        match (self.sampling, self.seed) {
            (Sampling::Greedy, _) => Seed::None,
            (Sampling::Seeded(_), Some(seed)) => Seed::Client(seed.wrapping_add(u64::from(choice))),
            (Sampling::Seeded(_), None) => Seed::Derived,
        }
    }
}

/// Temperature 1 unless stated, as OpenAI has it; 0 is greedy choice, which no filter changes.
fn sampling(fields: &mut Fields) -> Result<Sampling, ApiError> {
    let temperature = fields.number("temperature", "a number from 0 to 2", |t| (0.0..=2.0).contains(&t))?;
    let top_p = fields.number("top_p", "a number above 0 and at most 1", |p| p > 0.0 && p <= 1.0)?;
    let min_p = fields.number("min_p", "a number from 0 to 1", |p| (0.0..=1.0).contains(&p))?;
    let top_k = match fields.take("top_k") {
        None => None,
        Some(value) => match value.as_i64() {
            Some(-1 | 0) => None,
            Some(k @ 1..=0xffff_ffff) => Some(k as u32),
            _ => return Err(ApiError::param("top_k", "`top_k` is a whole number; 0 or -1 keep all")),
        },
    };
    let temperature = temperature.unwrap_or(1.0);
    if temperature == 0.0 {
        return Ok(Sampling::Greedy);
    }
    let top_p = top_p.map(|p| p as f32).filter(|p| *p != 1.0);
    let min_p = min_p.map(|p| p as f32).filter(|p| *p != 0.0);
    let sampling = Sampling::Seeded(Seeded { top_k, top_p, min_p, ..Seeded::plain(temperature as f32, 0) });
    sampling.check().map_err(|e| ApiError::invalid(e.to_string()))?;
    Ok(sampling)
}

/// Bias and penalties.
fn adjust(fields: &mut Fields) -> Result<Adjust, ApiError> {
    let penalty = |fields: &mut Fields, name| {
        let found = fields.number(name, "a number from -2 to 2", |p| (-2.0..=2.0).contains(&p))?;
        Ok::<_, ApiError>(found.unwrap_or(0.0) as f32)
    };
    let presence = penalty(fields, "presence_penalty")?;
    let frequency = penalty(fields, "frequency_penalty")?;
    let wanted = "a number above 0 and at most 10";
    let repetition = fields.number("repetition_penalty", wanted, |p| p > 0.0 && p <= 10.0)?.unwrap_or(1.0) as f32;
    let adjust = Adjust { bias: bias(fields.take("logit_bias"))?, repetition, frequency, presence };
    adjust.check().map_err(|e| ApiError::invalid(e.to_string()))?;
    Ok(adjust)
}

/// `{"token id": number}`, ascending.
fn bias(value: Option<Value>) -> Result<Vec<(u32, f32)>, ApiError> {
    let refuse = |what: String| ApiError::param("logit_bias", what);
    let Some(value) = value else { return Ok(Vec::new()) };
    let Value::Object(all) = value else {
        return Err(refuse("`logit_bias` is an object of token ids and numbers".into()));
    };
    if all.len() > MAX_BIASES {
        return Err(refuse(format!("`logit_bias` has at most {MAX_BIASES} members")));
    }
    let mut biases = Vec::with_capacity(all.len());
    for (name, value) in all {
        // One spelling an id, so that none is named twice.
        let id = name.parse::<u32>().ok().filter(|id| id.to_string() == name);
        let bias = value.as_f64().filter(|b| (-100.0..=100.0).contains(b));
        match (id, bias) {
            (Some(id), Some(bias)) => biases.push((id, bias as f32)),
            (None, _) => return Err(refuse("a name in `logit_bias` is no token id in decimal".into())),
            (_, None) => return Err(refuse(format!("the bias of token {name} is a number from -100 to 100"))),
        }
    }
    biases.sort_unstable_by_key(|(id, _)| *id);
    Ok(biases)
}

/// A seed is any 64 bits; negative numbers are taken as their two's complement.
fn seed(value: Option<Value>) -> Result<Option<u64>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    let bits = value.as_u64().or_else(|| value.as_i64().map(|s| s as u64));
    bits.map(Some).ok_or_else(|| ApiError::param("seed", "`seed` is a whole number of 64 bits"))
}

/// The nonce of body or header, or a random one.
fn nonce(field: Option<String>, headers: &HeaderMap) -> Result<String, ApiError> {
    let header = match headers.get(NONCE_HEADER).map(|h| h.to_str()) {
        None => None,
        Some(Ok(text)) => Some(text.to_owned()),
        Some(Err(_)) => return Err(ApiError::param("nonce", "the nonce header is not text")),
    };
    let given = match (field, header) {
        (Some(a), Some(b)) if a != b => {
            return Err(ApiError::param("nonce", "the nonces of header and body differ"));
        }
        (a, b) => a.or(b),
    };
    match given {
        None => {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|e| ApiError::internal(format!("no randomness to be had: {e}")))?;
            Ok(hex::encode(bytes))
        }
        Some(text) => {
            let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if digits && (2..=32).contains(&text.len()) && text.len().is_multiple_of(2) {
                Ok(text)
            } else {
                Err(ApiError::param("nonce", "a nonce is lower-case hex of 1 to 16 bytes"))
            }
        }
    }
}

fn stop(value: Option<Value>) -> Result<Vec<String>, ApiError> {
    let refuse = |what: &str| Err(ApiError::param("stop", what.to_owned()));
    let all: Vec<Value> = match value {
        None => Vec::new(),
        Some(one @ Value::String(_)) => vec![one],
        Some(Value::Array(all)) => all,
        Some(_) => return refuse("`stop` is a string or a list of strings"),
    };
    if all.len() > MAX_STOPS {
        return refuse("`stop` has at most 4 strings");
    }
    let mut stops = Vec::with_capacity(all.len());
    for value in all {
        let Value::String(text) = value else { return refuse("`stop` is a string or a list of strings") };
        if text.is_empty() || text.len() > MAX_STOP_BYTES {
            return refuse("a stop string has 1 to 256 bytes");
        }
        if !is_nfc(&text) {
            return refuse("a stop string must be in Unicode normal form C: records hold no other text");
        }
        if text.contains('\u{fffd}') {
            return refuse("a stop string cannot have U+FFFD: it stands for bytes that are no character");
        }
        if !stops.contains(&text) {
            stops.push(text);
        }
    }
    Ok(stops)
}

fn usage(value: Option<Value>, stream: bool) -> Result<bool, ApiError> {
    let Some(value) = value else { return Ok(false) };
    let refuse = |what: &str| Err(ApiError::param("stream_options", what.to_owned()));
    let Value::Object(options) = value else { return refuse("`stream_options` is an object") };
    if !stream {
        return refuse("`stream_options` needs `stream`");
    }
    let mut usage = false;
    for (name, value) in options {
        match (name.as_str(), value.as_bool()) {
            ("include_usage", Some(on)) => usage = on,
            // Nothing is padded.
            ("include_obfuscation", Some(false)) => {}
            _ => return refuse("of `stream_options`, `include_usage` is known: true or false"),
        }
    }
    Ok(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(json: &str) -> Result<Ask, ApiError> {
        let mut fields = Fields::parse(json.as_bytes())?;
        let ask = Ask::take(&mut fields, &HeaderMap::new(), &Limits::default())?;
        fields.finish()?;
        Ok(ask)
    }

    #[test]
    fn temperature_is_one_and_zero_is_greedy() {
        let seeded = |json| match ask(json).unwrap().sampling {
            Sampling::Seeded(s) => (s.temperature, s.top_k, s.top_p),
            Sampling::Greedy => panic!("{json} is greedy"),
        };
        assert_eq!(seeded("{}"), (1.0, None, None));
        assert_eq!(seeded(r#"{"temperature":0.5,"top_p":0.9,"top_k":5}"#), (0.5, Some(5), Some(0.9)));
        assert_eq!(seeded(r#"{"top_p":1,"top_k":-1}"#), (1.0, None, None));
        let greedy = ask(r#"{"temperature":0,"top_p":0.9,"seed":3}"#).unwrap();
        assert_eq!((greedy.sampling, greedy.seed_of(0)), (Sampling::Greedy, Seed::None));
        assert!(ask(r#"{"temperature":1e-60}"#).is_err(), "no f32");
    }

    #[test]
    fn seeds_are_64_bits() {
        for (json, seed) in [("0", 0), ("18446744073709551615", u64::MAX), ("-1", u64::MAX), ("7", 7)] {
            assert_eq!(ask(&format!(r#"{{"seed":{json}}}"#)).unwrap().seed, Some(seed));
        }
        for bad in ["1.5", "\"7\"", "18446744073709551616", "[]"] {
            assert!(ask(&format!(r#"{{"seed":{bad}}}"#)).is_err(), "{bad}");
        }
        let ask = ask(r#"{"seed":-1,"n":3}"#).unwrap();
        assert_eq!([0, 1, 2].map(|i| ask.seed_of(i)), [u64::MAX, 0, 1].map(Seed::Client));
    }

    #[test]
    fn stops_are_few_short_and_canonical() {
        assert_eq!(ask(r#"{"stop":"x"}"#).unwrap().stop, ["x"]);
        assert_eq!(ask(r#"{"stop":["a","b","a"]}"#).unwrap().stop, ["a", "b"]);
        for bad in [r#""""#, r#"["a","b","c","d","e"]"#, "3", "[3]", r#""e\u0301""#, r#""\ufffd""#] {
            assert!(ask(&format!(r#"{{"stop":{bad}}}"#)).is_err(), "{bad}");
        }
        assert!(ask(&format!(r#"{{"stop":"{}"}}"#, "x".repeat(257))).is_err());
    }

    #[test]
    fn nonces_come_from_body_or_header() {
        let take = |body: &str, header: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(h) = header {
                headers.insert(NONCE_HEADER, h.parse().unwrap());
            }
            Ask::take(&mut Fields::parse(body.as_bytes()).unwrap(), &headers, &Limits::default()).map(|a| a.nonce)
        };
        assert_eq!(take(r#"{"nonce":"00ff"}"#, None).unwrap(), "00ff");
        assert_eq!(take("{}", Some("0a")).unwrap(), "0a");
        assert_eq!(take(r#"{"nonce":"0a"}"#, Some("0a")).unwrap(), "0a");
        assert!(take(r#"{"nonce":"0a"}"#, Some("0b")).is_err());
        assert!(take(r#"{"nonce":"xyz"}"#, None).is_err() && take("{}", Some("ABCD")).is_err());
        assert_eq!(take("{}", None).unwrap().len(), 32);
        assert_ne!(take("{}", None), take("{}", None));
    }

    #[test]
    fn logits_are_adjusted_as_asked() {
        let asked = ask(r#"{"presence_penalty":-2,"frequency_penalty":0.5,"repetition_penalty":1.25,"min_p":0.25,
            "logit_bias":{"7":-100,"3":0.5}}"#)
        .unwrap();
        let expected = Adjust { bias: vec![(3, 0.5), (7, -100.0)], repetition: 1.25, frequency: 0.5, presence: -2.0 };
        assert_eq!(asked.adjust, expected);
        assert!(matches!(asked.sampling, Sampling::Seeded(Seeded { min_p: Some(p), .. }) if p == 0.25));
        let off =
            ask(r#"{"presence_penalty":0,"frequency_penalty":null,"repetition_penalty":1,"min_p":0,"logit_bias":{}}"#);
        let off = off.unwrap();
        assert!(off.adjust.is_off());
        assert!(matches!(off.sampling, Sampling::Seeded(Seeded { min_p: None, .. })));
        // Greedy choice has no filters; penalties it has.
        let greedy = ask(r#"{"temperature":0,"min_p":0.5,"presence_penalty":1}"#).unwrap();
        assert_eq!((greedy.sampling, greedy.adjust.presence), (Sampling::Greedy, 1.0));
        for bad in [
            r#"{"presence_penalty":2.5}"#,
            r#"{"presence_penalty":"1"}"#,
            r#"{"frequency_penalty":-3}"#,
            r#"{"repetition_penalty":0}"#,
            r#"{"repetition_penalty":-1}"#,
            r#"{"repetition_penalty":1e-60}"#,
            r#"{"repetition_penalty":1e300}"#,
            r#"{"min_p":1.5}"#,
            r#"{"min_p":[0.5]}"#,
            r#"{"logit_bias":[1]}"#,
            r#"{"logit_bias":{"x":1}}"#,
            r#"{"logit_bias":{"-1":1}}"#,
            r#"{"logit_bias":{"+1":1}}"#,
            r#"{"logit_bias":{"01":1}}"#,
            r#"{"logit_bias":{"4294967296":1}}"#,
            r#"{"logit_bias":{"1":101}}"#,
            r#"{"logit_bias":{"1":null}}"#,
        ] {
            assert!(ask(bad).is_err(), "{bad}");
        }
        let many: Vec<String> = (0..1025).map(|i| format!("\"{i}\":1")).collect();
        assert!(ask(&format!(r#"{{"logit_bias":{{{}}}}}"#, many.join(","))).is_err());
    }

    #[test]
    fn counts_have_limits() {
        for bad in [
            r#"{"n":0}"#,
            r#"{"n":1000000}"#,
            r#"{"n":-1}"#,
            r#"{"max_tokens":0}"#,
            r#"{"max_tokens":99999999999}"#,
            r#"{"best_of":0}"#,
            r#"{"n":3,"best_of":2}"#,
            r#"{"best_of":1000000}"#,
            r#"{"best_of":2,"stream":true}"#,
            r#"{"prompt_logprobs":21}"#,
            r#"{"prompt_logprobs":-1}"#,
            r#"{"prompt_logprobs":true}"#,
            r#"{"temperature":2.1}"#,
            r#"{"temperature":"hot"}"#,
            r#"{"top_p":0}"#,
            r#"{"top_k":1.5}"#,
            r#"{"stream":1}"#,
            r#"{"stream_options":{"include_usage":true}}"#,
            r#"{"stream":true,"stream_options":{"x":true}}"#,
        ] {
            assert!(ask(bad).is_err(), "{bad}");
        }
        let all = ask(r#"{"n":2,"best_of":2,"stream":true,"stream_options":{"include_usage":true}}"#).unwrap();
        assert!(all.stream && all.usage && all.n == 2);
    }
}
