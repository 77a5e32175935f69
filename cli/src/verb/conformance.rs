//! `lastbit conformance`: the emulator's arithmetic judged by vector files, or a device by the emulator.

mod device;

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use comfy_table::{Cell, CellAlignment};
use emulator::conformance::{Answers, FileReport, judge};
use emulator::profile::{Profile, ZeroPolicy};
use serde::Serialize;

use crate::argument;
use crate::output::{Format, Outcome, progress, table};
use crate::source::{self, Emulation};

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
    "cdna1.jsonl",
    "cdna2.jsonl",
    "cdna3.jsonl",
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

    /// Compare this device with the emulated one of its profile, instead of judging the emulator: emulated, cuda, or cuda:N
    #[arg(long, value_name = "DEVICE", conflicts_with = "zero_policy")]
    device: Option<argument::Device>,

    /// GPU generation of the emulated device [default: sm_90]
    #[arg(long, value_name = "SM", value_parser = argument::profile, requires = "device")]
    profile: Option<String>,

    /// Folder for the device's answers as vector files, created if absent
    #[arg(long, value_name = "DIR", requires = "device")]
    record: Option<PathBuf>,

    /// Compare only these parts, comma-separated: matrix, special, scalar, kernels, model [default: all]
    #[arg(long, value_name = "PARTS", value_delimiter = ',', requires = "device")]
    parts: Vec<String>,

    /// Ask for every operand of every special function, 2^32 each: minutes to hours
    #[arg(long, requires = "device")]
    deep: bool,

    #[command(flatten)]
    emulation: Emulation,

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
    /// The files together, an instruction of an architecture a row.
    instructions: Vec<Row>,
    /// The same, an architecture a row.
    architectures: Vec<Row>,
    not_covered: BTreeSet<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    architecture: String,
    /// Absent in rows of a whole architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    instruction: Option<String>,
    /// Where the answers come from: `hardware` or `simulated`.
    answers: &'static str,
    /// How well the rule that ran is established: `HW`, `XM`, `ISA` or `?`; absent if no rule covers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<&'static str>,
    vectors: usize,
    passed: usize,
    failed: usize,
    unsupported: usize,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.vectors += other.vectors;
        self.passed += other.passed;
        self.failed += other.failed;
        self.unsupported += other.unsupported;
    }
}

/// Rows by architecture (oldest first) and instruction, files merged; and the same by architecture alone.
fn rows(files: &[FileReport]) -> (Vec<Row>, Vec<Row>) {
    let mut instructions: Vec<Row> = Vec::new();
    let mut architectures: Vec<Row> = Vec::new();
    for group in files.iter().flat_map(|f| &f.groups) {
        let row = Row {
            architecture: group.arch.clone(),
            instruction: Some(group.instruction.clone()),
            answers: if group.hardware { "hardware" } else { "simulated" },
            confidence: group.confidence,
            vectors: group.total,
            passed: group.passed,
            failed: group.failed,
            unsupported: group.not_covered,
        };
        merge(&mut architectures, Row { instruction: None, confidence: None, ..row.clone() });
        merge(&mut instructions, row);
    }
    let age = |row: &Row| {
        let known = Profile::all().iter().position(|p| p.architecture == row.architecture);
        (known.unwrap_or(usize::MAX), row.answers)
    };
    instructions.sort_by_key(age);
    architectures.sort_by_key(age);
    (instructions, architectures)
}

fn merge(rows: &mut Vec<Row>, row: Row) {
    let key = |r: &Row| (r.architecture.clone(), r.instruction.clone(), r.answers);
    match rows.iter_mut().find(|r| key(r) == key(&row)) {
        Some(known) => known.add(&row),
        None => rows.push(row),
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if let Some(place) = args.device {
        return device::run(&args, place, &texts(args.vectors.as_deref())?);
    }
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
    let (instructions, architectures) = rows(&files);
    let report = Report {
        schema: "lastbit/conformance/v1",
        zero_policy: format!("{:?}", args.zero_policy).to_lowercase(),
        files,
        instructions,
        architectures,
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

/// The text of every vector file.
fn texts(folder: Option<&Path>) -> anyhow::Result<Vec<String>> {
    let Some(folder) = folder else {
        return BUILT_IN
            .iter()
            .map(|(_, compressed)| {
                let mut text = String::new();
                lzma_rust2::XzReader::new(*compressed, true).read_to_string(&mut text)?;
                Ok(text)
            })
            .collect();
    };
    paths(folder)?.iter().map(|path| source::text(path, source::MAX_TEXT)).collect()
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

/// The vector files below a folder.
fn paths(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    find(folder, &mut paths).with_context(|| format!("reading vectors from {}", folder.display()))?;
    paths.sort();
    if paths.is_empty() {
        bail!("{} holds no .jsonl vector file", folder.display());
    }
    Ok(paths)
}

fn from_folder(folder: &Path, answers: Answers) -> anyhow::Result<Vec<FileReport>> {
    let paths = paths(folder)?;
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
    let mut t = table(["architecture", "instruction", "answers", "rule", "vectors", "passed", "failed", "unsupported"]);
    for row in &report.instructions {
        t.add_row(cells(
            row,
            &[row.instruction.as_deref().unwrap_or_default(), row.answers, row.confidence.unwrap_or("-")],
        ));
    }
    writeln!(out, "{t}\n")?;
    let mut t = table(["architecture", "answers", "vectors", "passed", "failed", "unsupported"]);
    for row in &report.architectures {
        t.add_row(cells(row, &[row.answers]));
    }
    writeln!(out, "{t}\n")?;
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
    writeln!(
        out,
        "\nanswers: recorded on hardware, or simulated. rule: HW reproduces recorded hardware outputs, XM rests on a simulator, \
         ISA is stated by the manual, ? is open (`lastbit emulator profiles`)."
    )?;
    if !report.not_covered.is_empty() {
        writeln!(
            out,
            "\n{} instructions have no model here yet; their vectors count as not covered, never as passed.",
            report.not_covered.len()
        )?;
    }
    Ok(())
}

fn cells(row: &Row, words: &[&str]) -> Vec<Cell> {
    let numbers = [row.vectors, row.passed, row.failed, row.unsupported];
    std::iter::once(row.architecture.as_str())
        .chain(words.iter().copied())
        .map(Cell::new)
        .chain(numbers.map(|n| Cell::new(n).set_alignment(CellAlignment::Right)))
        .collect()
}
