//! `lastbit mufu show`: a profile, and what its functions give.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use comfy_table::Cell;
use emulator::mufu::{self, Function, MufuTables, SineArgument};
use serde::Serialize;

use super::{bits, fit};
use crate::output::{Format, Outcome, table};
use crate::source;

#[derive(clap::Args)]
pub struct Args {
    /// A profile written by `fit` [default: the profile inside this binary]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// How sine and cosine reduce their argument: fixed-point or multiply-rz
    #[arg(long, value_name = "PATH", default_value = SineArgument::DEFAULT.name(), value_parser = sine_argument)]
    sine_argument: SineArgument,

    /// Evaluate the functions at these f32 bit patterns (8 hex digits each)
    #[arg(value_name = "BITS")]
    operands: Vec<String>,

    #[command(flatten)]
    format: Format,
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
    /// Absent if the profile has no sine.
    sin: Option<String>,
    cos: Option<String>,
}

fn sine_argument(name: &str) -> Result<SineArgument, String> {
    SineArgument::ALL
        .into_iter()
        .find(|a| a.name() == name)
        .ok_or_else(|| SineArgument::ALL.map(SineArgument::name).join(" or "))
}

/// A profile, with the outputs of its listed functions from the folder beside it.
fn parse(path: &Path, text: &str) -> anyhow::Result<MufuTables> {
    let folder = fit::corrections_of(path);
    let dumps = if folder.is_dir() { fit::read_dumps(&folder)? } else { Vec::new() };
    Ok(MufuTables::parse_with(text, &dumps)?)
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let own;
    let tables = match &args.profile {
        Some(path) => {
            let text = source::text(path, source::MAX_TEXT)?;
            own = parse(path, &text).with_context(|| format!("reading {}", path.display()))?;
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
                sin: mufu::sin(tables, args.sine_argument, x).ok().map(hex),
                cos: mufu::cos(tables, args.sine_argument, x).ok().map(hex),
            })
            .collect(),
    };
    args.format.print(&shown, |out| {
        if shown.values.is_empty() {
            let mut t = table(["function", "segments", "evidence"]);
            for f in &shown.functions {
                let segments = f.segments.map_or_else(|| "-".to_owned(), |n| n.to_string());
                t.add_row([Cell::new(f.function), Cell::new(segments), Cell::new(&f.note)]);
            }
            writeln!(out, "{t}")
        } else {
            let mut t = table(["x", "RCP", "RSQ", "EX2", "LG2", "SIN", "COS"]);
            let absent = "-".to_owned();
            for v in &shown.values {
                let [sin, cos] = [&v.sin, &v.cos].map(|y| y.as_ref().unwrap_or(&absent));
                t.add_row([&v.x, &v.rcp, &v.rsq, &v.ex2, &v.lg2, sin, cos]);
            }
            writeln!(out, "{t}")
        }
    })?;
    Ok(Outcome::AllMatch)
}

/// How well a modelled function is established (specifications, sections 6.1 and 2.2).
fn evidence(function: Function) -> &'static str {
    match function {
        Function::Rcp | Function::Rsq => {
            "counts over all 2^23 significands equal exhaustive probes of A100, L40S and H100; other generations likely"
        }
        Function::Ex2 => "strongly supported (error bounds and counts on sm_75 and sm_80); not probed exhaustively",
        Function::Lg2 => "likely (consistent with the documented bound); not probed on current chips",
        Function::Sin | Function::Cos => {
            "table likely (consistent with the documented bounds), two of 64 segments taken by accuracy; argument path open"
        }
        _ => "no evidence",
    }
}
