//! One polite HTTP client for endpoints that nobody vouches for.
//!
//! It follows no redirect, decodes no compression, reads at most a stated number of bytes in a stated time, waits when it is told to
//! (`Retry-After`), and never changes a request to try again. Whatever goes wrong is a [`Fault`] beside whatever arrived. The API key is
//! struck out of everything before anyone sees it.

mod budget;
mod key;

pub use budget::{Budget, Meter, Usage};
pub use key::Key;

use std::sync::Once;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::error::{Error, Result};

/// How long, and how much, is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For the next bytes.
    pub idle: Duration,
    /// For a whole answer.
    pub total: Duration,
    /// Bytes of an answer.
    pub bytes: usize,
    /// Most that a `Retry-After` is honoured for; an endpoint that asks for more is not asked again.
    pub retry_after: Duration,
    /// Times that a refused request (429, 503) is sent again.
    pub retries: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(180),
            bytes: 8 << 20,
            retry_after: Duration::from_secs(60),
            retries: 3,
        }
    }
}

/// Wait where an endpoint says "later" but not when.
const RETRY_DEFAULT: Duration = Duration::from_secs(2);

/// Response headers that are kept. All others may name a user, a session or an account.
const KEPT_HEADERS: [&str; 8] = [
    "server",
    "content-type",
    "via",
    "x-powered-by",
    "transfer-encoding",
    "openai-version",
    "x-inference-engine",
    "retry-after",
];
/// Bytes of a header value that are kept.
const KEPT_HEADER_BYTES: usize = 200;

/// What was wrong with an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody answered: refused, unknown host, TLS.
    Connect(String),
    /// The connection broke off.
    Broken(String),
    /// No bytes came for as long as is waited.
    Idle,
    /// The answer was not complete in time.
    Slow,
    /// The answer is longer than is read.
    Large,
    /// The endpoint sends its clients elsewhere. Not followed.
    Redirect(String),
    /// Bytes that are no UTF-8, JSON, or event stream.
    Malformed(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Connect(why) => write!(f, "no connection: {why}"),
            Fault::Broken(why) => write!(f, "the connection broke off: {why}"),
            Fault::Idle => f.write_str("no more bytes came in time"),
            Fault::Slow => f.write_str("the answer was not complete in time"),
            Fault::Large => f.write_str("the answer is longer than is read here"),
            Fault::Redirect(to) => write!(f, "a redirect to {to}, which is not followed"),
            Fault::Malformed(why) => write!(f, "not what was asked for: {why}"),
        }
    }
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// HTTP status, if there was any.
    pub status: Option<u16>,
    /// Headers of an allow-list, in the order received.
    pub headers: Vec<(String, String)>,
    /// The body as it came, the API key struck out; what arrived before a fault is here.
    pub body: Vec<u8>,
    /// What went wrong on the way.
    pub fault: Option<Fault>,
    /// Microseconds until the headers came.
    pub first_us: u64,
    /// Microseconds until the body was complete.
    pub total_us: u64,
    /// Times the endpoint said "later".
    pub retries: u32,
}

impl Exchange {
    /// A kept header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// Tells TLS which cryptography to use, once for the process; a client cannot be made before.
pub fn install_tls() {
    static RING: Once = Once::new();
    // Fails only if a provider is installed already, which then serves as well.
    RING.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// An endpoint and the way to it.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<Key>,
    patience: Patience,
}

impl Client {
    /// A client of the endpoint whose base address, as OpenAI clients take it, is `base` (`https://host/v1`).
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::Unencrypted`] if a key would travel in the open to another machine, [`Error::Network`].
    pub fn new(base: &str, key: Option<Key>, patience: Patience) -> Result<Self> {
        install_tls();
        let refuse = |why: &str| Error::Url { url: base.to_owned(), why: why.to_owned() };
        let url = Url::parse(base).map_err(|e| refuse(&e.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refuse("only http and https are spoken"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            // Not repeated: it holds a secret.
            let why = "keys do not belong into an address; name an environment variable".to_owned();
            return Err(Error::Url { url: url.host_str().unwrap_or_default().to_owned(), why });
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refuse("a base has neither query nor fragment"));
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        let local = host == "localhost"
            || host.trim_matches(['[', ']']).parse().is_ok_and(|a: std::net::IpAddr| a.is_loopback());
        if key.is_some() && url.scheme() == "http" && !local {
            return Err(Error::Unencrypted { host });
        }
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(patience.connect)
            .user_agent(concat!("lastbit-fingerprint/", env!("CARGO_PKG_VERSION")))
            .referer(false);
        if local {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|e| Error::Network(e.to_string()))?;
        Ok(Self { http, base: url, key, patience })
    }

    /// The base address.
    pub fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Strikes the key out of a text.
    pub fn hide(&self, text: &str) -> String {
        match &self.key {
            Some(key) => key.hide(text),
            None => text.to_owned(),
        }
    }

    /// Sends a request and takes what comes: a `GET` without a body, else a `POST`. Refusals by 429 and 503 are waited out and the same
    /// bytes sent again.
    pub async fn send(&self, path: &str, body: Option<&Value>) -> Exchange {
        let mut retries = 0;
        loop {
            let mut exchange = self.once(path, body).await;
            exchange.retries = retries;
            let later = matches!(exchange.status, Some(429 | 503)) && retries < self.patience.retries;
            let Some(wait) = later.then(|| retry_after(&exchange)) else { return exchange };
            if wait > self.patience.retry_after {
                return exchange;
            }
            tokio::time::sleep(wait).await;
            retries += 1;
        }
    }

    async fn once(&self, path: &str, body: Option<&Value>) -> Exchange {
        let begun = Instant::now();
        let mut exchange = Exchange::default();
        let since = |at: Instant| u64::try_from(at.elapsed().as_micros()).unwrap_or(u64::MAX);
        let url = format!("{}/{}", self.base(), path.trim_start_matches('/'));
        let mut request = match body {
            None => self.http.get(url),
            Some(body) => self.http.post(url).json(body),
        };
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.bearer());
        }
        let deadline = tokio::time::Instant::from_std(begun + self.patience.total);
        let response = match tokio::time::timeout_at(deadline, request.send()).await {
            Err(_) => {
                exchange.fault = Some(Fault::Slow);
                exchange.total_us = since(begun);
                return exchange;
            }
            Ok(Err(error)) => {
                let why = self.hide(&words(&error));
                exchange.fault = Some(if error.is_connect() { Fault::Connect(why) } else { Fault::Broken(why) });
                exchange.total_us = since(begun);
                return exchange;
            }
            Ok(Ok(response)) => response,
        };
        exchange.status = Some(response.status().as_u16());
        exchange.first_us = since(begun);
        exchange.headers = self.headers(response.headers());
        if response.status().is_redirection() {
            let to = response.headers().get("location").map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
            let to: String = to.unwrap_or_default().chars().take(KEPT_HEADER_BYTES).collect();
            exchange.fault = Some(Fault::Redirect(self.hide(&to)));
        }
        let events = exchange.header("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
        let (body, fault) = self.body(response, events, deadline).await;
        exchange.body = match &self.key {
            Some(key) => key.hide_bytes(body),
            None => body,
        };
        exchange.fault = exchange.fault.or(fault);
        exchange.total_us = since(begun);
        exchange
    }

    /// Reads a body until it ends, breaks off, or asks too much of the reader. An event stream ends with its last event, whether or not
    /// the connection does.
    async fn body(
        &self,
        response: reqwest::Response,
        events: bool,
        deadline: tokio::time::Instant,
    ) -> (Vec<u8>, Option<Fault>) {
        let mut body = Vec::new();
        let mut pieces = response.bytes_stream();
        loop {
            let idle = tokio::time::Instant::now() + self.patience.idle;
            let piece = match tokio::time::timeout_at(idle.min(deadline), pieces.next()).await {
                Err(_) => return (body, Some(if idle < deadline { Fault::Idle } else { Fault::Slow })),
                Ok(None) => return (body, None),
                Ok(Some(Err(error))) => return (body, Some(Fault::Broken(self.hide(&words(&error))))),
                Ok(Some(Ok(piece))) => piece,
            };
            let room = self.patience.bytes - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                return (body, Some(Fault::Large));
            }
            let tail = &body[body.len().saturating_sub(64)..];
            if events && tail.windows(12).any(|w| w == b"data: [DONE]") {
                return (body, None);
            }
        }
    }

    fn headers(&self, all: &HeaderMap) -> Vec<(String, String)> {
        let kept = all.iter().filter(|(name, _)| KEPT_HEADERS.contains(&name.as_str()));
        kept.map(|(name, value)| {
            let value: String = String::from_utf8_lossy(value.as_bytes()).chars().take(KEPT_HEADER_BYTES).collect();
            (name.as_str().to_owned(), self.hide(&value))
        })
        .collect()
    }
}

fn retry_after(exchange: &Exchange) -> Duration {
    let stated = exchange.header(RETRY_AFTER.as_str()).and_then(|v| v.trim().parse().ok());
    stated.map_or(RETRY_DEFAULT, Duration::from_secs)
}

/// An error and its causes, without the address (which is known) and in one line.
fn words(error: &reqwest::Error) -> String {
    let mut out = Vec::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(e) = cause {
        out.push(e.to_string());
        cause = e.source();
    }
    if out.is_empty() { "the request could not be sent".to_owned() } else { out.join(": ") }
}
