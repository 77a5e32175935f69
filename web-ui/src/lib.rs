//! The compliance web interface: what was claimed, what was checked, how it was sampled, what bound that gives, what could not be checked, who
//! signed, and how to check it again.
//!
//! ```text
//! upload, watched folder ──► ingest (signatures first) ──► store (bytes by digest, index)
//!                                                            │
//!          live audits ──► verifier ──► ingest               ▼
//!                                                          views ──► api (JSON, OpenAPI)
//!                                                            └─────► pages (HTML, charts)
//! ```
//!
//! [`serve`] needs no network but its own listener. Pages read without scripts; whatever they show is in the JSON too, since both are made of the
//! functions of `views`. Stored bytes are hashed again each time something of them is shown.

mod access;
mod api;
mod charts;
mod error;
mod ingest;
mod jobs;
mod listen;
mod pages;
mod store;
mod views;

pub use error::Error;
pub use jobs::{AuditFn, Auditing};
pub use store::{Role, Store};

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use record::{Digest, PublicKey};
use tokio::net::TcpListener;
use verifier::result::SignedResult;

use error::Result;

/// Texts of token ids by the tokenizer with this digest; nothing when it is not at hand.
pub type TokensFn = dyn Fn(&Digest, &[u32]) -> Option<Vec<String>> + Send + Sync;

/// What is served, to whom.
pub struct Config {
    /// Folder of the store.
    pub store: PathBuf,
    /// Folders whose contents are taken in as they appear.
    pub watch: Vec<PathBuf>,
    /// Keys that are trusted from the beginning, with a name each.
    pub trust: Vec<(String, PublicKey)>,
    /// Everybody signs in. Without it only this machine may reach the service, and whoever does is its administrator.
    pub people: bool,
    /// Address under which people reach the service, for example `https://audits.example.org`: its host is the only one that is answered for, and
    /// with `https` cookies travel encrypted only.
    pub url: Option<String>,
    /// Live audits, if there is an auditor's key.
    pub auditing: Option<Auditing>,
    /// Texts of tokens.
    pub tokens: Option<Arc<TokensFn>>,
    /// Requests of one address in a minute; a usual number without.
    pub requests_per_minute: Option<u32>,
}

impl Config {
    /// A store for this machine alone.
    pub fn local(store: impl Into<PathBuf>) -> Self {
        Self {
            store: store.into(),
            watch: Vec::new(),
            trust: Vec::new(),
            people: false,
            url: None,
            auditing: None,
            tokens: None,
            requests_per_minute: None,
        }
    }
}

/// Everything that handlers share.
pub(crate) struct App {
    store: Arc<Store>,
    rates: access::Rates,
    hosts: Hosts,
    local: bool,
    secure: bool,
    secret: [u8; 32],
    jobs: jobs::Jobs,
    auditing: Option<Auditing>,
    tokens: Option<Arc<TokensFn>>,
    limits: ingest::Limits,
    cache: Cache,
}

/// Names that this service goes by.
enum Hosts {
    /// This machine's own.
    Local,
    One(String),
    Any,
}

impl Hosts {
    fn allows(&self, host: Option<&str>) -> bool {
        let Some(host) = host else { return false };
        match self {
            Self::Any => true,
            Self::One(one) => one == host,
            Self::Local => {
                let name = host
                    .rsplit_once(':')
                    .map_or(host, |(name, port)| if port.bytes().all(|b| b.is_ascii_digit()) { name } else { host });
                matches!(name, "localhost" | "127.0.0.1" | "[::1]")
            }
        }
    }
}

/// Parsed results by the digest of their bytes, the least recent dropped.
#[derive(Default)]
struct Cache(Mutex<Vec<(Digest, Arc<SignedResult>)>>);

impl Cache {
    const MOST: usize = 4;

    fn get(&self, digest: &Digest) -> Option<Arc<SignedResult>> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = list.iter().position(|(d, _)| d == digest)?;
        let hit = list.remove(at);
        list.push(hit.clone());
        Some(hit.1)
    }

    fn put(&self, digest: Digest, signed: Arc<SignedResult>) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() >= Self::MOST {
            list.remove(0);
        }
        list.push((digest, signed));
    }
}

/// Opens store and router.
///
/// # Errors
/// Those of the store; [`Error::Bad`] when everybody is to sign in and there is nobody who could.
pub fn router(config: Config) -> Result<axum::Router> {
    Ok(api::router(build(config)?.0))
}

fn build(config: Config) -> Result<(Arc<App>, Vec<PathBuf>)> {
    let store = Arc::new(Store::open(&config.store)?);
    if config.people && !store.users()?.iter().any(|u| u.active && u.role == Role::Admin) {
        return Err(Error::Bad(
            "nobody could sign in: add an administrator first (`lastbit web user add NAME --role admin`)".to_owned(),
        ));
    }
    for (name, key) in &config.trust {
        store.add_key(key, name, "trusted", "command line")?;
    }
    if let Some(auditing) = &config.auditing {
        store.add_key(&auditing.key.public(), "this service's auditor", "trusted", "command line")?;
    }
    let mut secret = [0_u8; 32];
    getrandom::fill(&mut secret).map_err(|e| Error::Bug(format!("no randomness: {e}")))?;
    let host = |url: &str| {
        let rest = url.split_once("://").map(|(_, rest)| rest.trim_end_matches('/').to_owned());
        rest.ok_or_else(|| Error::Bad(format!("{url} is not of the form https://HOST")))
    };
    let hosts = match (&config.url, config.people) {
        (Some(url), _) => Hosts::One(host(url)?),
        (None, true) => Hosts::Any,
        (None, false) => Hosts::Local,
    };
    let app = Arc::new(App {
        store,
        rates: access::Rates::new(config.requests_per_minute),
        hosts,
        local: !config.people,
        secure: config.url.is_some_and(|url| url.starts_with("https://")),
        secret,
        jobs: jobs::Jobs::default(),
        auditing: config.auditing,
        tokens: config.tokens,
        limits: ingest::Limits::default(),
        cache: Cache::default(),
    });
    jobs::Jobs::start(&app)?;
    // Held files may be readable with the keys just given.
    ingest::reconsider(&app.store)?;
    Ok((app, config.watch))
}

/// Serves on `listener` until `stop` is done.
///
/// # Errors
/// As [`router`]; [`Error::Bad`] for a listener that other machines reach while nobody has to sign in.
pub async fn serve(listener: TcpListener, config: Config, stop: impl Future<Output = ()>) -> Result<()> {
    let address = listener.local_addr()?;
    if !config.people && !address.ip().is_loopback() {
        return Err(Error::Bad(format!(
            "{address} can be reached from other machines; there everybody has to sign in"
        )));
    }
    let (app, watched) = build(config)?;
    for folder in watched {
        tokio::spawn(ingest::watch(app.store.clone(), folder, app.limits));
    }
    tracing::info!(%address, "serving");
    listen::listen(listener, api::router(app), stop).await;
    Ok(())
}

/// Adds somebody, or gives them another role and password.
///
/// # Errors
/// [`Error::Bad`] for a name or password that cannot be one.
pub fn put_user(store: &Store, name: &str, role: Role, password: &str) -> Result<()> {
    if !access::is_user_name(name) {
        return Err(Error::Bad("a name has 1 to 64 letters, digits or . - _ @".to_owned()));
    }
    store.put_user(name, role, &access::hash_password(password)?)
}

/// Runs what waits for a disk or computes, on a thread where that may be.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "a request failed");
            Err(Error::Bug("see the service's log".to_owned()))
        }
    }
}
