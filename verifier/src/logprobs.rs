//! Are the logged log-probabilities those that the logits give? They are as good a place to hide information as any other output.

use crate::compare::Opened;
use crate::explain::request as named;
use crate::ops::{Op, Point};
use crate::plan::Plan;
use crate::replay::{Elements, ReplayError, Replayer};
use crate::result::{ClaimKind, ClaimResult, Unverified};
use crate::tokens::Sampled;
use crate::verdict::{Level, Verdict};
use crate::walk::{Walk, prompt_token};
use record::{F32Bits, Record};
use std::collections::BTreeSet;

/// A value that a record states, and what was recomputed for it.
struct Stated {
    request: usize,
    /// Of the output token with this index, or of the prompt token.
    place: Place,
    logged: F32Bits,
    own: Result<u32, ReplayError>,
}

enum Place {
    Output(usize),
    Prompt(usize),
}

/// The claim `logprobs`, and what of it stays unverified; nothing for a record that logs none.
///
/// **Bits.** Compared as f32 patterns with what [`Replayer::logprob`] gives for the replayed (or opened) logits.
pub fn check(
    record: &Record,
    replayer: &dyn Replayer,
    sampled: &[Sampled],
    prompts: &Prompts<'_>,
) -> Option<(ClaimResult, Option<Unverified>)> {
    let logged = count(record)?;
    let (mut checked, mut wrong, mut first, mut reason) = (0, 0, None, None);
    for s in outputs(record, replayer, sampled).chain(prompts.stated(record, replayer)) {
        match s.own {
            Ok(own) => {
                checked += 1;
                if own != s.logged.0 {
                    wrong += 1;
                    let request = record.requests.get(s.request).map_or("", |r| r.id.as_str());
                    first.get_or_insert_with(|| different(request, &s.place, s.logged, own));
                }
            }
            Err(e) => {
                reason.get_or_insert_with(|| e.to_string());
            }
        }
    }
    let missing = logged - checked;
    let why = reason.unwrap_or_else(|| "no replay gives their logits and none were opened".to_owned());
    let left = (missing > 0).then(|| unverified(missing, &why));
    let (verdict, detail) = match (first, missing) {
        (Some(first), _) => (Verdict::Mismatch, format!("{wrong} of {logged} are not those of the logits; {first}")),
        (None, 0) => (Verdict::Match, format!("{logged} recomputed from the logits, every bit agrees")),
        (None, _) => (Verdict::Inconclusive, format!("{missing} of {logged} not recomputed: {why}")),
    };
    Some((ClaimResult { claim: ClaimKind::Logprobs, verdict, level: Some(Level::L), detail }, left))
}

/// Values of output tokens, where their logits are known.
fn outputs<'a>(
    record: &'a Record,
    replayer: &'a dyn Replayer,
    sampled: &'a [Sampled],
) -> impl Iterator<Item = Stated> + 'a {
    sampled.iter().filter_map(|s| {
        let request = record.requests.get(s.request)?;
        let index = (s.position as usize + 1).checked_sub(request.prompt.len())?;
        let logged = *request.logprobs.as_ref()?.get(index)?;
        let own = replayer.logprob(s.logits.as_ref()?, s.position, s.token);
        Some(Stated { request: s.request, place: Place::Output(index), logged, own })
    })
}

/// Where the values of prompt tokens are recomputed from.
#[derive(Clone, Copy)]
pub struct Prompts<'a> {
    /// The passes.
    pub plan: &'a Plan,
    /// A replay of them.
    pub walk: &'a Walk,
    /// Opened rows, for passes that no replay explains.
    pub opened: &'a Opened,
}

impl Prompts<'_> {
    /// Values of prompt tokens, where their logits are known. A prompt that was computed again states what the first time gave.
    fn stated(&self, record: &Record, replayer: &dyn Replayer) -> Vec<Stated> {
        let (mut seen, mut out) = (BTreeSet::new(), Vec::new());
        for (pass, item) in self.plan.items.iter().enumerate() {
            for (row, (step, at)) in item.rows.iter().enumerate() {
                let Some(token) = prompt_token(record, at) else { continue };
                if !seen.insert((at.request, at.position)) {
                    continue;
                }
                let replayed = self.walk.findings.get(pass).and_then(|f| f.prompt.iter().find(|(r, _)| *r == row));
                let evidence = || match &self.opened.row(*step, at.leaf)?.outputs.get(&Point::global(Op::LmHead))?.bits
                {
                    Elements::F32(bits) => Some(replayer.logprob(bits, at.position, token)),
                    Elements::Bf16(_) => None,
                };
                let request = at.request as usize;
                let stated = record.requests.get(request).and_then(|r| r.prompt_logprobs.as_ref());
                let logged = stated.and_then(|all| all.get(at.position as usize));
                if let (Some(logged), Some(own)) = (logged, replayed.map(|(_, own)| own.clone()).or_else(evidence)) {
                    out.push(Stated { request, place: Place::Prompt(at.position as usize + 1), logged: *logged, own });
                }
            }
        }
        out
    }
}

/// The claim of a record that was not replayed, for the same reason as its bits.
pub fn not_replayed(record: &Record, verdict: Verdict, why: &str) -> Option<(ClaimResult, Option<Unverified>)> {
    let logged = count(record)?;
    Some((ClaimResult::new(ClaimKind::Logprobs, verdict, why), Some(unverified(logged, why))))
}

/// How many values are logged; nothing if no request logs any.
fn count(record: &Record) -> Option<usize> {
    let logged = || record.requests.iter().flat_map(|r| [r.logprobs.as_ref(), r.prompt_logprobs.as_ref()]).flatten();
    logged().next()?;
    Some(logged().map(Vec::len).sum())
}

fn unverified(count: usize, why: &str) -> Unverified {
    Unverified { fact: "log-probabilities".to_owned(), declared: format!("{count} values"), why: why.to_owned() }
}

fn different(request: &str, place: &Place, logged: F32Bits, own: u32) -> String {
    let token = match place {
        Place::Output(index) => format!("token {index}"),
        Place::Prompt(index) => format!("prompt token {index}"),
    };
    format!("the first is that of {token} of {}: logged {:08x}, recomputed {own:08x}", named(request), logged.0)
}
