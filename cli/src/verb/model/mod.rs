//! `lastbit model`: get a model, and see what one holds.

#[cfg(feature = "hub")]
mod hub;
mod info;
mod packaged;
mod pull;

use crate::output::Outcome;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Load a model as the engine would, and show its dimensions, identity and what loading changed
    Info(info::Args),
    /// Get a model by name into the models folder, where `--model NAME` finds it
    Pull(pull::Args),
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Verb::Info(args) => info::run(&args),
        Verb::Pull(args) => pull::run(&args),
    }
}
