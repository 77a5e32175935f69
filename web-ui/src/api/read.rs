//! What can be read.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Path, Query, State};
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde::Deserialize;
use verifier::report::export::{self, Format};

use crate::access::Who;
use crate::error::{Error, Result, missing};
use crate::jobs::Job;
use crate::store::{Filter, FingerprintRow, LogRow, Page, RecordRow, Role, RunRow, User};
use crate::{App, blocking, views};

type Shared = State<Arc<App>>;

/// Which part of a list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Part {
    #[serde(default)]
    pub from: u64,
    pub verdict: Option<String>,
    pub text: Option<String>,
}

impl Part {
    /// Empty fields of a form are no filter.
    pub(crate) fn filter(&self) -> Filter {
        let some = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
        Filter { verdict: some(&self.verdict), text: some(&self.text), from: self.from }
    }
}

pub(super) async fn overview(State(app): Shared, Query(part): Query<Part>) -> Result<Json<views::Overview>> {
    blocking(move || views::overview(&app, part.filter().verdict.as_deref(), part.from)).await.map(Json)
}

pub(super) async fn runs(State(app): Shared, Query(part): Query<Part>) -> Result<Json<Page<RunRow>>> {
    blocking(move || app.store.runs(part.filter().verdict.as_deref(), part.from)).await.map(Json)
}

pub(super) async fn run(
    State(app): Shared,
    Path(id): Path<String>,
    Query(part): Query<Part>,
) -> Result<Json<views::Run>> {
    blocking(move || views::run(&app, &views::digest(&id)?, &part.filter())).await.map(Json)
}

pub(super) async fn records(
    State(app): Shared,
    Path(id): Path<String>,
    Query(part): Query<Part>,
) -> Result<Json<Page<RecordRow>>> {
    blocking(move || {
        let run = app.store.run(&views::digest(&id)?)?;
        app.store.records(&run.digest, &part.filter())
    })
    .await
    .map(Json)
}

pub(super) async fn record(State(app): Shared, Path((id, seq)): Path<(String, u64)>) -> Result<Json<views::Record>> {
    blocking(move || views::record(&app, &views::digest(&id)?, seq)).await.map(Json)
}

/// The signed result in another format, as a file.
pub(super) async fn export(State(app): Shared, Path((id, format)): Path<(String, String)>) -> Result<Response> {
    let wanted = Format::parse(&format).ok_or_else(|| missing(format!("export format {format:.40}")))?;
    let (bytes, name) = blocking(move || {
        let signed = views::opened(&app, &views::digest(&id)?)?;
        let bytes = export::write(&signed, wanted, None).map_err(|e| Error::Bug(e.to_string()))?;
        Ok((bytes, format!("{}.{}", signed.digest().to_hex(), wanted.ending())))
    })
    .await?;
    Ok(file(bytes, wanted.media_type(), &name))
}

/// Bytes to be saved, never shown in place: nothing that was handed in runs here.
fn file(bytes: Vec<u8>, media: &'static str, name: &str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'".to_owned()),
    ];
    (headers, bytes).into_response()
}

pub(super) async fn fingerprints(State(app): Shared) -> Result<Json<Vec<FingerprintRow>>> {
    blocking(move || app.store.fingerprints()).await.map(Json)
}

pub(super) async fn fingerprint(State(app): Shared, Path(id): Path<String>) -> Result<Json<views::Fingerprint>> {
    blocking(move || views::fingerprint(&app, &views::digest(&id)?)).await.map(Json)
}

pub(super) async fn logs(State(app): Shared) -> Result<Json<Vec<LogRow>>> {
    blocking(move || app.store.logs()).await.map(Json)
}

pub(super) async fn log(
    State(app): Shared,
    Path(id): Path<String>,
    Query(part): Query<Part>,
) -> Result<Json<views::Log>> {
    blocking(move || views::log(&app, &views::digest(&id)?, part.from)).await.map(Json)
}

pub(super) async fn entry(State(app): Shared, Path((id, index)): Path<(String, u64)>) -> Result<Json<views::Entry>> {
    blocking(move || views::entry(&app, &views::digest(&id)?, index)).await.map(Json)
}

pub(super) async fn line(State(app): Shared, Path((id, index)): Path<(String, u64)>) -> Result<Response> {
    let bytes = blocking(move || views::line(&app, &views::digest(&id)?, index)).await?;
    Ok(file(bytes, "application/octet-stream", &format!("entry-{index}")))
}

pub(super) async fn proof(State(app): Shared, Path((id, index)): Path<(String, u64)>) -> Result<Response> {
    let bytes = blocking(move || views::proof(&app, &views::digest(&id)?, index)).await?;
    Ok(file(bytes, "application/octet-stream", &format!("entry-{index}.tlog-proof")))
}

pub(super) async fn inventory(State(app): Shared) -> Result<Json<views::Inventory>> {
    blocking(move || views::inventory(&app)).await.map(Json)
}

pub(super) async fn keys(State(app): Shared) -> Result<Json<views::Keys>> {
    blocking(move || views::keys(&app)).await.map(Json)
}

/// Which two audits.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Two {
    pub a: String,
    pub b: String,
}

pub(super) async fn compare(State(app): Shared, Query(two): Query<Two>) -> Result<Json<views::Comparison>> {
    blocking(move || views::compare(&app, &views::digest(&two.a)?, &views::digest(&two.b)?)).await.map(Json)
}

/// What is sought.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Sought {
    #[serde(default)]
    pub q: String,
}

pub(super) async fn search(State(app): Shared, Query(sought): Query<Sought>) -> Result<Json<views::Search>> {
    blocking(move || views::search(&app, &sought.q)).await.map(Json)
}

/// Stored bytes as they came.
pub(super) async fn blob(State(app): Shared, Path(id): Path<String>) -> Result<Response> {
    let id = views::digest(&id)?;
    let bytes = blocking(move || {
        app.store.blob(&id)?.ok_or_else(|| missing(id.to_string()))?;
        app.store.bytes(&id)
    })
    .await?;
    Ok(file(bytes, "application/octet-stream", &id.to_hex()))
}

pub(super) async fn audits(State(app): Shared) -> Json<Vec<Job>> {
    Json(app.jobs.all())
}

pub(super) async fn audit(State(app): Shared, Path(number): Path<u64>) -> Result<Json<Job>> {
    Ok(Json(app.jobs.follow(number)?.borrow().clone()))
}

/// An audit's state, and again whenever it changes, until it ended.
pub(super) async fn events(
    State(app): Shared,
    Path(number): Path<u64>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let job = app.jobs.follow(number)?;
    let states = futures_util::stream::unfold((job, true, false), |(mut job, first, ended)| async move {
        if ended || (!first && job.changed().await.is_err()) {
            return None;
        }
        let now = job.borrow_and_update().clone();
        let event = Event::default().event("audit").json_data(&now).unwrap_or_default();
        Some((Ok(event), (job, false, now.ended())))
    });
    Ok(Sse::new(states).keep_alive(KeepAlive::default()))
}

/// The lines before one.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Before {
    pub before: Option<u64>,
}

pub(super) async fn trail(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Query(part): Query<Before>,
) -> Result<Json<views::Trail>> {
    who.needs(Role::Admin)?;
    blocking(move || views::trail(&app, part.before)).await.map(Json)
}

pub(super) async fn users(State(app): Shared, Extension(who): Extension<Who>) -> Result<Json<Vec<User>>> {
    who.needs(Role::Admin)?;
    blocking(move || app.store.users()).await.map(Json)
}

pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("../../static/openapi.json")).into_response()
}
