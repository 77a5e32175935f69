//! `lastbit mufu probe`: the kernels that dump a unit, and their run on a device.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use comfy_table::Cell;
use emulator::mufu::fit::BINADE;
use emulator::mufu::probe::{self, Probe};
use engine::device::{Arg, Device};
use engine::kernels::KernelText;
use serde::Serialize;

use crate::argument;
use crate::output::{Format, Outcome, progress, table};
use crate::source::{self, Emulation};
use crate::subject::{Subject, date};

const PTX: &str = "probe.ptx";
const INSTRUCTIONS: &str = "PROBE.txt";
const PROVENANCE: &str = "provenance.json";

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder to write to, created if absent: probe.ptx, PROBE.txt (how to run it on a card), and a .bits file of 32 MiB
    /// for each probe that was run
    folder: PathBuf,

    /// Where to run the kernels: emulated, cuda, cuda:N for GPU number N, or none (only write the kernels and how to run them)
    #[arg(long, value_name = "DEVICE", default_value = "emulated")]
    device: Place,

    /// Hardware profile of the emulated device [default: sm_90]
    #[arg(long, value_name = "NAME", value_parser = argument::profile)]
    profile: Option<String>,

    /// Run only these probes, by file stem (`rcp-1-2`), comma-separated [default: all]
    #[arg(long, value_name = "STEMS", value_delimiter = ',')]
    only: Vec<String>,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    None,
    On(argument::Device),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::On).map_err(|e| format!("{e}; or none")) }
    }
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    folder: PathBuf,
    kernels: usize,
    /// Absent where nothing was run.
    device: Option<Subject>,
    dumps: Vec<Dumped>,
}

#[derive(Serialize)]
struct Dumped {
    file: String,
    function: &'static str,
    start: String,
    outputs: usize,
}

/// Where the dumps come from: written beside them.
#[derive(Serialize)]
struct Provenance<'a> {
    schema: &'static str,
    tool: String,
    device: &'a Subject,
    date: String,
    dumps: &'a [Dumped],
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let probes = chosen(&args.only)?;
    let device = match args.device {
        Place::None => None,
        Place::On(place) => Some(source::device(place, args.profile.as_deref(), &args.emulation)?),
    };
    std::fs::create_dir_all(&args.folder).with_context(|| format!("creating {}", args.folder.display()))?;
    source::write_new(&args.folder.join(PTX), probe::text().as_bytes())?;
    source::write_new(&args.folder.join(INSTRUCTIONS), probe::instructions(PTX).as_bytes())?;
    let mut dumps = Vec::new();
    let subject = device.as_ref().map(|d| Subject::new(&d.info()));
    if let Some(mut device) = device {
        let bar = progress(probes.len() as u64, "probing");
        for probe in probes {
            let results = dump(device.as_mut(), &probe)?;
            let file = format!("{}.bits", probe.stem);
            source::write_new(&args.folder.join(&file), &results)?;
            dumps.push(Dumped {
                file,
                function: probe.function.name(),
                start: format!("{:08x}", probe.start),
                outputs: results.len() / 4,
            });
            bar.inc(1);
        }
        bar.finish_and_clear();
    }
    if let Some(device) = &subject {
        let provenance = Provenance {
            schema: "lastbit/mufu-dump/v1",
            tool: format!("lastbit {}", env!("CARGO_PKG_VERSION")),
            device,
            date: date(source::now_unix_us()),
            dumps: &dumps,
        };
        let text = serde_json::to_string_pretty(&provenance)? + "\n";
        source::write_new(&args.folder.join(PROVENANCE), text.as_bytes())?;
    }
    let kernels = probe::module().kernels.len();
    let report = Report { schema: "lastbit/mufu-probe/v1", folder: args.folder, kernels, device: subject, dumps };
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
        let Some(device) = &report.device else { return Ok(()) };
        let said = if device.hardware { "" } else { ": no GPU, so this confirms nothing about one" };
        writeln!(out, "\nRun on {} ({}){said}.\n\n{t}", device.name, device.profile)
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

/// The probe's kernel on a device: its results, 4 bytes each.
fn dump(device: &mut dyn Device, probe: &Probe) -> anyhow::Result<Vec<u8>> {
    let kernel = KernelText { name: probe.kernel(), ptx: probe.text(), block: [probe::BLOCK, 1, 1], spec: None };
    let id = device.register_probe(&kernel)?;
    let mut results = vec![0; 4 * BINADE];
    let out = device.alloc(results.len() as u64)?;
    device.launch(id, [probe.grid(), 1, 1], &[out.arg(), Arg::U32(probe.start), Arg::U32(BINADE as u32)])?;
    device.download(out.address, &mut results)?;
    device.free(out)?;
    Ok(results)
}
