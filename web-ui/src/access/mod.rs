//! Who may do what: identities, passwords, sessions, cross-site requests, rates, headers.
//!
//! On this machine alone (the default) whoever reaches the service is its administrator; requests must then name this machine as their host, so that
//! no foreign page can reach it through a name of its own. Elsewhere everybody signs in.

mod admit;
mod passwords;
mod rates;

pub(crate) use admit::{Peer, admit, escape_query};
pub(crate) use passwords::{MIN_PASSWORD, check_password, hash_password, is_user_name};
pub(crate) use rates::Rates;

use std::net::IpAddr;

use record::Digest;
use record::digest::Tagged;

use crate::error::{Error, Result};
use crate::store::{Role, Store};

/// Seconds that a session lasts.
pub(crate) const SESSION_SECONDS: u64 = 12 * 3600;
/// Name of the session's cookie.
pub(crate) const COOKIE: &str = "lastbit";

/// Whoever asks.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub name: String,
    pub role: Role,
    pub peer: Option<IpAddr>,
    /// What forms of this session carry.
    pub csrf: String,
    pub session: Option<Digest>,
    /// The request itself shows that no foreign page made it: a header that such a page cannot send, or no ambient credentials.
    pub proven: bool,
}

impl Who {
    /// Refuses whoever has a smaller role.
    pub(crate) fn needs(&self, role: Role) -> Result<()> {
        if self.role >= role {
            return Ok(());
        }
        Err(Error::Forbidden(format!("this needs the role {}; {} has {}", role.name(), self.name, self.role.name())))
    }

    /// Refuses a form that this session did not get from here.
    pub(crate) fn form(&self, csrf: Option<&str>) -> Result<()> {
        // Compared by digest, so that no time tells how much of it is right.
        let given = Tagged::new("lastbit/web-compare/v1").text(csrf.unwrap_or_default()).finish();
        let wanted = Tagged::new("lastbit/web-compare/v1").text(&self.csrf).finish();
        if self.proven || given == wanted {
            return Ok(());
        }
        Err(Error::Forbidden("the form is not from this session; load the page again".to_owned()))
    }

    pub(crate) fn peer(&self) -> String {
        self.peer.map_or_else(String::new, |p| p.to_string())
    }
}

/// What forms carry, from a session's secret.
pub(crate) fn csrf(secret: &[u8]) -> String {
    Tagged::new("lastbit/web-csrf/v1").bytes(secret).finish().to_hex()
}

/// By what a session is kept.
pub(crate) fn session_id(secret: &[u8]) -> Digest {
    Tagged::new("lastbit/web-session/v1").bytes(secret).finish()
}

/// Checks a name and a password, slowly for wrong ones and with a limit on tries.
pub(crate) fn sign_in(
    store: &Store,
    rates: &Rates,
    name: &str,
    password: &str,
    peer: Option<IpAddr>,
) -> Result<crate::store::User> {
    rates.may_try(name, peer)?;
    let user = store.user(name)?.filter(|u| u.active);
    // As long for a name that does not exist.
    let right = check_password(user.as_ref().map(|u| u.hash.as_str()), password);
    match user {
        Some(user) if right => {
            rates.succeeded(name, peer);
            Ok(user)
        }
        _ => {
            rates.failed(name, peer);
            Err(Error::Forbidden("name or password is wrong".to_owned()))
        }
    }
}
