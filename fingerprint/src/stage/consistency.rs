//! P3: does a token get the same probability when it is generated and when it is read?
//!
//! Decoding and prefill run other kernels over the same cache. In f32 they agree to about 1e-5; in bf16 about half of the positions are equal
//! and the rest differ by up to about 0.1. A change at a fixed position points to a tile width or to the cache's format.

use serde_json::json;

use crate::api::{Answer, Ask, Prompt, Step, same_token};
use crate::decimal::resolution;
use crate::error::Result;
use crate::report::{Finding, Word, figure};
use crate::session::Session;
use crate::stats::{Change, change_point, median, wilson};
use crate::tier::{Capability, Scoring, Tier};

/// One token, generated and read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Its position: prompt tokens and generated tokens before it.
    pub position: u64,
    /// Generated less read.
    pub delta: f64,
    /// Nothing, within what was written.
    pub equal: bool,
}

/// All that could be compared.
#[derive(Clone, Debug, Default)]
pub struct Consistency {
    /// Tokens, by position.
    pub places: Vec<Place>,
    /// Why there are none.
    pub why: Option<&'static str>,
    /// A place where agreement changes.
    pub change: Option<Change>,
}

/// Generates `tokens` and reads them again: by scoring the prompt where that is offered, else by asking for single tokens after longer and
/// longer prompts, `reads` of them.
///
/// # Errors
/// What [`Session::ask`] fails with.
pub async fn measure(
    session: &Session,
    cap: &Capability,
    prompt: &str,
    tokens: u32,
    reads: usize,
    seed: u64,
) -> Result<Consistency> {
    let not = |why| Consistency { why: Some(why), ..Consistency::default() };
    if cap.tier < Tier::C {
        return Ok(not("log-probabilities of the most likely tokens are needed"));
    }
    if cap.route != crate::api::Route::Completions {
        return Ok(not("raw completions are needed: a chat template lies between prompt and tokens"));
    }
    let generated = session.ask("p3/generate", &cap.greedy(Prompt::Text(prompt.into()), tokens)).await?;
    let Some(answer) = generated.good() else { return Ok(not("nothing was generated")) };
    let before = answer.usage.map_or(0, |u| u.prompt);
    let steps = answer.steps();
    let mut places = match cap.scoring {
        Some(way) => scored(session, cap, prompt, answer, way, before).await?,
        None => asked_again(session, cap, prompt, steps, before, reads).await?,
    };
    places.sort_by_key(|p| p.position);
    if places.is_empty() {
        return Ok(not("no token could be read again as the token it was: text and tokens do not map one to one"));
    }
    let hits: Vec<bool> = places.iter().map(|p| p.equal).collect();
    Ok(Consistency { change: change_point(&hits, seed), places, why: None })
}

/// One request that scores prompt and output.
async fn scored(
    session: &Session,
    cap: &Capability,
    prompt: &str,
    answer: &Answer,
    way: Scoring,
    before: u64,
) -> Result<Vec<Place>> {
    let whole = format!("{prompt}{}", answer.text());
    let ask = Ask::new(cap.route, cap.model.as_deref(), Prompt::Text(whole), 1).logprobs(Some(cap.top));
    let ask = match way {
        Scoring::Echo => ask.with("echo", json!(true)),
        Scoring::PromptLogprobs => ask.with("prompt_logprobs", json!(1)),
    };
    let record = session.ask("p3/score", &ask).await?;
    let Some(read) = record.good() else { return Ok(Vec::new()) };
    let choice = &read.choices[0];
    let all: Vec<Option<&Step>> = match way {
        Scoring::Echo => choice.steps.iter().map(Some).collect(),
        Scoring::PromptLogprobs => choice.prompt_steps.iter().map(Option::as_ref).collect(),
    };
    // Entry `p` is that of prompt token `p`; the generated ones begin where the first prompt ended.
    let begin = usize::try_from(before).unwrap_or(usize::MAX);
    let pairs = answer
        .steps()
        .iter()
        .enumerate()
        .map(|(i, own)| (i, own, begin.checked_add(i).and_then(|p| all.get(p).copied().flatten())));
    let pairs: Vec<(u64, &Step, &Step)> = pairs
        .filter_map(|(i, own, read)| Some((before + i as u64, own, read?)))
        // After a token that is read as another one nothing is comparable.
        .take_while(|(_, own, read)| same_token((&own.token, own.id), (&read.token, read.id)))
        .collect();
    Ok(places(pairs))
}

/// Single tokens after longer and longer prompts.
async fn asked_again(
    session: &Session,
    cap: &Capability,
    prompt: &str,
    steps: &[Step],
    before: u64,
    reads: usize,
) -> Result<Vec<Place>> {
    let last = steps.len().saturating_sub(1);
    let mut at: Vec<usize> = (1..=reads).map(|i| i * last / reads.max(1)).filter(|i| *i > 0).collect();
    at.dedup();
    let mut pairs = Vec::new();
    let mut kept = Vec::new();
    for i in at {
        let text: String = steps[..i].iter().map(|s| s.token.replace(['Ġ', '▁'], " ")).collect();
        let ask = cap.greedy(Prompt::Text(format!("{prompt}{text}")), 1);
        let record = session.ask(&format!("p3/read/{i:03}"), &ask).await?;
        let Some(read) = record.good() else { continue };
        // The text must have become the same tokens again.
        if read.usage.is_some_and(|u| u.prompt == before + i as u64)
            && let Some(step) = read.steps().first()
        {
            kept.push((i, step.clone()));
        }
    }
    for (i, read) in &kept {
        pairs.push((before + *i as u64, &steps[*i], read));
    }
    Ok(places(pairs))
}

/// Compares by all tokens that both list.
fn places(pairs: Vec<(u64, &Step, &Step)>) -> Vec<Place> {
    let numbers = |s: &'_ Step| s.top.iter().map(|t| t.2.clone()).chain(s.logprob.clone()).collect::<Vec<_>>();
    let (own, read): (Vec<_>, Vec<_>) = pairs.iter().map(|(_, a, b)| (numbers(a), numbers(b))).unzip();
    let nothing = 0.5 * resolution(own.iter().flatten()).max(resolution(read.iter().flatten())) * (1.0 + 1e-9);
    let one = |(position, own, read): (u64, &Step, &Step)| {
        let value = own.logprob.as_ref()?.value();
        let delta = value - read.of(&own.token, own.id)?.value();
        let all_equal = own
            .top
            .iter()
            .all(|(token, id, v)| read.of(token, *id).is_none_or(|other| (v.value() - other.value()).abs() <= nothing));
        Some(Place { position, delta, equal: delta.abs() <= nothing && all_equal })
    };
    pairs.into_iter().filter_map(one).collect()
}

/// Level of the permutation test at which a change is reported.
const CHANGE: f64 = 0.01;

/// In a report's words.
pub fn findings(found: &Consistency) -> Vec<Finding> {
    let about = "decode versus prefill";
    if let Some(why) = found.why {
        return vec![Finding::new(about, Word::NotTestable, why)];
    }
    let equal = found.places.iter().filter(|p| p.equal).count();
    let of = found.places.len();
    let sizes: Vec<f64> = found.places.iter().map(|p| p.delta.abs()).collect();
    let most = sizes.iter().fold(0.0_f64, |m, d| m.max(*d));
    let text = if equal == of {
        format!("{of} of {of} tokens get the same log-probabilities when generated and when read, as written")
    } else {
        let (middle, most) = (figure(median(&sizes)), figure(most));
        format!(
            "{equal} of {of} tokens get the same log-probabilities; the others differ, median {middle}, at most {most}"
        )
    };
    let mut out = vec![Finding::new(about, Word::Measured, text).with(wilson(equal, of))];
    match found.change {
        Some(change) if change.p <= CHANGE => {
            let position = found.places.get(change.at).map_or(0, |p| p.position);
            let text = format!(
                "agreement changes at position {position}: {} equal before, {} from there on (permutation p {})",
                figure(change.before),
                figure(change.after),
                figure(change.p)
            );
            out.push(Finding::new("onset", Word::Measured, text));
        }
        Some(_) => out.push(Finding::new("onset", Word::Measured, "no position at which agreement changes")),
        None => {
            out.push(Finding::new("onset", Word::NotTestable, format!("{of} positions are too few for a change point")))
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_onset_is_told_with_its_position() {
        let places: Vec<Place> = (0..64)
            .map(|i| Place { position: 70 + i, delta: if i < 26 { 0.0 } else { 0.02 }, equal: i < 26 })
            .collect();
        let hits: Vec<bool> = places.iter().map(|p| p.equal).collect();
        let found = findings(&Consistency { change: change_point(&hits, 1), places, why: None });
        assert!(found[0].says.contains("26 of 64") && found[1].says.contains("position 96"), "{found:?}");
    }
}
