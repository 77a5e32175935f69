//! `lastbit classmap`: which numbers of rows share their bits.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use comfy_table::{Cell, CellAlignment};
use engine::runtime::{Limits, pages_for};
use engine::{Build, Engine, Mode};
use verifier::classmap::{ClassMap, Sight, Subject, measure};

use crate::argument;
use crate::output::{Format, Outcome, progress, table};
use crate::source::{self, Emulation};
use crate::verb::generate::parse_mode;

/// Most rows: a step takes no more.
const MAX_ROWS: u32 = 2048;
/// Most positions of context; a model's positions end before.
const MAX_CONTEXT: u32 = 1 << 20;
/// Most decode steps, and most requests that are looked at.
const MAX_STEPS: u32 = 1000;
const MAX_SUBJECTS: u32 = 1000;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Hugging Face model folder, GGUF file, or name of a pulled model [default: the model inside this binary]
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,

    /// Numerics mode
    #[arg(long, value_name = "MODE", default_value = "throughput", value_parser = parse_mode)]
    mode: Mode,

    /// Where kernels run: emulated, cuda, or cuda:N for GPU number N
    #[arg(long, value_name = "DEVICE", default_value = "emulated")]
    device: argument::Device,

    /// GPU generation to emulate [default: sm_90]
    #[arg(long, value_name = "SM", value_parser = argument::profile)]
    profile: Option<String>,

    /// Tensor-parallel ranks to simulate: 1, 2, 4 or 8
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = argument::count(1, 8))]
    tensor_parallel: u32,

    /// Numbers of rows from 1 to this
    #[arg(long, value_name = "N", default_value_t = 33, value_parser = argument::count(1, MAX_ROWS))]
    rows: u32,

    /// Tokens of a request's prompt
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = argument::count(1, MAX_CONTEXT))]
    context: u32,

    /// Decode steps of a request
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = argument::count(1, MAX_STEPS))]
    steps: u32,

    /// Requests that are looked at, each of other tokens: two classes are one until some row tells them apart
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = argument::count(1, MAX_SUBJECTS))]
    subjects: u32,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    format: Format,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let model = Arc::new(source::model(args.model.as_deref())?);
    let device = source::device(args.device, args.profile.as_deref(), &args.emulation)?;
    let pages = pages_for(1, args.context + args.steps) + pages_for(args.rows, 1);
    let limits = Limits { slots: args.rows, pages, max_rows: args.context.max(args.rows) };
    let mut engine =
        Engine::built(model, device, args.mode, limits, Build { ranks: args.tensor_parallel, ..Build::default() })?;
    let vocabulary = engine.model().config.vocab_size;
    let subject = |number| Subject::plain(number, args.context, args.steps, vocabulary);
    let subjects: Vec<Subject> = (0..args.subjects).map(subject).collect();
    let bar = progress(u64::from(args.rows) * u64::from(args.steps) * u64::from(args.subjects), "decode steps");
    let map = measure(&mut engine, &subjects, args.rows, &|done| bar.set_position(u64::from(done)))?;
    bar.finish_and_clear();
    args.format.print(&map, |out| print_text(out, &map))?;
    Ok(Outcome::AllMatch)
}

fn print_text(out: &mut dyn Write, map: &ClassMap) -> io::Result<()> {
    let ClassMap { model, profile, policy, ranks, context, steps, rows, subjects, .. } = map;
    let ranks = if *ranks == 1 { String::new() } else { format!(", {ranks} ranks") };
    writeln!(out, "class map of {model}: {profile}, {policy}{ranks}; 1 to {rows} rows after {context} tokens")?;
    writeln!(out, "\nwhat the policy chooses:")?;
    let operations: Vec<&str> = map.choices.iter().take(1).flat_map(|c| c.splits.keys().copied()).collect();
    let mut choices = table(std::iter::once("rows").chain(operations.iter().copied()));
    for class in &map.choices {
        let splits = operations.iter().map(|op| class.splits.get(op).map_or_else(String::new, u32::to_string));
        let splits = splits.map(|n| Cell::new(n).set_alignment(CellAlignment::Right));
        choices.add_row(std::iter::once(Cell::new(&class.rows)).chain(splits));
    }
    writeln!(out, "{choices}")?;
    writeln!(out, "\nwhat bits tell apart, measured on {subjects} requests of {steps} decode steps:")?;
    let mut sights = table(["what is compared", "classes of rows", "hidden at most"]);
    for classes in &map.sights {
        let words: Vec<String> = classes.classes.iter().map(|c| format!("{{{c}}}")).collect();
        let most = (1..=*rows).filter_map(|n| Some((classes.hidden_capacity(n)?, n)));
        let most = most.max_by_key(|(hidden, n)| (*hidden, std::cmp::Reverse(*n)));
        let most = most.map_or_else(String::new, |(hidden, n)| match hidden {
            0 => "none".to_owned(),
            _ => format!("{hidden} beside {n}"),
        });
        sights.add_row([classes.sight.words().to_owned(), words.join(" "), most]);
    }
    writeln!(out, "{sights}")?;
    if map.beyond_policy.is_empty() {
        writeln!(out, "Where the policy makes the same choices, every bit is the same.")?;
    } else {
        let words: Vec<String> = map.beyond_policy.iter().map(|c| format!("{{{c}}}")).collect();
        writeln!(
            out,
            "The policy makes the same choices and bits differ in {}: it does not say everything.",
            words.join(" ")
        )?;
    }
    let of = |sight| map.sight(sight).into_iter().flat_map(|c| &c.classes).find(|c| c.len() > 1);
    if let Some(class) = of(Sight::State) {
        let (low, high) = (class.min().unwrap_or(0), class.max().unwrap_or(0));
        writeln!(
            out,
            "So a log that states {low} rows leaves open whether up to {high} ran; numbers above {rows} were not measured."
        )?;
    }
    Ok(())
}
