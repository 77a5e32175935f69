//! `lastbit mufu`: the special function unit's coefficients, fitted from dumps and shown.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use comfy_table::Cell;
use emulator::mufu::fit::{Dump, FunctionFit, Outcome as Fitted, fit_all};
use emulator::mufu::{self, Function, MufuTables};
use serde::Serialize;

use crate::output::{Format, Outcome, table};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Turn dumps of a unit's outputs into coefficients that reproduce every one of them
    Fit(FitArgs),
    /// Show a profile, or what a function gives for operands
    Show(ShowArgs),
}

#[derive(clap::Args)]
struct FitArgs {
    /// Folder of correction files (`rcp-1-2.ulp.xz`, ... ; `.ulp` uncompressed)
    dumps: PathBuf,

    /// Also require these single outputs: a CSV file with a header `x,rcp,rsq,ex2,lg2` of 8-digit hex columns
    #[arg(long, value_name = "CSV")]
    samples: Option<PathBuf>,

    /// Write the profile here (an existing file is not overwritten)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

#[derive(clap::Args)]
struct ShowArgs {
    /// A profile written by `fit` [default: the profile inside this binary]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// Evaluate the functions at these f32 bit patterns (8 hex digits each)
    #[arg(value_name = "BITS")]
    operands: Vec<String>,

    #[command(flatten)]
    format: Format,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Verb::Fit(args) => fit(args),
        Verb::Show(args) => show(args),
    }
}

#[derive(Serialize)]
struct FitReport {
    schema: &'static str,
    functions: Vec<FitRow>,
    same_as_built_in: bool,
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

fn fit(args: FitArgs) -> anyhow::Result<Outcome> {
    if let Some(out) = &args.out {
        source::free(out)?;
    }
    let samples = args.samples.as_deref().map(read_samples).transpose()?.unwrap_or_default();
    let dumps = read_dumps(&args.dumps)?;
    let report = fit_all(&dumps, &samples)?;
    let functions: Vec<FitRow> = report.functions.iter().map(FitRow::new).collect();
    if let Some(out) = &args.out {
        let comment = format!("Fitted by `lastbit mufu fit` {} from {} dumps.", env!("CARGO_PKG_VERSION"), dumps.len());
        source::write_new(out, report.tables.to_text(&comment).as_bytes())?;
    }
    let result = FitReport {
        schema: "lastbit/mufu-fit/v1",
        same_as_built_in: report.tables == *MufuTables::g80(),
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
            "\nThe profile is {} the one inside this binary.",
            if result.same_as_built_in { "identical to" } else { "different from" }
        )
    })?;
    let all = result.functions.iter().all(|f| f.fits);
    Ok(if all { Outcome::AllMatch } else { Outcome::SomethingDiffers })
}

/// One byte more than the largest dump: anything longer is refused by its length, unread.
const MAX_DUMP: u64 = 4 * mufu::fit::BINADE as u64 + 1;

fn read_dumps(folder: &Path) -> anyhow::Result<Vec<Dump>> {
    let mut found = BTreeMap::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading dumps from {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".ulp.xz").or_else(|| name.strip_suffix(".ulp")) else {
            continue;
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
        if found.insert(stem.to_owned(), bytes).is_some() {
            bail!("{} holds {stem} twice, compressed and plain; keep one", folder.display());
        }
    }
    if found.is_empty() {
        bail!("{} holds no .ulp or .ulp.xz file", folder.display());
    }
    let dumps = found.iter().map(|(stem, bytes)| Dump::from_corrections(stem, bytes));
    dumps.collect::<Result<_, _>>().with_context(|| format!("reading dumps from {}", folder.display()))
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

#[derive(Serialize)]
struct Shown {
    schema: &'static str,
    functions: Vec<ShownFunction>,
    values: Vec<Value>,
}

#[derive(Serialize)]
struct ShownFunction {
    function: &'static str,
    modelled: bool,
    segments: Option<usize>,
    note: String,
}

#[derive(Serialize)]
struct Value {
    x: String,
    rcp: String,
    rsq: String,
    ex2: String,
    lg2: String,
}

fn show(args: ShowArgs) -> anyhow::Result<Outcome> {
    let own;
    let tables = match &args.profile {
        Some(path) => {
            let text = source::text(path, source::MAX_TEXT)?;
            own = MufuTables::parse(&text).with_context(|| format!("reading {}", path.display()))?;
            &own
        }
        None => MufuTables::g80(),
    };
    let operands = args.operands.iter().map(|o| bits(o)).collect::<anyhow::Result<Vec<u32>>>()?;
    let functions = Function::ALL.into_iter().map(|f| {
        let model = f.model();
        ShownFunction {
            function: f.name(),
            modelled: model.is_ok(),
            segments: tables.rows(f).map(|r| r.len()),
            note: model.err().map_or_else(|| evidence(f).to_owned(), |e| e.to_string()),
        }
    });
    let hex = |v: u32| format!("{v:08x}");
    let shown = Shown {
        schema: "lastbit/mufu-show/v1",
        functions: functions.collect(),
        values: operands
            .iter()
            .map(|&x| Value {
                x: hex(x),
                rcp: hex(mufu::rcp(tables, x)),
                rsq: hex(mufu::rsq(tables, x)),
                ex2: hex(mufu::ex2(tables, x)),
                lg2: hex(mufu::lg2(tables, x)),
            })
            .collect(),
    };
    args.format.print(&shown, |out| show_text(out, &shown))?;
    Ok(Outcome::AllMatch)
}

fn show_text(out: &mut dyn Write, shown: &Shown) -> io::Result<()> {
    if shown.values.is_empty() {
        let mut t = table(["function", "segments", "evidence"]);
        for f in &shown.functions {
            let segments = f.segments.map_or_else(|| "-".to_owned(), |n| n.to_string());
            t.add_row([Cell::new(f.function), Cell::new(segments), Cell::new(&f.note)]);
        }
        writeln!(out, "{t}")
    } else {
        let mut t = table(["x", "RCP", "RSQ", "EX2", "LG2"]);
        for v in &shown.values {
            t.add_row([&v.x, &v.rcp, &v.rsq, &v.ex2, &v.lg2]);
        }
        writeln!(out, "{t}")
    }
}

/// How well a modelled function is established (specifications, sections 6.1 and 2.2).
fn evidence(function: Function) -> &'static str {
    match function {
        Function::Rcp | Function::Rsq => {
            "counts over all 2^23 significands equal exhaustive probes of A100, L40S and H100; other generations likely"
        }
        Function::Ex2 => "strongly supported (error bounds and counts on sm_75 and sm_80); not probed exhaustively",
        Function::Lg2 => "likely (consistent with the documented bound); not probed on current chips",
        _ => "no evidence",
    }
}

fn bits(text: &str) -> anyhow::Result<u32> {
    let digits = text.trim().trim_start_matches("0x");
    if digits.len() != 8 {
        bail!("`{text}` is not an f32 bit pattern: 8 hex digits are");
    }
    u32::from_str_radix(digits, 16).with_context(|| format!("`{text}` is not 8 hex digits"))
}
