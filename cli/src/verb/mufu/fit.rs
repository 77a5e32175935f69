//! `lastbit mufu fit`: from dumps to a profile.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use comfy_table::Cell;
use emulator::mufu::fit::{BINADE, Dump, FunctionFit, Outcome as Fitted, fit_all};
use emulator::mufu::{Function, MufuTables};
use serde::Serialize;

use super::bits;
use crate::output::{Format, Outcome, table};
use crate::source;

#[derive(clap::Args)]
pub struct Args {
    /// Folder of dumps: results (`rcp-1-2.bits`) or correction files (`rcp-1-2.ulp`), each also compressed (`.xz`)
    dumps: PathBuf,

    /// Also require these single outputs: a CSV file with a header `x,rcp,rsq,ex2,lg2,sin,cos` of 8-digit hex columns
    #[arg(long, value_name = "CSV")]
    samples: Option<PathBuf>,

    /// Write the profile here (an existing file is not overwritten); the outputs of functions that do not fit go to the
    /// folder FILE.corrections
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct FitReport {
    schema: &'static str,
    functions: Vec<FitRow>,
    /// Whether every function fitted here has the coefficients inside this binary.
    same_as_built_in: bool,
    /// The argument paths under which dumps of sine and cosine are explained.
    sine_arguments: Vec<&'static str>,
    profile: Option<PathBuf>,
}

#[derive(Serialize)]
struct FitRow {
    function: &'static str,
    segments: usize,
    outputs: usize,
    fits: bool,
    misfit_segments: Vec<usize>,
    impossible_outputs: usize,
    most_triples: u64,
    correction_table: bool,
}

impl FitRow {
    fn new(f: &FunctionFit) -> Self {
        Self {
            function: f.function.name(),
            segments: f.segments.len(),
            outputs: f.segments.iter().map(|s| s.outputs).sum(),
            fits: f.fits(),
            misfit_segments: f.misfits().map(|(i, _)| i).collect(),
            impossible_outputs: f.impossible,
            most_triples: f.most_triples(),
            correction_table: matches!(f.outcome, Fitted::Listed(_)),
        }
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if let Some(out) = &args.out {
        source::free(out)?;
        source::free(&corrections_of(out))?;
    }
    let samples = args.samples.as_deref().map(read_samples).transpose()?.unwrap_or_default();
    let dumps = read_dumps(&args.dumps)?;
    let report = fit_all(&dumps, &samples)?;
    let functions: Vec<FitRow> = report.functions.iter().map(FitRow::new).collect();
    if let Some(out) = &args.out {
        let comment = format!("Fitted by `lastbit mufu fit` {} from {} dumps.", env!("CARGO_PKG_VERSION"), dumps.len());
        source::write_new(out, report.tables.to_text(&comment).as_bytes())?;
        write_corrections(out, &report.functions)?;
    }
    let built_in = MufuTables::g80();
    let same = |f: &FunctionFit| f.fits() && report.tables.rows(f.function) == built_in.rows(f.function);
    let result = FitReport {
        schema: "lastbit/mufu-fit/v1",
        same_as_built_in: report.functions.iter().all(same),
        sine_arguments: report.sine_arguments.iter().map(|a| a.name()).collect(),
        profile: args.out,
        functions,
    };
    args.format.print(&result, |out| {
        let mut t = table(["function", "segments", "outputs", "reproduced", "triples that fit"]);
        for f in &result.functions {
            let reproduced = if f.fits {
                "all".to_owned()
            } else {
                format!(
                    "no: segments {:?}, {} impossible outputs; kept as a list",
                    f.misfit_segments, f.impossible_outputs
                )
            };
            let triples = match f.most_triples {
                1 => "exactly one a segment".to_owned(),
                n => format!("up to {n} a segment; the smallest is taken"),
            };
            t.add_row([
                Cell::new(f.function),
                Cell::new(f.segments),
                Cell::new(f.outputs),
                Cell::new(reproduced),
                Cell::new(triples),
            ]);
        }
        writeln!(out, "{t}")?;
        writeln!(
            out,
            "\nThe coefficients are {} those inside this binary.",
            if result.same_as_built_in { "identical to" } else { "different from" }
        )?;
        match result.sine_arguments[..] {
            [] if result.functions.iter().any(|f| f.function == "sin") => {
                writeln!(
                    out,
                    "Neither argument path of sine and cosine explains every output: they are not in the profile."
                )
            }
            [] => writeln!(out, "There were no dumps of sine and cosine: they are not in the profile."),
            _ => writeln!(out, "Sine and cosine reduce their argument by: {}.", result.sine_arguments.join(" or ")),
        }
    })?;
    let all = result.functions.iter().all(|f| f.fits);
    Ok(if all { Outcome::AllMatch } else { Outcome::SomethingDiffers })
}

/// The folder beside a profile that holds the outputs of functions without coefficients.
pub fn corrections_of(profile: &Path) -> PathBuf {
    let mut name = profile.as_os_str().to_owned();
    name.push(".corrections");
    name.into()
}

/// Writes the dumps of every function that is listed, so that the profile can be read back.
fn write_corrections(profile: &Path, functions: &[FunctionFit]) -> anyhow::Result<()> {
    let listed: Vec<&Dump> = functions
        .iter()
        .filter(|f| f.function != Function::Sin)
        .filter_map(|f| match &f.outcome {
            Fitted::Listed(dumps) => Some(dumps),
            Fitted::Rows(_) => None,
        })
        .flatten()
        .collect();
    if listed.is_empty() {
        return Ok(());
    }
    let folder = corrections_of(profile);
    std::fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    for dump in listed {
        let stem = dump.stem().with_context(|| format!("a dump of {} has no name", dump.function()))?;
        source::write_new(&folder.join(format!("{stem}.ulp")), &dump.to_corrections()?)?;
    }
    Ok(())
}

/// One byte more than the largest dump: anything longer is refused by its length, unread.
const MAX_DUMP: u64 = 4 * BINADE as u64 + 1;

/// Every dump of a folder.
pub fn read_dumps(folder: &Path) -> anyhow::Result<Vec<Dump>> {
    let mut found = BTreeMap::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading dumps from {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = name.strip_suffix(".xz").unwrap_or(&name);
        let (stem, results) = match (plain.strip_suffix(".ulp"), plain.strip_suffix(".bits")) {
            (Some(stem), _) => (stem, false),
            (_, Some(stem)) => (stem, true),
            _ => continue,
        };
        let mut bytes = source::file(&path, MAX_DUMP)?;
        if name.ends_with(".xz") {
            let mut plain = Vec::new();
            lzma_rust2::XzReader::new(bytes.as_slice(), true)
                .take(MAX_DUMP)
                .read_to_end(&mut plain)
                .with_context(|| format!("decompressing {}", path.display()))?;
            bytes = plain;
        }
        let read = if results { Dump::from_results } else { Dump::from_corrections };
        let dump = read(stem, &bytes).with_context(|| format!("reading {}", path.display()))?;
        if found.insert(stem.to_owned(), dump).is_some() {
            bail!("{} holds {stem} twice, in two forms; keep one", folder.display());
        }
    }
    if found.is_empty() {
        bail!("{} holds no dump: no .bits, .ulp, .bits.xz or .ulp.xz file", folder.display());
    }
    Ok(found.into_values().collect())
}

fn read_samples(path: &Path) -> anyhow::Result<Vec<(Function, u32, u32)>> {
    let text = source::text(path, source::MAX_TEXT)?;
    let mut lines = text.lines().enumerate();
    let (_, header) = lines.next().with_context(|| format!("{} is empty", path.display()))?;
    // Columns of functions without a model are passed over; the operand must come first.
    let columns: Vec<Option<Function>> = header
        .split(',')
        .map(|c| Function::MODELLED.into_iter().find(|f| f.name().eq_ignore_ascii_case(c.trim())))
        .collect();
    if !header.starts_with("x,") {
        bail!("{}: line 1: the first column must be `x`", path.display());
    }
    let mut samples = Vec::new();
    for (number, line) in lines {
        let cells = line.split(',').map(bits).collect::<anyhow::Result<Vec<u32>>>();
        let cells = cells.with_context(|| format!("{}: line {}", path.display(), number + 1))?;
        if cells.len() != columns.len() {
            bail!("{}: line {}: {} columns, the header has {}", path.display(), number + 1, cells.len(), columns.len());
        }
        samples.extend(columns.iter().zip(&cells).filter_map(|(f, y)| f.map(|f| (f, cells[0], *y))));
    }
    Ok(samples)
}
