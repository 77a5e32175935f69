//! `lastbit`: audit language-model inference to the last bit.
//!
//! One thin file a verb, under `verb/`. Exit codes: [`output::EXIT_CODES`].
//! Results go to standard output (`--json` gives one stable, versioned object, errors included), progress to standard error and only
//! to a terminal.

// Everything is printed by `output`, which knows what to do when nobody reads.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod argument;
mod chat;
mod demo;
mod draw;
mod gate;
mod inspect;
mod models;
mod operate;
mod output;
mod source;
mod subject;
mod verb;

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser};
use std::process::ExitCode;

/// Audit language-model inference to the last bit.
#[derive(Parser)]
#[command(name = "lastbit", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = output::EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    verb: verb::Verb,
}

fn main() -> ExitCode {
    let json = output::wants_json(std::env::args_os());
    let parsed = numbers_may_be_negative(Cli::command()).try_get_matches().and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return output::refuse(&error, json),
    };
    match cli.verb.run() {
        Ok(outcome) => outcome.into(),
        Err(error) => output::fail(&error, json),
    }
}

/// Lets `-1` reach the check of the option it was given to, which can say what is wanted; else it is taken for an option itself.
fn numbers_may_be_negative(command: Command) -> Command {
    command
        .mut_args(|arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(numbers_may_be_negative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        numbers_may_be_negative(Cli::command()).debug_assert();
    }
}
