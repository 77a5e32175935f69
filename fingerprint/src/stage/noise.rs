//! P4: what an endpoint's answers to one request do among themselves: alone, beside neighbours, after a warm cache.

use crate::api::{Answer, Prompt};
use crate::error::Result;
use crate::feature::Pair;
use crate::probe::{self, Probe};
use crate::report::{Finding, Word, figure};
use crate::session::Session;
use crate::stats::{Random, wilson};
use crate::tier::Capability;
use crate::trace::Record;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Times each probe is asked, one after the other.
    pub repeats: usize,
    /// Requests beside the probes, in each wave.
    pub neighbours: &'static [usize],
}

/// What varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing, of what was tried.
    Steady,
    /// Answers change beside neighbours, and not alone.
    Batch,
    /// The first answer differs from all later ones, which agree.
    Cache,
    /// Answers to one request fall into two or more groups that recur.
    Groups,
    /// Answers change from request to request.
    Unsteady,
    /// Too few answers.
    Untested,
}

/// Answers compared.
#[derive(Clone, Debug)]
pub struct Noise {
    /// What varies.
    pub kind: Kind,
    /// Repeats compared with the one before them, one after the other.
    pub alone: Vec<Pair>,
    /// Answers beside neighbours, compared with the last one alone: number of neighbours, pair.
    pub beside: Vec<(usize, Pair)>,
    /// Most groups of equal answers to one request.
    pub groups: usize,
}

/// Asks. Also returns the first answer to each probe.
///
/// # Errors
/// What [`Session::ask_all`] fails with.
pub async fn measure(
    session: &Session,
    cap: &Capability,
    probes: &[Probe],
    effort: Effort,
    seed: u64,
) -> Result<(Noise, Vec<Record>)> {
    let ask = |p: &Probe| cap.greedy(p.prompt.clone(), p.tokens);
    let mut rounds: Vec<Vec<Record>> = Vec::new();
    for round in 0..effort.repeats {
        let asks = probes.iter().map(|p| (format!("p4/alone/{}/{round}", p.id), ask(p))).collect();
        rounds.push(session.ask_all(asks, 1).await?);
    }
    let mut beside = Vec::new();
    for &count in effort.neighbours {
        let mut asks: Vec<_> = probes.iter().map(|p| (format!("p4/beside{count:02}/{}", p.id), ask(p))).collect();
        for i in 0..count {
            let id = format!("p4/neighbour{count:02}/{i:02}");
            let mut random = Random::named(seed, &id);
            let length = 4 + random.below(40);
            let prompt = Prompt::Text(probe::words(&mut random, length));
            asks.push((id, cap.greedy(prompt, probes.first().map_or(8, |p| p.tokens))));
        }
        let at_once = asks.len();
        let wave = session.ask_all(asks, at_once).await?;
        beside.push((count, wave.into_iter().take(probes.len()).collect::<Vec<_>>()));
    }
    Ok((judge(&rounds, &beside), rounds.into_iter().next().unwrap_or_default()))
}

/// Compares. `rounds[round][probe]`, `beside[wave][probe]`.
pub fn judge(rounds: &[Vec<Record>], beside: &[(usize, Vec<Record>)]) -> Noise {
    let probes = rounds.first().map_or(0, Vec::len);
    let answers: Vec<Vec<&Answer>> = (0..probes).map(|p| rounds.iter().filter_map(|r| r[p].good()).collect()).collect();
    let alone: Vec<Pair> = answers.iter().flat_map(|a| a.windows(2).map(|w| Pair::of(w[0], w[1]))).collect();
    let next_to = |p: usize, record: &Record| Some(Pair::of(answers[p].last()?, record.good()?));
    let beside: Vec<(usize, Pair)> = beside
        .iter()
        .flat_map(|(count, wave)| {
            wave.iter().enumerate().filter_map(|(p, r)| Some((*count, next_to(p, r)?))).collect::<Vec<_>>()
        })
        .collect();
    let groups: Vec<Vec<usize>> = answers.iter().map(|a| group_sizes(a)).collect();
    let several: Vec<&Vec<usize>> = groups.iter().filter(|g| g.len() > 1).collect();
    let first_alone = |a: &Vec<&Answer>| {
        a.len() > 2 && !Pair::of(a[0], a[1]).same() && a[1..].windows(2).all(|w| Pair::of(w[0], w[1]).same())
    };
    let kind = if alone.is_empty() {
        Kind::Untested
    } else if several.is_empty() {
        if beside.iter().any(|(_, p)| !p.same()) { Kind::Batch } else { Kind::Steady }
    } else if answers.iter().filter(|a| group_sizes(a).len() > 1).all(first_alone) {
        Kind::Cache
    } else if several.iter().all(|g| g.iter().all(|n| *n > 1)) {
        Kind::Groups
    } else {
        Kind::Unsteady
    };
    Noise { kind, alone, beside, groups: groups.iter().map(Vec::len).max().unwrap_or(0) }
}

/// Sizes of groups of equal answers.
fn group_sizes(answers: &[&Answer]) -> Vec<usize> {
    let mut groups: Vec<(&Answer, usize)> = Vec::new();
    for answer in answers {
        match groups.iter_mut().find(|(first, _)| Pair::of(first, answer).same()) {
            Some((_, n)) => *n += 1,
            None => groups.push((answer, 1)),
        }
    }
    groups.into_iter().map(|g| g.1).collect()
}

/// In a report's words.
pub fn findings(noise: &Noise) -> Vec<Finding> {
    let changed = |pairs: &[&Pair]| pairs.iter().filter(|p| !p.same()).count();
    let largest = |pairs: &[&Pair]| pairs.iter().map(|p| p.largest()).fold(0.0, f64::max);
    let parted = |pairs: &[&Pair]| pairs.iter().filter(|p| p.parts).count();
    let mut out = Vec::new();
    let alone: Vec<&Pair> = noise.alone.iter().collect();
    let tell = |about: &str, pairs: &[&Pair]| {
        let (n, of) = (changed(pairs), pairs.len());
        let text = if n == 0 {
            format!("{of} of {of} answers are the same, every number as written")
        } else {
            let size = figure(largest(pairs));
            format!("{n} of {of} answers differ, log-probabilities by up to {size}, texts in {}", parted(pairs))
        };
        Finding::new(about, Word::Measured, text).with(wilson(n, of))
    };
    if alone.is_empty() {
        return vec![Finding::new("repeats", Word::NotTestable, "no request was answered twice")];
    }
    out.push(tell("sequential repeats", &alone));
    let mut counts: Vec<usize> = noise.beside.iter().map(|b| b.0).collect();
    counts.dedup();
    for count in counts {
        let pairs: Vec<&Pair> = noise.beside.iter().filter(|b| b.0 == count).map(|b| &b.1).collect();
        out.push(tell(&format!("beside {count} neighbours"), &pairs));
    }
    let says = match noise.kind {
        Kind::Steady => "nothing varied: batch-invariant as far as this was tried".to_owned(),
        Kind::Batch => "not batch-invariant: neighbours move the numbers, so differing texts are no finding here".to_owned(),
        Kind::Cache => "the first answer differs from the later ones: a warm prefix cache changes the numbers".to_owned(),
        Kind::Groups => {
            format!("answers to one request fall into up to {} groups that recur: replicas, or part of the traffic goes elsewhere", noise.groups)
        }
        Kind::Unsteady => "answers vary from request to request even alone: other users' load, replicas or added noise; which cannot be told".to_owned(),
        Kind::Untested => "too few answers to say".to_owned(),
    };
    out.push(Finding::new("what varies", Word::Measured, says));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feature::tests::answer;

    fn record(value: &str) -> Record {
        let exchange = crate::client::Exchange { status: Some(200), ..Default::default() };
        let mut record = Record::new("p", "completions", None, &exchange);
        record.answer = Some(answer(&[("a", &[("a", value), ("b", "-2.000001")])]));
        record
    }

    fn kind(rounds: &[&str], beside: &str) -> Kind {
        let rounds: Vec<Vec<Record>> = rounds.iter().map(|v| vec![record(v)]).collect();
        judge(&rounds, &[(4, vec![record(beside)])]).kind
    }

    #[test]
    fn kinds_of_noise_are_told_apart() {
        let (x, y, z) = ("-0.500001", "-0.600001", "-0.700001");
        assert_eq!(kind(&[x, x, x], x), Kind::Steady);
        assert_eq!(kind(&[x, x, x], y), Kind::Batch);
        assert_eq!(kind(&[x, y, y, y], y), Kind::Cache);
        assert_eq!(kind(&[x, y, y, x], y), Kind::Groups);
        assert_eq!(kind(&[x, y, z, x], y), Kind::Unsteady);
        assert_eq!(kind(&[x], x), Kind::Untested);
    }

    #[test]
    fn words_carry_counts() {
        let rounds: Vec<Vec<Record>> = ["-0.500001", "-0.500001"].map(|v| vec![record(v)]).into();
        let found = findings(&judge(&rounds, &[(4, vec![record("-0.600001")])]));
        assert!(found[1].says.contains("1 of 1 answers differ") && found[1].says.contains("0.1"), "{}", found[1].says);
        assert!(found[2].says.contains("not batch-invariant"));
    }
}
