//! What every verb shares: exit codes, progress, the JSON switch.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use comfy_table::{LineStyle, Table, TableStyle};
use indicatif::{ProgressBar, ProgressStyle};

/// How a run ended, as an exit code tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything checked matches.
    AllMatch,
    /// Something does not match.
    SomethingDiffers,
    /// It could not be told, or the run failed in a way already reported.
    CouldNotTell,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(match outcome {
            Outcome::AllMatch => 0,
            Outcome::SomethingDiffers => 1,
            Outcome::CouldNotTell => 2,
        })
    }
}

/// The `--json` switch.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Format {
    /// Print one machine-readable JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

impl Format {
    /// Prints `value` as JSON when asked for, else what `text` writes.
    pub fn print<T: serde::Serialize>(self, value: &T, text: impl FnOnce()) -> anyhow::Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(value)?);
        } else {
            text();
        }
        Ok(())
    }
}

/// A progress bar on standard error, hidden when that is not a terminal.
pub fn progress(length: u64, message: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{msg:32} {bar:28} {pos}/{len}  {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(message.to_owned());
    bar
}

/// A plain table: a rule under the header, no other lines, so that it reads well in a log and pastes well into a mail.
pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-')));
    table.set_header(header);
    table
}
