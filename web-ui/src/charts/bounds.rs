//! Bounds over time: the chance that an audit missed a dishonest record, audit by audit.

use std::fmt::Write as _;

use super::Chart;
use crate::pages::when;
use crate::store::RunRow;
use verifier::report::svg::escape;

const WIDTH: usize = 720;
const HEIGHT: usize = 150;
const LEFT: usize = 52;
const TOP: usize = 12;

/// A miss bound as a number between 0 and 1. Bounds are decimal texts, for example `0.2500` or `1.2e-5`.
fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|x| (0.0..=1.0).contains(x))
}

/// The chance of missing a single dishonest record, for the audits taken in last, oldest first.
pub(crate) fn bounds(runs: &[RunRow]) -> Chart {
    let mut chart = Chart::new(
        "What each audit could have missed",
        "Upper bound of the chance that one dishonest record among all was not drawn, audit by audit, oldest first. Zero: every record was audited.",
        &["Audit", "Taken in", "Audited", "of", "Bound"],
    );
    let points: Vec<(&RunRow, f64)> =
        runs.iter().rev().filter_map(|r| Some((r, number(r.miss.as_deref()?)?))).collect();
    if points.is_empty() {
        return chart;
    }
    let mut body = String::new();
    for (share, label) in [(0.0, "1"), (0.5, "0.5"), (1.0, "0")] {
        let y = TOP as f64 + share * HEIGHT as f64;
        let _ = write!(
            body,
            r#"<text x="{}" y="{:.0}" text-anchor="end">{label}</text><path class="grid" d="M{LEFT} {y:.1}H{WIDTH}"/>"#,
            LEFT - 8,
            y + 4.0
        );
    }
    let gap = ((WIDTH - LEFT - 24) / points.len().max(1)).min(60);
    for (i, (run, miss)) in points.iter().enumerate() {
        let x = LEFT + 14 + i * gap;
        let y = TOP as f64 + (1.0 - miss) * HEIGHT as f64;
        let _ = write!(
            body,
            r#"<a href="/runs/{}"><path class="stem" d="M{x} {}V{y:.1}"/><circle class="dot" cx="{x}" cy="{y:.1}" r="4.5"><title>{}: {}</title></circle></a>"#,
            run.digest,
            TOP + HEIGHT,
            escape(&run.name),
            run.miss.as_deref().unwrap_or_default()
        );
        chart.rows.push(vec![
            run.name.clone(),
            when(&run.added_us),
            run.audited.to_string(),
            run.population.to_string(),
            run.miss.clone().unwrap_or_default(),
        ]);
    }
    chart.draw("bounds", WIDTH, TOP + HEIGHT + 12, &body);
    chart
}
