//! What every request passes before it reaches a handler, and every answer afterwards.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use base64::Engine as _;

use super::{COOKIE, Who, csrf, session_id, sign_in};
use crate::App;
use crate::error::{Error, Result};
use crate::pages;
use crate::store::Role;

/// The address a connection came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// No inline script or style, nothing from elsewhere, no frame around it.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; \
                   base-uri 'none'; frame-ancestors 'none'";

/// Lets a request through to its handler, or answers it.
pub(crate) async fn admit(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let api = path.starts_with("/api/");
    let asked = Asked {
        method: request.method().clone(),
        uri: request.uri().clone(),
        headers: request.headers().clone(),
        peer: request.extensions().get::<Peer>().map(|p| p.0.ip()),
    };
    let answer = match identify(&app, &asked).await {
        Ok(Some(who)) => {
            request.extensions_mut().insert(who.clone());
            next.run(request).await
        }
        // Static files and the page to sign in are for everybody.
        Ok(None) => next.run(request).await,
        Err(Error::Unknown) if !api && request.method() == Method::GET => {
            let to = request.uri().path_and_query().map_or("/", |p| p.as_str());
            Redirect::to(&format!("/login?to={}", escape_query(to))).into_response()
        }
        Err(error) if api => crate::api::failure(&error),
        Err(error) => pages::failure(None, &error),
    };
    dress(answer, path.starts_with("/static/"))
}

/// Headers of every answer.
fn dress(mut answer: Response, lasting: bool) -> Response {
    let headers = answer.headers_mut();
    let mut set = |name: header::HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(header::CONTENT_SECURITY_POLICY, CSP);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(header::CACHE_CONTROL, if lasting { "public, max-age=31536000, immutable" } else { "no-store" });
    answer
}

/// A request without its body.
struct Asked {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    peer: Option<IpAddr>,
}

async fn identify(app: &Arc<App>, asked: &Asked) -> Result<Option<Who>> {
    let Asked { method, uri, headers, peer } = asked;
    let (peer, path) = (*peer, uri.path());
    app.rates.request(peer)?;
    let host = host(headers, uri);
    if !app.hosts.allows(host.as_deref()) {
        return Err(Error::Forbidden(format!("this service does not go by the name {:?}", host.unwrap_or_default())));
    }
    let own_header = headers.contains_key("x-lastbit");
    if !matches!(*method, Method::GET | Method::HEAD) && !own_header && !same_site(headers, host.as_deref()) {
        return Err(Error::Forbidden("the request comes from another site, or does not say where from".to_owned()));
    }
    if app.local {
        let csrf = csrf(&app.secret);
        return Ok(Some(Who {
            name: "local".to_owned(),
            role: Role::Admin,
            peer,
            csrf,
            session: None,
            proven: own_header,
        }));
    }
    if path.starts_with("/static/") {
        return Ok(None);
    }
    if let Some(secret) = cookie(headers) {
        let (app, id) = (app.clone(), session_id(&secret));
        let user = crate::blocking(move || app.store.session(&id)).await?;
        if let Some(user) = user {
            let who = Who {
                name: user.name,
                role: user.role,
                peer,
                csrf: csrf(&secret),
                session: Some(id),
                proven: own_header,
            };
            return Ok(Some(who));
        }
    }
    if path.starts_with("/api/")
        && let Some((name, password)) = basic(headers)
    {
        let app = app.clone();
        let user = crate::blocking(move || sign_in(&app.store, &app.rates, &name, &password, peer)).await?;
        return Ok(Some(Who {
            name: user.name,
            role: user.role,
            peer,
            csrf: String::new(),
            session: None,
            proven: true,
        }));
    }
    if path == "/login" { Ok(None) } else { Err(Error::Unknown) }
}

fn host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let named = headers.get(header::HOST).and_then(|h| h.to_str().ok()).map(str::to_owned);
    named.or_else(|| uri.authority().map(|a| a.to_string()))
}

/// A browser says where a request that changes something comes from; what says nothing must send the header `x-lastbit`.
fn same_site(headers: &HeaderMap, host: Option<&str>) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let origin = headers.get(header::ORIGIN).and_then(|o| o.to_str().ok());
    let of = |origin: &str| origin.split_once("://").map(|(_, rest)| rest.to_owned());
    origin.and_then(of).is_some_and(|origin| host.is_some_and(|host| host == origin))
}

fn cookie(headers: &HeaderMap) -> Option<Vec<u8>> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok());
    let value = all.flat_map(|v| v.split("; ")).find_map(|pair| pair.strip_prefix(COOKIE)?.strip_prefix('='))?;
    hex::decode(value).ok().filter(|secret| secret.len() == 32)
}

fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let encoded = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let text = String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).ok()?).ok()?;
    text.split_once(':').map(|(name, password)| (name.to_owned(), password.to_owned()))
}

/// Text inside a query's value.
pub(crate) fn escape_query(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
