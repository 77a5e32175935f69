//! Choosing a token from a row of logits, reproducibly.
//!
//! Specified by `docs/spec/sampling.md`. Logits are adjusted first ([`Adjust`]), where a request asks for that; then one of two algorithms chooses,
//! each named by an identifier that records carry:
//! * [`GREEDY`]: the largest logit; the lowest id wins ties. Without adjustment computed by the top-2 kernel on the device.
//! * [`GUMBEL`]: the largest `logit / temperature + g(seed, position, id)` over the kept candidates, `g` being Gumbel noise; this draws
//!   from `softmax(logits / temperature)`, and every candidate's noise can be recomputed alone.
//!
//! Noise: `g = -ln(-ln(u))`, `u = ((w1 * 2^32 + w0) >> 12) * 2^-52 + 2^-53`, where `w0, w1` are the first two words of
//! Philox4x32-10 under key `(seed low, seed high)` and counter `(id, position, 0, "GUMB")`. *Position* is the one that the chosen token will
//! occupy: the position of the row that gave the logits, plus one.
//!
//! **Bits.** All in f64 with `+ - * /` and the pinned pure-Rust `libm` (`log`, `exp`), in a stated order: equal on every host. Candidates are
//! ordered by logit, largest first, lowest id first among equals; sums run in that order.

mod adjust;
mod logprob;
mod philox;
mod seed;

pub use adjust::{Adjust, Past};
pub use logprob::{LogSoftmax, log_probability};
pub use philox::philox4x32_10;
pub use seed::{SEED_DERIVATION, derive_seed};

use crate::error::{Error, Result};

/// Identifier of greedy choice.
pub const GREEDY: &str = record::inference::GREEDY;
/// Identifier of seeded choice.
pub const GUMBEL: &str = record::inference::GUMBEL;
/// Identifier of what the counter of [`GUMBEL`] counts: the position that the chosen token will occupy.
pub const COUNTER: &str = "next-position/1";
/// Identifier of the tie rule of both.
pub const TIE_RULE: &str = "lowest-id";
/// Last word of the noise counter: `GUMB` in ASCII, so that other uses of a seed never meet this one.
const COUNTER_TAG: u32 = u32::from_be_bytes(*b"GUMB");

/// How a request's tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Sampling {
    /// [`GREEDY`].
    #[default]
    Greedy,
    /// [`GUMBEL`].
    Seeded(Seeded),
}

/// Parameters of [`GUMBEL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seeded {
    /// Divides the logits; finite and positive.
    pub temperature: f32,
    /// Keep this many largest logits, when set; at least 1.
    pub top_k: Option<u32>,
    /// Then keep the shortest run of largest candidates whose probability reaches this, when set; in `(0, 1]`.
    pub top_p: Option<f32>,
    /// Then keep those whose probability is at least this part of the largest, when set; in `(0, 1]`.
    pub min_p: Option<f32>,
    /// Key of the noise.
    pub seed: u64,
}

impl Seeded {
    /// Every token is a candidate.
    pub fn plain(temperature: f32, seed: u64) -> Self {
        Self { temperature, top_k: None, top_p: None, min_p: None, seed }
    }
}

/// A choice and what came second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The token chosen.
    pub token: u32,
    /// The token that would have been chosen without it; none when there was one candidate.
    pub runner_up: Option<u32>,
    /// Score of the first minus score of the second, in the units of the algorithm; infinite without a second.
    pub margin: f64,
}

impl Sampling {
    /// Identifier of the algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Sampling::Greedy => GREEDY,
            Sampling::Seeded(_) => GUMBEL,
        }
    }

    /// Refuses parameters that make no sense; nothing is clamped.
    ///
    /// # Errors
    /// [`Error::Sampling`].
    pub fn check(&self) -> Result<()> {
        let Sampling::Seeded(s) = self else { return Ok(()) };
        let refuse = |parameter, value: String, why| Err(Error::Sampling { parameter, value, why });
        if !(s.temperature.is_finite() && s.temperature > 0.0) {
            return refuse(
                "temperature",
                s.temperature.to_string(),
                "finite and positive; greedy choice has no temperature",
            );
        }
        if s.top_k == Some(0) {
            return refuse("top_k", "0".into(), "at least 1, or absent");
        }
        for (name, part) in [("top_p", s.top_p), ("min_p", s.min_p)] {
            if let Some(p) = part.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
                return refuse(name, p.to_string(), "above 0 and at most 1, or absent");
            }
        }
        Ok(())
    }

    /// Chooses from a row of logits (f32 bits, one a token id) the token for `position`, without adjusting them.
    ///
    /// The greedy branch is the definition that the top-2 kernel is tested against.
    ///
    /// # Errors
    /// [`Error::BadLogits`] if a logit is not finite, [`Error::Sampling`] for parameters that make no sense.
    pub fn choose(&self, logits: &[u32], position: u32) -> Result<Choice> {
        self.choose_adjusted(&Adjust::default(), logits, Past::default(), position)
    }

    /// Chooses from a row of logits, adjusted for what came before, the token for `position`.
    ///
    /// # Errors
    /// As [`Sampling::choose`].
    pub fn choose_adjusted(&self, adjust: &Adjust, logits: &[u32], past: Past<'_>, position: u32) -> Result<Choice> {
        Ok(best(self.scores(&adjust.apply(logits, past, position)?, position)?))
    }

    /// Where `token` stands among the candidates that [`Sampling::choose_adjusted`] chooses from: 1 for the chosen one; none if it is not among
    /// them.
    ///
    /// # Errors
    /// As [`Sampling::choose`].
    pub fn rank(
        &self,
        adjust: &Adjust,
        logits: &[u32],
        past: Past<'_>,
        position: u32,
        token: u32,
    ) -> Result<Option<u32>> {
        let all: Vec<(u32, f64)> = self.scores(&adjust.apply(logits, past, position)?, position)?.collect();
        let Some(own) = all.iter().find(|e| e.0 == token) else { return Ok(None) };
        let better = all.iter().filter(|e| e.1 > own.1 || (e.1 == own.1 && e.0 < own.0)).count();
        Ok(Some(1 + better as u32))
    }

    /// Every candidate with its score. `values`: adjusted logits, finite.
    fn scores<'a>(&'a self, values: &'a [f64], position: u32) -> Result<Box<dyn Iterator<Item = (u32, f64)> + 'a>> {
        self.check()?;
        let value = |id: u32| values[id as usize];
        let ids = 0..values.len() as u32;
        Ok(match self {
            Sampling::Greedy => Box::new(ids.map(move |id| (id, value(id)))),
            Sampling::Seeded(s) if s.top_k.is_none() && s.top_p.is_none() && s.min_p.is_none() => {
                Box::new(ids.map(move |id| (id, s.score(value(id), position, id))))
            }
            Sampling::Seeded(s) => {
                let kept = s.candidates(ids, value);
                Box::new(kept.into_iter().map(move |id| (id, s.score(value(id), position, id))))
            }
        })
    }
}

impl Seeded {
    fn score(&self, logit: f64, position: u32, id: u32) -> f64 {
        logit / f64::from(self.temperature) + gumbel(self.seed, position, id)
    }

    /// Ids that survive `top_k`, then `top_p`, then `min_p`, in candidate order.
    fn candidates(&self, ids: std::ops::Range<u32>, value: impl Fn(u32) -> f64) -> Vec<u32> {
        let mut order: Vec<u32> = ids.collect();
        // Finite values compare; a stable sort keeps lower ids first among equals.
        order.sort_by(|a, b| value(*b).partial_cmp(&value(*a)).unwrap_or(std::cmp::Ordering::Equal));
        if let Some(k) = self.top_k {
            order.truncate(k as usize);
        }
        if let (Some(p), Some(first)) = (self.top_p, order.first()) {
            let (largest, t) = (value(*first), f64::from(self.temperature));
            let weights: Vec<f64> = order.iter().map(|id| libm::exp((value(*id) - largest) / t)).collect();
            let mut total = 0.0;
            for w in &weights {
                total += w;
            }
            let (wanted, mut sum) = (f64::from(p) * total, 0.0);
            let reached = |w: &f64| {
                sum += w;
                sum >= wanted
            };
            let keep = weights.iter().position(reached).map_or(order.len(), |last| last + 1);
            order.truncate(keep);
        }
        if let (Some(p), Some(first)) = (self.min_p, order.first()) {
            let (largest, t) = (value(*first), f64::from(self.temperature));
            // Against the largest, the sum of all cancels; the largest itself has weight 1.
            order.retain(|id| libm::exp((value(*id) - largest) / t) >= f64::from(p));
        }
        order
    }
}

/// The Gumbel noise of one candidate.
pub fn gumbel(seed: u64, position: u32, id: u32) -> f64 {
    let w = philox4x32_10([id, position, 0, COUNTER_TAG], [seed as u32, (seed >> 32) as u32]);
    let mantissa = (u64::from(w[1]) << 32 | u64::from(w[0])) >> 12;
    // 52 bits and a half: never 0, never 1, exact in f64.
    let u = (mantissa as f64 + 0.5) * f64::from_bits((1023 - 52) << 52);
    -libm::log(-libm::log(u))
}

/// Largest and second largest score; the lowest id wins ties.
fn best(scored: impl Iterator<Item = (u32, f64)>) -> Choice {
    let mut top: [Option<(u32, f64)>; 2] = [None; 2];
    let before = |a: (u32, f64), b: Option<(u32, f64)>| b.is_none_or(|b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0));
    for entry in scored {
        if before(entry, top[0]) {
            top = [Some(entry), top[0]];
        } else if before(entry, top[1]) {
            top[1] = Some(entry);
        }
    }
    let margin = match top {
        [Some(a), Some(b)] => a.1 - b.1,
        _ => f64::INFINITY,
    };
    Choice { token: top[0].map_or(0, |t| t.0), runner_up: top[1].map(|t| t.0), margin }
}

#[cfg(test)]
mod tests;
