//! `lastbit conformance`: the emulator's arithmetic judged by vector files.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use comfy_table::{Cell, CellAlignment};
use emulator::conformance::{Answers, FileReport, judge};
use emulator::profile::ZeroPolicy;
use serde::Serialize;

use crate::output::{Format, Outcome, progress, table};
use crate::source;

/// Vectors that travel inside the binary: ours, simulated, one file an architecture.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../emulator/tests/data/mma/", $name, ".xz")))),*]
    };
}

pub(super) static BUILT_IN: &[(&str, &[u8])] = built_in![
    "volta.jsonl",
    "turing.jsonl",
    "ampere.jsonl",
    "ada_lovelace.jsonl",
    "hopper.jsonl",
    "blackwell.jsonl",
    "rtx_blackwell.jsonl",
];

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of `.jsonl` vector files of at most 64 MiB, searched with its subfolders [default: the vectors inside this binary]
    #[arg(long, value_name = "DIR")]
    vectors: Option<PathBuf>,

    /// Which answers must match where the published zero policies differ
    #[arg(long, value_enum, default_value = "both")]
    zero_policy: Policy,

    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Policy {
    /// `d` with zeros counted as 2^-126, and `alt` (else `d`) with zeros excluded
    Both,
    /// The default of the profiles: zero terms excluded, with an exponent floor
    Exclude,
    /// Zero operands count as 2^-126
    Sentinel,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    zero_policy: String,
    files: Vec<FileReport>,
    not_covered: BTreeSet<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let answers = match args.zero_policy {
        Policy::Both => Answers::Both,
        Policy::Exclude => Answers::Only(ZeroPolicy::Exclude),
        Policy::Sentinel => Answers::Only(ZeroPolicy::SentinelMinus126),
    };
    let files = match &args.vectors {
        Some(folder) => from_folder(folder, answers)?,
        None => from_binary(answers)?,
    };
    let not_covered = files.iter().flat_map(FileReport::uncovered).collect();
    let report = Report {
        schema: "lastbit/conformance/v1",
        zero_policy: format!("{:?}", args.zero_policy).to_lowercase(),
        files,
        not_covered,
    };
    args.format.print(&report, |out| print_text(out, &report))?;
    let any = |count: fn(&FileReport) -> u64| report.files.iter().any(|f| count(f) > 0);
    Ok(match (any(|f| f.failed as u64), any(|f| f.passed as u64)) {
        (true, _) => Outcome::SomethingDiffers,
        (false, true) => Outcome::AllMatch,
        // No vector was judged: nothing is known.
        (false, false) => Outcome::CouldNotTell,
    })
}

fn from_binary(answers: Answers) -> anyhow::Result<Vec<FileReport>> {
    let bar = progress(BUILT_IN.len() as u64, "vectors inside the binary");
    let mut reports = Vec::new();
    for (name, compressed) in BUILT_IN {
        let mut text = Vec::new();
        lzma_rust2::XzReader::new(*compressed, true).read_to_end(&mut text)?;
        reports.push(judge(name, text.as_slice(), answers)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(reports)
}

fn from_folder(folder: &Path, answers: Answers) -> anyhow::Result<Vec<FileReport>> {
    let mut paths = Vec::new();
    find(folder, &mut paths).with_context(|| format!("reading vectors from {}", folder.display()))?;
    paths.sort();
    if paths.is_empty() {
        bail!("{} holds no .jsonl vector file", folder.display());
    }
    let bar = progress(paths.len() as u64, "vectors");
    let mut reports = Vec::new();
    for path in paths {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        let file =
            record::file::open(&path, source::MAX_TEXT).with_context(|| format!("reading {}", path.display()))?;
        reports.push(judge(&name, BufReader::new(file), answers)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(reports)
}

/// Collects the `.jsonl` files below `folder`; symbolic links to folders are not followed.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            find(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "jsonl") {
            found.push(path);
        }
    }
    Ok(())
}

fn print_text(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let mut table =
        table(["file", "architecture", "instruction", "answers", "vectors", "passed", "failed", "not covered"]);
    for file in &report.files {
        for group in &file.groups {
            let mut row = vec![
                Cell::new(&file.file),
                Cell::new(&group.arch),
                Cell::new(&group.instruction),
                Cell::new(if group.hardware { "hardware" } else { "simulated" }),
            ];
            row.extend(
                [group.total, group.passed, group.failed, group.not_covered]
                    .map(|n| Cell::new(n).set_alignment(CellAlignment::Right)),
            );
            table.add_row(row);
        }
    }
    writeln!(out, "{table}")?;
    for file in &report.files {
        writeln!(
            out,
            "{}: {} vectors, {} passed, {} failed, {} not covered",
            file.file, file.total, file.passed, file.failed, file.not_covered
        )?;
        for f in &file.failures {
            writeln!(
                out,
                "  line {}: {} {} ({} zeros): expected {}, found {}",
                f.line, f.arch, f.instruction, f.zero_policy, f.expected, f.found
            )?;
        }
    }
    if !report.not_covered.is_empty() {
        writeln!(
            out,
            "\n{} instructions have no model here yet; their vectors count as not covered, never as passed.",
            report.not_covered.len()
        )?;
    }
    Ok(())
}
