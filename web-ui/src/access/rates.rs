//! How often somebody may ask, and try a password.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Requests of one address in a minute.
const REQUESTS: u32 = 1200;
/// Wrong passwords for one name, and from one address, before there is a wait.
const TRIES: u32 = 5;
/// How long wrong passwords are remembered.
const WAIT: Duration = Duration::from_secs(15 * 60);
/// Entries kept; beyond that the oldest windows are dropped.
const MOST: usize = 10_000;

/// Counts in windows of time.
struct Windows<K> {
    length: Duration,
    counts: Mutex<HashMap<K, (Instant, u32)>>,
}

impl<K: Hash + Eq + Clone> Windows<K> {
    fn new(length: Duration) -> Self {
        Self { length, counts: Mutex::default() }
    }

    /// Counts in the running window, `add` more included; and the seconds that it still runs.
    fn count(&self, key: K, add: u32) -> (u32, u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if counts.len() > MOST {
            counts.retain(|_, (since, _)| now.duration_since(*since) < self.length);
        }
        let slot = counts.entry(key).or_insert((now, 0));
        if now.duration_since(slot.0) >= self.length {
            *slot = (now, 0);
        }
        slot.1 = slot.1.saturating_add(add);
        (slot.1, self.length.saturating_sub(now.duration_since(slot.0)).as_secs().max(1))
    }

    fn forget(&self, key: &K) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// The service's counters.
pub(crate) struct Rates {
    requests: Windows<Option<IpAddr>>,
    names: Windows<String>,
    peers: Windows<Option<IpAddr>>,
    most: u32,
}

impl Rates {
    pub(crate) fn new(most: Option<u32>) -> Self {
        Self {
            requests: Windows::new(Duration::from_secs(60)),
            names: Windows::new(WAIT),
            peers: Windows::new(WAIT),
            most: most.unwrap_or(REQUESTS),
        }
    }

    /// Counts a request.
    pub(crate) fn request(&self, peer: Option<IpAddr>) -> Result<()> {
        match self.requests.count(peer, 1) {
            (n, wait) if n > self.most => Err(Error::Slower(wait)),
            _ => Ok(()),
        }
    }

    /// May another password be tried?
    pub(crate) fn may_try(&self, name: &str, peer: Option<IpAddr>) -> Result<()> {
        for (n, wait) in [self.names.count(name.to_owned(), 0), self.peers.count(peer, 0)] {
            if n >= TRIES {
                return Err(Error::Slower(wait));
            }
        }
        Ok(())
    }

    pub(crate) fn failed(&self, name: &str, peer: Option<IpAddr>) {
        self.names.count(name.to_owned(), 1);
        self.peers.count(peer, 1);
    }

    pub(crate) fn succeeded(&self, name: &str, peer: Option<IpAddr>) {
        self.names.forget(&name.to_owned());
        self.peers.forget(&peer);
    }
}
