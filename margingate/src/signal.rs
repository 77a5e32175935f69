//! Risk signals: what is compared with the threshold. The raw margin triggers on many steps that could not flip; dividing it by what the batch is
//! likely to change in *this* step triggers on fewer.
//!
//! A signal sees what a running engine sees: the batched step, and the outcome of steps that were verified anyway.

use std::collections::BTreeMap;

use crate::trace::Observed;

/// A risk signal.
pub trait Signal {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// The risk of a step: the smaller the riskier. Must not look at `delta` or `flip`, which are not known before verification.
    fn risk(&self, step: &Observed) -> f32;

    /// Told of every probe, in order: then `delta` and `flip` are known. Most signals do not learn.
    fn learn(&mut self, probe: &Observed) {
        let _ = probe;
    }
}

/// The margin as it is: the published signal.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawMargin;

impl Signal for RawMargin {
    fn name(&self) -> &'static str {
        "margin"
    }

    fn risk(&self, step: &Observed) -> f32 {
        step.margin.value()
    }
}

/// The margin over the distance of the two tokens' rows in the LM head: `l_1 - l_2 = (w_1 - w_2) . h`, so a change of `h` moves the difference of
/// two like rows less.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowDistance;

impl Signal for RowDistance {
    fn name(&self) -> &'static str {
        "row-distance"
    }

    fn risk(&self, step: &Observed) -> f32 {
        scaled(step.margin.value(), step.distance)
    }
}

/// The margin over an online estimate of how much batches change logit differences: the mean `|Delta12|` of recent probes.
#[derive(Clone, Copy, Debug)]
pub struct Normalised {
    mean: f32,
}

/// Weight of a new probe in the running mean.
const NEW: f32 = 0.125;

impl Normalised {
    /// Begins with the mean `|Delta12|` of calibration steps.
    pub fn new(calibration: &[Observed]) -> Self {
        let sum: f64 = calibration.iter().fold(0.0, |sum, s| sum + f64::from(s.delta.abs()));
        Self { mean: (sum / calibration.len().max(1) as f64) as f32 }
    }
}

impl Signal for Normalised {
    fn name(&self) -> &'static str {
        "normalised"
    }

    fn risk(&self, step: &Observed) -> f32 {
        scaled(step.margin.value(), self.mean)
    }

    fn learn(&mut self, probe: &Observed) {
        self.mean += (probe.delta.abs() - self.mean) * NEW;
    }
}

/// The margin over what calibration steps of a like shape changed: the 90th percentile of `|Delta12|`, by number of rows and by number of columns that are
/// not the reference's, each to a power of two.
#[derive(Clone, Debug)]
pub struct ShapeAware {
    scale: BTreeMap<(u32, u32), f32>,
    otherwise: f32,
    by_row_distance: bool,
}

/// Fewer steps of a shape than this say nothing about it.
const FEW: usize = 50;

impl ShapeAware {
    /// From calibration steps; `by_row_distance` divides by the distance of LM head rows as well.
    pub fn new(calibration: &[Observed], by_row_distance: bool) -> Self {
        let mut by_shape: BTreeMap<(u32, u32), Vec<f32>> = BTreeMap::new();
        let unit = |s: &Observed| if by_row_distance { scaled(s.delta.abs(), s.distance) } else { s.delta.abs() };
        for s in calibration {
            by_shape.entry(shape(s)).or_default().push(unit(s));
        }
        let otherwise = high(calibration.iter().map(unit).collect());
        let scale = by_shape.into_iter().filter(|(_, all)| all.len() >= FEW).map(|(at, all)| (at, high(all))).collect();
        Self { scale, otherwise, by_row_distance }
    }
}

/// The 90th percentile; 0 of nothing.
fn high(mut all: Vec<f32>) -> f32 {
    all.sort_by(f32::total_cmp);
    all.get(all.len() * 9 / 10).copied().unwrap_or(0.0)
}

fn shape(step: &Observed) -> (u32, u32) {
    (step.rows.max(1).ilog2(), step.dirty.max(1).ilog2())
}

impl Signal for ShapeAware {
    fn name(&self) -> &'static str {
        if self.by_row_distance { "shape-and-row-distance" } else { "shape" }
    }

    fn risk(&self, step: &Observed) -> f32 {
        let scale = self.scale.get(&shape(step)).copied().unwrap_or(self.otherwise);
        let risk = scaled(step.margin.value(), scale);
        if self.by_row_distance { scaled(risk, step.distance) } else { risk }
    }
}

/// `margin / scale`; where nothing is known to change, the margin is safe unless it is 0.
pub fn scaled(margin: f32, scale: f32) -> f32 {
    if margin == 0.0 {
        0.0
    } else if scale > 0.0 {
        margin / scale
    } else {
        f32::INFINITY
    }
}

/// Every signal, made from calibration steps; the raw margin first.
pub fn all(calibration: &[Observed]) -> Vec<Box<dyn Signal>> {
    vec![
        Box::new(RawMargin),
        Box::new(RowDistance),
        Box::new(Normalised::new(calibration)),
        Box::new(ShapeAware::new(calibration, false)),
        Box::new(ShapeAware::new(calibration, true)),
    ]
}
