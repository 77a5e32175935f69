//! P7: single tokens drawn at temperature 1, for endpoints that show no log-probabilities and cannot be made greedy.
//!
//! References tell, for each probe, the probabilities of the first token. Tokens that every draw of every reference lists are outcomes of
//! their own; all others together are one more. So probabilities are exact at temperature 1, and at no other.

use crate::api::{Ask, Choice, same_token};
use crate::error::Result;
use crate::library::{GREEDY, Library};
use crate::session::Session;
use crate::stats::Evidence;
use crate::tier::Capability;
use crate::trace::{Record, Trace};

/// Choices of one request, where `n` is granted.
const DRAWS: u32 = 16;
/// Smallest probability that an outcome is given: what was rounded to nothing can still be drawn.
const LEAST: f64 = 1e-9;

/// A probe's first token.
#[derive(Clone, Debug)]
struct Context {
    probe: String,
    tokens: Vec<(String, Option<u32>)>,
    /// By reference, by draw: probabilities of the tokens, then of all others.
    tables: Vec<Vec<Vec<f64>>>,
}

/// A drawn token: place of the context, place of the outcome.
pub type Seen = (usize, usize);

/// What references say of first tokens.
#[derive(Clone, Debug)]
pub struct Sampled {
    contexts: Vec<Context>,
}

impl Sampled {
    /// From a library; probes whose first step is not listed everywhere are left out. Contexts that tell references apart come first.
    pub fn of(library: &Library) -> Self {
        let first = library.references.first().and_then(|r| r.draws.first());
        let probes = first.map(|t| t.under(GREEDY).map(|r| r.probe.clone()).collect::<Vec<_>>()).unwrap_or_default();
        let mut contexts: Vec<(f64, Context)> =
            probes.into_iter().filter_map(|p| context(library, p)).map(|c| (c.power(), c)).collect();
        contexts.sort_by(|a, b| b.0.total_cmp(&a.0));
        Self { contexts: contexts.into_iter().map(|c| c.1).collect() }
    }

    /// Smallest, over pairs of references, of the mean information a draw gives, in nats, if the best half of the contexts is asked.
    pub fn information(&self) -> f64 {
        let asked = &self.contexts[..self.asked()];
        let n = asked.first().map_or(0, |c| c.tables.len());
        let pair =
            |a: usize, b: usize| asked.iter().map(|c| c.divergence(a, b)).sum::<f64>() / asked.len().max(1) as f64;
        let all = (0..n).flat_map(|a| (0..n).filter(move |b| a != *b).map(move |b| (a, b)));
        all.map(|(a, b)| pair(a, b)).fold(f64::INFINITY, f64::min)
    }

    /// Contexts that are asked.
    fn asked(&self) -> usize {
        self.contexts.len().div_ceil(2)
    }

    /// Draws `count` tokens, evenly from the best half of the contexts.
    ///
    /// # Errors
    /// What [`Session::ask`] fails with.
    pub async fn draw(&self, session: &Session, cap: &Capability, library: &Library, count: u32) -> Result<Vec<Seen>> {
        let each = if cap.many { DRAWS } else { 1 };
        let mut seen = Vec::new();
        for request in 0..count.div_ceil(each) {
            let at = request as usize % self.asked().max(1);
            let Some(context) = self.contexts.get(at) else { break };
            let Some(prompt) = prompt(library, &context.probe) else { break };
            let ask = cap.greedy(prompt, 1).temperature(1.0).seed(u64::from(request) + 1);
            let ask = Ask { n: cap.many.then_some(each), logprobs: ask.logprobs.map(|_| 1), ..ask };
            let record = session.ask(&format!("p7/{request:05}"), &ask).await?;
            seen.extend(self.read(at, &record));
        }
        Ok(seen)
    }

    /// The outcomes of a record.
    fn read(&self, at: usize, record: &Record) -> Vec<Seen> {
        let choices = record.good().map(|a| a.choices.as_slice()).unwrap_or_default();
        choices.iter().map(|c| (at, self.contexts[at].outcome(c))).collect()
    }

    /// Logarithm of the likelihood of what was seen, by reference: the mean over its draws of noise.
    pub fn weigh(&self, seen: &[Seen]) -> Vec<f64> {
        let references = self.contexts.first().map_or(0, |c| c.tables.len());
        let one = |r: usize| {
            let draws = self.contexts[0].tables[r].len();
            let logs: Vec<f64> = (0..draws)
                .map(|d| seen.iter().map(|(c, o)| libm::log(self.contexts[*c].tables[r][d][*o])).sum())
                .collect();
            let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            most + libm::log(logs.iter().map(|l| libm::exp(l - most)).sum::<f64>() / draws.max(1) as f64)
        };
        (0..references).map(one).collect()
    }

    /// Evidence against a claim that allows some references: product of the mean probability under all others over the largest under any
    /// draw of the allowed ones. Its expectation is at most 1 if an allowed one answers (a composite null), whenever one stops.
    pub fn evidence(&self, allowed: &[usize], seen: &[Seen]) -> Evidence {
        let mut evidence = Evidence::default();
        for (c, o) in seen {
            let tables = &self.contexts[*c].tables;
            let claimed = allowed.iter().flat_map(|r| &tables[*r]).map(|t| t[*o]).fold(0.0, f64::max);
            let others: Vec<f64> = (0..tables.len())
                .filter(|r| !allowed.contains(r))
                .map(|r| crate::stats::mean(&tables[r].iter().map(|t| t[*o]).collect::<Vec<_>>()))
                .collect();
            if !others.is_empty() && claimed > 0.0 {
                evidence.add(crate::stats::mean(&others) / claimed);
            }
        }
        evidence
    }
}

impl Context {
    fn outcome(&self, choice: &Choice) -> usize {
        let (token, id) = match choice.steps.first() {
            Some(step) => (step.token.as_str(), step.id),
            None => (choice.text.as_str(), None),
        };
        self.tokens.iter().position(|t| same_token((&t.0, t.1), (token, id))).unwrap_or(self.tokens.len())
    }

    /// Kullback-Leibler divergence of the first draws of two references.
    fn divergence(&self, a: usize, b: usize) -> f64 {
        let (Some(p), Some(q)) = (self.tables[a].first(), self.tables[b].first()) else { return 0.0 };
        p.iter().zip(q).map(|(p, q)| p * libm::log(p / q)).sum()
    }

    /// Smallest divergence of two references that differ at all here.
    fn power(&self) -> f64 {
        let n = self.tables.len();
        let all = (0..n).flat_map(|a| (0..n).filter(move |b| a != *b).map(move |b| (a, b)));
        let least = all.map(|(a, b)| self.divergence(a, b)).filter(|d| *d > 0.0).fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { 0.0 }
    }
}

fn context(library: &Library, probe: String) -> Option<Context> {
    let draws = || library.references.iter().flat_map(|r| &r.draws);
    let first = |t: &Trace| t.get(&probe).and_then(Record::good).and_then(|a| a.steps().first().cloned());
    let steps: Vec<_> = draws().map(first).collect::<Option<_>>()?;
    let listed = |token: &str, id: Option<u32>| steps.iter().all(|s| s.of(token, id).is_some());
    let tokens: Vec<(String, Option<u32>)> =
        steps.first()?.top.iter().filter(|t| listed(&t.0, t.1)).map(|t| (t.0.clone(), t.1)).collect();
    if tokens.is_empty() {
        return None;
    }
    let table = |t: &Trace| {
        let step = first(t)?;
        let of = |(token, id): &(String, Option<u32>)| step.of(token, *id).map_or(0.0, |l| libm::exp(l.value()));
        let mut table: Vec<f64> = tokens.iter().map(of).map(|p| p.max(LEAST)).collect();
        table.push((1.0 - table.iter().sum::<f64>()).max(LEAST));
        Some(table)
    };
    let tables =
        library.references.iter().map(|r| r.draws.iter().map(table).collect::<Option<_>>()).collect::<Option<_>>()?;
    Some(Context { probe, tokens, tables })
}

/// The prompt of a probe, as references recorded it.
fn prompt(library: &Library, probe: &str) -> Option<crate::api::Prompt> {
    let request = library.references.first()?.draws.first()?.get(probe)?.request.as_ref()?;
    let text = request["prompt"].as_str().or_else(|| request["messages"][0]["content"].as_str())?;
    Some(crate::api::Prompt::Text(text.to_owned()))
}

/// Tokens drawn at random from a reference, for tests of power without an endpoint.
pub fn simulate(
    sampled: &Sampled,
    reference: usize,
    draw: usize,
    count: usize,
    random: &mut crate::stats::Random,
) -> Vec<Seen> {
    let asked = sampled.asked().max(1);
    let one = |i: usize| {
        let at = i % asked;
        let table = &sampled.contexts[at].tables[reference][draw];
        let mut left = random.unit() * table.iter().sum::<f64>();
        let outcome = table.iter().position(|p| {
            left -= p;
            left < 0.0
        });
        (at, outcome.unwrap_or(table.len() - 1))
    };
    (0..count).map(one).collect()
}
