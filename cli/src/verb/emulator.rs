//! `lastbit emulator`: which arithmetic each GPU generation has, how well it is established, and what is left open.

use std::io::{self, Write};

use anyhow::bail;
use comfy_table::Cell;
use emulator::profile::{Profile, ProfileDescription, RowDescription};
use serde::Serialize;

use crate::output::{Format, Outcome, table};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List the profiles, or the instructions and switches of one
    Profiles(ProfilesArgs),
}

#[derive(clap::Args)]
struct ProfilesArgs {
    /// A profile (`sm_90`, `gfx942`) or an architecture (`Hopper`, `CDNA3`) [default: a line for each profile]
    name: Option<String>,

    #[command(flatten)]
    format: Format,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Verb::Profiles(args) => profiles(args),
    }
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    marks: [Mark; 4],
    profiles: Vec<ProfileDescription>,
}

#[derive(Serialize)]
struct Mark {
    mark: &'static str,
    meaning: &'static str,
}

const MARKS: [Mark; 4] = [
    Mark { mark: "HW", meaning: "reproduces recorded outputs of hardware" },
    Mark { mark: "XM", meaning: "rests on a simulator that its authors tested against hardware" },
    Mark { mark: "ISA", meaning: "stated by the instruction set manual" },
    Mark { mark: "?", meaning: "open: the sources disagree or are silent" },
];

fn profiles(args: ProfilesArgs) -> anyhow::Result<Outcome> {
    let wanted = |p: &&Profile| {
        args.name.as_ref().is_none_or(|n| n.eq_ignore_ascii_case(p.name) || n.eq_ignore_ascii_case(p.architecture))
    };
    let profiles: Vec<ProfileDescription> = Profile::all().iter().filter(wanted).map(Profile::description).collect();
    if let (Some(name), []) = (&args.name, profiles.as_slice()) {
        let known: Vec<String> = Profile::all().iter().map(|p| format!("{} ({})", p.name, p.architecture)).collect();
        bail!("no profile or architecture is called `{name}`; known: {}", known.join(", "));
    }
    let report = Report { schema: "lastbit/emulator-profiles/v1", marks: MARKS, profiles };
    args.format.print(&report, |out| {
        if args.name.is_none() {
            write_list(out, &report.profiles)?;
        } else {
            report.profiles.iter().try_for_each(|p| write_profile(out, p))?;
        }
        writeln!(out)?;
        report.marks.iter().try_for_each(|m| writeln!(out, "{:>4}  {}", m.mark, m.meaning))
    })?;
    Ok(Outcome::AllMatch)
}

fn write_list(out: &mut dyn Write, profiles: &[ProfileDescription]) -> io::Result<()> {
    let mut t =
        table(["profile", "vendor", "architecture", "operands of matrix instructions", "rules", "open switches"]);
    for p in profiles {
        let mut operands: Vec<&str> = Vec::new();
        for o in p.instructions.iter().flat_map(|row| &row.operands) {
            if !operands.contains(o) {
                operands.push(o);
            }
        }
        let marks: Vec<String> = MARKS
            .iter()
            .map(|m| (m.mark, p.instructions.iter().filter(|row| row.confidence == m.mark).count()))
            .filter(|(_, n)| *n > 0)
            .map(|(mark, n)| format!("{n} {mark}"))
            .collect();
        let open = p.switches.iter().filter(|s| s.confidence == "?").count();
        t.add_row([
            Cell::new(p.name),
            Cell::new(p.vendor),
            Cell::new(p.architecture),
            Cell::new(operands.join(" ")),
            Cell::new(marks.join(", ")),
            Cell::new(open),
        ]);
    }
    writeln!(out, "{t}\n\n`lastbit emulator profiles NAME` shows the instructions and switches of one.")
}

fn write_profile(out: &mut dyn Write, p: &ProfileDescription) -> io::Result<()> {
    writeln!(out, "{}: {} {}\n", p.name, p.vendor, p.architecture)?;
    let mut t = table(["instructions", "operands", "C", "D", "", "rule", "NaN", "", "source"]);
    for row in &p.instructions {
        t.add_row([
            Cell::new(format!("{} {}", row.family, row.shapes.join(" "))),
            Cell::new(operands(row)),
            Cell::new(row.c.join("|")),
            Cell::new(row.d),
            Cell::new(row.modifiers.join(" ").trim()),
            Cell::new(&row.rule),
            Cell::new(row.nan),
            Cell::new(row.confidence),
            Cell::new(row.source),
        ]);
    }
    writeln!(out, "{t}\n")?;
    let mut t = table(["switch", "default", "", "decides", "source", "else"]);
    for s in &p.switches {
        t.add_row([
            Cell::new(s.name),
            Cell::new(&s.value),
            Cell::new(s.confidence),
            Cell::new(s.meaning),
            Cell::new(s.source),
            Cell::new(s.alternatives),
        ]);
    }
    writeln!(out, "{t}")?;
    p.unmodelled.iter().try_for_each(|u| writeln!(out, "\nrefused: {} ({})", u.what, u.why))
}

/// Types of A and B: any two of them, or both the same.
fn operands(row: &RowDescription) -> String {
    match (row.operands.as_slice(), row.mixed) {
        ([one], _) => (*one).to_owned(),
        (several, true) => format!("{}, any two", several.join(" ")),
        (several, false) => format!("{}, both the same", several.join(" ")),
    }
}
