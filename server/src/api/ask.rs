//! What a call asks for, in words that completions and chat share.

use axum::http::HeaderMap;
use engine::batch::Request;
use engine::sampler::{Sampling, Seeded};
use serde_json::Value;
use unicode_normalization::is_nfc;

use super::error::ApiError;
use super::fields::Fields;
use crate::config::Limits;
use crate::worker::Seed;

/// Most stop strings of a call.
const MAX_STOPS: usize = 4;
/// Most bytes of a stop string.
const MAX_STOP_BYTES: usize = 256;
/// Header with the client's nonce.
pub(super) const NONCE_HEADER: &str = "x-lastbit-nonce";

/// How choices are to be made and told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ask {
    /// Choices for each prompt.
    pub n: u32,
    /// Most new tokens; none for as many as fit.
    pub max_new_tokens: Option<u32>,
    /// How tokens are chosen; a seed in it is not filled in yet.
    pub sampling: Sampling,
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
}

impl Ask {
    /// Takes what both calls know. `logprobs` and the names for `max_tokens` are theirs.
    pub fn take(fields: &mut Fields, headers: &HeaderMap, limits: &Limits) -> Result<Self, ApiError> {
        let n = fields.count("n", 1, limits.choices)?.unwrap_or(1);
        if fields.count("best_of", 1, u32::MAX)?.is_some_and(|best| best != n) {
            return Err(ApiError::unsupported(
                "best_of",
                "`best_of` must be `n`: nothing is ranked and thrown away here",
            ));
        }
        let stream = fields.bool("stream")?.unwrap_or(false);
        let max_new_tokens = fields.count("max_tokens", 1, limits.new_tokens)?;
        Ok(Self {
            n,
            max_new_tokens,
            sampling: sampling(fields)?,
            seed: seed(fields.take("seed"))?,
            nonce: nonce(fields.string("nonce")?, headers)?,
            stop: stop(fields.take("stop"))?,
            stream,
            usage: usage(fields.take("stream_options"), stream)?,
            logprobs: None,
        })
    }

    /// The engine's request for a prompt.
    pub fn request(&self, prompt: Vec<u32>, max_new_tokens: u32, stop_ids: &[u32], client: u32) -> Request {
        Request {
            sampling: self.sampling,
            stop: stop_ids.to_vec(),
            stop_strings: self.stop.clone(),
            client,
            ..Request::new(prompt, max_new_tokens)
        }
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
    let sampling = Sampling::Seeded(Seeded { temperature: temperature as f32, top_k, top_p, seed: 0 });
    sampling.check().map_err(|e| ApiError::invalid(e.to_string()))?;
    Ok(sampling)
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
    fn counts_have_limits() {
        for bad in [
            r#"{"n":0}"#,
            r#"{"n":1000000}"#,
            r#"{"n":-1}"#,
            r#"{"max_tokens":0}"#,
            r#"{"max_tokens":99999999999}"#,
            r#"{"best_of":2}"#,
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
