//! A threshold from measured pairs: above every flip that was seen, above what a batch changes with stated probability, and a safety beyond.

use crate::bound::{self, Count};
use crate::signal::scaled;
use crate::trace::Observed;

/// What the caller chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Share of exchangeable steps whose `|Delta12|` may exceed the conformal threshold.
    pub alpha: f64,
    /// Share added to the threshold.
    pub safety: f32,
}

impl Default for Options {
    fn default() -> Self {
        Self { alpha: 0.001, safety: 0.25 }
    }
}

/// Why no threshold can be given.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The order statistic does not exist.
    #[error("{steps} steps are too few for alpha {alpha}: at least {needed} are wanted")]
    TooFew {
        /// Steps measured.
        steps: usize,
        /// Wanted risk.
        alpha: f64,
        /// Steps needed.
        needed: u64,
    },
    /// An option makes no sense.
    #[error("alpha is between 0 and 1, safety a number from 0 on; {alpha} and {safety} are not")]
    Options {
        /// As given.
        alpha: f64,
        /// As given.
        safety: f32,
    },
}

/// A threshold and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Options it was made with.
    pub options: Options,
    /// Steps measured.
    pub steps: u64,
    /// Steps at which the batched run chose another token.
    pub flips: u64,
    /// Largest risk of a flipped step; 0 without flips.
    pub tau_flip: f32,
    /// The `ceil((n + 1)(1 - alpha))`-th smallest `|Delta12|` over its scale.
    pub tau_conf: f32,
    /// `max(tau_flip, tau_conf) * (1 + safety)`.
    pub tau: f32,
    /// Steps below `tau`.
    pub triggers: u64,
    /// Risks by power of two.
    pub margins: Vec<Bin>,
    /// `|Delta12|` over its scale by power of two.
    pub deltas: Vec<Bin>,
    /// Risks of the flipped steps by power of two.
    pub flipped: Vec<Bin>,
}

/// How many values have this binary exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Of values in `[2^exponent, 2^(exponent + 1))`; none for 0.
    pub exponent: Option<i32>,
    /// How many.
    pub count: u64,
}

impl Calibration {
    /// Share of steps that flipped.
    pub fn flip_rate(&self) -> Count {
        Count { hits: self.flips, of: self.steps }
    }

    /// Share of steps below the threshold.
    pub fn trigger_rate(&self) -> Count {
        Count { hits: self.triggers, of: self.steps }
    }

    /// Upper bound, at 95 %, of the share of flips that the threshold misses, all flips seen being caught: about `3 / flips`.
    pub fn miss_bound(&self) -> f64 {
        bound::upper(0, self.flips, 0.95)
    }
}

/// The threshold of measured steps, for the margin over a `scale` of each step: 1 for the margin itself.
///
/// Exchangeable steps stay below `tau_conf` with probability `1 - alpha` whatever their distribution; and the two tokens of a step cannot swap unless
/// `|Delta12|` reaches its margin. Steps of one sequence are not independent: the bound is for steps drawn as these were.
///
/// # Errors
/// [`Refusal`].
pub fn calibrate(
    steps: &[Observed],
    options: Options,
    scale: &dyn Fn(&Observed) -> f32,
) -> Result<Calibration, Refusal> {
    let Options { alpha, safety } = options;
    if !(alpha > 0.0 && alpha < 1.0 && safety >= 0.0 && safety.is_finite()) {
        return Err(Refusal::Options { alpha, safety });
    }
    let n = steps.len();
    let rank = libm::ceil((n as f64 + 1.0) * (1.0 - alpha)) as usize;
    if rank > n || n == 0 {
        let needed = libm::ceil((1.0 - alpha) / alpha) as u64;
        return Err(Refusal::TooFew { steps: n, alpha, needed });
    }
    let risk = |s: &Observed| scaled(s.margin.value(), scale(s));
    let mut deltas: Vec<f32> = steps.iter().map(|s| scaled(s.delta.abs(), scale(s))).collect();
    deltas.sort_by(f32::total_cmp);
    let tau_conf = deltas[rank - 1];
    let flipped = || steps.iter().filter(|s| s.flip).map(risk);
    let tau_flip = flipped().fold(0.0, f32::max);
    let mut tau = tau_flip.max(tau_conf) * (1.0 + safety);
    // A margin equal to the threshold is committed: the largest flip must lie below it, also without safety.
    if tau <= tau_flip && flipped().next().is_some() {
        tau = tau_flip.next_up();
    }
    Ok(Calibration {
        options,
        steps: n as u64,
        flips: flipped().count() as u64,
        tau_flip,
        tau_conf,
        tau,
        triggers: steps.iter().filter(|s| risk(s) < tau).count() as u64,
        margins: histogram(steps.iter().map(risk)),
        deltas: histogram(deltas.iter().copied()),
        flipped: histogram(flipped()),
    })
}

/// Values by binary exponent, smallest first; infinite ones are left out.
///
/// **Bits.** The exponent is read from the pattern; subnormal numbers count as the smallest normal exponent.
pub fn histogram(values: impl Iterator<Item = f32>) -> Vec<Bin> {
    let mut bins = std::collections::BTreeMap::new();
    for value in values.filter(|v| v.is_finite()) {
        let exponent = (value != 0.0).then(|| ((value.to_bits() >> 23 & 0xff) as i32).max(1) - 127);
        *bins.entry(exponent).or_insert(0) += 1;
    }
    bins.into_iter().map(|(exponent, count)| Bin { exponent, count }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::margin::Margin;

    fn calibrate(steps: &[Observed], options: Options) -> Result<Calibration, Refusal> {
        super::calibrate(steps, options, &|_| 1.0)
    }

    pub(crate) fn step(margin: f32, delta: f32, flip: bool) -> Observed {
        Observed {
            source: 0,
            sequence: 0,
            schedule: 0,
            position: 0,
            rows: 1,
            kv: 1,
            dirty: 0,
            reference: false,
            top: [0, 1],
            margin: Margin::new(margin),
            delta,
            distance: 1.0,
            flip,
        }
    }

    #[test]
    fn the_threshold_is_above_flips_and_above_the_order_statistic() {
        // |delta| = 0.01 .. 1.00; alpha 0.1: rank ceil(101 * 0.9) = 91.
        let mut steps: Vec<Observed> =
            (1..=100).map(|i| step(5.0, if i % 2 == 0 { 1.0 } else { -1.0 } * i as f32 / 100.0, false)).collect();
        let options = Options { alpha: 0.1, safety: 0.5 };
        let c = calibrate(&steps, options).unwrap();
        assert_eq!((c.tau_conf, c.tau_flip, c.tau), (0.91, 0.0, 0.91 * 1.5));
        assert_eq!((c.triggers, c.flips, c.miss_bound()), (0, 0, 1.0));
        steps[3] = step(2.0, 0.0, true);
        let c = calibrate(&steps, options).unwrap();
        assert_eq!((c.tau_flip, c.tau, c.triggers, c.flips), (2.0, 3.0, 1, 1));
        let c = calibrate(&steps, Options { alpha: 0.1, safety: 0.0 }).unwrap();
        assert!(c.tau > 2.0 && c.triggers == 1, "the largest flip is caught without safety, too");
    }

    /// Everything is measured in the scale of its step: the threshold too.
    #[test]
    fn a_scale_divides_margins_and_changes() {
        let mut steps: Vec<Observed> = (1..=100).map(|i| step(5.0, i as f32 / 100.0, false)).collect();
        steps[3] = step(2.0, 0.0, true);
        let options = Options { alpha: 0.1, safety: 0.0 };
        let c = super::calibrate(&steps, options, &|_| 4.0).unwrap();
        assert_eq!((c.tau_flip, c.tau_conf, c.triggers, c.flips), (0.5, 0.91 / 4.0, 1, 1));
    }

    #[test]
    fn too_few_steps_are_refused_with_the_number_wanted() {
        let steps = vec![step(1.0, 0.5, false); 998];
        assert_eq!(
            calibrate(&steps, Options::default()).unwrap_err(),
            Refusal::TooFew { steps: 998, alpha: 0.001, needed: 999 }
        );
        assert!(calibrate(&vec![steps[0]; 999], Options::default()).is_ok());
        for bad in [
            Options { alpha: 0.0, safety: 0.0 },
            Options { alpha: 0.5, safety: f32::NAN },
            Options { alpha: 0.5, safety: -1.0 },
        ] {
            assert!(matches!(calibrate(&steps, bad), Err(Refusal::Options { .. })));
        }
    }

    /// The promise of the order statistic: over many exchangeable draws a new value exceeds it no more often than alpha.
    #[test]
    fn the_order_statistic_keeps_its_promise() {
        let (mut above, rounds, n) = (0, 4000, 99);
        for round in 0..rounds {
            let draw = |i: u32| crate::gate::mix(9, round, i) as f32 / u64::MAX as f32;
            let steps: Vec<Observed> = (0..n).map(|i| step(1.0, draw(i), false)).collect();
            let c = calibrate(&steps, Options { alpha: 0.05, safety: 0.0 }).unwrap();
            above += u32::from(draw(n) > c.tau_conf);
        }
        let rate = f64::from(above) / rounds as f64;
        assert!((0.035..=0.06).contains(&rate), "{rate}");
    }

    #[test]
    fn values_fall_into_powers_of_two() {
        let bins = histogram([0.0, 1.0, 1.5, 0.25, f32::INFINITY, 1e-45].into_iter());
        let of = |exponent, count| Bin { exponent, count };
        assert_eq!(bins, [of(None, 1), of(Some(-126), 1), of(Some(-2), 1), of(Some(0), 2)]);
    }
}
