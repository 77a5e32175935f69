//! `lastbit`: audit language-model inference to the last bit.
//!
//! One thin file a verb, under `verb/`. Exit codes: 0 all match, 1 something did not, 2 could not tell or failed.
//! Results go to standard output (`--json` gives one stable, versioned object), progress to standard error and only
//! to a terminal.

mod demo;
mod inspect;
mod operate;
mod output;
mod source;
mod verb;

use clap::Parser;
use std::process::ExitCode;

/// Audit language-model inference to the last bit.
#[derive(Parser)]
#[command(name = "lastbit", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: verb::Verb,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.verb.run() {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            eprintln!("lastbit: {error:#}");
            ExitCode::from(2)
        }
    }
}
