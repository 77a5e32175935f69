//! The pages: HTML made on the server, readable without scripts. Each shows what a function of `views` says, and nothing else.

mod people;
mod reference;
mod show;
mod text;

pub(crate) use crate::access::escape_query;
pub(crate) use crate::charts::letter;
pub(crate) use text::{bytes, fact, grouped, or_dash, short, when};

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};

use crate::App;
use crate::access::Who;
use crate::error::{Error, Result};
use crate::store::Role;

/// What the frame of every page shows.
pub(crate) struct Nav {
    pub at: &'static str,
    pub who: String,
    pub role: &'static str,
    pub csrf: String,
    /// Nobody signs in here.
    pub local: bool,
    pub auditor: bool,
    pub admin: bool,
    /// There is somebody, so there is a menu.
    pub known: bool,
}

impl Nav {
    pub(crate) fn new(at: &'static str, who: &Who) -> Self {
        Self {
            at,
            who: who.name.clone(),
            role: who.role.name(),
            csrf: who.csrf.clone(),
            local: who.name == "local",
            auditor: who.role >= Role::Auditor,
            admin: who.role >= Role::Admin,
            known: true,
        }
    }

    fn nobody() -> Self {
        let (at, who, role, csrf) = ("", String::new(), "", String::new());
        Self { at, who, role, csrf, local: false, auditor: false, admin: false, known: false }
    }
}

/// A page, or what went wrong, as HTML.
pub(crate) fn page(template: Result<impl Template>, who: Option<&Who>) -> Response {
    let rendered = template.and_then(|t| t.render().map_err(|e| Error::Bug(e.to_string())));
    match rendered {
        Ok(html) => Html(html).into_response(),
        Err(error) => failure(who, &error),
    }
}

#[derive(Template)]
#[template(path = "failure.html")]
struct Failure {
    nav: Nav,
    status: u16,
    words: String,
    altered: bool,
}

/// The page that says what went wrong.
pub(crate) fn failure(who: Option<&Who>, error: &Error) -> Response {
    let status = error.status();
    if status.is_server_error() {
        tracing::error!(%error, "a page failed");
    }
    let nav = who.map_or_else(Nav::nobody, |who| Nav::new("", who));
    let altered = matches!(error, Error::Altered(_));
    let html = Failure { nav, status: status.as_u16(), words: error.words(), altered }.render().unwrap_or_default();
    let mut answer = (status, Html(html)).into_response();
    if let Error::Slower(seconds) = error {
        answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(*seconds));
    }
    answer
}

/// The script that the report has inside it too.
const RECHECK: &str = verifier::report::RECHECK;

/// Files of the pages. They are part of this program, and named by what they are, so they may be kept for ever under an address with `?v=`.
async fn file(Path(name): Path<String>) -> Response {
    let (media, bytes): (&str, &'static [u8]) = match name.as_str() {
        "app.css" => ("text/css; charset=utf-8", include_bytes!("../../static/app.css")),
        "app.js" => ("text/javascript; charset=utf-8", include_bytes!("../../static/app.js")),
        "recheck.js" => ("text/javascript; charset=utf-8", RECHECK.as_bytes()),
        "htmx.min.js" => ("text/javascript; charset=utf-8", include_bytes!("../../static/htmx.min.js")),
        "icon.svg" => ("image/svg+xml", include_bytes!("../../static/icon.svg")),
        _ => return (StatusCode::NOT_FOUND, "not found").into_response(),
    };
    ([(header::CONTENT_TYPE, media)], bytes).into_response()
}

async fn nothing() -> Response {
    failure(None, &crate::error::missing("this address"))
}

/// Pages and static files.
pub(crate) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(show::overview))
        .route("/runs/{digest}", get(show::run))
        .route("/runs/{digest}/crosswalk", get(show::crosswalk))
        .route("/runs/{digest}/records/{seq}", get(show::record))
        .route("/fingerprints", get(show::fingerprints))
        .route("/fingerprints/{digest}", get(show::fingerprint))
        .route("/logs", get(show::logs))
        .route("/logs/{id}", get(show::log))
        .route("/logs/{id}/entries/{index}", get(show::entry))
        .route("/inventory", get(show::inventory))
        .route("/keys", get(show::keys))
        .route("/keys/{id}", post(people::trust))
        .route("/compare", get(show::compare))
        .route("/search", get(show::search))
        .route("/upload", get(people::upload_form).post(people::upload))
        .route("/audits", get(people::audits).post(people::start))
        .route("/audits/{number}", get(people::audit))
        .route("/access", get(people::access))
        .route("/access/users", post(people::add_user))
        .route("/login", get(people::login_form).post(people::login))
        .route("/logout", post(people::logout))
        .route("/reference", get(reference::show))
        .route("/static/{name}", get(file))
        .fallback(nothing)
}
