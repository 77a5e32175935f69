//! What the benchmark reports, as JSON and as text.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment};
use engine::config::Config;
use margingate::bound::{Count, lower};
use margingate::cost::Fit;
use serde::Serialize;

use super::cost::Run;
use super::study::{self, Study};
use crate::output::table;

/// Everything that was measured.
#[derive(Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub level: &'static str,
    pub model: String,
    /// Sets of prompts, with the sequences taken from each.
    pub sources: Vec<String>,
    pub sequences: u32,
    pub prompt_tokens: u32,
    pub tokens: u32,
    pub schedules: u32,
    pub thresholds: Vec<Threshold>,
    pub ways: Vec<WayRow>,
    pub study: Study,
    pub cost: Option<Cost>,
    pub limits: Vec<&'static str>,
}

/// The threshold of a signal.
#[derive(Serialize)]
pub struct Threshold {
    pub signal: &'static str,
    pub tau: f32,
    pub tau_flip: f32,
    pub tau_conf: f32,
    pub flips: String,
    pub triggers: String,
    pub miss_bound: f64,
    pub transfer_flips: Option<String>,
    pub transfer_triggers: Option<String>,
    pub transfer_misses: Option<String>,
}

/// One way of serving.
#[derive(Clone, Serialize)]
pub struct WayRow {
    pub way: String,
    /// Sequences equal to the reference alone, over all schedules that were run.
    pub equal: u64,
    pub of: u64,
    /// Lower bound at 95 % of the share of equal sequences.
    pub at_least: f64,
    /// Share of judged rows that were verified.
    pub verified: f64,
    /// Verified rows whose token was wrong.
    pub mismatches: u64,
    /// Processor time over plain's, minus one. None where there is no plain run of the same load.
    pub cpu_increment: Option<f64>,
    pub wall_increment: Option<f64>,
    /// Multiply-accumulates of the matrix products over plain's, minus one.
    pub work_increment: Option<f64>,
    /// Forward passes over plain's, minus one.
    pub pass_increment: Option<f64>,
}

impl WayRow {
    /// Sequences alone.
    pub fn counted(way: String, run: &Run) -> Self {
        Self {
            way,
            equal: run.equal,
            of: run.of,
            at_least: lower(run.equal, run.of, 0.95),
            verified: run.rate(),
            mismatches: run.mismatches,
            cpu_increment: None,
            wall_increment: None,
            work_increment: None,
            pass_increment: None,
        }
    }

    /// With its cost over a plain run of the same load.
    pub fn measured(way: String, run: &Run, plain: &Run, config: &Config) -> Self {
        let over = |a: f64, b: f64| Some(a / b - 1.0).filter(|x| x.is_finite());
        Self {
            cpu_increment: over(run.cpu, plain.cpu),
            wall_increment: over(run.wall, plain.wall),
            work_increment: over(run.effort.products(config), plain.effort.products(config)),
            pass_increment: over(run.effort.passes as f64, plain.effort.passes as f64),
            ..Self::counted(way, run)
        }
    }
}

/// What serving costs.
#[derive(Serialize)]
pub struct Cost {
    pub sequences: usize,
    pub rounds: u32,
    pub ways: Vec<WayRow>,
    pub sweeps: Vec<Sweep>,
}

/// Injected mismatches from 0 to 100 %, under one write-back policy.
#[derive(Serialize)]
pub struct Sweep {
    pub write_back: &'static str,
    pub points: Vec<WayRow>,
    pub cpu: Option<Line>,
    pub work: Option<Line>,
}

/// The line through a sweep.
#[derive(Clone, Copy, Serialize)]
pub struct Line {
    /// Cost of gating that verifies nothing, over plain.
    pub fixed: f64,
    /// Cost of verifying every row, over plain.
    pub full: f64,
    pub fixed_share: f64,
    /// How many times smaller the increment at the published trigger rate is than that of verifying every row, by the line.
    pub advantage: f64,
    /// The same from the two points themselves.
    pub advantage_measured: Option<f64>,
}

impl Sweep {
    /// Of its points, with lines; `rate`: where increments are compared.
    pub fn of(write_back: &'static str, points: Vec<WayRow>, rate: f64) -> Self {
        let line = |pick: fn(&WayRow) -> Option<f64>| {
            let pairs: Vec<(f64, f64)> = points.iter().filter_map(|p| Some((p.verified, pick(p)?))).collect();
            let fit = Fit::of(&pairs)?;
            let near = |p: f64| pairs.iter().find(|pair| (pair.0 - p).abs() < 0.03).map(|pair| pair.1);
            let measured = near(1.0).zip(near(rate)).map(|(all, some)| all / some).filter(|x| x.is_finite());
            Some(Line {
                fixed: fit.fixed,
                full: fit.full,
                fixed_share: fit.fixed_share(),
                advantage: fit.advantage(rate),
                advantage_measured: measured,
            })
        };
        let (cpu, work) = (line(|p| p.cpu_increment), line(|p| p.work_increment));
        Self { write_back, points, cpu, work }
    }
}

/// The report as text.
pub fn print(out: &mut dyn Write, r: &Report) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} sequences of {} tokens after prompts of at most {}, {} schedules each; level {}",
        r.model, r.sequences, r.tokens, r.prompt_tokens, r.schedules, r.level
    )?;
    writeln!(out, "prompts: {}", r.sources.join(", "))?;
    for t in &r.thresholds {
        writeln!(
            out,
            "\n{}: threshold {} (largest flip {}, order statistic {})",
            t.signal, t.tau, t.tau_flip, t.tau_conf
        )?;
        writeln!(out, "  steps that flip: {}\n  steps below the threshold: {}", t.flips, t.triggers)?;
        writeln!(out, "  share of flips that the threshold misses: at most {:.4} at 95 % confidence", t.miss_bound)?;
        if let (Some(flips), Some(triggers), Some(misses)) =
            (&t.transfer_flips, &t.transfer_triggers, &t.transfer_misses)
        {
            writeln!(out, "  on other prompts: steps that flip: {flips}; below the threshold: {triggers}")?;
            writeln!(out, "  on other prompts: flips above the threshold: {misses}")?;
        }
    }
    writeln!(out, "\nsequences equal to the reference alone:")?;
    for d in &r.ways {
        let words = Count { hits: d.equal, of: d.of }.at_least();
        write!(out, "  {}: {words}", d.way)?;
        match d.mismatches {
            0 => writeln!(out, "; {:.2} % of rows verified", d.verified * 100.0)?,
            n => writeln!(out, "; {:.2} % of rows verified, {n} tokens replaced", d.verified * 100.0)?,
        }
    }
    writeln!(out)?;
    study::print_text(out, &r.study)?;
    if let Some(cost) = &r.cost {
        print_cost(out, cost)?;
    }
    writeln!(out, "\nlimits:")?;
    r.limits.iter().try_for_each(|l| writeln!(out, "  - {l}"))
}

fn print_cost(out: &mut dyn Write, cost: &Cost) -> io::Result<()> {
    let mut t = table(["way", "rows verified", "processor time", "wall time", "products", "passes", "equal"]);
    for row in cost.ways.iter().chain(cost.sweeps.iter().flat_map(|s| &s.points)) {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let percent = |x: Option<f64>| right(x.map_or_else(|| "-".to_owned(), |x| format!("{:+.1} %", x * 100.0)));
        t.add_row(vec![
            Cell::new(&row.way),
            right(format!("{:.2} %", row.verified * 100.0)),
            percent(row.cpu_increment),
            percent(row.wall_increment),
            percent(row.work_increment),
            percent(row.pass_increment),
            right(format!("{} of {}", row.equal, row.of)),
        ]);
    }
    writeln!(out, "\ncost over plain, {} sequences at once, {} rounds:\n{t}", cost.sequences, cost.rounds)?;
    for s in &cost.sweeps {
        for (what, line) in [("processor time", s.cpu), ("products", s.work)] {
            let Some(l) = line else { continue };
            let measured = l.advantage_measured.map_or_else(String::new, |x| format!(", {x:.2} as measured there"));
            writeln!(
                out,
                "injected mismatches, {}, {what}: fixed {:.4}, full {:.4} of plain, fixed / full {:.3}; at a trigger rate of 18.56 % the increment is {:.2} times smaller than at 100 %{measured}",
                s.write_back, l.fixed, l.full, l.fixed_share, l.advantage
            )?;
        }
    }
    Ok(())
}
