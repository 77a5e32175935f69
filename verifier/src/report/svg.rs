//! The charts: plain inline SVG, styled by the page, each with a text twin in the page that says the same.
//!
//! Everything that comes from a document passes through [`escape`].

use crate::result::{CellState, GrowthPoint, Margins, StepMatrix};
use std::fmt::Write as _;

/// Text made safe inside HTML and SVG, in elements and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Side of a matrix cell and the room for names, in SVG units.
const CELL: usize = 14;
const NAMES: usize = 96;

/// Requests by steps. Differences carry a cross and not only a colour.
pub fn matrix(matrix: &StepMatrix) -> String {
    let steps = matrix.steps.len();
    if steps == 0 || matrix.requests.is_empty() {
        return String::new();
    }
    let (width, height) = (NAMES + steps * CELL + 8, 24 + matrix.requests.len() * CELL + 4);
    let mut svg = format!(
        r#"<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="Requests by steps; the table below says the same">"#
    );
    for step in (0..steps).step_by(5) {
        let x = NAMES + step * CELL + CELL / 2;
        let _ = write!(svg, r#"<text x="{x}" y="14" text-anchor="middle">{step}</text>"#);
    }
    for (i, row) in matrix.requests.iter().enumerate() {
        let y = 20 + i * CELL;
        let name: String = row.request.chars().take(14).collect();
        let _ =
            write!(svg, r#"<text x="{}" y="{}" text-anchor="end">{}</text>"#, NAMES - 8, y + CELL - 4, escape(&name));
        for (step, cell) in row.cells.iter().enumerate() {
            let (class, crossed) = match cell.state {
                CellState::Absent => continue,
                CellState::Match => ("ok", false),
                CellState::Mismatch => ("no", true),
                CellState::Token => ("tok", true),
                CellState::Unchecked => ("nil", false),
            };
            let x = NAMES + step * CELL;
            let side = CELL - 2;
            let _ = write!(svg, r#"<rect class="{class}" x="{x}" y="{y}" width="{side}" height="{side}"/>"#);
            if crossed {
                let (l, r, t, b) = (x + 3, x + side - 3, y + 3, y + side - 3);
                let _ = write!(svg, r#"<path class="cross" d="M{l} {t}L{r} {b}M{r} {t}L{l} {b}"/>"#);
            }
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Share of elements that differ at each compared output, in order of execution.
pub fn growth(points: &[GrowthPoint]) -> String {
    if points.is_empty() {
        return String::new();
    }
    const BAR: usize = 12;
    const HEIGHT: usize = 90;
    let width = 40 + points.len() * BAR + 8;
    let mut svg = format!(
        r#"<svg viewBox="0 0 {width} {}" width="{width}" height="{}" role="img" aria-label="Share of differing elements by operation; the table below says the same">"#,
        HEIGHT + 34,
        HEIGHT + 34
    );
    let _ = write!(
        svg,
        r#"<text x="32" y="14" text-anchor="end">100 %</text><text x="32" y="{}" text-anchor="end">0</text><path class="axis" d="M38 10V{}H{}"/>"#,
        HEIGHT + 10,
        HEIGHT + 10,
        width - 4
    );
    let mut labelled = None;
    for (i, point) in points.iter().enumerate() {
        let x = 40 + i * BAR;
        let share = HEIGHT as u64 * u64::from(point.differing) / u64::from(point.elements.max(1));
        // A single differing element in thousands must still be seen.
        let share = if point.differing > 0 { share.max(2) } else { 0 };
        let _ = write!(
            svg,
            r#"<rect class="no" x="{x}" y="{}" width="{}" height="{share}"><title>{}{}: {} of {}</title></rect>"#,
            HEIGHT as u64 + 10 - share,
            BAR - 3,
            point.op.name(),
            point.layer.map_or(String::new(), |l| format!(" of layer {l}")),
            point.differing,
            point.elements
        );
        if labelled != Some(point.layer) {
            let label = point.layer.map_or("·".to_owned(), |l| l.to_string());
            let _ = write!(svg, r#"<text x="{}" y="{}" text-anchor="middle">{label}</text>"#, x + 4, HEIGHT + 24);
            labelled = Some(point.layer);
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Histogram of margins by power of two.
pub fn margins(margins: &Margins) -> String {
    let most = margins.bins.iter().map(|b| b.count).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    const BAR: usize = 30;
    const HEIGHT: usize = 90;
    let width = 12 + margins.bins.len() * BAR + 8;
    let mut svg = format!(
        r#"<svg viewBox="0 0 {width} {}" width="{width}" height="{}" role="img" aria-label="Margins by power of two; the table below says the same">"#,
        HEIGHT + 44,
        HEIGHT + 44
    );
    for (i, bin) in margins.bins.iter().enumerate() {
        let x = 10 + i * BAR;
        let height = HEIGHT as u64 * u64::from(bin.count) / u64::from(most);
        let top = HEIGHT as u64 + 18 - height;
        let _ = write!(svg, r#"<rect class="bar" x="{x}" y="{top}" width="{}" height="{height}"/>"#, BAR - 4);
        let middle = x + (BAR - 4) / 2;
        if bin.count > 0 {
            let _ = write!(svg, r#"<text x="{middle}" y="{}" text-anchor="middle">{}</text>"#, top - 4, bin.count);
        }
        let _ = write!(
            svg,
            r#"<text x="{middle}" y="{}" text-anchor="middle">2<tspan dy="-4" font-size="8">{}</tspan></text>"#,
            HEIGHT + 34,
            bin.exponent
        );
    }
    let _ = write!(svg, r#"<path class="axis" d="M8 {}H{}"/></svg>"#, HEIGHT + 18, width - 4);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Cell, MatrixRow, StepColumn};

    #[test]
    fn names_are_escaped() {
        let m = StepMatrix {
            steps: vec![StepColumn { rows: 1, choices: vec![] }],
            requests: vec![MatrixRow {
                request: "<script>\"&'".into(),
                cells: vec![Cell { rows: 1, state: CellState::Mismatch }],
            }],
        };
        let svg = matrix(&m);
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;&quot;&amp;&#39;"));
        assert!(svg.contains("cross"), "a difference is marked by more than a colour");
    }

    #[test]
    fn empty_charts_are_empty() {
        assert_eq!(matrix(&StepMatrix::default()), "");
        assert_eq!(growth(&[]), "");
        assert_eq!(margins(&Margins::default()), "");
    }
}
