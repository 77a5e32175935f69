//! `lastbit mufu`: the special function unit's coefficients, from a card's outputs to a profile.

mod fit;
mod probe;
mod show;

use anyhow::{Context as _, bail};

use crate::output::Outcome;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Write the kernels that dump a unit's outputs, and run them on the emulated device
    Probe(probe::Args),
    /// Turn dumps of a unit's outputs into coefficients that reproduce every one of them
    Fit(fit::Args),
    /// Show a profile, or what a function gives for operands
    Show(show::Args),
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Verb::Probe(args) => probe::run(args),
        Verb::Fit(args) => fit::run(args),
        Verb::Show(args) => show::run(args),
    }
}

fn bits(text: &str) -> anyhow::Result<u32> {
    let digits = text.trim().trim_start_matches("0x");
    if digits.len() != 8 {
        bail!("`{text}` is not an f32 bit pattern: 8 hex digits are");
    }
    u32::from_str_radix(digits, 16).with_context(|| format!("`{text}` is not 8 hex digits"))
}
