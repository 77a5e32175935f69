//! Do the decoding parameters of a request make sense together?
//!
//! A reader may rely on what a sampler does with its parameters only if every parameter that it does not read is off. Specified by
//! `docs/spec/inference-record.md`, *Consistency*; the samplers by `docs/spec/sampling.md`.

use super::Decode;
use crate::scalar::{F32Bits, Fact};

/// Greedy choice, the lowest id among equals.
pub const GREEDY: &str = "greedy-lowest-id/1";
/// Seeded choice by Gumbel noise.
pub const GUMBEL: &str = "gumbel-philox4x32-10/1";
/// What [`Decode::counter`] and [`Decode::seed_derivation`] say when nothing is drawn.
const NONE: &str = "none";

impl Decode {
    /// Checks that the parameters are numbers in their range and fit the sampler and each other. A sampler that is not known is judged
    /// by its ranges only.
    ///
    /// # Errors
    /// The rule that is broken; it names the parameter.
    pub fn check(&self) -> Result<(), &'static str> {
        self.check_ranges()?;
        let rule = self.seed_derivation.known().map(String::as_str);
        match (self.seed, rule) {
            (Some(_), Some(NONE)) => return Err("seed_derivation: none, but there is a seed"),
            (None, Some(rule)) if rule != NONE => return Err("seed_derivation: a rule for a seed that is not there"),
            _ => {}
        }
        match self.sampler.as_str() {
            GREEDY => self.check_greedy(),
            GUMBEL => self.check_seeded(),
            _ => Ok(()),
        }
    }

    fn check_ranges(&self) -> Result<(), &'static str> {
        // Comparisons with NaN are false, so NaN is in no range.
        type Range = fn(f32) -> bool;
        let within = |bits: F32Bits, holds: Range| bits.value().is_finite() && holds(bits.value());
        let ranges: [(F32Bits, Range, &'static str); 6] = [
            (self.temperature, |x| x >= 0.0, "temperature is not a finite number of at least 0"),
            (self.top_p, |x| x > 0.0 && x <= 1.0, "top_p is not above 0 and at most 1"),
            (self.min_p, |x| (0.0..=1.0).contains(&x), "min_p is not between 0 and 1"),
            (self.repetition_penalty, |x| x > 0.0, "repetition_penalty is not a finite number above 0"),
            (self.presence_penalty, |_| true, "presence_penalty is not finite"),
            (self.frequency_penalty, |_| true, "frequency_penalty is not finite"),
        ];
        if let Some((_, _, what)) = ranges.iter().find(|(bits, holds, _)| !within(*bits, *holds)) {
            return Err(what);
        }
        if self.logit_bias.iter().any(|(_, bias)| !bias.value().is_finite()) {
            return Err("logit_bias is not finite");
        }
        if !self.logit_bias.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("logit_bias is not ascending by token id");
        }
        if !self.stop_ids.is_sorted_by(|a, b| a < b) {
            return Err("stop_ids are not ascending");
        }
        Ok(())
    }

    fn check_greedy(&self) -> Result<(), &'static str> {
        let off = Self::greedy(self.max_new_tokens, Vec::new());
        let rules = [
            (self.temperature == off.temperature, "temperature: greedy choice has none, so it is 0"),
            (self.top_k == off.top_k, "top_k: greedy choice filters nothing, so it is 0"),
            (self.top_p == off.top_p, "top_p: greedy choice filters nothing, so it is 1"),
            (self.min_p == off.min_p, "min_p: greedy choice filters nothing, so it is 0"),
            (self.seed.is_none(), "seed: greedy choice draws nothing, so it is null"),
            (self.counter == off.counter, "counter: greedy choice draws nothing, so it is none"),
        ];
        first_broken(&rules)
    }

    fn check_seeded(&self) -> Result<(), &'static str> {
        let rules = [
            (self.temperature.value() > 0.0, "temperature: seeded choice divides by it, so it is above 0"),
            (self.seed.is_some(), "seed: seeded choice needs one"),
            (self.counter != NONE, "counter: seeded choice counts something"),
        ];
        first_broken(&rules)
    }
}

fn first_broken(rules: &[(bool, &'static str)]) -> Result<(), &'static str> {
    rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
}

impl super::Device {
    /// Checks that kind and driver facts fit: an emulated device has neither GPU model nor driver, a GPU has both.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self) -> Result<(), &'static str> {
        let gpu = self.kind == super::DeviceKind::Cuda;
        let contradicts = |fact: &Fact<Option<String>>| fact.known().is_some_and(|value| value.is_some() != gpu);
        match (contradicts(&self.gpu_model), contradicts(&self.driver), gpu) {
            (true, _, false) => Err("an emulated device has no GPU model"),
            (_, true, false) => Err("an emulated device has no driver"),
            (true, _, true) => Err("a GPU has a model; null says that there is none"),
            (_, true, true) => Err("a GPU has a driver; null says that there is none"),
            _ => Ok(()),
        }
    }
}
