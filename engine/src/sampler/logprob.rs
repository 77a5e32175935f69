//! The log-probability of a token: logarithm of its softmax over a row of logits.

use crate::error::{Error, Result};

/// Natural logarithm of the probability of `token` under `softmax(logits)`, as f32 bits: what `logprobs` of a record holds. Temperature
/// and filters of the sampler do not enter. `position` is the one that the token occupies; it is only named in errors.
///
/// Specified by `docs/spec/sampling.md`, *Log-probabilities*.
///
/// **Bits.** In f64, each operation rounded once: `largest` of the logits, `total` the sum of `exp(logit - largest)` by ascending id, then
/// `(logit - largest) - ln(total)`, rounded to the nearest even f32. `exp` and `ln` are the pinned `libm`: equal on every host.
///
/// # Errors
/// [`Error::BadLogits`] if a logit is not finite; [`Error::Sampling`] if there is no such token.
pub fn log_probability(logits: &[u32], position: u32, token: u32) -> Result<u32> {
    LogSoftmax::of(logits, position)?.at(token)
}

/// A row of logits with the normaliser of its softmax: every token's log-probability, as [`log_probability`] has it, for one sum.
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmax<'a> {
    logits: &'a [u32],
    largest: f64,
    log_total: f64,
}

impl<'a> LogSoftmax<'a> {
    /// Of a row of logits, f32 bits `(vocab)`.
    ///
    /// # Errors
    /// [`Error::BadLogits`] if a logit is not finite.
    pub fn of(logits: &'a [u32], position: u32) -> Result<Self> {
        if let Some(bits) = logits.iter().find(|b| !f32::from_bits(**b).is_finite()) {
            return Err(Error::BadLogits { position, bits: *bits });
        }
        let largest = logits.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        for bits in logits {
            total += libm::exp(value(bits) - largest);
        }
        Ok(Self { logits, largest, log_total: libm::log(total) })
    }

    /// The log-probability of a token, as f32 bits.
    ///
    /// # Errors
    /// [`Error::Sampling`] if there is no such token.
    pub fn at(&self, token: u32) -> Result<u32> {
        let Some(own) = self.logits.get(token as usize).map(value) else {
            return Err(Error::Sampling {
                parameter: "token",
                value: token.to_string(),
                why: "an id of the vocabulary",
            });
        };
        Ok((((own - self.largest) - self.log_total) as f32).to_bits())
    }
}

fn value(bits: &u32) -> f64 {
    f64::from(f32::from_bits(*bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|v| v.to_bits()).collect()
    }

    /// Expected values: Python's `decimal` with 60 digits, from the definition of softmax, rounded to f32.
    #[test]
    fn values_that_another_program_computed() {
        for (logits, token, expected) in CASES {
            assert_eq!(log_probability(&bits(logits), 3, *token).unwrap(), *expected, "{logits:?} {token}");
        }
        // A probability that is 1 in f64 has the logarithm +0.
        assert_eq!(log_probability(&bits(&[40.0, -40.0]), 3, 0).unwrap(), 0);
    }

    const CASES: &[(&[f32], u32, u32)] = &[
        (&[1.0, 2.0, 3.0], 2, 0xbed0_b1bb),
        (&[1.0, 2.0, 3.0], 0, 0xc01a_1637),
        (&[0.5], 0, 0x0000_0000),
        (&[-3.25, 10.75, 10.5, 0.125, -90.0], 3, 0xc133_371b),
        (&[-3.25, 10.75, 10.5, 0.125, -90.0], 4, 0xc2ca_a6e3),
        (&[40.0, -40.0], 1, 0xc2a0_0000),
        (&[0.1, 0.1, 0.1, 0.1], 1, 0xbfb1_7218),
    ];

    #[test]
    fn what_has_no_probability_is_refused() {
        assert!(matches!(log_probability(&bits(&[0.0, f32::NAN]), 9, 0), Err(Error::BadLogits { position: 9, .. })));
        assert!(matches!(log_probability(&bits(&[0.0]), 9, 1), Err(Error::Sampling { parameter: "token", .. })));
        assert!(matches!(log_probability(&[], 0, 0), Err(Error::Sampling { .. })));
    }
}
