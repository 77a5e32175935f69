//! Pages on which somebody does something: hand in, start, trust, sign in.

use std::sync::Arc;

use askama::Template;
use axum::Form;
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::{Nav, failure, page};
use crate::access::{self, COOKIE, MIN_PASSWORD, Peer, SESSION_SECONDS, Who};
use crate::error::{Error, Result};
use crate::ingest::Receipt;
use crate::jobs::{self, Job};
use crate::store::{Role, User, now_us};
use crate::{App, api, blocking, views};

type Shared = State<Arc<App>>;

#[derive(Template)]
#[template(path = "upload.html")]
struct Upload {
    nav: Nav,
    receipt: Option<Receipt>,
    refused: Option<String>,
    mebibytes: u64,
}

pub(super) async fn upload_form(State(app): Shared, Extension(who): Extension<Who>) -> Response {
    let template = who.needs(Role::Auditor).map(|()| Upload {
        nav: Nav::new("upload", &who),
        receipt: None,
        refused: None,
        mebibytes: app.limits.upload >> 20,
    });
    page(template, Some(&who))
}

pub(super) async fn upload(State(app): Shared, Extension(who): Extension<Who>, request: Request) -> Response {
    let (receipt, refused, status) = match api::receive(&app, &who, request).await {
        Ok(receipt) => (Some(receipt), None, None),
        Err(error @ (Error::Bad(_) | Error::TooLarge(_))) => (None, Some(error.words()), Some(error.status())),
        Err(error) => return failure(Some(&who), &error),
    };
    let template = Upload { nav: Nav::new("upload", &who), receipt, refused, mebibytes: app.limits.upload >> 20 };
    let mut answer = page(Ok(template), Some(&who));
    if let Some(status) = status {
        *answer.status_mut() = status;
    }
    answer
}

/// A form with nothing but the session's token and one value.
#[derive(Deserialize)]
pub(super) struct Small {
    csrf: Option<String>,
    trust: Option<String>,
    log: Option<String>,
}

pub(super) async fn trust(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    Form(form): Form<Small>,
) -> Response {
    if let Err(error) = who.form(form.csrf.as_deref()) {
        return failure(Some(&who), &error);
    }
    match api::trust_key(app, who.clone(), id.clone(), form.trust.unwrap_or_default()).await {
        Ok(_) => Redirect::to("/keys").into_response(),
        Err(error) => failure(Some(&who), &error),
    }
}

#[derive(Template)]
#[template(path = "audits.html")]
struct Audits {
    nav: Nav,
    jobs: Vec<Job>,
    possible: bool,
}

pub(super) async fn audits(State(app): Shared, Extension(who): Extension<Who>) -> Response {
    let template = Audits { nav: Nav::new("audits", &who), jobs: app.jobs.all(), possible: app.auditing.is_some() };
    page(Ok(template), Some(&who))
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    nav: Nav,
    job: Job,
}

pub(super) async fn audit(State(app): Shared, Extension(who): Extension<Who>, Path(number): Path<u64>) -> Response {
    let job = app.jobs.follow(number).map(|job| job.borrow().clone());
    page(job.map(|job| Audit { nav: Nav::new("audits", &who), job }), Some(&who))
}

pub(super) async fn start(State(app): Shared, Extension(who): Extension<Who>, Form(form): Form<Small>) -> Response {
    let by = who.clone();
    let job = async move {
        by.form(form.csrf.as_deref())?;
        by.needs(Role::Auditor)?;
        blocking(move || {
            let job = jobs::submit(&app, &views::digest(&form.log.unwrap_or_default())?, &by.name)?;
            app.store.note(&by.name, &by.peer(), "audit asked for", &job.log, &format!("number {}", job.number))?;
            Ok(job)
        })
        .await
    };
    match job.await {
        Ok(job) => Redirect::to(&format!("/audits/{}", job.number)).into_response(),
        Err(error) => failure(Some(&who), &error),
    }
}

#[derive(Template)]
#[template(path = "access.html")]
struct Access {
    nav: Nav,
    users: Vec<User>,
    trail: views::Trail,
    min: usize,
}

/// The lines before one.
#[derive(Deserialize)]
pub(super) struct Before {
    before: Option<u64>,
}

pub(super) async fn access(State(app): Shared, Extension(who): Extension<Who>, Query(part): Query<Before>) -> Response {
    let work = {
        let allowed = who.needs(Role::Admin);
        move || -> Result<_> {
            allowed?;
            Ok((app.store.users()?, views::trail(&app, part.before)?))
        }
    };
    let found = blocking(work).await;
    let template =
        found.map(|(users, trail)| Access { nav: Nav::new("access", &who), users, trail, min: MIN_PASSWORD });
    page(template, Some(&who))
}

/// A new person, or a change.
#[derive(Deserialize)]
pub(super) struct NewUser {
    csrf: Option<String>,
    name: String,
    role: Option<String>,
    password: Option<String>,
    active: Option<String>,
}

pub(super) async fn add_user(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Form(form): Form<NewUser>,
) -> Response {
    let by = who.clone();
    let done = async move {
        by.form(form.csrf.as_deref())?;
        by.needs(Role::Admin)?;
        blocking(move || {
            let what = match (&form.active, &form.password) {
                (Some(active), _) => {
                    if form.name == by.name {
                        return Err(Error::Bad("nobody closes their own account".to_owned()));
                    }
                    app.store.set_active(&form.name, active == "yes")?;
                    if active == "yes" { "user opened" } else { "user closed" }
                }
                (None, Some(password)) => {
                    let role = form
                        .role
                        .as_deref()
                        .and_then(Role::parse)
                        .ok_or_else(|| Error::Bad("which role?".to_owned()))?;
                    crate::put_user(&app.store, &form.name, role, password)?;
                    "user added"
                }
                (None, None) => return Err(Error::Bad("nothing to change".to_owned())),
            };
            app.store.note(&by.name, &by.peer(), what, &form.name, form.role.as_deref().unwrap_or_default())
        })
        .await
    };
    match done.await {
        Ok(()) => Redirect::to("/access").into_response(),
        Err(error) => failure(Some(&who), &error),
    }
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    nav: Nav,
    to: String,
    failed: Option<String>,
    name: String,
}

/// Where to go afterwards. Never away from here.
fn within(to: Option<&str>) -> String {
    let to = to.unwrap_or("/");
    let inside =
        to.starts_with('/') && !to.starts_with("//") && !to.contains('\\') && !to.chars().any(char::is_control);
    if inside { to.to_owned() } else { "/".to_owned() }
}

/// Where somebody wanted to go.
#[derive(Deserialize)]
pub(super) struct To {
    to: Option<String>,
}

pub(super) async fn login_form(State(app): Shared, Query(query): Query<To>) -> Response {
    if app.local {
        return Redirect::to("/").into_response();
    }
    let (to, failed, name) = (within(query.to.as_deref()), None, String::new());
    page(Ok(Login { nav: Nav::nobody(), to, failed, name }), None)
}

/// Name and password.
#[derive(Deserialize)]
pub(super) struct Credentials {
    name: String,
    password: String,
    to: Option<String>,
}

pub(super) async fn login(State(app): Shared, request: Request) -> Response {
    use axum::extract::FromRequest as _;
    let peer = request.extensions().get::<Peer>().map(|p| p.0.ip());
    let form = match Form::<Credentials>::from_request(request, &()).await {
        Ok(Form(form)) => form,
        Err(error) => return failure(None, &Error::Bad(error.to_string())),
    };
    let to = within(form.to.as_deref());
    let (secure, name) = (app.secure, form.name.clone());
    let session = blocking(move || {
        let shown = peer.map_or_else(String::new, |p| p.to_string());
        let signed_in = access::sign_in(&app.store, &app.rates, &form.name, &form.password, peer);
        let outcome = signed_in.as_ref().map_or_else(|e| e.words(), |_| "done".to_owned());
        // A name that nobody has may be a password in the wrong field.
        let object =
            if app.store.user(&form.name)?.is_some() { form.name.as_str() } else { "(a name that nobody has)" };
        app.store.note(object, &shown, "sign in", "", &outcome)?;
        let user = signed_in?;
        let mut secret = [0_u8; 32];
        getrandom::fill(&mut secret).map_err(|e| Error::Bug(format!("no randomness: {e}")))?;
        app.store.put_session(&access::session_id(&secret), &user.name, now_us() + SESSION_SECONDS * 1_000_000)?;
        Ok(hex::encode(secret))
    })
    .await;
    match session {
        Ok(secret) => {
            let secure = if secure { "; Secure" } else { "" };
            let cookie =
                format!("{COOKIE}={secret}; HttpOnly; SameSite=Lax; Path=/; Max-Age={SESSION_SECONDS}{secure}");
            ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
        }
        Err(error @ (Error::Forbidden(_) | Error::Slower(_))) => {
            let mut answer = page(Ok(Login { nav: Nav::nobody(), to, failed: Some(error.words()), name }), None);
            *answer.status_mut() = error.status();
            answer
        }
        Err(error) => failure(None, &error),
    }
}

pub(super) async fn logout(State(app): Shared, Extension(who): Extension<Who>, Form(form): Form<Small>) -> Response {
    if let Err(error) = who.form(form.csrf.as_deref()) {
        return failure(Some(&who), &error);
    }
    let name = who.clone();
    let ended = blocking(move || {
        if let Some(session) = name.session {
            app.store.end_session(&session)?;
        }
        app.store.note(&name.name, &name.peer(), "sign out", "", "done")
    })
    .await;
    if let Err(error) = ended {
        return failure(Some(&who), &error);
    }
    let cookie = HeaderValue::from_static("lastbit=; HttpOnly; SameSite=Lax; Path=/; Max-Age=0");
    ([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}
