//! The risk of a row: what the gate compares with its threshold.

use margingate::Margin;
use margingate::margin::{self, Sampler, Top};

use super::Signal;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::sampler::{Sampling, gumbel};
use crate::step::Row;

/// The risk of the token that follows a row. Greedy choice needs the row's top two, seeded choice its logits.
///
/// **Bits.** A function of the logits' bits, the sampling parameters, the position and the LM head: equal on every host. For greedy choice the margin is the device's
/// `sub.rn.f32` of the two largest logits.
///
/// # Errors
/// [`Error::BadLogits`] for logits that are not finite, [`Error::Plan`] for a row without what is needed.
pub fn risk(model: &Model, signal: Signal, sampling: &Sampling, row: &Row) -> Result<Margin> {
    let top = match (sampling, row.top2, &row.logits) {
        (Sampling::Greedy, Some(top), _) => {
            let bad = |bits| Error::BadLogits { position: row.position + 1, bits };
            let margin = Margin::from_bits(top.margin_bits).map_err(bad)?;
            let second = (top.second < model.config.vocab_size).then_some(top.second);
            Top { first: top.first, second, margin }
        }
        (sampling, _, Some(logits)) => of_logits(sampling, logits, row.position + 1)?,
        _ => return Err(Error::Plan { detail: format!("the row at {} has no logits to judge", row.position) }),
    };
    Ok(scaled(model, signal, top))
}

impl Sampling {
    /// The risk of choosing the token for `position` from a row of logits: [`risk`] for whoever has logits only.
    ///
    /// # Errors
    /// As [`risk`].
    pub fn risk(&self, model: &Model, signal: Signal, logits: &[u32], position: u32) -> Result<Margin> {
        Ok(scaled(model, signal, of_logits(self, logits, position)?))
    }
}

fn of_logits(sampling: &Sampling, logits: &[u32], position: u32) -> Result<Top> {
    let top = match sampling {
        Sampling::Greedy => margin::greedy(logits),
        Sampling::Seeded(s) => {
            let sampler = Sampler { temperature: s.temperature, top_k: s.top_k, top_p: s.top_p, min_p: s.min_p };
            margin::sampled(logits, &sampler, |id| gumbel(s.seed, position, id))
        }
    };
    top.map_err(|e| Error::BadLogits { position, bits: e.bits })
}

fn scaled(model: &Model, signal: Signal, top: Top) -> Margin {
    let (Signal::RowDistance, Some(second)) = (signal, top.second) else { return top.margin };
    let distance = head_row_distance(model, top.first, second);
    if top.margin == Margin::new(0.0) {
        top.margin
    } else if distance > 0.0 {
        Margin::new(top.margin.value() / distance)
    } else {
        Margin::INFINITE
    }
}

/// Euclidean distance of two tokens' rows in the LM head.
///
/// **Bits.** Squares of differences summed in f64 in the order of columns, the square root rounded to f32.
pub fn head_row_distance(model: &Model, a: u32, b: u32) -> f32 {
    let head = model.weights.lm_head.as_ref().unwrap_or(&model.weights.embed);
    let width = model.config.hidden as usize;
    let value = |bits: &u16| f64::from(f32::from_bits(u32::from(*bits) << 16));
    let pairs = head.row(a).iter().zip(head.row(b)).take(width);
    let mut sum = 0.0;
    for (x, y) in pairs {
        let d = value(x) - value(y);
        sum += d * d;
    }
    sum.sqrt() as f32
}
