//! `lastbit fingerprint`: which engine, kernels, number format and hardware answer behind an endpoint?

mod connect;
mod enroll;
mod factory;
mod inspect;
mod judge;
mod replay;
mod watch;

use crate::output::Outcome;

/// What `--help` says of exit codes.
const EXIT_CODES: &str = "\
Exit codes:
  0    nothing that was tested contradicts what the endpoint is said to be
  1    something does
  2    it cannot be told, or the run failed
  3    the endpoint does not answer";

/// Options.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Look at an endpoint without any reference: rules of the interface, format of logits, decode versus prefill, noise
    #[command(after_help = EXIT_CODES)]
    Inspect(Box<inspect::Args>),
    /// Record an endpoint's answers to greedy probes as a trace
    #[command(after_help = EXIT_CODES)]
    Record(Box<enroll::RecordArgs>),
    /// Record a known stack as a reference, or emulate GPU stacks and record those
    #[command(after_help = EXIT_CODES)]
    Enroll(Box<enroll::EnrollArgs>),
    /// Name the recorded stack that answers, as deep as the evidence reaches, or say that none does
    #[command(after_help = EXIT_CODES)]
    Identify(Box<judge::IdentifyArgs>),
    /// Test a claim, such as `hardware=sm_90`, against recorded stacks
    #[command(after_help = EXIT_CODES)]
    Verify(Box<judge::VerifyArgs>),
    /// Compare two traces
    #[command(after_help = EXIT_CODES)]
    Compare(judge::CompareArgs),
    /// Look again at an endpoint that was seen before, and say what moved
    #[command(after_help = EXIT_CODES)]
    Watch(Box<watch::Args>),
    /// Serve a trace as an endpoint
    Replay(replay::Args),
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Verb::Inspect(args) => inspect::run(*args),
        Verb::Record(args) => enroll::record(*args),
        Verb::Enroll(args) => enroll::enroll(*args),
        Verb::Identify(args) => judge::identify(*args),
        Verb::Verify(args) => judge::verify(*args),
        Verb::Compare(args) => judge::compare(args),
        Verb::Watch(args) => watch::run(*args),
        Verb::Replay(args) => replay::run(args),
    }
}
