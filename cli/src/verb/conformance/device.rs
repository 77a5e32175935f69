//! `lastbit conformance --device`: does a device compute the bits of the profile it claims?

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use comfy_table::{Cell, CellAlignment};
use engine::conformance::{Answer, Part, Row, Suite, Vector, Watch};
use engine::journal::NUMERICS_REVISION;
use indicatif::ProgressBar;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::Args;
use crate::argument;
use crate::output::{Outcome, progress, table};
use crate::source;
use crate::subject::{Subject, date};

/// Name of the file that says where the others come from.
const PROVENANCE: &str = "provenance.json";

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: Subject,
    /// Each part's rows together.
    parts: Vec<Total>,
    rows: &'a [Row],
    /// Where the answers were written.
    record: Option<&'a Path>,
}

#[derive(Serialize)]
struct Total {
    part: Part,
    rows: usize,
    not_covered: usize,
    cases: u64,
    passed: u64,
    failed: u64,
}

impl Total {
    fn of(part: Part, rows: &[Row]) -> Self {
        let rows: Vec<&Row> = rows.iter().filter(|r| r.part == part).collect();
        let sum = |of: fn(&Row) -> u64| rows.iter().map(|r| of(r)).sum();
        Self {
            part,
            rows: rows.len(),
            not_covered: rows.iter().filter(|r| r.not_covered.is_some()).count(),
            cases: sum(|r| r.cases),
            passed: sum(|r| r.passed),
            failed: sum(|r| r.failed),
        }
    }
}

/// What a record says of itself.
#[derive(Serialize)]
struct Provenance {
    schema: &'static str,
    tool: String,
    numerics_revision: u64,
    device: Subject,
    /// UTC, by the clock of the machine.
    date: String,
    files: Vec<File>,
    parts: Vec<Total>,
}

#[derive(Serialize)]
struct File {
    name: String,
    lines: usize,
    sha256: String,
}

/// Shows progress and keeps the answers.
struct Watcher {
    bar: ProgressBar,
    /// Lines by part; `None` when nothing is recorded.
    files: Option<Vec<(Part, Vec<u8>)>>,
}

impl Watch for Watcher {
    fn row(&mut self, row: &Row) {
        self.bar.inc(1);
        self.bar.set_message(row.part.name());
    }

    fn answer(&mut self, answer: Answer) -> io::Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let index = match files.iter().position(|(part, _)| *part == answer.part) {
            Some(index) => index,
            None => {
                files.push((answer.part, Vec::new()));
                files.len() - 1
            }
        };
        let text = &mut files[index].1;
        serde_json::to_writer(&mut *text, &answer.line)?;
        text.push(b'\n');
        Ok(())
    }
}

/// Runs the suite on the device.
pub(super) fn run(args: &Args, place: argument::Device, texts: &[String]) -> anyhow::Result<Outcome> {
    if let Some(folder) = &args.record {
        let vectors = folder.join("vectors");
        std::fs::create_dir_all(&vectors).with_context(|| format!("creating {}", vectors.display()))?;
        for name in [PROVENANCE.to_owned()].into_iter().chain(Part::ALL.map(file_name)) {
            source::free(&folder.join(name))?;
        }
    }
    let vectors: Vec<Vector> = texts.iter().flat_map(|text| text.lines()).filter_map(Vector::parse).collect();
    let parts = if args.parts.is_empty() { Part::ALL.to_vec() } else { parts(&args.parts)? };
    let mut watcher = Watcher { bar: progress(0, "device"), files: args.record.is_some().then(Vec::new) };
    let (simd, threads) = (args.emulation.simd, args.emulation.thread_count());
    let mut subject = || {
        let device = source::device(place, args.profile.as_deref(), &args.emulation);
        device.map_err(|e| engine::Error::NoCuda { why: crate::output::sentence(&e) })
    };
    // Asked for first by itself: why there is no device is said in its own words.
    drop(source::device(place, args.profile.as_deref(), &args.emulation)?);
    let mut suite = Suite {
        subject: &mut subject,
        reference: &|profile: &emulator::profile::Profile| {
            engine::device::EmulatedDevice::with_profile(profile.clone()).simd(simd).threads(threads)
        },
        vectors: &vectors,
        deep: args.deep,
        parts: &parts,
    };
    let found = suite.run(&mut watcher)?;
    watcher.bar.finish_and_clear();
    let device = Subject::new(&found.device);
    let totals = || parts.iter().map(|&part| Total::of(part, &found.rows)).collect::<Vec<_>>();
    if let (Some(folder), Some(files)) = (&args.record, watcher.files) {
        record(folder, &files, &device, totals())?;
    }
    let report = Report {
        schema: "lastbit/device-conformance/v1",
        device,
        parts: totals(),
        rows: &found.rows,
        record: args.record.as_deref(),
    };
    args.format.print(&report, |out| print_text(out, &report))?;
    let any = |of: fn(&Total) -> u64| report.parts.iter().any(|t| of(t) > 0);
    Ok(match (any(|t| t.failed), any(|t| t.passed)) {
        (true, _) => Outcome::SomethingDiffers,
        (false, true) => Outcome::AllMatch,
        (false, false) => Outcome::CouldNotTell,
    })
}

fn parts(names: &[String]) -> anyhow::Result<Vec<Part>> {
    let known = || Part::ALL.map(Part::name).join(", ");
    let part = |name: &String| match Part::ALL.into_iter().find(|p| p.name() == name) {
        Some(part) => Ok(part),
        None => bail!("--parts: no part `{name}`; there are {}", known()),
    };
    names.iter().map(part).collect()
}

/// The matrix instructions' answers are vectors that `--vectors` reads, and so in a folder of their own.
fn file_name(part: Part) -> String {
    match part {
        Part::Matrix => "vectors/matrix.jsonl".to_owned(),
        part => format!("{}.jsonl", part.name()),
    }
}

/// Writes what the device answered, and last of all where it comes from: a folder without that file is not finished.
fn record(folder: &Path, files: &[(Part, Vec<u8>)], device: &Subject, parts: Vec<Total>) -> anyhow::Result<()> {
    let mut listed = Vec::new();
    for (part, text) in files {
        let name = file_name(*part);
        source::write_new(&folder.join(&name), text)?;
        let sha256 = Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect();
        listed.push(File { name, lines: text.iter().filter(|&&b| b == b'\n').count(), sha256 });
    }
    let provenance = Provenance {
        schema: "lastbit/device-vectors/v1",
        tool: format!("lastbit {}", env!("CARGO_PKG_VERSION")),
        numerics_revision: NUMERICS_REVISION,
        device: device.clone(),
        date: date(source::now_unix_us()),
        files: listed,
        parts,
    };
    let text = serde_json::to_string_pretty(&provenance)? + "\n";
    source::write_new(&folder.join(PROVENANCE), text.as_bytes())?;
    Ok(())
}

fn print_text(out: &mut dyn Write, report: &Report<'_>) -> io::Result<()> {
    let device = &report.device;
    let driver = device.driver.as_deref().map(|d| format!(", driver {d}")).unwrap_or_default();
    writeln!(out, "{} ({}{driver}), compared with the emulated {}\n", device.name, device.kind, device.profile)?;
    let mut t = table(["part", "instructions, kernels, models", "not covered", "answers", "equal", "different"]);
    for total in &report.parts {
        let numbers = [total.rows as u64, total.not_covered as u64, total.cases, total.passed, total.failed];
        let numbers = numbers.map(|n| Cell::new(n).set_alignment(CellAlignment::Right));
        t.add_row(std::iter::once(Cell::new(total.part.name())).chain(numbers));
    }
    writeln!(out, "{t}\n")?;
    for row in report.rows.iter().filter(|r| r.failed > 0) {
        let first = row.first_difference.as_deref().unwrap_or_default();
        writeln!(out, "{} {}: {} of {} differ, the first {first}", row.part.name(), row.what, row.failed, row.cases)?;
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in report.rows {
        let Some(why) = &row.not_covered else { continue };
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, rows)) => rows.push(row.what.as_str()),
            None => reasons.push((why.as_str(), vec![row.what.as_str()])),
        }
    }
    for (why, rows) in reasons {
        writeln!(out, "not covered, {why}: {}", rows.join(", "))?;
    }
    if let Some(folder) = report.record {
        writeln!(out, "\nThe device's answers are in {}; {PROVENANCE} says where they come from.", folder.display())?;
    }
    if !device.hardware {
        writeln!(out, "\nThis device is no GPU: what it answers confirms nothing about hardware.")?;
    }
    Ok(())
}
