//! The verbs, one file each.

mod conformance;

use crate::output::Outcome;

/// Everything `lastbit` does.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Judge the emulator's arithmetic by vector files
    Conformance(conformance::Args),
}

impl Verb {
    /// Runs it.
    pub fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Verb::Conformance(args) => conformance::run(args),
        }
    }
}
