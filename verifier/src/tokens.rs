//! Do the tokens follow from the logits? With the sampler and the seed logged there is one admissible token per step.

use crate::error::Error;
use crate::explain;
use crate::plan::Plan;
use crate::replay::{Elements, Past, ReplayError, Replayer};
use crate::result::{Cause, Outcome, TokenFinding, Trial};
use crate::{
    compare::Opened,
    ops::{Op, Point},
    walk::Walk,
};
use record::inference::{Decode, Request};
use record::{Record, U64Text};

/// A sampled token with the logits it was chosen from.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Index of the request.
    pub request: usize,
    /// Position of the row that gave the logits.
    pub position: u32,
    /// The token as logged.
    pub token: u32,
    /// Pass of the plan.
    pub pass: usize,
    /// Row of the pass.
    pub row: usize,
    /// f32 bits; absent when neither replay nor evidence gives them.
    pub logits: Option<Vec<u32>>,
}

/// What the check found.
#[derive(Clone, Debug, Default)]
pub struct TokenCheck {
    /// Tokens compared.
    pub checked: u32,
    /// Tokens whose logits are not known.
    pub unchecked: u32,
    /// Tokens that are not the admissible one, with the pass and row they came from.
    pub wrong: Vec<(usize, usize, TokenFinding)>,
    /// A sampler or parameter that is not known here.
    pub unknown: Option<String>,
    /// Why the sampler refused logits: the first refusal.
    pub refused: Option<String>,
}

/// Every sampled token of a record, in plan order, with its logits: from a replay that gives the logged bits, or else as opened.
pub fn sampled(record: &Record, plan: &Plan, walk: &Walk, opened: &Opened) -> Vec<Sampled> {
    let mut out = Vec::new();
    for (pass, item) in plan.items.iter().enumerate() {
        for (row, (step, at)) in item.rows.iter().enumerate() {
            let Some(token) = record.row_id(at).and_then(|id| id.chosen) else { continue };
            let replayed = walk.findings.get(pass).and_then(|f| f.logits.iter().find(|(r, _)| *r == row));
            let evidence = || match &opened.row(*step, at.leaf)?.outputs.get(&Point::global(Op::LmHead))?.bits {
                Elements::F32(bits) => Some(bits.clone()),
                Elements::Bf16(_) => None,
            };
            let logits = replayed.map(|(_, bits)| bits.clone()).or_else(evidence);
            out.push(Sampled { request: at.request as usize, position: at.position, token, pass, row, logits });
        }
    }
    out
}

/// Compares every sampled token with the admissible one. A sampler that is not known, or that refuses the logits, is part of the finding.
pub fn check(record: &Record, replayer: &dyn Replayer, sampled: &[Sampled]) -> TokenCheck {
    let mut found = TokenCheck::default();
    for s in sampled {
        let (Some(logits), Some(request)) = (&s.logits, record.requests.get(s.request)) else {
            found.unchecked += 1;
            continue;
        };
        let admissible = match replayer.choose(&request.decode, past(request, s.position), logits, s.position) {
            Ok(token) => token,
            Err(ReplayError::Unknown { what }) => {
                found.unknown.get_or_insert(what);
                found.unchecked += 1;
                continue;
            }
            Err(e) => {
                found.refused.get_or_insert_with(|| e.to_string());
                found.unchecked += 1;
                continue;
            }
        };
        found.checked += 1;
        if admissible != s.token {
            let finding = TokenFinding {
                request: request.id.clone(),
                position: s.position,
                output_index: (s.position + 1).saturating_sub(request.prompt.len() as u32),
                logged: s.token,
                admissible,
                // The sampler has just read these logits; a token that it cannot rank is one that it cannot draw.
                rank: replayer
                    .rank(&request.decode, past(request, s.position), logits, s.position, s.token)
                    .unwrap_or_default(),
            };
            found.wrong.push((s.pass, s.row, finding));
        }
    }
    // Nothing is taken for judged because it was never looked at.
    let stated: u32 = record.requests.iter().map(|r| r.output.len() as u32).sum();
    let missed = stated.saturating_sub(found.checked + found.unchecked);
    if missed > 0 {
        found.unchecked += missed;
        found.refused.get_or_insert_with(|| "no row at hand chose them".to_owned());
    }
    found
}

/// What a request had when the row at `position` chose.
pub(crate) fn past(request: &Request, position: u32) -> Past<'_> {
    let chosen = (position as usize + 1).saturating_sub(request.prompt.len()).min(request.output.len());
    Past { prompt: &request.prompt, output: &request.output[..chosen] }
}

/// Other ways to choose than the declared one, of which one may have been taken: each with what it is called.
fn other_ways(decode: &Decode) -> Vec<(String, Decode)> {
    let plain = Decode::greedy(decode.max_new_tokens, decode.stop_ids.clone());
    let unadjusted = |way: Decode| Decode {
        logit_bias: Vec::new(),
        repetition_penalty: plain.repetition_penalty,
        presence_penalty: plain.presence_penalty,
        frequency_penalty: plain.frequency_penalty,
        ..way
    };
    let adjusts = unadjusted(decode.clone()) != *decode;
    let mut ways = Vec::new();
    if decode.seed.is_some() {
        let greedy = Decode {
            logit_bias: decode.logit_bias.clone(),
            repetition_penalty: decode.repetition_penalty,
            presence_penalty: decode.presence_penalty,
            frequency_penalty: decode.frequency_penalty,
            ..plain.clone()
        };
        ways.push((plain.sampler.clone(), greedy));
        let unfiltered = Decode { top_k: plain.top_k, top_p: plain.top_p, min_p: plain.min_p, ..decode.clone() };
        if unfiltered != *decode {
            ways.push((format!("{} without its filters", decode.sampler), unfiltered));
        }
    }
    if adjusts {
        let name = format!("{} without bias and penalties", decode.sampler);
        ways.push((name, unadjusted(decode.clone())));
    }
    ways
}

/// Looks for what made the wrong tokens: another seed, greedy choice, filters or penalties left out, or else a swap.
///
/// # Errors
/// [`Error`] when the replayer fails.
pub fn causes(
    record: &Record,
    replayer: &dyn Replayer,
    sampled: &[Sampled],
    check: &TokenCheck,
    seeds: u32,
) -> Result<(Vec<Cause>, Vec<Trial>), Error> {
    let (mut causes, mut trials) = (Vec::new(), Vec::new());
    let mut swapped = Vec::new();
    for (index, request) in record.requests.iter().enumerate() {
        let wrong: Vec<&TokenFinding> =
            check.wrong.iter().map(|(_, _, t)| t).filter(|t| t.request == request.id).collect();
        if wrong.is_empty() {
            continue;
        }
        let search = Search { replayer, request: index, asked: request, sampled, wrong: &wrong };
        let differing = wrong.len() as u32;
        let total = sampled.iter().filter(|s| s.request == index && s.logits.is_some()).count() as u32;
        let mut other = false;
        for (name, way) in other_ways(&request.decode) {
            let explains = search.explains(&way)?;
            let what = if way.seed.is_none() && request.decode.seed.is_some() { "greedy choice" } else { &name };
            trials.push(Trial {
                hypothesis: format!("{what} for {}", explain::request(&request.id)),
                outcome: if explains { Outcome::Explains } else { Outcome::Contradicted },
                detail: String::new(),
            });
            if explains && !other {
                other = true;
                let logged = match request.decode.seed {
                    Some(U64Text(seed)) => format!("{} with seed {seed}", request.decode.sampler),
                    None => request.decode.sampler.clone(),
                };
                causes.push(Cause::OtherSampler { request: request.id.clone(), logged, found: name, differing });
            }
        }
        if let Some(U64Text(logged)) = request.decode.seed {
            let candidates = seed_candidates(logged, seeds);
            let range =
                format!("0 to {}, and the logged one changed in one bit or by up to 16", seeds.saturating_sub(1));
            let mut found = Vec::new();
            for seed in &candidates {
                if search.explains(&Decode { seed: Some(U64Text(*seed)), ..request.decode.clone() })? {
                    found.push(seed.to_string());
                }
            }
            trials.push(Trial {
                hypothesis: format!("another seed for {}", explain::request(&request.id)),
                outcome: if found.is_empty() { Outcome::Contradicted } else { Outcome::Explains },
                detail: format!("{} seeds tried: {range}", candidates.len()),
            });
            // Few wrong tokens among many right ones are swaps; a wrong seed changes many.
            let mostly_wrong = differing * 3 > total && differing > 1;
            if !found.is_empty() || (mostly_wrong && !other) {
                causes.push(Cause::OtherSeed {
                    request: request.id.clone(),
                    logged: logged.to_string(),
                    found,
                    tried: candidates.len() as u32,
                    range,
                    differing,
                    tokens: total,
                });
                continue;
            }
        }
        if other {
            continue;
        }
        swapped.extend(wrong.into_iter().cloned());
    }
    if !swapped.is_empty() {
        let admissible = check.checked - check.wrong.len() as u32;
        causes.push(Cause::TokenSwapped { tokens: swapped, admissible });
    }
    Ok((causes, trials))
}

struct Search<'a> {
    replayer: &'a dyn Replayer,
    request: usize,
    asked: &'a Request,
    sampled: &'a [Sampled],
    wrong: &'a [&'a TokenFinding],
}

impl Search<'_> {
    /// True when `decode` gives every token of the request whose logits are known; wrong ones are tried first, since they decide.
    fn explains(&self, decode: &Decode) -> Result<bool, Error> {
        let ours = || self.sampled.iter().filter(|s| s.request == self.request);
        let is_wrong = |s: &Sampled| self.wrong.iter().any(|w| w.position == s.position);
        for s in ours().filter(|s| is_wrong(s)).chain(ours().filter(|s| !is_wrong(s))) {
            let Some(logits) = &s.logits else { continue };
            match self.replayer.choose(decode, past(self.asked, s.position), logits, s.position) {
                Ok(token) if token == s.token => {}
                Ok(_) | Err(ReplayError::Unknown { .. }) => return Ok(false),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }
}

/// Seeds to try, without the logged one, ascending.
fn seed_candidates(logged: u64, seeds: u32) -> Vec<u64> {
    let near = (1..=16).flat_map(|d| [logged.wrapping_add(d), logged.wrapping_sub(d)]);
    let flipped = (0..64).map(|bit| logged ^ 1 << bit);
    let all: std::collections::BTreeSet<u64> = (0..u64::from(seeds)).chain(near).chain(flipped).collect();
    all.into_iter().filter(|s| *s != logged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_candidates_leave_the_logged_one_out() {
        let all = seed_candidates(7, 100);
        assert!(!all.contains(&7) && all.contains(&0) && all.contains(&99) && all.contains(&(7 ^ 1 << 63)));
        assert!(all.is_sorted() && all.contains(&u64::MAX), "7 - 8 wraps");
    }
}
