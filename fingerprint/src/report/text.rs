//! A report as plain text.

use std::fmt::{self, Write};

use super::{Finding, Report};

/// Column where text begins.
const INDENT: usize = 10;
/// Columns of a line.
const WIDTH: usize = 118;

/// Writes the page: verdict, what was tested and found, noise, cost, how to repeat.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut dyn Write) -> fmt::Result {
    let model = report.model.as_deref().unwrap_or("not named");
    entry(out, "endpoint", &format!("{}   model claimed: {model}   tier {}", report.subject, report.tier))?;
    entry(out, "VERDICT", &report.verdict)?;
    for section in &report.sections {
        for (i, finding) in section.findings.iter().enumerate() {
            let label = if i == 0 { section.title.as_str() } else { "" };
            entry(out, label, &sentence(finding))?;
        }
    }
    for table in &report.tables {
        write_table(out, table)?;
    }
    for (i, limit) in report.limits.iter().enumerate() {
        entry(out, if i == 0 { "limits" } else { "" }, limit)?;
    }
    let cost = &report.cost;
    let money = cost.money.as_ref().map_or(String::new(), |m| format!(", {m} at the prices given"));
    let tokens = cost.prompt_tokens + cost.output_tokens;
    entry(out, "cost", &format!("{} requests, {tokens} tokens{money}", cost.requests))?;
    for (i, trace) in report.traces.iter().enumerate() {
        entry(out, if i == 0 { "traces" } else { "" }, trace)?;
    }
    for (i, line) in report.repeat.iter().enumerate() {
        entry(out, if i == 0 { "repeat" } else { "" }, line)?;
    }
    Ok(())
}

/// A finding in one line.
pub(super) fn sentence(finding: &Finding) -> String {
    let interval = match &finding.interval {
        Some([at, low, high]) => format!(" [{at}; 95 %: {low} to {high}]"),
        None => String::new(),
    };
    format!("{}: {} ({}){interval}", finding.about, finding.says, finding.word.name())
}

/// A label, and text that is broken where it is too long.
fn entry(out: &mut dyn Write, label: &str, text: &str) -> fmt::Result {
    let mut line = format!("{label:INDENT$}");
    if label.len() >= INDENT {
        line = format!("{label} ");
    }
    let mut used = line.chars().count();
    let mut first = true;
    for word in text.split(' ') {
        let length = word.chars().count();
        if !first && used + 1 + length > WIDTH {
            writeln!(out, "{line}")?;
            line = " ".repeat(INDENT);
            used = INDENT;
            first = true;
        }
        if !first {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
        first = false;
    }
    writeln!(out, "{line}")
}

fn write_table(out: &mut dyn Write, table: &super::Table) -> fmt::Result {
    writeln!(out, "\n{}", table.caption)?;
    let first = table.rows.iter().map(|(n, _)| n.chars().count()).max().unwrap_or(0);
    let width = |i: usize| {
        let cells = table.rows.iter().filter_map(|(_, c)| c.get(i)).map(|c| c.chars().count());
        cells.chain([table.columns[i].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let row = |name: &str, cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(c, w)| format!("  {c:>w$}")).collect::<String>();
        format!("{name:first$}{cells}")
    };
    writeln!(out, "{}", row("", &table.columns))?;
    table.rows.iter().try_for_each(|(name, cells)| writeln!(out, "{}", row(name, cells)))?;
    writeln!(out)
}
