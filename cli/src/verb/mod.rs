//! The verbs, one file each.

mod audit;
mod bench;
mod classmap;
mod conformance;
mod doctor;
mod emulator;
mod fingerprint;
mod generate;
mod keygen;
mod log;
mod margingate;
mod model;
mod mufu;
mod report;
mod reveal;
mod serve;
mod web;

use crate::demo;
use crate::output::{EXIT_CODES, Outcome};

/// Everything `lastbit` does.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Re-compute a log bit for bit, say what differs and why, and write a signed report
    #[command(after_help = EXIT_CODES)]
    Audit(Box<audit::Args>),
    /// Measure how fast this machine computes bit for bit: matrix products, prompts, decoding
    Bench(bench::Args),
    /// Measure which numbers of rows in a step give the same bits: what no audit of this stack can tell apart
    #[command(name = "classmap")]
    ClassMap(classmap::Args),
    /// Judge the emulator's arithmetic by vector files
    Conformance(conformance::Args),
    /// The main job on the model inside this binary: nine operators serve, eight of them cheat, every log is audited
    Demo(demo::Args),
    /// Check that this build, on this machine, is fit to audit
    Doctor(doctor::Args),
    /// Show which arithmetic each GPU generation has, how sure it is, and what is open
    Emulator(emulator::Args),
    /// Audit a log and explain each finding in words: first difference, growth, cause, what else would fit
    #[command(after_help = EXIT_CODES)]
    Explain(Box<audit::ExplainArgs>),
    /// Say which engine, format and hardware answer behind an OpenAI-compatible endpoint
    Fingerprint(fingerprint::Args),
    /// Serve prompts, and log what was served
    Generate(generate::Args),
    /// Make an Ed25519 key pair
    Keygen(keygen::Args),
    /// Make a log, or check one without replaying it
    Log(log::Args),
    /// Calibrate the margin gate, and measure what it costs and promises
    #[command(name = "margingate")]
    MarginGate(margingate::Args),
    /// Get a model, or show what one holds
    Model(model::Args),
    /// Probe, fit or show the special function unit
    Mufu(mufu::Args),
    /// Check a signed report, or draw its page again from the signed bytes
    Report(report::Args),
    /// Answer a challenge: compute the tensors of drawn records again and open them against what was committed to
    Reveal(Box<reveal::Args>),
    /// Serve a model to OpenAI clients, and log every step
    Serve(Box<serve::Args>),
    /// Show audits to people: browse, filter, compare, export and check again signed results and logs; start audits
    Web(Box<web::Args>),
    /// Render the chat template on standard input (what `generate --chat` starts, within limits)
    #[command(name = crate::chat::VERB, hide = true)]
    RenderChat,
}

impl Verb {
    /// Runs it.
    pub fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Verb::Audit(args) => audit::run(*args),
            Verb::Bench(args) => bench::run(args),
            Verb::ClassMap(args) => classmap::run(args),
            Verb::Demo(args) => demo::run(args),
            Verb::Doctor(args) => doctor::run(args),
            Verb::Emulator(args) => emulator::run(args),
            Verb::Explain(args) => audit::explain(*args),
            Verb::Fingerprint(args) => fingerprint::run(args),
            Verb::Conformance(args) => conformance::run(args),
            Verb::Generate(args) => generate::run(args),
            Verb::Keygen(args) => keygen::run(args),
            Verb::Log(args) => log::run(args),
            Verb::MarginGate(args) => margingate::run(args),
            Verb::Model(args) => model::run(args),
            Verb::Mufu(args) => mufu::run(args),
            Verb::Report(args) => report::run(args),
            Verb::Reveal(args) => reveal::run(*args),
            Verb::Serve(args) => serve::run(*args),
            Verb::Web(args) => web::run(*args),
            Verb::RenderChat => crate::chat::child().map(|()| Outcome::AllMatch),
        }
    }
}
