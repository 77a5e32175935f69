//! Trigger rates of risk signals at equal misses, on the same traces.

use crate::bound::Count;
use crate::gate::mix;
use crate::signal::Signal;
use crate::trace::Observed;

/// How a signal fares on traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The signal.
    pub signal: String,
    /// For 0, 1, 2, ... misses allowed: the steps that trigger at the threshold which misses just so many.
    pub triggers: Vec<u64>,
    /// Steps.
    pub steps: u64,
    /// Flipped steps.
    pub flips: u64,
}

impl Curve {
    /// The trigger rate at this many misses; none beyond the flips there are.
    pub fn rate(&self, misses: usize) -> Option<Count> {
        self.triggers.get(misses).map(|hits| Count { hits: *hits, of: self.steps })
    }
}

/// A threshold set on some steps and used on others.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// The signal.
    pub signal: String,
    /// Threshold above every flip of the calibration steps, with safety.
    pub threshold: f32,
    /// Steps of the others below it.
    pub triggers: Count,
    /// Flips of the others that it misses.
    pub misses: Count,
}

/// Most misses that curves go to.
pub const MISSES: usize = 64;

/// The curve of a signal. One of `probe_every` steps is a probe that the signal learns from; 0 for none.
///
/// Ties go against the signal: every step as risky as the flip that must be caught triggers.
pub fn curve(signal: &mut dyn Signal, steps: &[Observed], probe_every: u32) -> Curve {
    let risks = risks(signal, steps, probe_every);
    let mut flipped: Vec<f32> = steps.iter().zip(&risks).filter(|(s, _)| s.flip).map(|(_, r)| *r).collect();
    flipped.sort_by(|a, b| b.total_cmp(a));
    let caught = flipped.iter().take(MISSES + 1);
    let triggers = caught.map(|worst| risks.iter().filter(|r| *r <= worst).count() as u64).collect();
    Curve { signal: signal.name().to_owned(), triggers, steps: steps.len() as u64, flips: flipped.len() as u64 }
}

/// Sets the threshold of a signal on `calibration` and counts on `others`.
pub fn transfer(
    signal: &mut dyn Signal,
    calibration: &[Observed],
    others: &[Observed],
    safety: f32,
    probe_every: u32,
) -> Transfer {
    let known = risks(signal, calibration, probe_every);
    let worst = calibration.iter().zip(&known).filter(|(s, _)| s.flip).map(|(_, r)| *r).fold(0.0, f32::max);
    let threshold = (worst * (1.0 + safety)).max(worst.next_up());
    let risks = risks(signal, others, probe_every);
    let flips = others.iter().filter(|s| s.flip).count() as u64;
    let missed = others.iter().zip(&risks).filter(|(s, r)| s.flip && **r >= threshold).count() as u64;
    Transfer {
        signal: signal.name().to_owned(),
        threshold,
        triggers: Count { hits: risks.iter().filter(|r| **r < threshold).count() as u64, of: others.len() as u64 },
        misses: Count { hits: missed, of: flips },
    }
}

/// Risks in order; a signal learns from a probe after it was judged.
fn risks(signal: &mut dyn Signal, steps: &[Observed], probe_every: u32) -> Vec<f32> {
    let mut out = Vec::with_capacity(steps.len());
    for (i, step) in steps.iter().enumerate() {
        out.push(signal.risk(step));
        if probe_every > 0 && mix(0, i as u64, 0).is_multiple_of(u64::from(probe_every)) {
            signal.learn(step);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::margin::Margin;
    use crate::signal::{self, Normalised, RawMargin, RowDistance, ShapeAware};

    /// Steps whose perturbation is proportional to the row distance: a flip happens where it exceeds the margin.
    fn steps(n: u64) -> Vec<Observed> {
        (0..n)
            .map(|i| {
                let draw = |k| mix(3, i, k) as f32 / u64::MAX as f32;
                let distance = if draw(0) < 0.8 { 0.05 } else { 1.0 };
                let (margin, delta) = (draw(1) * 2.0, distance * (2.0 * draw(2) - 1.0) * 0.2);
                Observed {
                    source: 0,
                    sequence: 0,
                    schedule: 0,
                    position: 1 << (i % 7),
                    rows: 1 + (i % 8) as u32,
                    kv: 9,
                    dirty: 3,
                    reference: false,
                    top: [0, 1],
                    margin: Margin::new(margin),
                    delta,
                    distance,
                    flip: margin + delta < 0.0,
                }
            })
            .collect()
    }

    #[test]
    fn a_signal_that_knows_the_cause_triggers_less_at_equal_misses() {
        let all = steps(20_000);
        let raw = curve(&mut RawMargin, &all, 0);
        let by_row = curve(&mut RowDistance, &all, 0);
        assert!(raw.flips > 20 && raw.flips == by_row.flips);
        let (a, b) = (raw.rate(0).unwrap().share(), by_row.rate(0).unwrap().share());
        assert!(b < 0.5 * a, "{a} {b}");
        assert!(raw.triggers.is_sorted_by(|a, b| a >= b), "more misses, fewer triggers");
    }

    #[test]
    fn no_signal_looks_at_what_is_not_known_yet() {
        let all = steps(2_000);
        let blind: Vec<Observed> = all.iter().map(|s| Observed { delta: 0.0, flip: !s.flip, ..*s }).collect();
        for signal in signal::all(&all) {
            for (a, b) in all.iter().zip(&blind) {
                assert_eq!(signal.risk(a).to_bits(), signal.risk(b).to_bits(), "{}", signal.name());
            }
        }
    }

    #[test]
    fn an_online_estimate_follows_the_probes() {
        let mut signal = Normalised::new(&steps(100));
        let step = steps(1)[0];
        let before = signal.risk(&step);
        for _ in 0..100 {
            signal.learn(&Observed { delta: -8.0, ..step });
        }
        assert!(signal.risk(&step) < before / 10.0);
        assert!((signal.risk(&step) - step.margin.value() / 8.0).abs() < 1e-3);
    }

    #[test]
    fn shapes_without_enough_steps_use_what_all_have() {
        // Too few of any shape: the scale is the 90th percentile of them all.
        let all = steps(100);
        let mut deltas: Vec<f32> = all.iter().map(|s| s.delta.abs()).collect();
        deltas.sort_by(f32::total_cmp);
        let new = Observed { rows: 4096, dirty: 1 << 20, ..all[0] };
        assert_eq!(ShapeAware::new(&all, false).risk(&new), new.margin.value() / deltas[90]);
        assert_eq!(ShapeAware::new(&[], true).risk(&all[0]), f32::INFINITY);
        assert_eq!(ShapeAware::new(&[], true).risk(&Observed { margin: Margin::new(0.0), ..all[0] }), 0.0);
    }

    #[test]
    fn transfer_counts_what_the_threshold_misses_elsewhere() {
        let all = steps(20_000);
        let (first, rest) = all.split_at(10_000);
        let t = transfer(&mut RawMargin, first, rest, 0.0, 0);
        let raw = curve(&mut RawMargin, first, 0);
        assert!(t.triggers.share() > 0.5 * raw.rate(0).unwrap().share());
        let none = transfer(&mut RawMargin, first, rest, 100.0, 0);
        assert_eq!((none.misses.hits, none.triggers.share()), (0, 1.0));
    }
}
