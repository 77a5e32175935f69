//! Pages to read.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use fingerprint::report::{Outcome, Word};
use verifier::report::export::Format;

use super::{Nav, page};
use crate::access::Who;
use crate::api::{Part, Sought, Two};
use crate::charts;
use crate::error::Result;
use crate::store::{FingerprintRow, LogRow, RunRow};
use crate::{App, blocking, views};

type Shared = State<Arc<App>>;

/// Verdicts and what each says, for filters and legends.
fn verdicts() -> Vec<(&'static str, &'static str)> {
    verifier::Verdict::ALL.iter().map(|v| (v.name(), v.meaning())).collect()
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    nav: Nav,
    view: views::Overview,
    verdict: String,
    verdicts: Vec<(&'static str, &'static str)>,
    from: u64,
}

pub(super) async fn overview(State(app): Shared, Extension(who): Extension<Who>, Query(part): Query<Part>) -> Response {
    let filter = part.filter();
    let wanted = filter.verdict.clone();
    let view = blocking(move || views::overview(&app, wanted.as_deref(), filter.from)).await;
    let nav = Nav::new("overview", &who);
    let verdict = part.filter().verdict.unwrap_or_default();
    page(view.map(|view| Overview { nav, view, verdict, verdicts: verdicts(), from: part.from }), Some(&who))
}

#[derive(Template)]
#[template(path = "run.html")]
struct Run {
    nav: Nav,
    view: views::Run,
    verdict: String,
    text: String,
    from: u64,
    verdicts: Vec<(&'static str, &'static str)>,
    formats: [Format; 5],
    claims: Vec<ClaimLine>,
}

/// A claim over all records of an audit.
struct ClaimLine {
    name: &'static str,
    statement: &'static str,
    required: bool,
    counts: Vec<(String, u64)>,
}

fn claim_lines(view: &views::Run) -> Vec<ClaimLine> {
    let counts = |name: &str| -> Vec<(String, u64)> {
        view.claims.iter().filter(|c| c.claim == name).map(|c| (c.verdict.clone(), c.n)).collect()
    };
    verifier::result::ClaimKind::ALL
        .iter()
        .map(|k| ClaimLine {
            name: k.name(),
            statement: k.statement(),
            required: view.method.required.contains(k),
            counts: counts(k.name()),
        })
        .filter(|line| !line.counts.is_empty())
        .collect()
}

pub(super) async fn run(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    Query(part): Query<Part>,
) -> Response {
    let filter = part.filter();
    let view = blocking(move || views::run(&app, &views::digest(&id)?, &filter)).await;
    let filter = part.filter();
    let template = view.map(|view| Run {
        nav: Nav::new("overview", &who),
        claims: claim_lines(&view),
        view,
        verdict: filter.verdict.unwrap_or_default(),
        text: filter.text.unwrap_or_default(),
        from: part.from,
        verdicts: verdicts(),
        formats: Format::ALL,
    });
    page(template, Some(&who))
}

#[derive(Template)]
#[template(path = "crosswalk.html")]
struct Crosswalk {
    nav: Nav,
    view: views::Run,
}

pub(super) async fn crosswalk(State(app): Shared, Extension(who): Extension<Who>, Path(id): Path<String>) -> Response {
    let view = blocking(move || views::run(&app, &views::digest(&id)?, &Part::default().filter())).await;
    page(view.map(|view| Crosswalk { nav: Nav::new("overview", &who), view }), Some(&who))
}

#[derive(Template)]
#[template(path = "record.html")]
struct Record {
    nav: Nav,
    view: views::Record,
}

impl Record {
    fn requires(&self, claim: &verifier::result::ClaimKind) -> bool {
        self.view.required.iter().any(|r| r == claim.name())
    }
}

pub(super) async fn record(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Path((id, seq)): Path<(String, u64)>,
) -> Response {
    let view = blocking(move || views::record(&app, &views::digest(&id)?, seq)).await;
    page(view.map(|view| Record { nav: Nav::new("overview", &who), view }), Some(&who))
}

#[derive(Template)]
#[template(path = "fingerprints.html")]
struct Fingerprints {
    nav: Nav,
    rows: Vec<FingerprintRow>,
}

pub(super) async fn fingerprints(State(app): Shared, Extension(who): Extension<Who>) -> Response {
    let rows = blocking(move || app.store.fingerprints()).await;
    page(rows.map(|rows| Fingerprints { nav: Nav::new("fingerprints", &who), rows }), Some(&who))
}

#[derive(Template)]
#[template(path = "fingerprint.html")]
struct Fingerprint {
    nav: Nav,
    view: views::Fingerprint,
}

impl Fingerprint {
    fn outcome(&self) -> (&'static str, &'static str) {
        match self.view.report.outcome {
            Outcome::Consistent => ("MATCH", "consistent"),
            Outcome::Rejected => ("MISMATCH", "rejected"),
            Outcome::Inconclusive => ("INCONCLUSIVE", "cannot tell"),
        }
    }

    fn tone(&self, word: &Word) -> &'static str {
        match word {
            Word::Ok | Word::Certain | Word::NotRejected => "MATCH",
            Word::Fails | Word::Rejected => "MISMATCH",
            _ => "INCONCLUSIVE",
        }
    }

    /// Estimates with intervals of a section on one scale.
    fn interval(&self, section: &fingerprint::report::Section, texts: &[String; 3]) -> String {
        let ends = section.findings.iter().filter_map(|f| f.interval.as_ref()?.get(2)?.parse::<f64>().ok());
        charts::interval(texts, ends.fold(0.0, f64::max))
    }
}

pub(super) async fn fingerprint(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
) -> Response {
    let view = blocking(move || views::fingerprint(&app, &views::digest(&id)?)).await;
    page(view.map(|view| Fingerprint { nav: Nav::new("fingerprints", &who), view }), Some(&who))
}

#[derive(Template)]
#[template(path = "logs.html")]
struct Logs {
    nav: Nav,
    rows: Vec<LogRow>,
}

pub(super) async fn logs(State(app): Shared, Extension(who): Extension<Who>) -> Response {
    let rows = blocking(move || app.store.logs()).await;
    page(rows.map(|rows| Logs { nav: Nav::new("logs", &who), rows }), Some(&who))
}

#[derive(Template)]
#[template(path = "log.html")]
struct Log {
    nav: Nav,
    view: views::Log,
}

pub(super) async fn log(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    Query(part): Query<Part>,
) -> Response {
    let view = blocking(move || views::log(&app, &views::digest(&id)?, part.from)).await;
    page(view.map(|view| Log { nav: Nav::new("logs", &who), view }), Some(&who))
}

#[derive(Template)]
#[template(path = "entry.html")]
struct Entry {
    nav: Nav,
    view: views::Entry,
}

pub(super) async fn entry(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Path((id, index)): Path<(String, u64)>,
) -> Response {
    let view = blocking(move || views::entry(&app, &views::digest(&id)?, index)).await;
    page(view.map(|view| Entry { nav: Nav::new("logs", &who), view }), Some(&who))
}

#[derive(Template)]
#[template(path = "inventory.html")]
struct Inventory {
    nav: Nav,
    view: views::Inventory,
}

impl Inventory {
    fn lists(&self) -> [(&'static str, &Vec<crate::store::PartRow>); 2] {
        [("Models", &self.view.models), ("Stacks", &self.view.stacks)]
    }
}

pub(super) async fn inventory(State(app): Shared, Extension(who): Extension<Who>) -> Response {
    let view = blocking(move || views::inventory(&app)).await;
    page(view.map(|view| Inventory { nav: Nav::new("inventory", &who), view }), Some(&who))
}

#[derive(Template)]
#[template(path = "keys.html")]
struct Keys {
    nav: Nav,
    view: views::Keys,
}

pub(super) async fn keys(State(app): Shared, Extension(who): Extension<Who>) -> Response {
    let view = blocking(move || views::keys(&app)).await;
    page(view.map(|view| Keys { nav: Nav::new("keys", &who), view }), Some(&who))
}

#[derive(Template)]
#[template(path = "compare.html")]
struct Compare {
    nav: Nav,
    view: Option<views::Comparison>,
    choices: Vec<RunRow>,
    a: String,
    b: String,
}

/// Which two, once they are chosen.
#[derive(serde::Deserialize)]
pub(super) struct Chosen {
    a: Option<String>,
    b: Option<String>,
}

pub(super) async fn compare(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Query(chosen): Query<Chosen>,
) -> Response {
    let both = match (chosen.a.clone(), chosen.b.clone()) {
        (Some(a), Some(b)) => Some(Two { a, b }),
        _ => None,
    };
    let work = move || -> Result<_> {
        let view =
            both.map(|two| views::compare(&app, &views::digest(&two.a)?, &views::digest(&two.b)?)).transpose()?;
        Ok((view, app.store.runs(None, 0)?.items))
    };
    let (a, b) = (chosen.a.unwrap_or_default(), chosen.b.unwrap_or_default());
    let template = blocking(work).await;
    page(template.map(|(view, choices)| Compare { nav: Nav::new("compare", &who), view, choices, a, b }), Some(&who))
}

#[derive(Template)]
#[template(path = "search.html")]
struct Search {
    nav: Nav,
    view: views::Search,
}

pub(super) async fn search(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Query(sought): Query<Sought>,
) -> Response {
    let view = blocking(move || views::search(&app, &sought.q)).await;
    page(view.map(|view| Search { nav: Nav::new("search", &who), view }), Some(&who))
}
