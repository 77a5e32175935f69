//! What is done to a row's logits before a token is chosen from them: bias and penalties.
//!
//! Specified by `docs/spec/sampling.md`, *Adjusted logits*.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};

/// The tokens before the one that is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past<'a> {
    /// Prompt ids.
    pub prompt: &'a [u32],
    /// Ids chosen so far.
    pub output: &'a [u32],
}

/// Bias and penalties. The default changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjust {
    /// Added to single logits: ids, ascending, each with a finite number.
    pub bias: Vec<(u32, f32)>,
    /// Positive logits of tokens of prompt and output are divided by it, others multiplied; above 0, 1 changes nothing.
    pub repetition: f32,
    /// Taken off a logit for each time that its token is in the output; finite.
    pub frequency: f32,
    /// Taken off the logit of a token that is in the output; finite.
    pub presence: f32,
}

impl Default for Adjust {
    fn default() -> Self {
        Self { bias: Vec::new(), repetition: 1.0, frequency: 0.0, presence: 0.0 }
    }
}

impl Adjust {
    /// Does it leave logits as they are?
    pub fn is_off(&self) -> bool {
        self.bias.is_empty() && self.repetition == 1.0 && self.frequency == 0.0 && self.presence == 0.0
    }

    /// Refuses parameters that make no sense; nothing is clamped.
    ///
    /// # Errors
    /// [`Error::Sampling`].
    pub fn check(&self) -> Result<()> {
        let refuse = |parameter, value: f32, why| Err(Error::Sampling { parameter, value: value.to_string(), why });
        if !(self.repetition.is_finite() && self.repetition > 0.0) {
            return refuse("repetition_penalty", self.repetition, "finite and above 0; 1 changes nothing");
        }
        if !self.frequency.is_finite() {
            return refuse("frequency_penalty", self.frequency, "finite");
        }
        if !self.presence.is_finite() {
            return refuse("presence_penalty", self.presence, "finite");
        }
        if let Some((_, bias)) = self.bias.iter().find(|(_, bias)| !bias.is_finite()) {
            return refuse("logit_bias", *bias, "finite");
        }
        match self.bias.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            Some(pair) => Err(Error::Sampling {
                parameter: "logit_bias",
                value: format!("{} after {}", pair[1].0, pair[0].0),
                why: "one number a token id, ids ascending",
            }),
            None => Ok(()),
        }
    }

    /// Adjusted logits, one a token id, from f32 bits. Ids beyond the vocabulary have no logit to adjust.
    ///
    /// **Bits.** f64, each operation rounded once to nearest even, in this order: bias, repetition, frequency, presence. The product of
    /// frequency and count is exact below 2^29 tokens.
    ///
    /// # Errors
    /// [`Error::BadLogits`] if a logit is not finite; `position`, which the chosen token will occupy, is only named there.
    pub(super) fn apply(&self, logits: &[u32], past: Past<'_>, position: u32) -> Result<Vec<f64>> {
        if let Some(bits) = logits.iter().find(|b| !f32::from_bits(**b).is_finite()) {
            return Err(Error::BadLogits { position, bits: *bits });
        }
        let mut values: Vec<f64> = logits.iter().map(|bits| f64::from(f32::from_bits(*bits))).collect();
        for (id, bias) in &self.bias {
            if let Some(value) = values.get_mut(*id as usize) {
                *value += f64::from(*bias);
            }
        }
        if self.repetition != 1.0 {
            let repetition = f64::from(self.repetition);
            for id in past.prompt.iter().chain(past.output).collect::<BTreeSet<_>>() {
                if let Some(value) = values.get_mut(*id as usize) {
                    *value = if *value > 0.0 { *value / repetition } else { *value * repetition };
                }
            }
        }
        if self.frequency != 0.0 || self.presence != 0.0 {
            let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
            for id in past.output {
                *counts.entry(*id).or_default() += 1;
            }
            for (id, count) in counts {
                if let Some(value) = values.get_mut(id as usize) {
                    *value -= f64::from(self.frequency) * f64::from(count);
                    *value -= f64::from(self.presence);
                }
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(logits: &[f32]) -> Vec<u32> {
        logits.iter().map(|l| l.to_bits()).collect()
    }

    /// Expected bits: Python, whose floats are binary64, from the definition.
    #[test]
    fn values_that_another_program_computed() {
        let adjust = Adjust { bias: vec![(1, 0.1), (3, -7.25)], repetition: 1.3, frequency: 0.7, presence: -0.2 };
        let past = Past { prompt: &[0, 4, 9], output: &[1, 3, 1, 1] };
        let found = adjust.apply(&bits(&[2.5, 1.1, -0.3, 0.4, -3.0]), past, 7).unwrap();
        let found: Vec<u64> = found.iter().map(|v| v.to_bits()).collect();
        assert_eq!(found, EXPECTED);
    }

    #[test]
    fn off_is_the_logits_themselves() {
        let adjust = Adjust::default();
        assert!(adjust.is_off());
        let past = Past { prompt: &[0], output: &[1, 1] };
        assert_eq!(adjust.apply(&bits(&[1.5, -2.0]), past, 3).unwrap(), [1.5, -2.0]);
        // Ids that the model does not have adjust nothing.
        let beyond = Adjust { bias: vec![(9, 5.0)], presence: 1.0, repetition: 2.0, ..Adjust::default() };
        let past = Past { prompt: &[77], output: &[88] };
        assert_eq!(beyond.apply(&bits(&[1.5, -2.0]), past, 3).unwrap(), [1.5, -2.0]);
    }

    #[test]
    fn nonsense_is_refused() {
        type Edit = fn(&mut Adjust);
        let cases: [(&str, Edit); 9] = [
            ("repetition_penalty", |a| a.repetition = 0.0),
            ("repetition_penalty", |a| a.repetition = -1.0),
            ("repetition_penalty", |a| a.repetition = f32::NAN),
            ("repetition_penalty", |a| a.repetition = f32::INFINITY),
            ("frequency_penalty", |a| a.frequency = f32::NAN),
            ("presence_penalty", |a| a.presence = f32::INFINITY),
            ("logit_bias", |a| a.bias = vec![(0, f32::NEG_INFINITY)]),
            ("logit_bias", |a| a.bias = vec![(3, 1.0), (3, 1.0)]),
            ("logit_bias", |a| a.bias = vec![(3, 1.0), (1, 1.0)]),
        ];
        for (name, edit) in cases {
            let mut adjust = Adjust::default();
            edit(&mut adjust);
            assert!(matches!(adjust.check(), Err(Error::Sampling { parameter, .. }) if parameter == name), "{name}");
        }
        assert!(Adjust { repetition: f32::MIN_POSITIVE, ..Adjust::default() }.check().is_ok());
    }

    const EXPECTED: [u64; 5] = [
        0x3ffe_c4ec_61b4_42b2,
        0xbfef_42f3_fdd2_8e52,
        0xbfd3_3333_4000_0000,
        0xc022_cf5c_1d3d_70a4,
        0xc00f_3333_2000_0000,
    ];
}
