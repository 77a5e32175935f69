//! P2: do logits lie on the grid of a 16-bit format?
//!
//! Differences of log-probabilities are differences of logits: the normaliser cancels. A float with `p` significand bits in `[2^e, 2^(e+1))`
//! is a multiple of `2^(e-p+1)`, so differences of 16-bit logits are multiples of a power of two that f32 logits are not. It speaks of the
//! format that logits were rounded to, not of weights.

use crate::api::Step;
use crate::decimal::{Decimal, f32_spacing, resolution};
use crate::report::{Finding, Word};
use crate::stats::{Interval, wilson};

/// Most likely tokens that are looked at.
const TOP: usize = 12;
/// Fewest differences of a step that counts.
const FEWEST: usize = 4;
/// Fewest steps for an answer.
const STEPS: usize = 20;
/// Share of steps that must lie on a grid.
const SHARE: f64 = 0.9;
/// Finest grid that is tried, 2^-14.
const FINEST: i32 = 14;
/// Rounding of log-probabilities themselves.
const SLACK: f64 = 4e-6;
/// Logits of this size or above are not met in language models; a reading that needs them is set aside.
const HUGE_EXPONENT: i32 = 6;

/// What the grid says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Grid {
    /// Multiples of `2^-k`.
    Found {
        /// The coarsest grid that fits.
        k: i32,
    },
    /// On none that was tried.
    None,
    /// Written decimals are too few for grids finer than `2^-k`.
    Coarse {
        /// The finest grid that could be tried.
        k: i32,
    },
    /// Too few steps.
    TooFew,
}

/// A grid and how many steps lie on it.
#[derive(Clone, Copy, Debug)]
pub struct Lattice {
    /// The grid.
    pub grid: Grid,
    /// Share of steps on it; for none, the best share of any grid.
    pub share: Interval,
    /// Steps looked at.
    pub steps: usize,
}

/// Looks for the grid. `scale` multiplies log-probabilities first: a temperature that was applied before them is undone by itself.
pub fn lattice<'a>(steps: impl Iterator<Item = &'a Step> + Clone, scale: f64) -> Lattice {
    let written = resolution(steps.clone().flat_map(|s| s.top.iter().map(|t| &t.2)));
    let mut rows: Vec<(Vec<f64>, f64)> = Vec::new();
    for step in steps {
        let mut values: Vec<&Decimal> = step.top.iter().map(|t| &t.2).collect();
        values.sort_by(|a, b| b.value().total_cmp(&a.value()));
        values.truncate(TOP);
        if values.len() <= FEWEST {
            continue;
        }
        let deepest = values.iter().map(|v| v.value().abs()).fold(0.0, f64::max);
        // Each of the two numbers is off by half a written unit at most, and by the f32 they were computed in.
        let tolerance = SLACK + 2.0 * f32_spacing(deepest) + written;
        let first = values[0].value();
        rows.push((values[1..].iter().map(|v| (first - v.value()) * scale).collect(), tolerance * scale));
    }
    if rows.len() < STEPS {
        return Lattice { grid: Grid::TooFew, share: wilson(0, 0), steps: rows.len() };
    }
    let on = |k: i32| {
        let unit = libm::ldexp(1.0, -k);
        let hit = |(differences, tolerance): &&(Vec<f64>, f64)| {
            differences.iter().all(|d| (d - unit * libm::rint(d / unit)).abs() <= *tolerance)
        };
        rows.iter().filter(hit).count()
    };
    // A grid finer than a few tolerances holds any number.
    let widest = crate::stats::median(&rows.iter().map(|r| r.1).collect::<Vec<_>>());
    let finest = (1..=FINEST).take_while(|k| libm::ldexp(1.0, -k) > 8.0 * widest).last().unwrap_or(0);
    let mut best = 0;
    for k in 1..=finest {
        let hits = on(k);
        best = best.max(hits);
        if hits as f64 >= SHARE * rows.len() as f64 {
            return Lattice { grid: Grid::Found { k }, share: wilson(hits, rows.len()), steps: rows.len() };
        }
    }
    let grid = if finest < 10 { Grid::Coarse { k: finest } } else { Grid::None };
    Lattice { grid, share: wilson(best, rows.len()), steps: rows.len() }
}

/// Exponents `e` of the logits' size, `[2^e, 2^(e+1))`, for which a grid `2^-k` is that of bf16 (8 significand bits) and f16 (11).
fn readings(k: i32) -> (i32, i32) {
    (7 - k, 10 - k)
}

/// The format, if the grid settles it. `exponent`: size of the model's top logits, where a reference run told.
pub fn format(grid: Grid, exponent: Option<i32>) -> Option<&'static str> {
    let Grid::Found { k } = grid else { return None };
    let (bf16, f16) = readings(k);
    match exponent {
        Some(e) if e == bf16 => Some("bf16"),
        Some(e) if e == f16 => Some("f16"),
        Some(_) => None,
        None if f16 >= HUGE_EXPONENT => Some("bf16"),
        None => None,
    }
}

/// In a report's words.
pub fn findings(found: &Lattice, exponent: Option<i32>) -> Vec<Finding> {
    let about = "logit format";
    let size = |e: i32| {
        format!(
            "between {} and {}",
            crate::report::figure(libm::ldexp(1.0, e)),
            crate::report::figure(libm::ldexp(1.0, e + 1))
        )
    };
    vec![match found.grid {
        Grid::Found { k } => {
            let (bf16, f16) = readings(k);
            let grid =
                format!("differences of log-probabilities are multiples of 2^-{k}, so logits were rounded to 16 bits");
            let reading = match (format(found.grid, exponent), exponent) {
                (Some(name), Some(_)) => format!("{name}, by the size of this model's logits"),
                (Some(name), None) => format!("{name}: f16 would need logits {} and more", size(f16)),
                (None, _) => format!("bf16 if the largest logits lie {}, f16 if {}", size(bf16), size(f16)),
            };
            Finding::new(about, Word::Certain, format!("{grid}; {reading}")).with(found.share)
        }
        Grid::None => {
            let text =
                "no 16-bit grid: logits are f32, or log-probabilities were processed (temperature, penalty, soft cap)";
            Finding::new(about, Word::Certain, text).with(found.share)
        }
        Grid::Coarse { k } => {
            let text =
                format!("log-probabilities have too few decimals for grids finer than 2^-{k}; none coarser fits");
            Finding::new(about, Word::NotTestable, text)
        }
        Grid::TooFew => {
            let text = format!("{} steps with top log-probabilities; {STEPS} are needed", found.steps);
            Finding::new(about, Word::NotTestable, text)
        }
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;

    /// Steps of a model whose logits, about 2^4 in size, are rounded by `round`, written with `decimals` places.
    fn steps(round: fn(f64) -> f64, decimals: usize, temperature: f64) -> Vec<Step> {
        let mut random = Random::new(11);
        let step = |random: &mut Random| {
            let logits: Vec<f64> = (0..400)
                .map(|i| round(if i < 20 { 16.5 + 6.0 * random.unit() } else { 5.0 * random.unit() }))
                .collect();
            let total = libm::log(logits.iter().map(|l| libm::exp(l / temperature)).sum::<f64>());
            let mut top: Vec<f64> = logits.iter().map(|l| f64::from((l / temperature - total) as f32)).collect();
            top.sort_by(|a, b| b.total_cmp(a));
            let decimal = |v: f64| Decimal::parse(&format!("{v:.decimals$}")).unwrap();
            Step {
                token: "t".into(),
                id: None,
                logprob: Some(decimal(top[0])),
                top: top[..20].iter().enumerate().map(|(i, v)| (i.to_string(), None, decimal(*v))).collect(),
            }
        };
        (0..40).map(|_| step(&mut random)).collect()
    }

    fn to_bits(x: f64, bits: i32) -> f64 {
        let unit = libm::ldexp(1.0, libm::ilogb(x) - bits + 1);
        unit * libm::rint(x / unit)
    }

    #[test]
    fn sixteen_bits_are_told_from_thirty_two() {
        let bf16 = steps(|x| to_bits(x, 8), 10, 1.0);
        let found = lattice(bf16.iter(), 1.0);
        assert_eq!((found.grid, format(found.grid, None)), (Grid::Found { k: 3 }, Some("bf16")));
        let f16 = steps(|x| to_bits(x, 11), 10, 1.0);
        let found = lattice(f16.iter(), 1.0);
        assert_eq!(
            (found.grid, format(found.grid, None), format(found.grid, Some(4))),
            (Grid::Found { k: 6 }, None, Some("f16"))
        );
        let f32s = steps(|x| x, 10, 1.0);
        let found = lattice(f32s.iter(), 1.0);
        assert_eq!(found.grid, Grid::None);
        assert!(found.share.at < 0.05);
        assert_eq!(lattice(bf16[..5].iter(), 1.0).grid, Grid::TooFew);
    }

    #[test]
    fn a_rounding_gateway_leaves_what_its_decimals_show() {
        let bf16 = steps(|x| to_bits(x, 8), 4, 1.0);
        assert_eq!(lattice(bf16.iter(), 1.0).grid, Grid::Found { k: 3 });
        assert_eq!(
            lattice(steps(|x| x, 4, 1.0).iter(), 1.0).grid,
            Grid::None,
            "four decimals are enough for grids of 16 bits"
        );
        assert!(matches!(lattice(steps(|x| x, 2, 1.0).iter(), 1.0).grid, Grid::Coarse { .. }));
    }

    #[test]
    fn a_temperature_that_was_applied_can_be_undone() {
        let warm = steps(|x| to_bits(x, 8), 10, 0.7);
        assert_eq!(lattice(warm.iter(), 1.0).grid, Grid::None);
        assert_eq!(lattice(warm.iter(), 0.7).grid, Grid::Found { k: 3 });
    }
}
