//! The verbs, one file each.

mod conformance;
mod keygen;
mod log;
mod model;
mod mufu;

use crate::output::Outcome;

/// Everything `lastbit` does.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Judge the emulator's arithmetic by vector files
    Conformance(conformance::Args),
    /// Make an Ed25519 key pair
    Keygen(keygen::Args),
    /// Make a log, or check one without replaying it
    Log(log::Args),
    /// Show what a model folder holds
    Model(model::Args),
    /// Fit or show the special function unit's coefficients
    Mufu(mufu::Args),
}

impl Verb {
    /// Runs it.
    pub fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Verb::Conformance(args) => conformance::run(args),
            Verb::Keygen(args) => keygen::run(args),
            Verb::Log(args) => log::run(args),
            Verb::Model(args) => model::run(args),
            Verb::Mufu(args) => mufu::run(args),
        }
    }
}
