//! Detection matrix: audits by claims, each cell the worst verdict on that claim.

use std::fmt::Write as _;

use super::{Chart, letter};
use crate::store::{ClaimCount, RunRow};
use verifier::Verdict;
use verifier::report::svg::escape;
use verifier::result::ClaimKind;

const CELL: usize = 24;
const NAMES: usize = 190;
const HEAD: usize = 92;

/// Which check found something in which audit.
pub(crate) fn claims(runs: &[RunRow], counts: &[ClaimCount]) -> Chart {
    let mut columns = vec!["Audit"];
    columns.extend(ClaimKind::ALL.iter().map(|k| k.name()));
    let mut chart = Chart::new(
        "Which check found what",
        "Audits in rows, claims in columns. Each cell is the worst verdict of any record on that claim; an empty cell was not judged.",
        &columns,
    );
    let mut body = String::new();
    for (i, kind) in ClaimKind::ALL.iter().enumerate() {
        let (x, y) = (NAMES + i * CELL + CELL / 2 + 4, HEAD - 8);
        let _ = write!(body, r#"<text x="{x}" y="{y}" transform="rotate(-55 {x} {y})">{}</text>"#, kind.name());
    }
    for (row, run) in runs.iter().enumerate() {
        let y = HEAD + row * CELL;
        let name: String = run.name.chars().take(26).collect();
        let _ = write!(
            body,
            r#"<a href="/runs/{}"><text class="name" x="{}" y="{}" text-anchor="end">{}</text></a>"#,
            run.digest,
            NAMES - 8,
            y + 16,
            escape(&name)
        );
        let mut cells = vec![run.name.clone()];
        for (i, kind) in ClaimKind::ALL.iter().enumerate() {
            let of = counts.iter().filter(|c| c.run == run.digest && c.claim == kind.name() && c.n > 0);
            let worst = Verdict::ALL.iter().rev().find(|v| of.clone().any(|c| c.verdict == v.name()));
            let x = NAMES + i * CELL;
            let side = CELL - 3;
            match worst {
                Some(v) => {
                    let _ = write!(
                        body,
                        r#"<rect class="f-{v}" x="{x}" y="{y}" width="{side}" height="{side}"><title>{}, {}: {v}</title></rect><text class="on-{v}" x="{}" y="{}" text-anchor="middle">{}</text>"#,
                        escape(&run.name),
                        kind.name(),
                        x + side / 2,
                        y + 15,
                        letter(v.name())
                    );
                    cells.push(v.name().to_owned());
                }
                None => {
                    let _ = write!(body, r#"<rect class="nil" x="{x}" y="{y}" width="{side}" height="{side}"/>"#);
                    cells.push("–".to_owned());
                }
            }
        }
        chart.rows.push(cells);
    }
    let (width, height) = (NAMES + ClaimKind::ALL.len() * CELL + 44, HEAD + runs.len() * CELL + 2);
    chart.draw("claims", width, height, &body);
    chart
}
