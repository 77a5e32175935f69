//! `inspect`: stages P0 to P4 in one run, no reference needed.

use crate::client::Usage;
use crate::error::{Error, Result};
use crate::probe;
use crate::report::{Cost, Finding, Outcome, Report, SCHEMA, Section, Word, figure};
use crate::session::Session;
use crate::stage::{consistency, contract, lattice, noise, surface};
use crate::tier::{self, Capability, Tier};
use crate::trace::Record;

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Model to ask for; the first one listed otherwise.
    pub probes: usize,
    /// Tokens of each greedy probe.
    pub tokens: u32,
    /// Repeats and neighbours.
    pub effort: noise::Effort,
    /// Tokens that are generated to be read again.
    pub generate: u32,
    /// Single tokens that are read again where prompts are not scored.
    pub reads: usize,
    /// Send malformed requests.
    pub surface: bool,
    /// Ask chat models for tools and reasoning.
    pub chat: bool,
}

impl Plan {
    /// Within 60 requests.
    pub const QUICK: Plan = Plan {
        probes: 3,
        tokens: 16,
        effort: noise::Effort { repeats: 3, neighbours: &[4] },
        generate: 24,
        reads: 8,
        surface: true,
        chat: false,
    };

    /// All that the method names.
    pub const THOROUGH: Plan = Plan {
        probes: 4,
        tokens: 32,
        effort: noise::Effort { repeats: 5, neighbours: &[4, 16] },
        generate: 256,
        reads: 32,
        surface: true,
        chat: true,
    };

    /// The most it can use: stage by stage.
    pub fn stages(&self) -> Vec<(&'static str, Usage)> {
        let usage = |requests: usize, prompt: usize, output: usize| Usage {
            requests: requests as u64,
            prompt: (requests * prompt) as u64,
            output: (requests * output) as u64,
        };
        let tokens = self.tokens as usize;
        let beside: usize = self.effort.neighbours.iter().map(|n| n + self.probes).sum();
        let p4 = usage(self.probes * self.effort.repeats + beside, 60, tokens);
        let p3 = usage(1, 60, self.generate as usize).plus(usage(self.reads, 100, 1));
        let p1 = usage(10, 60, tokens).plus(usage(2, 400, 1)).plus(usage(if self.chat { 3 } else { 0 }, 100, 256));
        vec![
            ("what is offered", usage(9, 20, 4)),
            ("surface (P0)", usage(if self.surface { 8 } else { 0 }, 4, 1)),
            ("contract (P1)", p1),
            ("logit format (P2)", Usage::default()),
            ("decode versus prefill (P3)", p3),
            ("noise (P4)", p4),
        ]
    }

    /// All stages together.
    pub fn total(&self) -> Usage {
        self.stages().iter().fold(Usage::default(), |sum, (_, u)| sum.plus(*u))
    }
}

/// What the endpoint is said to be.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    /// Format of logits or activations: `bf16`, `f16`, `f32`.
    pub format: Option<String>,
    /// Size of the model's top logits as a power of two, from a reference run.
    pub logit_exponent: Option<i32>,
}

/// Inspects an endpoint. What the budget does not reach is reported as not testable.
///
/// # Errors
/// [`Error::Endpoint`] when there is nothing to say; [`Error::File`].
pub async fn inspect(session: &Session, model: Option<&str>, plan: Plan, seed: u64, claim: &Claim) -> Result<Report> {
    let cap = tier::detect(session, model).await?;
    let probes = probe::greedy(seed, plan.probes, plan.tokens);
    let mut spent = None;
    let mut limits = Vec::new();
    let mut sections = Vec::new();

    // Noise first: everything else is judged in its light.
    let measured = within(noise::measure(session, &cap, &probes, plan.effort, seed).await, &mut spent)?;
    let (noise, first) = measured.unwrap_or_else(|| (noise::judge(&[], &[]), Vec::new()));
    let steady = matches!(noise.kind, noise::Kind::Steady | noise::Kind::Batch | noise::Kind::Cache);

    let read = match probes.first().and_then(|p| p.prompt.text()) {
        Some(prompt) => {
            within(consistency::measure(session, &cap, prompt, plan.generate, plan.reads, seed).await, &mut spent)?
        }
        None => None,
    };
    let greedy: Vec<_> = probes.iter().map(|p| p.prompt.clone()).zip(first.iter().cloned()).collect();
    let checks = match greedy.is_empty() {
        true => None,
        false => within(contract::check(session, &cap, &greedy, steady).await, &mut spent)?,
    };
    let mut contract = checks.unwrap_or_else(|| vec![Finding::new("contract", Word::NotTestable, reached(&spent))]);
    if plan.chat {
        contract.extend(within(contract::check_chat(session, &cap).await, &mut spent)?.unwrap_or_default());
    }
    let base = first.first().cloned().or_else(|| session.trace().records.into_iter().find(|r| r.good().is_some()));
    let looked = match (plan.surface, &base) {
        (true, Some(base)) => within(surface::observe(session, &cap, base).await, &mut spent)?,
        _ => None,
    };

    let trace = session.trace();
    let greedy = |r: &&Record| r.probe.starts_with("p4/") || r.probe.starts_with("p3/generate");
    let answers: Vec<&Record> = trace.records.iter().filter(greedy).collect();
    let grid = lattice::lattice(answers.iter().filter_map(|r| r.good()).flat_map(|a| a.steps()), 1.0);
    let format = lattice::format(grid.grid, claim.logit_exponent);
    let mut numerics = lattice::findings(&grid, claim.logit_exponent);
    let rejected = claim.format.as_ref().and_then(|claimed| against(claimed, &grid, format));
    if let Some(claimed) = &claim.format {
        let finding = match rejected {
            Some(true) => Finding::new(
                "claim",
                Word::Rejected,
                format!("{claimed} as the format of logits: the grid shows another one"),
            ),
            Some(false) => Finding::new("claim", Word::NotRejected, format!("{claimed} as the format of logits")),
            None => Finding::new(
                "claim",
                Word::NotTestable,
                format!("{claimed} as the format of logits: the grid does not settle it"),
            ),
        };
        numerics.push(finding);
    }
    numerics.extend(match &read {
        Some(read) => consistency::findings(read),
        None => vec![Finding::new("decode versus prefill", Word::NotTestable, reached(&spent))],
    });
    let stated = base.as_ref().and_then(|r| r.good()).and_then(|a| a.fingerprint.clone());
    let (says, named) = match &looked {
        Some(surface) => surface::findings(surface, stated.as_deref()),
        None => (vec![Finding::new("software", Word::NotTestable, reached(&spent))], None),
    };
    let varies = noise::findings(&noise);
    let failed: Vec<&Finding> = contract.iter().filter(|f| f.word == Word::Fails).collect();
    let outcome = match (rejected, failed.is_empty()) {
        (Some(true), _) | (_, false) => Outcome::Rejected,
        _ if noise.kind == noise::Kind::Untested => Outcome::Inconclusive,
        _ => Outcome::Consistent,
    };
    let verdict = verdict(
        &grid,
        format,
        named,
        &noise,
        &failed,
        rejected.unwrap_or(false).then_some(claim.format.as_deref()).flatten(),
    );
    for (title, findings) in [("numerics", numerics), ("noise", varies), ("surface", says), ("contract", contract)] {
        sections.push(Section { title: title.to_owned(), findings });
    }
    limits.push("kernels and hardware are not told without references: use `identify`".to_owned());
    limits.push("the logit format says nothing of how weights or the cache are stored".to_owned());
    limits.extend(tier_limit(&cap));
    limits.extend(spent.map(|why| format!("the budget ended the run early: {why}")));
    Ok(Report {
        schema: SCHEMA.to_owned(),
        tool: format!("lastbit {}", env!("CARGO_PKG_VERSION")),
        kind: "inspect".to_owned(),
        subject: session.client().base().to_owned(),
        model: cap.model.as_deref().map(crate::report::safe),
        tier: cap.summary(),
        outcome,
        verdict,
        sections,
        tables: Vec::new(),
        limits,
        cost: cost(session),
        traces: Vec::new(),
        repeat: vec![format!("lastbit fingerprint inspect {} --probe-seed {seed}", session.client().base())],
    })
}

/// Keeps a result, or remembers that the budget ended a stage.
fn within<T>(result: Result<T>, spent: &mut Option<String>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ Error::Budget { .. }) => {
            spent.get_or_insert(error.to_string());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn reached(spent: &Option<String>) -> String {
    spent.clone().unwrap_or_else(|| "left out".to_owned())
}

/// Does the grid contradict a claimed format? None if it does not settle it.
fn against(claimed: &str, grid: &lattice::Lattice, format: Option<&str>) -> Option<bool> {
    let sixteen = matches!(claimed, "bf16" | "f16" | "fp16");
    let same = |name: &str| name == claimed || (name == "f16" && claimed == "fp16");
    match (grid.grid, format) {
        // The claim is of 16 bits and the grid of another 16-bit format, or of a wider one.
        (lattice::Grid::Found { .. }, Some(name)) => Some(!same(name)),
        (lattice::Grid::Found { .. }, None) => (!sixteen).then_some(true),
        // f32 logits of a 16-bit model are common: its last product may be kept in f32.
        (lattice::Grid::None, _) => (claimed == "f32").then_some(false),
        _ => None,
    }
}

fn tier_limit(cap: &Capability) -> Option<String> {
    let text = match cap.tier {
        Tier::A => "no log-probabilities: only texts could be compared",
        Tier::B => "only the chosen token's log-probability: no grid, no lists",
        Tier::C => "prompts are not scored: decode and prefill were compared at few positions",
        Tier::D => return None,
    };
    Some(text.to_owned())
}

/// What a session used.
pub fn cost(session: &Session) -> Cost {
    let (used, budget) = (session.used(), session.budget());
    let priced = budget.prompt_price > 0.0 || budget.output_price > 0.0;
    Cost {
        requests: used.requests,
        prompt_tokens: used.prompt,
        output_tokens: used.output,
        money: priced.then(|| figure(budget.price(used.prompt, used.output))),
    }
}

fn verdict(
    grid: &lattice::Lattice,
    format: Option<&str>,
    named: Option<&str>,
    noise: &noise::Noise,
    failed: &[&Finding],
    rejected: Option<&str>,
) -> String {
    let mut parts = Vec::new();
    parts.push(match (grid.grid, format) {
        (lattice::Grid::Found { .. }, Some(format)) => format!("logits {format} (certain)"),
        (lattice::Grid::Found { k }, None) => format!("logits 16-bit, grid 2^-{k} (certain)"),
        (lattice::Grid::None, _) => "logits on no 16-bit grid (certain)".to_owned(),
        _ => "logit format: cannot tell".to_owned(),
    });
    if let Some(claimed) = rejected {
        parts.push(format!("claim \"{}\" REJECTED", crate::report::safe(claimed)));
    }
    parts.push(match noise.kind {
        noise::Kind::Steady => "steady".to_owned(),
        noise::Kind::Batch => "not batch-invariant".to_owned(),
        noise::Kind::Cache => "cache changes numbers".to_owned(),
        noise::Kind::Groups => format!("answers in {} groups", noise.groups),
        noise::Kind::Unsteady => "answers vary".to_owned(),
        noise::Kind::Untested => "noise: cannot tell".to_owned(),
    });
    parts.push(match named {
        Some(name) => format!("surface says {name} (spoofable)"),
        None => "software: cannot tell".to_owned(),
    });
    if failed.is_empty() {
        parts.push("no rule of the interface seen broken".to_owned());
    } else {
        let names: Vec<&str> = failed.iter().map(|f| f.about.as_str()).collect();
        parts.push(format!("FAIL: {}", names.join(", ")));
    }
    parts.join(" · ")
}
