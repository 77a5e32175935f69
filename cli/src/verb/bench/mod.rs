//! `lastbit bench`: how fast this machine computes what serving and auditing need.

mod gemm;
mod log;
mod peer;
mod serve;
mod steps;
mod timed;

use crate::output::Outcome;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Matrix products on one core, operands packed: a profile's tensor core, bit for bit, beside the batch-invariant f32 product
    Gemm(gemm::Args),
    /// The structure of a log of many entries, verified on one core: every signature, every link, the tree
    Log(log::Args),
    /// Tokens a second of a prompt on the emulated device: native launches, and the same interpreted
    Prefill(steps::PrefillArgs),
    /// Tokens a second of decoding on the emulated device: native launches, and the same interpreted
    Decode(steps::DecodeArgs),
    /// Streams against a running `lastbit serve`: tokens a second, time to the first token and between tokens, receipts
    Serve(serve::Args),
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.what {
        What::Gemm(args) => gemm::run(args),
        What::Log(args) => log::run(args),
        What::Prefill(args) => steps::prefill(args),
        What::Decode(args) => steps::decode(args),
        What::Serve(args) => serve::run(args),
    }
}
