//! Verdict mix: one bar, divided.

use std::fmt::Write as _;

use super::{Chart, letter};
use crate::store::Tally;

const WIDTH: usize = 720;
const HEIGHT: usize = 30;

/// How many records have which verdict.
pub(crate) fn verdicts(tally: &[Tally]) -> Chart {
    let total: u64 = tally.iter().map(|t| t.n).sum();
    let said: Vec<String> = tally.iter().filter(|t| t.n > 0).map(|t| format!("{} {}", t.n, t.verdict)).collect();
    let mut chart = Chart::new("Verdicts of audited records", said.join(", "), &["Verdict", "Records", "Share"]);
    if total == 0 {
        return chart;
    }
    let mut body = String::new();
    let (mut x, shown) = (0, tally.iter().filter(|t| t.n > 0).count());
    for (i, t) in tally.iter().filter(|t| t.n > 0).enumerate() {
        // Whatever occurs is seen: at least a sliver with room for its sign.
        let room = WIDTH - 22 * shown;
        let wide = 22 + (room as u64 * t.n / total) as usize;
        let wide = if i + 1 == shown { WIDTH - x } else { wide };
        let _ = write!(
            body,
            r#"<rect class="f-{v}" x="{x}" y="0" width="{w}" height="{HEIGHT}"><title>{v}: {n}</title></rect><text class="on-{v}" x="{m}" y="20" text-anchor="middle">{l}</text>"#,
            v = t.verdict,
            w = wide.saturating_sub(2),
            n = t.n,
            m = x + wide.saturating_sub(2) / 2,
            l = letter(&t.verdict),
        );
        x += wide;
        let tenths = t.n * 1000 / total;
        chart.rows.push(vec![t.verdict.clone(), t.n.to_string(), format!("{}.{} %", tenths / 10, tenths % 10)]);
    }
    chart.draw("mix", WIDTH, HEIGHT, &body);
    chart
}
