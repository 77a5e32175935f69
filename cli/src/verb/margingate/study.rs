//! `lastbit margingate study`: risk signals at equal misses, on stored traces.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use comfy_table::{Cell, CellAlignment};
use margingate::bound::Count;
use margingate::signal;
use margingate::study::{curve, transfer};
use margingate::trace::{self, Observed};
use serde::Serialize;

use crate::output::{Format, Outcome, table};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder that `calibrate --work` or `bench --work` left, or one trace file
    traces: PathBuf,

    /// One of this many steps is a probe that online signals learn from
    #[arg(long, value_name = "N", default_value_t = 32)]
    probe_every: u32,

    /// Share added to thresholds that are carried over
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = super::calibrate::safety)]
    safety: f32,

    #[command(flatten)]
    format: Format,
}

/// Misses at which trigger rates are compared.
const AT: [usize; 4] = [0, 1, 2, 4];

/// How every signal fares.
#[derive(Clone, Serialize)]
pub struct Study {
    schema: &'static str,
    /// Steps that thresholds and scales are fitted on, and flips among them.
    fitted_on: [u64; 2],
    /// Steps and flips of the comparison.
    pub compared_on: [u64; 2],
    /// One a signal, the raw margin first.
    pub signals: Vec<Row>,
}

/// One signal.
#[derive(Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub signal: String,
    /// Trigger rates at 0, 1, 2 and 4 misses; `null` where there are not so many flips.
    pub rates: [Option<f64>; 4],
    /// Trigger rates at 0, 1, 2, ... misses.
    pub curve: Vec<f64>,
    /// Trigger rate at no miss over that of the raw margin.
    pub over_margin: Option<f64>,
    /// With the threshold carried over from the fitted steps: its trigger rate, and flips missed of all.
    pub carried: f64,
    /// Misses then, in words with their bound.
    pub missed: String,
}

/// Fits on the first set of prompts, or on every other sequence if there is one set; compares on the others.
pub fn study(steps: &[Observed], probe_every: u32, safety: f32) -> Study {
    let one = steps.iter().all(|s| s.source == 0);
    let fits = |s: &&Observed| if one { s.sequence.is_multiple_of(2) } else { s.source == 0 };
    let (fitted, others): (Vec<&Observed>, Vec<&Observed>) = steps.iter().partition(fits);
    let own = |all: Vec<&Observed>| all.into_iter().copied().collect::<Vec<Observed>>();
    let (fitted, others) = (own(fitted), own(others));
    let flips = |all: &[Observed]| all.iter().filter(|s| s.flip).count() as u64;
    let mut signals: Vec<Row> = Vec::new();
    for mut s in signal::all(&fitted) {
        let c = curve(s.as_mut(), &others, probe_every);
        let t = transfer(s.as_mut(), &fitted, &others, safety, probe_every);
        let rates = AT.map(|misses| c.rate(misses).map(Count::share));
        let margin = signals.first().map_or(rates[0], |m| m.rates[0]);
        signals.push(Row {
            curve: (0..).map_while(|misses| c.rate(misses).map(Count::share)).collect(),
            signal: c.signal,
            rates,
            over_margin: rates[0].zip(margin).filter(|(_, m)| *m > 0.0).map(|(r, m)| r / m),
            carried: t.triggers.share(),
            missed: t.misses.at_most(),
        });
    }
    Study {
        schema: "lastbit/margingate-study/v1",
        fitted_on: [fitted.len() as u64, flips(&fitted)],
        compared_on: [others.len() as u64, flips(&others)],
        signals,
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let steps = read(&args.traces)?;
    let study = study(&steps, args.probe_every, args.safety);
    args.format.print(&study, |out| print_text(out, &study))?;
    Ok(Outcome::AllMatch)
}

/// A study as text.
pub fn print_text(out: &mut dyn Write, s: &Study) -> io::Result<()> {
    let percent = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{:.2} %", r * 100.0));
    let mut t = table(["signal", "0 misses", "1", "2", "4", "of margin", "carried over", "flips missed then"]);
    for row in &s.signals {
        let mut cells = vec![Cell::new(&row.signal)];
        cells.extend(row.rates.map(|r| Cell::new(percent(r)).set_alignment(CellAlignment::Right)));
        let over = row.over_margin.map_or_else(|| "-".to_owned(), |o| format!("{o:.2}"));
        cells.extend([Cell::new(over), Cell::new(percent(Some(row.carried))), Cell::new(&row.missed)]);
        t.add_row(cells);
    }
    let ([a, b], [c, d]) = (s.fitted_on, s.compared_on);
    writeln!(out, "trigger rates at equal misses: {c} steps, {d} flips (fitted on {a} others, {b} flips)")?;
    writeln!(out, "{t}")
}

fn read(path: &Path) -> anyhow::Result<Vec<Observed>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let named = |p: &PathBuf| p.extension().is_some_and(|e| e == "csv");
        files = std::fs::read_dir(path)
            .with_context(|| format!("reading {}", path.display()))?
            .map(|e| Ok(e?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        files.retain(named);
        files.sort();
    }
    let mut steps = Vec::new();
    for file in &files {
        steps.extend(trace::read(&source::text(file, 1 << 30)?).with_context(|| file.display().to_string())?);
    }
    if steps.is_empty() {
        bail!("{} holds no traced steps", path.display());
    }
    Ok(steps)
}
