//! `lastbit margingate`: thresholds of the margin gate, and what gating costs and promises.

mod bench;
mod calibrate;
mod cost;
mod effort;
mod load;
mod measure;
mod picture;
mod report;
mod study;
mod work;

use crate::output::Outcome;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Measure how much batches change this model on this device, and sign a threshold
    Calibrate(calibrate::Args),
    /// Measure flips, triggers, misses, determinism and cost: plain, gated, windows, always-on, invariant
    Bench(bench::Args),
    /// Compare risk signals on traces that calibrate or bench left, without the model
    Study(study::Args),
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Verb::Calibrate(args) => calibrate::run(args),
        Verb::Bench(args) => bench::run(args),
        Verb::Study(args) => study::run(args),
    }
}
