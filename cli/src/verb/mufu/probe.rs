//! `lastbit mufu probe`: the kernels that dump a unit, and their run on the emulated device.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use comfy_table::Cell;
use emulator::exec::ExecOptions;
use emulator::mufu::probe::{self, Probe};
use emulator::profile::Profile;
use serde::Serialize;

use crate::output::{Format, Outcome, progress, table};
use crate::source::{self, Emulation};

const PTX: &str = "probe.ptx";
const INSTRUCTIONS: &str = "PROBE.txt";

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder to write to, created if absent: probe.ptx, PROBE.txt (how to run it on a card), and a .bits file of 32 MiB
    /// for each probe that was run
    folder: PathBuf,

    /// Where to run the kernels: emulated, cuda, or none (only write the kernels and how to run them)
    #[arg(long, value_name = "DEVICE", default_value = "emulated")]
    device: Device,

    /// Hardware profile of the emulated device
    #[arg(long, value_name = "NAME", default_value = "sm_90")]
    profile: String,

    /// Run only these probes, by file stem (`rcp-1-2`), comma-separated [default: all]
    #[arg(long, value_name = "STEMS", value_delimiter = ',')]
    only: Vec<String>,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Device {
    Emulated,
    Cuda,
    None,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    folder: PathBuf,
    kernels: usize,
    dumps: Vec<Dumped>,
}

#[derive(Serialize)]
struct Dumped {
    file: String,
    function: &'static str,
    start: String,
    outputs: usize,
    instructions: u64,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if args.device == Device::Cuda {
        bail!(
            "this build drives no GPU: write the kernels with `--device none` and run them on the card as {INSTRUCTIONS} says, \
             then `lastbit mufu fit`"
        );
    }
    let probes = chosen(&args.only)?;
    let profile = Profile::by_name(&args.profile)
        .with_context(|| format!("no profile `{}`; there are {}", args.profile, names()))?;
    std::fs::create_dir_all(&args.folder).with_context(|| format!("creating {}", args.folder.display()))?;
    source::write_new(&args.folder.join(PTX), probe::text().as_bytes())?;
    source::write_new(&args.folder.join(INSTRUCTIONS), probe::instructions(PTX).as_bytes())?;
    let mut dumps = Vec::new();
    if args.device == Device::Emulated {
        let options =
            ExecOptions { threads: args.emulation.thread_count(), simd: args.emulation.simd, ..ExecOptions::default() };
        let bar = progress(probes.len() as u64, "probing the emulated device");
        for probe in probes {
            let (dump, stats) = probe.run_emulated(profile, &options)?;
            let file = format!("{}.bits", probe.stem);
            source::write_new(&args.folder.join(&file), &dump.to_results())?;
            dumps.push(Dumped {
                file,
                function: probe.function.name(),
                start: format!("{:08x}", probe.start),
                outputs: dump.outputs().len(),
                instructions: stats.instructions,
            });
            bar.inc(1);
        }
        bar.finish_and_clear();
    }
    let kernels = probe::module().kernels.len();
    let report = Report { schema: "lastbit/mufu-probe/v1", folder: args.folder, kernels, dumps };
    args.format.print(&report, |out| {
        let folder = report.folder.display();
        writeln!(
            out,
            "Wrote {kernels} kernels to {folder}/{PTX}; {folder}/{INSTRUCTIONS} says how to run them on a card."
        )?;
        if report.dumps.is_empty() {
            return Ok(());
        }
        let mut t = table(["dump", "function", "first operand", "outputs"]);
        for d in &report.dumps {
            t.add_row([Cell::new(&d.file), Cell::new(d.function), Cell::new(&d.start), Cell::new(d.outputs)]);
        }
        writeln!(out, "\nRun on the emulated device: the model's outputs, which confirm nothing about a card.\n\n{t}")
    })?;
    Ok(Outcome::AllMatch)
}

fn chosen(stems: &[String]) -> anyhow::Result<Vec<Probe>> {
    let all = Probe::all();
    if stems.is_empty() {
        return Ok(all);
    }
    stems
        .iter()
        .map(|stem| {
            all.iter().copied().find(|p| p.stem == stem).with_context(|| {
                format!("no probe `{stem}`; there are {}", all.iter().map(|p| p.stem).collect::<Vec<_>>().join(", "))
            })
        })
        .collect()
}

fn names() -> String {
    Profile::all().iter().map(|p| p.name).collect::<Vec<_>>().join(", ")
}
