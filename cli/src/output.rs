//! What every verb shares: exit codes, the one writer of standard output, errors, progress, the JSON switch.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use comfy_table::{LineStyle, Table, TableStyle};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// What `--help` says of exit codes.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    everything that was checked matches
  1    something does not match: a computation, a signature, or a log that was altered after it was signed
  2    it could not be told (wrong key, wrong origin, another log, unreadable file, missing facts), or the run failed
  141  whoever read standard output stopped reading (as in `| head`), so nobody was told the result";

/// How a run ended, as an exit code tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything checked matches.
    AllMatch,
    /// Something does not match.
    SomethingDiffers,
    /// It could not be told, or the run failed in a way already reported.
    CouldNotTell,
    /// The endpoint that was to be asked does not answer.
    NoEndpoint,
}

impl Outcome {
    /// The exit code.
    pub const fn code(self) -> u8 {
        match self {
            Outcome::AllMatch => 0,
            Outcome::SomethingDiffers => 1,
            Outcome::CouldNotTell => 2,
            Outcome::NoEndpoint => 3,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(outcome.code())
    }
}

/// The reader of standard output went away.
#[derive(Debug)]
pub struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads standard output any more")
    }
}

impl std::error::Error for ReaderGone {}

impl ReaderGone {
    /// What a shell reports for a program that a broken pipe ended: 128 + SIGPIPE.
    pub const CODE: u8 = 141;
}

/// Writes text to standard output. Control characters, which may come from a log, are shown and not sent to the terminal.
///
/// # Errors
/// [`ReaderGone`]; whatever else the system says, for example that a disk is full.
pub fn write(text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    text(&mut bytes)?;
    send(&visible(&String::from_utf8_lossy(&bytes)))
}

/// Nothing else writes to standard output.
fn send(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        other => other.context("writing to standard output"),
    }
}

/// A remark on standard error. That nobody reads it is no reason to stop.
pub fn note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "lastbit: {}", visible(&text.to_string()));
}

/// Control characters other than line ends and tabs, written out.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' && c != '\t' {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
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
    pub fn print<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        if self.json { send(&(serde_json::to_string_pretty(value)? + "\n")) } else { write(text) }
    }
}

/// What `--json` prints when a verb fails.
#[derive(Serialize)]
struct Failure<'a> {
    schema: &'static str,
    /// `usage` or `failed`.
    kind: &'static str,
    error: &'a str,
    exit_code: u8,
}

/// Do these arguments ask for JSON? Needed before they are parsed, because their errors are printed as JSON too.
pub fn wants_json(arguments: impl IntoIterator<Item = OsString>) -> bool {
    arguments.into_iter().take_while(|a| a != "--").any(|a| a == "--json")
}

/// Reports why arguments were refused, or prints the help that was asked for; returns the exit code.
pub fn refuse(error: &clap::Error, json: bool) -> ExitCode {
    if json && error.use_stderr() {
        let text = error.render().to_string();
        print_failure("usage", text.trim_start_matches("error: ").trim_end(), Outcome::CouldNotTell);
    }
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { Outcome::CouldNotTell } else { Outcome::AllMatch })
}

/// Reports why a verb failed; returns the exit code.
pub fn fail(error: &anyhow::Error, json: bool) -> ExitCode {
    if error.is::<ReaderGone>() {
        return ExitCode::from(ReaderGone::CODE);
    }
    let outcome = match error.downcast_ref() {
        Some(fingerprint::Error::Endpoint(_)) => Outcome::NoEndpoint,
        _ => Outcome::CouldNotTell,
    };
    let text = sentence(error);
    if json {
        print_failure("failed", &text, outcome);
    }
    note(format_args!("{text}"));
    outcome.into()
}

fn print_failure(kind: &'static str, error: &str, outcome: Outcome) {
    let failure = Failure { schema: "lastbit/error/v1", kind, error, exit_code: outcome.code() };
    // The text goes to standard error as well: a reader that is gone loses nothing.
    let _ = Format { json: true }.print(&failure, |_| Ok(()));
}

/// An error and its causes in one line. What a cause repeats of the words before it is left out.
pub fn sentence(error: &anyhow::Error) -> String {
    let mut out = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        let mut rest = text.as_str();
        // "reading the key k" and "k: No such file" name the same file.
        if let Some((first, more)) = text.split_once(": ")
            && out.ends_with(&format!(" {first}"))
        {
            rest = more;
        }
        if out.ends_with(rest) {
            continue;
        }
        if !out.is_empty() {
            out.push_str(": ");
        }
        out.push_str(rest);
    }
    out
}

/// A progress bar on standard error, hidden when that is not a terminal.
pub fn progress(length: u64, message: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{msg:32} {bar:28} {pos}/{len}  {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(message.to_owned());
    // One step may take long; the clock shows that it goes on.
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}

/// A plain table: a rule under the header, no other lines, so that it reads well in a log and pastes well into a mail.
pub fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-')));
    table.set_header(header.into_iter().collect::<Vec<_>>());
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn causes_do_not_repeat_each_other() {
        let system = || io::Error::new(io::ErrorKind::AlreadyExists, "File exists");
        let own = |text: &str| anyhow::Error::new(system()).context(text.to_owned());
        assert_eq!(sentence(&own("k: File exists")), "k: File exists");
        assert_eq!(sentence(&own("k: File exists").context("writing k")), "writing k: File exists");
        assert_eq!(sentence(&own("loading")), "loading: File exists");
        assert_eq!(sentence(&anyhow!("a: b")), "a: b");
    }

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(visible("a\u{1b}[2Jb\n\tc\u{9b}"), "a\\u{1b}[2Jb\n\tc\\u{9b}");
    }

    #[test]
    fn json_is_asked_for_before_the_dashes() {
        let asks = |words: &[&str]| wants_json(words.iter().map(OsString::from));
        assert!(asks(&["lastbit", "doctor", "--json"]));
        assert!(!asks(&["lastbit", "mufu", "show", "--", "--json"]));
    }
}
