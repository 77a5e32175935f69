//! `lastbit fingerprint inspect`.

use fingerprint::stage::inspect::{Claim, Plan, inspect};

use super::connect::{self, About, Connect, Out};
use crate::output::Outcome;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Base address as OpenAI clients take it, for example https://host/v1
    #[arg(value_name = "URL")]
    url: String,

    /// Everything the method names, instead of what fits into 60 requests
    #[arg(long)]
    thorough: bool,

    /// Send no malformed requests
    #[arg(long)]
    no_surface: bool,

    /// Format of logits that is claimed: bf16, fp16 or f32
    #[arg(long, value_name = "FORMAT", value_parser = ["bf16", "fp16", "f16", "f32"])]
    claim_format: Option<String>,

    /// Size of the model's largest logits as a power of two, from a run of your own: it tells bf16 from f16 where the grid alone does not
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    logit_exponent: Option<i32>,

    /// Seed of the probes [default: a fresh one]
    #[arg(long, value_name = "N")]
    probe_seed: Option<u64>,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    out: Out,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = Plan { surface: !args.no_surface, ..if args.thorough { Plan::THOROUGH } else { Plan::QUICK } };
    if args.connect.dry_run {
        return connect::dry(args.out.format, &args.url, &plan.stages());
    }
    args.out.check()?;
    let seed = args.probe_seed.map_or_else(connect::fresh_seed, Ok)?;
    let session = args.connect.session(&args.url, About { seed, batch: 1, ..About::default() })?;
    args.connect.announce(&args.url, &plan.stages())?;
    let claim = Claim { format: args.claim_format, logit_exponent: args.logit_exponent };
    let model = args.connect.model.as_deref();
    let mut report = connect::block_on(async { Ok(inspect(&session, model, plan, seed, &claim).await?) })?;
    report.traces.push(args.out.keep(&session.trace())?);
    args.out.print(&report)
}
