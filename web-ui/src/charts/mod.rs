//! Pictures people read: plain inline SVG made on the server, each with a title, a description and the table that it draws.
//!
//! Colours are classes of the style sheet, so pictures are right in dark, light and print; whatever a colour says, a letter or a shape says too.
//! Everything that comes from a document passes through `escape`.

mod bounds;
mod claims;
mod intervals;
mod schedule;
mod verdicts;

pub(crate) use bounds::bounds;
pub(crate) use claims::claims;
pub(crate) use intervals::interval;
pub(crate) use schedule::schedule;
pub(crate) use verdicts::verdicts;

use std::fmt::Write as _;

use serde::Serialize;
use verifier::report::svg::{self, escape};
use verifier::result::{GrowthPoint, Margins};

/// A picture and what it says.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Chart {
    pub title: String,
    pub desc: String,
    #[serde(skip)]
    pub svg: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Chart {
    fn new(title: &str, desc: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|c| (*c).to_owned()).collect();
        Self { title: title.to_owned(), desc: desc.into(), svg: String::new(), columns, rows: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Draws `body` in a view of this size, named by title and description. `id` is unique in the page.
    fn draw(&mut self, id: &str, width: usize, height: usize, body: &str) {
        let mut svg = String::new();
        // What is inside an image is hidden from readers; a picture with links is a group.
        let role = if body.contains("<a ") { "group" } else { "img" };
        let _ = write!(
            svg,
            r#"<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="{role}" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>{body}</svg>"#,
            escape(&self.title),
            escape(&self.desc)
        );
        self.svg = svg;
    }
}

/// The letter that stands for a verdict where a word has no room.
pub(crate) fn letter(verdict: &str) -> &'static str {
    match verdict {
        "MATCH" => "✓",
        "MISMATCH" => "✕",
        "ERROR" => "!",
        "UNVERIFIABLE" => "U",
        "INDISTINGUISHABLE" => "≈",
        _ => "?",
    }
}

/// A picture of the verifier's report, with its table.
fn of_report(id: &str, mut chart: Chart, picture: String) -> Chart {
    // The report's pictures are whole `svg` elements with a label; here they get title and description instead.
    let body = picture.find('>').and_then(|at| Some((picture.get(..at)?, picture.get(at + 1..)?)));
    if let Some((head, body)) = body {
        let number = |name: &str| -> usize {
            let from = head.find(&format!(" {name}=\"")).map(|i| i + name.len() + 3);
            from.and_then(|i| head.get(i..)?.split('"').next()?.parse().ok()).unwrap_or(0)
        };
        let (width, height) = (number("width"), number("height"));
        chart.draw(id, width, height, body.trim_end_matches("</svg>"));
    }
    chart
}

/// How a difference grows through the layers.
pub(crate) fn growth(points: &[GrowthPoint]) -> Chart {
    let mut chart = Chart::new(
        "How the difference grows, layer by layer",
        "Share of elements that differ at each opened output of the first row that differs, in order of execution; layers are numbered below.",
        &["Output", "Elements that differ", "of", "Largest distance (ulp)"],
    );
    for p in points {
        let place = verifier::ops::Point { layer: p.layer, op: p.op }.to_string();
        chart.rows.push(vec![place, p.differing.to_string(), p.elements.to_string(), p.max_ulp.to_string()]);
    }
    of_report("growth", chart, svg::growth(points))
}

/// Distances between the two best logits.
pub(crate) fn margins(m: &Margins) -> Chart {
    let mut chart = Chart::new(
        "Margins of the sampled tokens",
        format!(
            "Distance between the best and the second logit at {} sampled positions, by power of two; {} exact ties. Small margins are where a \
             token is easiest to steer.",
            m.positions, m.ties
        ),
        &["From 2^", "Positions"],
    );
    chart.rows = m.bins.iter().map(|b| vec![b.exponent.to_string(), b.count.to_string()]).collect();
    of_report("margins", chart, svg::margins(m))
}
