//! Schedule staircase: rows of each step, and where the kernels that a step's shape selects change.

use std::fmt::Write as _;

use super::Chart;
use verifier::report::svg::escape;
use verifier::result::StepMatrix;

const HEIGHT: usize = 110;
const TOP: usize = 26;
const LEFT: usize = 44;

/// Rows by step as a staircase, divided where the logged kernel choices change.
pub(crate) fn schedule(m: &StepMatrix) -> Chart {
    let mut chart = Chart::new(
        "Rows of each step, and the kernels they select",
        "The staircase is the number of rows that share a step. A vertical rule marks a step whose logged kernel choices differ from those before \
         it: only rows that cross such a class change bits.",
        &["Steps", "Rows", "Kernel choices"],
    );
    let most = m.steps.iter().map(|s| s.rows).max().unwrap_or(0);
    if most == 0 {
        return chart;
    }
    let wide = (660 / m.steps.len()).clamp(4, 22);
    // Square roots keep a prompt of hundreds of rows and steps of three in one picture. It places ink, and decides nothing.
    let y = |rows: u32| TOP as f64 + HEIGHT as f64 * (1.0 - (f64::from(rows) / f64::from(most)).sqrt());
    let mut path = String::new();
    let mut body = String::new();
    let mut from = 0;
    for (i, step) in m.steps.iter().enumerate() {
        let x = LEFT + i * wide;
        let _ = write!(path, "{}{x} {:.1}H{}", if i == 0 { "M" } else { "L" }, y(step.rows), x + wide);
        let last = i + 1 == m.steps.len();
        if last || m.steps[i + 1].choices != step.choices || m.steps[i + 1].rows != step.rows {
            let steps = if from == i { i.to_string() } else { format!("{from}–{i}") };
            let choices = if step.choices.is_empty() { "none logged".to_owned() } else { step.choices.join(", ") };
            chart.rows.push(vec![steps, step.rows.to_string(), choices]);
            from = i + 1;
        }
        if i > 0 && m.steps[i - 1].choices != step.choices {
            let _ = write!(
                body,
                r#"<path class="rule" d="M{x} {}V{}"><title>step {i}: {}</title></path><text x="{}" y="16">{i}</text>"#,
                TOP - 6,
                TOP + HEIGHT,
                escape(&step.choices.join(", ")),
                x + 3
            );
        }
    }
    let (bottom, right) = (TOP + HEIGHT, LEFT + m.steps.len() * wide);
    let _ = write!(
        body,
        r#"<path class="stair" d="{path}"/><path class="axis" d="M{LEFT} {bottom}H{right}"/><text x="{}" y="{}" text-anchor="end">{most}</text><text x="{}" y="{bottom}" text-anchor="end">0</text><text x="{LEFT}" y="{}">step 0</text><text x="{right}" y="{}" text-anchor="end">{}</text>"#,
        LEFT - 6,
        TOP + 8,
        LEFT - 6,
        bottom + 16,
        bottom + 16,
        m.steps.len() - 1
    );
    chart.draw("schedule", right + 12, bottom + 22, &body);
    chart
}
